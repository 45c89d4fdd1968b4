"""Experiments from Python: train, ablate and evaluate, with callbacks and tables for notebooks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ladderspec as ls
from ladderspec.errors import UsageError
from ladderspec.experiments.reader import open_experiment
from ladderspec.learn.progress import Event
from tests.training import experiment


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runner")
    ls.ablate(experiment(folder), output=folder / "out", quiet=True, threads=1)
    return folder


def test_ablate(trained: Path) -> None:
    seen = list[Event]()
    report = ls.ablate(
        trained / "experiment.yaml", output=trained / "out", quiet=True, on_update=seen.append
    )
    assert not seen  # finished runs are not repeated
    assert not report.failed
    assert (trained / "out" / "table.md") in report.written
    html = report._repr_html_()
    assert html.startswith("<table><caption>nano")
    assert "<td>ladder</td>" in html
    assert "ladder" in str(report)
    record = next(r for r in report.records if r["row"] == "open" and r["measure"] == "digit.error")
    assert record["seeds"] == 1
    assert f"<td>{record['mean']:.2f}</td>" in html


def test_train(trained: Path) -> None:
    updates, evaluations = list[Event](), list[Event]()
    (run,) = found = ls.train(
        trained / "experiment.yaml", rows="ladder", seeds=1, output=trained / "out", quiet=True,
        on_update=updates.append, on_evaluation=evaluations.append, threads=1,
    )  # fmt: skip
    assert run.folder == trained / "out" / "ladder.seed1"
    assert [event.update for event in updates] == list(range(1, 13))
    assert evaluations[-1].values == run.metrics["test"]
    assert f"<td>{run.metrics['test']['digit.error']:.4g}</td>" in found._repr_html_()


def test_fields_can_be_set(trained: Path, tmp_path: Path) -> None:
    options: Any = {"rows": "ladder", "output": tmp_path, "quiet": True, "threads": 1}
    place, changes = trained / "experiment.yaml", {"training.updates": 2}
    (run,) = ls.train(place, set=changes, **options)
    assert run.result["updates"] == 2
    (again,) = ls.train(place, set="training.updates=2", **options)  # finished
    assert again.result == run.result
    report = ls.ablate(place, set=changes, **options)
    assert {r["row"] for r in report.records if r["seeds"]} == {"ladder"}
    with pytest.raises(ls.SpecError, match="updatse"):
        ls.train(place, set={"training.updatse": 2}, **options)
    with pytest.raises(ls.LadderspecError, match="give the path"):
        ls.train(open_experiment(place), set=changes, **options)


def test_evaluate(trained: Path) -> None:
    run = trained / "out" / "ladder.seed0"
    whole, lesioned = ls.evaluate(run), ls.evaluate(run, without="decoder_to_encoder")
    assert whole.metrics.keys() == lesioned.metrics.keys()
    assert whole.metrics["next_frame.error"] != lesioned.metrics["next_frame.error"]
    html = whole._repr_html_()
    assert f"<td>{whole.metrics['digit.error']:.4g}</td>" in html
    assert "<th>t = 1</th>" in html


def test_what_cannot_be(trained: Path) -> None:
    place = trained / "experiment.yaml"
    with pytest.raises(UsageError, match="`machine` has no field `thread`"):
        ls.train(place, output=trained / "other", thread=1)
    with pytest.raises(UsageError, match="leave `processes` out"):
        ls.ablate(place, output=trained / "other", processes=2, on_update=print)
    with pytest.raises(UsageError, match=r"machine\.threads: it must be at most 1024"):
        ls.train(place, output=trained / "other", threads=10**6)
    with pytest.raises(UsageError, match=r"machine\.workers: expected a whole number"):
        ls.ablate(place, output=trained / "other", workers="many")
    for seeds in (-1, 2**31, [0, -1]):
        with pytest.raises(UsageError, match="a seed is a whole number from 0 to 2147483647, not "):
            ls.train(place, output=trained / "other", seeds=seeds)
    for wrong in (1.5, True, [0, "1"]):
        with pytest.raises(UsageError, match="is not a whole number or a list of whole numbers"):
            ls.train(place, output=trained / "other", seeds=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there are 1,001 seeds: at most 1,000"):
        ls.ablate(place, output=trained / "other", seeds=range(1001))
    assert not (trained / "other").exists()


def test_in_a_thread_and_with_seeds_of_numpy(trained: Path) -> None:
    found = list[object]()

    def work() -> None:
        seeds = np.zeros(1, dtype=np.int64)
        found.append(ls.ablate(trained / "experiment.yaml", seeds=seeds, output=trained / "out"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(found) == 1
