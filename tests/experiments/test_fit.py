"""Data that do not fit are refused before the first update, by `validate` and by `train`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ladderspec.cli import main
from ladderspec.experiments.identity import digest
from ladderspec.experiments.reader import open_experiment

NET = """
input: {channels: 1, size: [8, 8]}
time: {iterations: 2}
levels:
  - {name: a, encoder: {cell: Conv, channels: 4}, decoder: convG3}
  - {name: c, encoder: {cell: SoftMax, channels: 10}, decoder: G1}
tasks:
  d: {kind: denoising, at: decoder.input, cost: mse}
"""
GROUPS = """
input: {channels: 1, size: [8, 8]}
time: {iterations: 2}
groups: {count: 2, likelihood: bernoulli}
levels: [{name: a, encoder: {cell: ConvLSTM, channels: 4}, decoder: Readout}]
tasks: {d: {kind: grouping, truth: groups}}
"""
PLACES = """
input: {channels: 1, size: [8, 8]}
time: {iterations: 2}
levels:
  - {name: a, encoder: {cell: Conv, channels: 5}}
  - {name: b, encoder: {cell: SoftMax, weights: none}}
tasks: {d: {kind: classification, at: encoder.b, target: classes}}
"""
CUE = """
inputs: {cue: {channels: 4, field: nope, per: sequence}}
edges: {add: [input.cue -> encoder.a]}
"""
DATA = "{set: arrays, path: mine.npz, scale: 3}"


def files(folder: Path, spec: str, data: str, row: str) -> str:
    draws = np.random.default_rng(0)
    unknown = draws.integers(0, 2, (64, 8, 8)).astype(np.float32)
    unknown[:, 0, 0] = np.nan
    np.savez(
        folder / "mine.npz",
        frames=(draws.random((64, 1, 8, 8)) * 3).astype(np.float32),
        label=draws.integers(0, 12, 64),
        other=draws.random((64, 5)),
        groups=draws.integers(0, 2, (64, 8, 8)),
        halves=draws.random((64, 8, 8)),
        unknown=unknown,
        small=draws.integers(0, 2, (64, 4, 4)),
        classes=draws.integers(0, 7, (64, 8, 8)),
    )
    (folder / "net.yaml").write_text(spec)
    path = folder / "experiment.yaml"
    path.write_text(
        f"spec: net.yaml\ndata: {data}\nrows: [{{name: x, {row}}}]\n"
        "training: {updates: 1, batch: 4}\nevaluation: {statistics: 0}\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("spec", "data", "row", "message"),
    [
        (NET, DATA, "set: {task.d.target: other}", "task `d`: decoder.input is 1x8x8: its target"
         " is 1x8x8, but `other` of arrays is 5"),
        (NET, DATA, "set: {task.d.target: othr}", "no field `othr`; did you mean `other`?"),
        (NET, DATA, "tasks: {l: {kind: classification, at: encoder.c}}",
         "task `l`: `label` goes up to 11, but encoder.c has 10 classes"),
        (NET, DATA.replace(", scale: 3", ""), "set: {task.d.cost: bce}",
         "task `d`: `cost: bce` needs values between 0 and 1, but `frames` goes from"),
        (NET, DATA.replace("mine", "nothing"), "title: y", "no file or folder nothing.npz"),
        (NET, "{set: digits, side: 12}", "title: y", "but the network's input is 1x8x8"),
        (GROUPS, DATA.replace(", scale: 3", ""), "title: y",
         "task `d`: a Bernoulli likelihood needs values between 0 and 1, but `frames` goes from"),
        (GROUPS, DATA, "set: {task.d.truth: small}", "`small` of arrays: true groups are one number"
         " for each place, 8x8, but it is 4x4"),
        (GROUPS, DATA, "set: {task.d.truth: label}", "8x8, but it is one number"),
        (GROUPS, DATA, "set: {task.d.truth: halves}", "but groups are whole numbers, and -1"),
        (PLACES, DATA, "title: y", "task `d`: `classes` goes up to 6, but encoder.b has 5 classes"),
        (PLACES, DATA, "set: {task.d.target: halves}", "task `d`: `halves` has float"),
        (CUE + NET, DATA, "title: y", "input `cue`: arrays has no field `nope`"),
        (CUE.replace("nope", "other") + NET, DATA, "title: y", "input `cue` is 4, but `other`"),
        (GROUPS, DATA, "set: {task.d.truth: unknown}", "`unknown` has nan, but groups are whole"),
    ],
)  # fmt: skip
def test_refused(
    spec: str,
    data: str,
    row: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = files(tmp_path, spec, data, row)
    assert main(["validate", path]) == 1
    found = capsys.readouterr().err
    assert message in found
    assert found.count("error[") == 1
    assert main(["train", path, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_that_does_not_fit_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "tasks: {l: {kind: classification, at: encoder.c}, d: {target: othr}}"
    path = files(tmp_path, CUE + NET, DATA, wrong)
    said = (
        "input `cue`: arrays has no field",
        "task `d`: arrays has no field",
        "task `l`: `label`",
    )
    for command in (["validate", path], ["train", path, "-o", str(tmp_path / "out")]):
        assert main(command) != 0
        found = capsys.readouterr().err
        assert all(each in found for each in said), found


def test_labels_beyond_the_first_items_end_training_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files(tmp_path, PLACES, DATA, "set: {encoder.a.channels: 7}")
    with np.load(tmp_path / "mine.npz") as arrays:
        changed = {name: arrays[name] for name in arrays}
    changed["classes"][40:] = 9
    np.savez(tmp_path / "mine.npz", **changed)
    text = Path(path).read_text().replace("updates: 1", "updates: 30")
    Path(path).write_text(text)
    assert main(["train", path, "-o", str(tmp_path / "out")]) != 0
    found = capsys.readouterr().err
    assert "labels are from 0 to 6" in found
    assert "Traceback" not in found


def test_notes_on_the_networks_of_rows_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files(tmp_path, NET, DATA, "edges: {downward_diagonal: {gain: 0.5}}")
    note = "row `x`: `edges.downward_diagonal` changes nothing"
    assert main(["validate", path]) == 0
    assert f"  note: {note}" in capsys.readouterr().out
    assert main(["train", path, "--list"]) == 0
    assert f"note: {note}" in capsys.readouterr().err


@pytest.mark.parametrize("spec", [NET, GROUPS])
def test_fine(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path of the data is relative to the file that names it."""
    path = files(tmp_path, spec, DATA, "title: y")
    assert main(["validate", path]) == 0
    assert main(["train", path, "-o", str(tmp_path / "out")]) == 0


def test_a_run_is_the_same_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data are found, and its identity has their path as it is written."""
    path = files(tmp_path, NET, DATA, "title: y")
    (elsewhere,) = open_experiment(path).runs
    monkeypatch.chdir(tmp_path)
    (here,) = open_experiment("experiment.yaml").runs
    assert here.identity == elsewhere.identity
    assert here.identity["data"]["path"] == "mine.npz"
    assert here.dump()["settings"]["data"]["path"] == str(tmp_path / "mine.npz")
    before = dict(here.identity, data={**here.identity["data"], "path": str(tmp_path / "mine.npz")})
    assert here.is_recorded_as(digest(before))


@pytest.mark.parametrize(
    ("rows", "about"),
    [
        ("[{name: x}, {name: y}]", ""),
        ("[{name: x}, {name: y}, {name: z, data: {side: 8}}]", "rows `x` and `y`: "),
        ("[{name: x}, {name: z, data: {side: 8}}]", "row `x`: "),
    ],
)
def test_what_does_not_fit_is_said_once(
    rows: str, about: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.yaml").write_text(NET)
    path = tmp_path / "experiment.yaml"
    path.write_text(
        "spec: net.yaml\ndata: {set: digits, digits: embedded, side: 12}\n"
        f"rows: {rows}\ntraining: {{updates: 1, batch: 4}}\n"
    )
    assert main(["validate", str(path)]) == 1
    err = "".join(capsys.readouterr())
    assert err.count("error[") == 1
    assert f"error[H301]: {about}`image` of digits is 1x12x12" in err
