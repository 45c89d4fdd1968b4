"""Several processes give the numbers of one, on the same batches; batch norms included."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ladderspec.cli import main
from ladderspec.learn.train import train
from tests.training import EXPERIMENT, experiment, one_run, rows

ROOT = Path(__file__).resolve().parents[2]

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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run by one process and by two."""
    folder = tmp_path_factory.mktemp("processes")
    place = experiment(folder, DOUBLE)
    run = one_run(folder, DOUBLE)
    train(run, folder / "one", quiet=True)
    torchrun(2, "train", str(place), "--row", "ladder", "-o", str(folder / "two"))
    return folder / "one", folder / "two" / run.id


def assert_alike(one: Path, other: Path) -> None:
    assert len(rows(one)) == len(rows(other)) > 4
    for one_row, other_row in zip(rows(one), rows(other), strict=True):
        assert close(one_row, other_row)
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, other)]
    assert close(results[0]["metrics"], results[1]["metrics"])


def test_two_processes_are_like_one(folders: tuple[Path, Path]) -> None:
    assert_alike(*folders)


@pytest.mark.parametrize("size", ["2", "x", "-3"])
def test_a_world_without_a_process_group(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """WORLD_SIZE is left over, or comes from another launcher."""
    monkeypatch.setenv("WORLD_SIZE", size)
    assert main(["train", str(experiment(tmp_path)), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"ladderspec: WORLD_SIZE={size}, but there is no process group: " in said
    assert said.endswith("; start several processes with torchrun, or unset WORLD_SIZE\n")


GROUPS = """
name: nano
input: {channels: 1, size: [12, 12]}
time: {frames: 3}
groups: {count: 2, variance: {learned: 0.1}, start: {pixel: 0, group: 1.0e-12}}  # nothing random
levels:
  - name: lstm1
    encoder: {cell: ConvLSTM, channels: 2, filter: 4, stride: 2, norm: batch}
    decoder: {cell: Readout, filter: 4}
  - {name: class, encoder: {cell: SoftMax, channels: 11}, decoder: G1}
tasks:
  digit: {kind: classification, at: encoder.class, none: last}
  segment: {kind: grouping, ahead: 1}
"""


def test_two_processes_with_groups_are_like_one(tmp_path: Path) -> None:
    """Batch norms see the groups of the whole batch."""
    text = DOUBLE.replace("  - {name: open, variant: open}\n", "")
    place = experiment(tmp_path, text, GROUPS)
    run = one_run(tmp_path, text, GROUPS)
    train(run, tmp_path / "one", quiet=True)
    torchrun(2, "train", str(place), "--row", "ladder", "-o", str(tmp_path / "two"))
    assert_alike(tmp_path / "one", tmp_path / "two" / run.id)


def test_resumed_with_another_number_of_processes(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """A checkpoint of two processes is taken up by one."""
    one, two = folders
    part = tmp_path / "part"
    shutil.copytree(two, part)
    (part / "result.json").unlink()
    (part / "last.before.json").replace(part / "last.json")
    assert json.loads((part / "last.json").read_text())["update"] == 10
    train(one_run(tmp_path, DOUBLE), part, resume=True, quiet=True)
    assert_alike(one, part)
