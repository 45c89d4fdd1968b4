"""A user's data set in one file, from the documentation itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = """
input: {channels: 1, size: 8}
time: {frames: any}
levels:
  - {name: conv, encoder: {cell: Conv, channels: 3, stride: 4}}
  - {name: top, encoder: {cell: LSTM, channels: 4}}
  - {name: class, encoder: {cell: SoftMax, channels: 2}}
tasks: {rises: {kind: classification, at: encoder.class, when: last}}
"""
EXPERIMENT = """
data: {set: ramps, side: 8}
spec: mine.yaml
rows: [{name: one}]
training: {updates: 40, batch: 20, optimiser: {lr: 0.03}}
machine: {threads: 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    (tmp_path / "my_data.py").write_text(code[1], encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "study.yaml").write_text(EXPERIMENT, encoding="utf-8")
    return tmp_path


def train(folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["train", "study.yaml", "--plugin", "my_data.py", "-o", "out"]
    command = [sys.executable, "-m", "ladderspec", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_data_from_a_file_are_learnt(folder: Path) -> None:
    done = train(folder)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "out" / "one.seed0" / "result.json").read_text(encoding="utf-8"))
    assert result["metrics"]["test"]["rises.error"] == 0


def test_its_words_are_checked_like_any_other(folder: Path) -> None:
    wrong = EXPERIMENT.replace("side: 8", "sid: 8")
    (folder / "study.yaml").write_text(wrong, encoding="utf-8")
    done = train(folder)
    assert done.returncode == 1
    assert "did you mean `side`?" in done.stderr
