"""Killed at any moment and resumed, a run gives the numbers of one that was never interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ladderspec.train import train
from tests.training import EXPERIMENT, MUSIC, experiment, one_run

ROOT = Path(__file__).resolve().parent.parent

# Runs the command line; kills itself without warning at the N-th call of a function.
KILLER = """
import os, signal, sys
where, count = sys.argv[1], int(sys.argv[2])
room, name = where.rsplit(".", 1)
module = __import__(room, fromlist=[name])
real, calls = getattr(module, name), 0
def deadly(*args, **kwargs):
    global calls
    calls += 1
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(module, name, deadly)
from ladderspec.cli import main
sys.exit(main(sys.argv[3:]))
"""


def killed(where: str, count: int, *words: str) -> None:
    """Run a command that is killed on the way."""
    done = subprocess.run(
        [sys.executable, "-c", KILLER, where, str(count), *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def written(folder: Path) -> tuple[str, dict[str, object]]:
    """What must be the same: metrics byte for byte, and the result."""
    return (folder / "metrics.jsonl").read_text(), json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize(
    ("where", "count", "workers"),
    [
        ("ladderspec.train.update", 9, 0),  # between two checkpoints
        ("ladderspec.learn.evaluation.measure", 2, 2),  # inside an evaluation
        ("os.replace", 9, 0),  # inside a checkpoint
    ],
)
def test_killed_and_resumed(tmp_path: Path, where: str, count: int, workers: int) -> None:
    noisy = EXPERIMENT.replace("name: ladder,", "name: ladder, variant: taught,")
    place = experiment(tmp_path, noisy)
    run = one_run(tmp_path, noisy)
    train(run, tmp_path / "whole", quiet=True)
    words = ["train", str(place), "--row", "ladder", "-o", str(tmp_path / "out")]
    words += ["--workers", str(workers)]
    killed(where, count, *words)
    assert not (tmp_path / "out" / run.id / "result.json").exists()
    train(run, tmp_path / "out" / run.id, resume=True, quiet=True)
    assert written(tmp_path / "out" / run.id) == written(tmp_path / "whole")


def test_resumed_in_the_middle_of_a_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Truncated back-propagation: the carried state is in the checkpoint."""
    text = (
        EXPERIMENT.replace(
            "{set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}",
            "{set: music, name: etudes}",
        )
        .replace("batch: 10", "batch: 4, steps: 20")
        .replace("variant: open", "freeze: [encoder.top]")
    )
    run = one_run(tmp_path, text, MUSIC)
    train(run, tmp_path / "whole", quiet=True)
    import ladderspec.train as room

    real, calls = room.update, 0

    def breaks(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise RuntimeError("power cut")
        return real(*args)

    monkeypatch.setattr(room, "update", breaks)
    with pytest.raises(RuntimeError, match="power cut"):
        train(run, tmp_path / "part", quiet=True)
    saved = json.loads((tmp_path / "part" / "last.json").read_text())
    assert saved["piece"] > 0, "the checkpoint is to be in the middle of a batch"
    train(run, tmp_path / "part", resume=True, quiet=True)
    assert written(tmp_path / "part") == written(tmp_path / "whole")
