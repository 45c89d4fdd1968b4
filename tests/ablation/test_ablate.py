"""All runs of an experiment, here and in processes of their own: the same numbers, never twice."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ladderspec.learn.train
from ladderspec.ablation.ablate import AblationOptions, Job, ablate, rounds
from ladderspec.ablation.engines import Processes
from ladderspec.cli import main
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.learn.progress import Display
from ladderspec.learn.run_folder import read_result
from tests.learn.test_resume import cut, written
from tests.training import EXPERIMENT, experiment

ROOT = Path(__file__).resolve().parents[2]
RUNS = ("ladder.seed0", "open.seed0")

# Code that a worker runs first: its 9th update kills it, unless it has been killed before.
DEADLY = """
import os, pathlib, signal
import ladderspec.learn.train as room
real, calls = room.update, 0
mark = pathlib.Path(__file__).with_suffix(".killed")
def deadly(*args):
    global calls
    calls += 1
    if calls == 9 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)
room.update = deadly
"""

# One that removes the folder of a run.
REMOVING = """
import ladderspec.learn.train as room
real = room.update
def removing(*args):
    shutil.rmtree(FOLDER, ignore_errors=True)
    return real(*args)
room.update = removing
"""

# And one whose updates take long.
SLOW = """
import time
from collections.abc import Iterator
import ladderspec.learn.train as room
real = room.update
def slow(*args):
    time.sleep(0.5)
    return real(*args)
room.update = slow
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run as `ladderspec train` makes it."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(["train", str(experiment(folder)), "-o", str(folder / "out")]) == 0
    return folder / "out"


def same(folder: Path, whole: Path) -> bool:
    return all(written(folder / run) == written(whole / run) for run in RUNS)


def test_runs_as_train_makes_them_and_never_twice(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["ablate", str(experiment(tmp_path)), "-o", str(tmp_path / "out")]
    assert main([*words, "--row", "open"]) == 0
    assert not (tmp_path / "out" / "ladder.seed0").exists()
    capsys.readouterr()
    assert main(words) == 0
    assert same(tmp_path / "out", whole)
    table = capsys.readouterr().out
    cut(monkeypatch, "ladderspec.learn.train.update", 1)
    assert main(words) == 0
    assert main([*words, "--resume"]) == 0
    again = capsys.readouterr()
    assert "2 of 2 runs are finished already" in again.err
    assert again.out == 2 * table


def test_a_killed_worker_is_replaced(whole: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "deadly.py"
    plugin.write_text(DEADLY)
    place = open_experiment(experiment(tmp_path))
    order = AblationOptions(tmp_path / "out", plugins=(plugin,), display=Display(quiet=True))
    assert ablate(place, place.select(["ladder"]), order, Processes(1)) == []
    assert plugin.with_suffix(".killed").exists()
    assert "continues after update 5" in (tmp_path / "out" / "ladder.seed0" / "log.txt").read_text()
    assert written(tmp_path / "out" / RUNS[0]) == written(whole / RUNS[0])


def begun(folder: Path) -> bool:
    """Whether a run is in its loop: its first rows of metrics are there."""
    place = folder / "metrics.jsonl"
    return place.exists() and place.stat().st_size > 0


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Processes that a shell starts in the background ignore it, and so do theirs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("workers", [None, 2])
def test_ctrl_c_and_resume(whole: Path, tmp_path: Path, workers: int | None) -> None:
    plugin = tmp_path / "slow.py"
    plugin.write_text(SLOW)
    words = ["ablate", str(experiment(tmp_path)), "-o", str(tmp_path / "out")]
    words += ["--processes", str(workers)] if workers else []
    process = subprocess.Popen(
        [sys.executable, "-m", "ladderspec", *words, "--plugin", str(plugin)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not begun(tmp_path / "out" / "ladder.seed0") and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert re.search(r"interrupted.*; --resume", err)
    assert not (tmp_path / "out" / "ladder.seed0" / "result.json").exists()
    assert main(words) == 2  # it would be overwritten
    assert main([*words[:4], "--resume"]) == 0
    assert same(tmp_path / "out", whole)


def test_one_failure_leaves_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = EXPERIMENT.replace(
        "{name: ladder,", "{name: ladder, training: {optimiser: {lr: 1.0e+30}},"
    )
    words = ["ablate", str(experiment(tmp_path, text)), "-o", str(tmp_path / "out")]
    assert main(words) == 1
    said = capsys.readouterr()
    assert "ladderspec: ladder.seed0: " in said.err
    assert (tmp_path / "out" / "open.seed0" / "result.json").exists()
    table = {line.split()[0]: line.split()[1:3] for line in said.out.splitlines() if line}
    assert table["ladder"] == ["-", "-"]
    assert table["open"][0] == "9,870"


def test_missing_memory_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hungry(run: Run, *args: Any, **options: Any) -> object:
        if run.id == RUNS[0]:
            raise RuntimeError("can't allocate memory: you tried to allocate 8 bytes")
        return train(run, *args, **options)

    train = ladderspec.learn.train.train
    monkeypatch.setattr(ladderspec.learn.train, "train", hungry)
    words = ["ablate", str(experiment(tmp_path)), "-o", str(tmp_path / "out")]
    assert main(words) == 1
    expected = f"ladderspec: {RUNS[0]}: not enough memory: tried to allocate 8 bytes"
    assert expected in capsys.readouterr().err
    assert (tmp_path / "out" / RUNS[1] / "result.json").exists()


def test_a_removed_folder_leaves_the_others(tmp_path: Path) -> None:
    plugin = tmp_path / "removing.py"
    plugin.write_text(f"import shutil\nFOLDER = {str(tmp_path / 'out' / RUNS[0])!r}\n{REMOVING}")
    place = open_experiment(experiment(tmp_path))
    order = AblationOptions(tmp_path / "out", plugins=(plugin,), display=Display(quiet=True))
    (failed,) = ablate(place, place.runs, order, Processes(1))
    assert failed.job.id == RUNS[0]
    assert failed.error == f"{tmp_path / 'out' / RUNS[0]} was removed during training"
    assert (tmp_path / "out" / RUNS[1] / "result.json").exists()


def test_a_worker_that_ends_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, where its output cannot be written."""
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    place = open_experiment(experiment(tmp_path))
    order = AblationOptions(tmp_path / "out", display=Display(quiet=True))
    failed = ablate(place, place.runs, order, Processes(2))
    assert [each.error for each in failed] == ["ended with 1 and no output; is the disk full?"] * 2


def test_damaged_metrics_cost_a_curve_and_no_number(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    words = ["ablate", str(experiment(tmp_path)), "-o", str(out), "--table-only"]
    assert main(words) == 0
    good = capsys.readouterr()
    place = out / RUNS[0] / "metrics.jsonl"
    place.write_bytes(place.read_bytes().replace(b"1", b"2", 1))
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out == good.out
    assert f"left out: the learning curve of {RUNS[0]}: {place} is damaged" in said.err


def test_runs_wait_for_those_that_they_start_from(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("{name: ladder,", "{name: ladder, start: open,")
    place = open_experiment(experiment(tmp_path, text))
    assert [[run.id for run in ready] for ready in rounds(place)] == [
        ["open.seed0"],
        ["ladder.seed0"],
    ]


def test_a_job_in_words() -> None:
    """What a worker is told is what a user would type."""
    job = Job(
        Path("x.yaml"), "ladder", "few", 3, Path("out/ladder.few.seed3"), machine={"threads": 1}
    )
    words = "train x.yaml --row ladder --seed 3 --column few -o out --resume --threads 1"
    assert " ".join(job.arguments()) == words
    more = job.on(pictures=0, checkpoint={"updates": 5}).arguments()
    assert " ".join(more) == (
        words + ' --set machine.pictures=0 --set machine.checkpoint={"updates": 5}'
    )


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(experiment(tmp_path))
    for words, message in (
        (["--row", "opne"], "no row `opne`; did you mean `open`?"),
        (["--processes", "0"], "--processes 0: from 1 to 1,000"),
    ):
        assert main(["ablate", place, "-o", str(tmp_path / "out"), *words]) == 2
        assert capsys.readouterr().err == f"ladderspec: {message}\n"


def test_screening_without_test_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--split valid` never measures on test data, and shows those that were by validation data."""
    words = ["ablate", str(experiment(tmp_path)), "--row", "open"]
    words += ["--set", "training.updates=2"]
    screened, tested = tmp_path / "screened", tmp_path / "tested"
    assert main([*words, "-o", str(screened), "--split", "valid"]) == 0
    said = capsys.readouterr().out
    assert "Validation data" in said
    assert "Test data" not in said
    (one,) = open_experiment(words[1], changes=["training.updates=2"]).select(["open"])
    assert read_result(screened / "open.seed0", one) is None  # it was not tested
    result = read_result(screened / "open.seed0")
    assert result is not None
    assert (list(result["metrics"]), result["updates"]) == (["valid"], 2)
    assert main([*words, "-o", str(tested)]) == 0
    assert "Test data" in capsys.readouterr().out
    assert main([*words, "-o", str(tested), "--split", "valid"]) == 0  # trained already
    again = capsys.readouterr()
    assert "1 of 1 runs are finished already" in again.err
    assert again.out.split("wrote")[0] == said.split("wrote")[0]
