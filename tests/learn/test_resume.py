"""Killed at any moment and resumed, a run gives the numbers of one that was never interrupted."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ladderspec.experiments.runs import Run
from ladderspec.files import sealed
from ladderspec.learn.train import train
from ladderspec.trained.run import open_run
from tests.training import EXPERIMENT, MUSIC, experiment, one_run

ROOT = Path(__file__).resolve().parents[2]
TAUGHT = EXPERIMENT.replace("name: ladder,", "name: ladder, variant: taught,").replace(
    "updates: 12,", "updates: 12, drop: 0.1,"
)


class PowerCut(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def cut(monkeypatch: pytest.MonkeyPatch, where: str, count: int) -> None:
    """Let the N-th call of a function be the last thing that happens."""
    path, name = where.rsplit(".", 1)
    module = importlib.import_module(path)
    real: Callable[..., Any] = getattr(module, name)
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            raise PowerCut
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, deadly)


def written(folder: Path) -> tuple[str, dict[str, Any]]:
    """Metrics, byte for byte, and the result: both must be the same."""
    return (folder / "metrics.jsonl").read_text(), json.loads((folder / "result.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run with noise, dropout and a teacher, never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    run = one_run(folder, TAUGHT)
    train(run, folder / "run", quiet=True)
    return run, folder / "run"


@pytest.mark.parametrize(
    ("where", "count", "workers"),
    [
        ("ladderspec.learn.train.update", 9, 0),  # between two checkpoints
        ("ladderspec.learn.train.update", 2, 2),  # before the first
        ("ladderspec.learn.evaluation.measure", 2, 0),  # inside an evaluation
        ("ladderspec.learn.evaluation.measure", 6, 0),  # when all is trained, but not tested
        ("os.replace", 4, 0),  # inside a checkpoint
        ("os.replace", 8, 0),
        ("os.replace", 9, 2),
        ("os.replace", 10, 0),
    ],
)
def test_cut_off_and_resumed(
    whole: tuple[Run, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    count: int,
    workers: int,
) -> None:
    run, expected = whole
    run = replace(run, machine=run.machine.model_copy(update={"workers": workers}))
    with monkeypatch.context() as patched:
        cut(patched, where, count)
        with pytest.raises(PowerCut):
            train(run, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "result.json").exists()
    train(run, tmp_path / "run", resume=True, quiet=True)
    assert written(tmp_path / "run") == written(expected)


# Runs the command line and kills itself without warning inside the N-th update.
KILLER = """
import os, signal, sys
import ladderspec.learn.train as training
real, calls = training.update, 0
def deadly(*args):
    global calls
    calls += 1
    if calls == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)
training.update = deadly
from ladderspec.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_killed_and_resumed(whole: tuple[Run, Path], tmp_path: Path) -> None:
    run, expected = whole
    place = experiment(tmp_path, TAUGHT)
    words = ["train", str(place), "--row", "ladder", "-o", str(tmp_path / "out"), "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-c", KILLER, *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    train(run, tmp_path / "out" / run.id, resume=True, quiet=True)
    assert written(tmp_path / "out" / run.id) == written(expected)


GROUPS = """
name: nano-groups
input: {channels: 1, size: [1, 88]}
time: {frames: any}
groups: {count: 2, likelihood: bernoulli}
levels:
  - name: lstm1
    encoder: {cell: ConvLSTM, channels: 2, filter: [1, 4], stride: [1, 4]}
    decoder: {cell: Readout, filter: [1, 4]}
tasks: {next_notes: {kind: grouping, ahead: 1}}
"""


@pytest.mark.parametrize(
    ("spec", "drop"), [(MUSIC, ", drop: 0.1"), (GROUPS, "")], ids=["dropout", "groups"]
)
def test_resumed_in_the_middle_of_a_sequence(
    spec: str, drop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Truncated back-propagation: the carried state is in the checkpoint.

    With dropout alone, or with a random start of groups alone.
    """
    text = EXPERIMENT.replace(
        "{set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}",
        "{set: music, name: etudes}",
    )
    text = text.replace("batch: 10", f"batch: 4, steps: 20{drop}").replace("items: 40", "items: 8")
    text = text.replace("  - {name: open, variant: open}\n", "").replace("digit:", "next_notes:")
    text = text if drop else text.replace(", paper: {next_notes: 0.74 ± 0.09}", "")
    run = one_run(tmp_path, text, spec)
    train(run, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patched:
        cut(patched, "ladderspec.learn.train.update", 8)
        with pytest.raises(PowerCut):
            train(run, tmp_path / "part", quiet=True)
    saved = json.loads((tmp_path / "part" / "last.json").read_text())
    assert saved["piece"] > 0, "the checkpoint is to be in the middle of a batch"
    train(run, tmp_path / "part", resume=True, quiet=True)
    assert written(tmp_path / "part") == written(tmp_path / "whole")


def test_a_finished_run_is_not_repeated(
    whole: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, folder = whole
    cut(monkeypatch, "ladderspec.learn.train.update", 1)
    assert sealed(train(run, folder, quiet=True)) == written(folder)[1]


def test_folders_in_the_first_format_are_resumed_and_opened(
    whole: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their checkpoints call the schedule `course`; their settings are in the identity."""
    run, expected = whole
    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        cut(patched, "ladderspec.learn.train.update", 9)
        with pytest.raises(PowerCut):
            train(run, folder, quiet=True)
    for name in ("last.json", "last.before.json"):
        record = json.loads((folder / name).read_text())
        record["course"] = record.pop("schedule")
        record["format"] = "ladderspec checkpoint 1"
        del record["manifest"]
        (folder / name).write_text(json.dumps(record))
    record = json.loads((folder / "run.json").read_text())
    del record["checksum"], record["graph_checksum"]
    del record["settings"]
    (folder / "run.json").write_text(json.dumps(record))
    assert open_run(folder).training == run.training
    train(run, folder, resume=True, quiet=True)
    assert written(folder) == written(expected)
