"""Frames that a network with groups generates, their groups, and the truth beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ladderspec.cli import main
from ladderspec.data.sheet import NO_GROUP, PALETTE
from ladderspec.learn.pictures import Shown
from ladderspec.learn.train import train
from ladderspec.tasks import Grouping, Panel
from ladderspec.trained.evaluate import samples
from ladderspec.trained.generate import Continuation, continuation_sheet, generate
from ladderspec.trained.run import open_run
from tests.training import one_run

MOVING = """
input: {channels: 1, size: [12, 12], noise: {flip: 0.1}}
time: {frames: 6}
groups: {count: 2, likelihood: bernoulli}
levels:
  - name: lstm
    encoder: {cell: ConvLSTM, channels: 3, filter: 4, stride: 2}
    decoder: {cell: Readout, filter: 4}
tasks:
  segment: {kind: grouping, ahead: 1, truth: groups}
"""
EXPERIMENT = """
name: moving
data: {set: moving_mnist, digits: embedded, canvas: 12, frames: 6, binary: true}
spec: nano.yaml
rows: [{name: rtagger}]
training: {updates: 3, batch: 4, optimiser: {lr: 0.01}}
evaluation: {every: 3, items: 8, statistics: 0}
machine: {threads: 1, pictures: 2}
"""
BLUE, ORANGE = PALETTE[:2]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("moving")
    train(one_run(place, EXPERIMENT, MOVING), place / "run", quiet=True)
    return place / "run"


def test_pictures_of_training_and_evaluation(folder: Path) -> None:
    assert [place.name for place in (folder / "pictures").iterdir()] == ["valid-000003.png"]
    picture = samples(open_run(folder), count=2)
    assert picture is not None
    assert len(picture.tiles) == 2 * 6 * 6, "items, rows, frames"


@pytest.mark.parametrize("sample", [False, True])
def test_rows_are_what_the_network_made_in_closed_loop(folder: Path, sample: bool) -> None:
    opened = open_run(folder)
    found = generate(opened, 4, given=3, count=2, sample=sample)
    assert list(found.rows) == [
        "truth", "groups (truth)", "segment",
        "segment: colours", "segment: groups", "segment: pi mu 1", "segment: pi mu 2",
    ]  # fmt: skip
    data = opened.data.batch("test", 0, np.arange(2))
    assert np.array_equal(found.rows["truth"].panel.frames, data["frames"])
    assert np.array_equal(found.rows["groups (truth)"].panel.frames, data["groups"][:, 1:])
    own = found.rows["segment"].panel.frames
    assert own.shape == (2, 6, 1, 12, 12), "of t = 2 to the last"
    assert np.array_equal(own[:, 2:], found.later)
    net, frame = opened.net(), torch.from_numpy(found.given)
    with torch.no_grad():
        carry = net.initial_carry(2)
        fed = torch.cat([frame, torch.from_numpy(found.later)], 1)
        for t in range(6):  # one t after the other
            seen, carry = net.iterate(fed[:, t], carry)
            mu, pi = seen["segment"].unbind(2)
            for k in range(2):
                shown = found.rows[f"segment: pi mu {k + 1}"].panel.frames[:, t, 0]
                torch.testing.assert_close(shown, mu[:, k] * pi[:, k])
            torch.testing.assert_close(found.rows["segment: groups"].panel.frames[:, t], pi)
            if not sample:
                torch.testing.assert_close(own[:, t, 0], (mu * pi).sum(1))


def test_the_truth_ends_with_the_data(folder: Path, tmp_path: Path) -> None:
    command = ["generate", str(folder), "--given", "4", "--frames", "3", "--count", "1"]
    assert main([*command, "-o", str(tmp_path / "a.svg")]) == 0
    text = (tmp_path / "a.svg").read_text()
    assert text.count("<image") == 2 * 6 + 5 * 7
    assert ">+3<" in text


def test_colours_of_known_pixels() -> None:
    """The left half is ink of group 1, the right half of group 2 with probability 0.5."""
    seen = torch.zeros(1, 2, 2, 4, 4)
    seen[:, 0, 0, :, :2], seen[:, 0, 1, :, :2] = 1.0, 1.0
    seen[:, 1, 0, :, 2:], seen[:, 1, 1, :, 2:] = 0.5, 1.0
    panels = Grouping(kind="grouping").generated_pictures("it", seen)
    rows = {name: Shown(p._replace(frames=p.frames[None]), 1) for name, p in panels.items()}
    truth = torch.tensor([[[[-1, 0, 1, 1]]]]).expand(1, 1, 1, 4, 4)
    rows["truth"] = Shown(Panel(truth), 1)
    blank = np.zeros((1, 1, 1, 4, 4), np.float32)
    picture = continuation_sheet(Continuation(blank, blank, rows), "title", 5)
    colours, groups, one, other, true = (tile.image for tile in picture.tiles[1::2])
    assert (colours[:, :2] == BLUE).all()
    assert np.allclose(colours[:, 2:], (np.array(ORANGE) + 255) / 2, atol=0.5), "on paper"
    assert (groups[:, :2] == BLUE).all()
    assert (groups[:, 2:] == ORANGE).all()
    assert one[0, 0, 0] < 40 < 250 < one[0, 3, 0]
    assert other[0, 0, 0] == 255
    assert (true[:, 0] == NO_GROUP).all()
    assert (true[:, 1] == BLUE).all()
    assert (true[:, 2:] == ORANGE).all()
    labels = {text.text: text.colour for text in picture.texts}
    assert (labels["it: pi mu 1"], labels["it: pi mu 2"]) == (BLUE, ORANGE)
    assert "item 5" in labels
