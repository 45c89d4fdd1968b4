"""A data set in one file, from the documentation: as a plug-in, and as a file of the package."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ladderspec.data import dataset
from ladderspec.errors import UsageError
from ladderspec.plugins import load_plugin

ROOT = Path(__file__).resolve().parents[2]
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


PLUGIN = ("--plugin", "my_data.py")


def run(folder: Path, *arguments: str, package: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the command with the package in this folder."""
    command = [sys.executable, "-m", "ladderspec", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )


def train(folder: Path, *options: str, package: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return run(folder, "train", "study.yaml", "-o", "out", *options, package=package)


def result(folder: Path) -> dict[str, Any]:
    path = folder / "out" / "one.seed0" / "result.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_a_network_learns_from_a_plugin(folder: Path) -> None:
    done = train(folder, *PLUGIN)
    assert done.returncode == 0, done.stderr
    assert result(folder)["metrics"]["test"]["rises.error"] == 0


def test_read_only_batches_train_without_a_warning(folder: Path) -> None:
    code = (folder / "my_data.py").read_text(encoding="utf-8")
    fixed = "label.flags.writeable = False\n        return {"
    (folder / "my_data.py").write_text(code.replace('return {"f', fixed + '"f'), encoding="utf-8")
    done = train(folder, *PLUGIN, "--set", "training.updates=1")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def test_the_same_file_inside_the_package_is_found_without_any_edit(folder: Path) -> None:
    assert train(folder, *PLUGIN).returncode == 0
    by_plugin = result(folder)
    copy = folder / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ladderspec", copy / "ladderspec", ignore=ignored)
    shutil.move(folder / "my_data.py", copy / "ladderspec" / "data" / "sets" / "ramps.py")
    shutil.rmtree(folder / "out")
    listed = run(folder, "data", "list", package=copy)
    assert "ramps           brightness that rises or falls, four frames" in listed.stdout
    done = train(folder, package=copy)
    assert done.returncode == 0, done.stderr
    inside = result(folder)
    assert inside["metrics"] == by_plugin["metrics"]
    assert inside["digest"] != by_plugin["digest"]  # which contains that of the plug-in file


def test_its_fields_are_checked_like_any_other(folder: Path) -> None:
    wrong = EXPERIMENT.replace("side: 8", "sid: 8")
    (folder / "study.yaml").write_text(wrong, encoding="utf-8")
    done = train(folder, *PLUGIN)
    assert done.returncode == 1
    assert "did you mean `side`?" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"ramps"',
            '"digits"',
            "there is a data set `digits` in ladderspec: give yours another name",
        ),
        (
            'set: Literal["ramps"] = "ramps"',
            'set: str = "ramps"',
            'the class Ramps needs a name: `set: Literal["ramps"]`',
        ),
    ],
)
def test_names_that_are_refused(folder: Path, old: str, new: str, message: str) -> None:
    code = (folder / "my_data.py").read_text(encoding="utf-8")
    (folder / "my_data.py").write_text(code.replace(old, new), encoding="utf-8")
    done = train(folder, *PLUGIN)
    assert done.returncode == 2
    assert done.stderr == f"ladderspec: plugin my_data.py fails: {message}\n"


MISTAKES = {
    "return RampData(self, seed, folder)": {
        "RampData(self, seed, folder)": "`open` returned None, not a DataSet",
        "return [1]": "`open` returned a list, not a DataSet",
    },
    "super().__init__(config, seed, folder)": {
        "pass": "`__init__` does not call `super().__init__(config, seed, folder)`",
    },
    "self.classes, self.steps = 2, 4": {
        "self.forms = None": "`forms` is None, not a dict of the Form of each field",
        "self.forms = {}": "`forms` is {}, not a dict of the Form of each field",
        "self.forms = {'frames': (1, 8, 8)}": "`forms` has a tuple for `frames`, not a Form",
        "self.steps, self.lengths = 4, lambda split: np.full(200, 4)": "`forms` has no `mask`,"
        " (B, T), which sequences of different `lengths` need",
    },
    '"valid": 50': {
        '"valid": None': "`size` returned None for valid, not a number from 0 to 1,000,000,000",
        '"valid": 10**12': "`size` returned 1000000000000 for valid, not a number from 0 to"
        " 1,000,000,000",
        '"valid": 50.0': "`size` returned 50.0 for valid, not a number from 0 to 1,000,000,000",
    },
    'return {"frames": frames, "label": label}': {
        "frames": "`batch` returned None, not a dict of arrays",
        "return {}": "`batch` returned no `frames`, which `forms` names",
        'return {"frames": [[1]]}': "`batch` returned a list for `frames`, not a numpy array of"
        " numbers",
        'return {"frames": frames.astype(str)}': "`batch` returned <U32 array for `frames`, not a"
        " numpy array of numbers",
        'return {"frames": frames[..., 1:], "label": label}': "`batch` returned `frames` of shape"
        " (3, 4, 1, 8, 7); `forms` says (B, T, 1, 8, 8)",
        'return {"frames": frames[:, :3], "label": label}': "`batch` returned 3 frames of `frames`;"
        " `steps` says 4",
        'return {"frames": frames[:1], "label": label}': "`batch` returned `frames` of length 1"
        " for 3 indices",
    },
}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [(old, new, text) for old, wrong in MISTAKES.items() for new, text in wrong.items()],
)
def test_what_it_returns_is_checked(
    folder: Path, old: str, new: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (folder / "my_data.py").read_text(encoding="utf-8")
    (folder / "my_data.py").write_text(code.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(dataset, "_SETS", dict(dataset.registered()))
    load_plugin(folder / "my_data.py")
    with pytest.raises(UsageError) as refused:
        dataset.data_config("ramps").open()
    assert str(refused.value) == f"data set `ramps`: {message}"


LATER = {
    "frames[..., 1:]": "`frames` of shape (2, 4, 1, 8, 7); `forms` says (B, T, 1, 8, 8)",
    "frames[1:]": "`frames` of length 1 for 2 indices",
    "frames.astype(object)": "object array for `frames`, not a numpy array of numbers",
    "frames * np.nan": "`frames` that is not finite, for item 7 of {split}",
}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(("new", "message"), LATER.items())
def test_every_batch_is_checked(
    folder: Path, new: str, message: str, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (folder / "my_data.py").read_text(encoding="utf-8")
    wrong = f'"frames": {new} if 7 in indices else frames'
    (folder / "my_data.py").write_text(code.replace('"frames": frames', wrong), encoding="utf-8")
    monkeypatch.setattr(dataset, "_SETS", dict(dataset.registered()))
    load_plugin(folder / "my_data.py")
    data = dataset.data_config("ramps").open()
    for opened in (data, pickle.loads(pickle.dumps(data))):  # as workers open it
        assert opened.batch(split, 0, np.array([5, 6]), ["frames"])["frames"].shape[0] == 2
        with pytest.raises(UsageError) as refused:
            opened.batch(split, 0, np.array([7, 6]), ["frames"])
        assert str(refused.value) == f"data set `ramps`: `batch` returned {message}".format(
            split=split
        )


def test_a_decorated_batch_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `functools.cache` and others, which leave a `__wrapped__`."""
    code = (folder / "my_data.py").read_text(encoding="utf-8")
    code = code.replace('"frames": frames', '"frames": frames[:1]')
    code = code.replace(
        "    def batch(", "    @__import__('functools').wraps(print)\n    def batch("
    )
    (folder / "my_data.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(dataset, "_SETS", dict(dataset.registered()))
    load_plugin(folder / "my_data.py")
    with pytest.raises(UsageError, match="`batch` returned `frames` of length 1 for 3 indices"):
        dataset.data_config("ramps").open()
