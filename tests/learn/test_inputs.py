"""Training with several inputs: the data feed each by its field, also in pieces and generation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from ladderspec.cli import main
from ladderspec.data import DataError
from ladderspec.errors import UsageError
from ladderspec.experiments.runs import Run
from ladderspec.learn.batches import Collator
from ladderspec.learn.train import train
from ladderspec.trained.evaluate import activations, evaluate
from ladderspec.trained.generate import generate
from ladderspec.trained.run import open_run
from tests.training import one_run, rows

pytestmark = pytest.mark.usefixtures("one_thread")

SHIPPED = Path("specs/related/action_video.yaml").read_text(encoding="utf-8")
SPEC = re.sub(r" *expect:.*\n", "", SHIPPED).replace("[32, 32]", "[8, 8]").replace(": 16}", ": 2}")
EXPERIMENT = """
name: actions
data: {set: arrays, path: PATH, valid: 0.2, test: 0.2}
spec: nano.yaml
rows: [{name: actions}]
training: {updates: 6, batch: 8, optimiser: {lr: 0.01}}
evaluation: {every: 3, items: 8, statistics: 2}
machine: {threads: 1, pictures: 2, log: 5}
"""


def lit_quarters(items: int = 60, frames: int = 6) -> dict[str, np.ndarray]:
    """The action at each t decides which quarter of the next frame is lit."""
    chosen = np.random.default_rng(0).integers(0, 4, (items, frames))
    quarters = np.zeros((4, 1, 8, 8), np.float32)
    for quarter, (row, column) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
        quarters[quarter, 0, row : row + 4, column : column + 4] = 1
    shown = np.concatenate([np.zeros((items, 1, 1, 8, 8)), quarters[chosen[:, :-1]]], axis=1)
    return {"frames": shown, "action": np.eye(4, dtype=np.float32)[chosen]}


def run_on(
    folder: Path, arrays: dict[str, np.ndarray], spec: str = SPEC, **training: object
) -> Run:
    np.savez(folder / "own.npz", **arrays)
    text = EXPERIMENT.replace("PATH", str(folder / "own.npz"))
    return one_run(folder, text, spec.replace("{frames: 5}", "{frames: any}"), **training)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("actions")
    train(run_on(place, lit_quarters(), updates=30), place / "run", quiet=True)
    return place / "run"


def test_a_network_learns_from_frames_and_actions(folder: Path, tmp_path: Path) -> None:
    """It learns more than the same network with the actions of other items."""
    costs = [row["cost"] for row in rows(folder) if "cost" in row]
    assert costs[-1] < 0.7 * costs[0]
    result = json.loads((folder / "result.json").read_text())["metrics"]["test"]
    assert evaluate(open_run(folder)).metrics == result
    arrays = lit_quarters()
    arrays["action"] = np.random.default_rng(1).permutation(arrays["action"])
    train(run_on(tmp_path, arrays, updates=30), tmp_path / "run", quiet=True)
    shuffled = json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]["test"]
    assert result["next_frame.error"] < 0.7 * shuffled["next_frame.error"]


def test_a_lesion_of_an_input_reads_its_field_no_longer(folder: Path) -> None:
    opened = open_run(folder)
    whole = evaluate(opened).metrics["next_frame.error"]
    assert evaluate(opened, without=["input.action"]).metrics["next_frame.error"] != whole
    collator = opened.collator(opened.net(["input.action"]))
    assert "action" not in collator.fields
    found = activations(opened, ["input.action"], count=3)
    assert found["input.action"].shape == (3, 6, 4)


def test_generation_takes_later_actions_from_the_data(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = generate(open_run(folder), 3, given=4, count=2)
    assert found.later.shape == (2, 3, 1, 8, 8)
    with pytest.raises(UsageError, match="input `action` has 6 frames, but generating 4 frames"):
        generate(open_run(folder), 4, given=4)
    assert main(["generate", str(folder), "--frames", "2", "-o", str(tmp_path / "a.png")]) == 2
    assert "give its later values too" in capsys.readouterr().err


def test_batches_hold_the_inputs_of_their_frames(tmp_path: Path) -> None:
    """Whole, in pieces, and where lengths differ; constant inputs stay whole."""
    arrays = {**lit_quarters(12, 7), "goal": np.arange(24.0).reshape(12, 2)}
    lengths = np.array([7, 5, 6] * 4)
    spec = SPEC.replace("action: {channels: 4}", "action: {channels: 4}\n  goal: {channels: 2}")
    spec = spec.replace("goal: {channels: 2}", "goal: {channels: 2, per: sequence}")
    spec = spec.replace("lstm3]", "lstm3, input.goal -> encoder.lstm3]")
    for more in ({}, {"lengths": lengths}):
        run = run_on(tmp_path, {**arrays, **more}, spec)
        collator = _collator(run, steps=3)
        taken = collator.take("train", 0, np.arange(2))
        if more:
            order = np.argsort(-taken["mask"].sum(1), kind="stable")
            taken = {name: value[order] for name, value in taken.items()}
        pieces = list(collator.pieces(taken))
        assert [len(piece.frames[0]) for piece in pieces] == [3, 3]
        for piece in pieces:
            here = slice(piece.start, piece.start + piece.frames.shape[1])
            count = len(piece)
            wanted = torch.from_numpy(taken["action"][:count, here])
            assert torch.equal(piece.inputs["action"], wanted)
            assert torch.equal(
                piece.inputs["goal"].double(), torch.from_numpy(taken["goal"][:count]).double()
            )
            assert piece.given.keys() == {"input", "action", "goal"}


def _collator(run: Run, steps: int | None = None) -> Collator:
    from ladderspec.api import build

    net = build(run.spec)
    return Collator(run.data.open(0), net.tasks, steps, inputs=net.inputs.forms[1:])


@pytest.mark.parametrize("training", [{"steps": 3}, {"recompute": 2}])
def test_training_in_pieces_and_with_checkpointing(tmp_path: Path, training: dict) -> None:
    train(run_on(tmp_path, lit_quarters(), **training), tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        (
            "acton",
            np.zeros((60, 6, 4)),
            "input `action`: arrays has no field `action`; did you mea",
        ),
        ("action", np.zeros((60, 6, 3)), "input `action` is 4, but `action` of arrays is 3 per fr"),
        ("action", np.zeros((60, 4)), "`action` of arrays has no time axis; write `per: sequence`"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    field: str, values: np.ndarray, message: str, tmp_path: Path
) -> None:
    run = run_on(tmp_path, {"frames": lit_quarters()["frames"], field: values})
    with pytest.raises(DataError, match=re.escape(message)):
        train(run, tmp_path / "run", quiet=True)


def test_an_input_that_is_not_finite_is_named(tmp_path: Path) -> None:
    arrays = lit_quarters()
    arrays["action"][:, 2] = np.nan
    with pytest.raises(Exception, match="the data are not finite: `action` of training item"):
        train(run_on(tmp_path, arrays), tmp_path / "run", quiet=True)
