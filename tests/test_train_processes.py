"""Several processes give the numbers of one, on the same batches; batch norms included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ladderspec.train import train
from tests.training import EXPERIMENT, experiment, one_run, rows

ROOT = Path(__file__).resolve().parent.parent

# float64, so that the order of sums hardly matters; 9 sequences are shared out unevenly.
DOUBLE = EXPERIMENT.replace("batch: 10", "batch: 9, precision: float64")


def torchrun(processes: int, *words: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", "-m", "ladderspec", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def close(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    return bool(a == pytest.approx(b, rel=1e-9)) if isinstance(a, float) else a == b


def test_two_processes_are_like_one(tmp_path: Path) -> None:
    place = experiment(tmp_path, DOUBLE)
    run = one_run(tmp_path, DOUBLE)
    train(run, tmp_path / "one", quiet=True)
    torchrun(2, "train", str(place), "--row", "ladder", "-o", str(tmp_path / "two"))
    two = tmp_path / "two" / run.id
    assert len(rows(two)) == len(rows(tmp_path / "one")) > 4
    for one_row, two_row in zip(rows(tmp_path / "one"), rows(two), strict=True):
        assert close(one_row, two_row)
    results = [
        json.loads((folder / "result.json").read_text()) for folder in (tmp_path / "one", two)
    ]
    assert close(results[0]["metrics"], results[1]["metrics"])


def test_resumed_with_another_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.test_train_resume import PowerCut, cut

    place = experiment(tmp_path, DOUBLE)
    run = one_run(tmp_path, DOUBLE)
    train(run, tmp_path / "one", quiet=True)
    with monkeypatch.context() as patched:
        cut(patched, "ladderspec.train.update", 9)
        with pytest.raises(PowerCut):
            train(run, tmp_path / "two" / run.id, quiet=True)
    words = ["--row", "ladder", "-o", str(tmp_path / "two"), "--resume"]
    torchrun(2, "train", str(place), *words)
    for one_row, two_row in zip(
        rows(tmp_path / "one"), rows(tmp_path / "two" / run.id), strict=True
    ):
        assert close(one_row, two_row)
