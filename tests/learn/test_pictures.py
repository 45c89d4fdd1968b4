"""Pictures of networks with groups: hand-made outputs, and the colours of known pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ladderspec.api import build, loads
from ladderspec.data import data_config
from ladderspec.data.sheet import NO_GROUP, PALETTE, ImageSheet
from ladderspec.learn.batches import Collator
from ladderspec.learn.pictures import draw_samples
from ladderspec.network.net import Net, Outputs

BLUE, ORANGE = PALETTE[:2]
SPEC = """
input: {channels: 1, size: [12, 12], noise: {gaussian: 0.2}}
time: {iterations: 2}
groups: {count: 2, variance: 0.01}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 3, filter: 4, stride: 2}, decoder: {cell: Readout, filter: 4}}
  - {name: pool, encoder: {cell: Pool, mode: average, filter: global}, decoder: Average}
  - {name: class, encoder: {cell: SoftMax, channels: 11}, decoder: G1}
tasks:
  digit: {kind: classification, at: encoder.class, none: last}
  segment: {kind: grouping, truth: groups}
"""  # noqa: E501
VECTORS = """
input: {channels: 144, noise: {gaussian: 0.2}}
time: {iterations: 2}
groups: {count: 2, variance: 0.01}
levels:
  - {name: top, encoder: {cell: FC, channels: 8}, decoder: Readout}
tasks:
  segment: {kind: grouping, truth: groups}
"""
MOVING = """
input: {channels: 1, size: [12, 12], noise: {flip: 0.1}}
time: {frames: 4}
groups: {count: 2, likelihood: bernoulli}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 3, filter: 4, stride: 2}, decoder: {cell: Readout, filter: 4}}
tasks:
  segment: {kind: grouping, ahead: 1, truth: groups}
"""  # noqa: E501
TEXTURED = {"digits": "embedded", "textures": "builtin", "canvas": 12, "brightness": "apart"}

pytestmark = pytest.mark.usefixtures("one_thread")


def collated(spec: str, name: str, **words: Any) -> tuple[Net, Collator]:
    net = build(loads(spec)).eval()
    return net, Collator(data_config(name, **words).open(0), net.tasks)


def returning(monkeypatch: pytest.MonkeyPatch, **outputs: Tensor) -> None:
    """Let networks return these outputs."""
    monkeypatch.setattr(Net, "forward", lambda *_: Outputs(outputs))


def halves(size: int = 12) -> Tensor:
    """Two items, two t: mu is 0.25 and 0.75; pi is undecided at t = 1, then left and right."""
    made = torch.empty(2, 2, 2, 2, size, size)
    made[:, :, 0, 0], made[:, :, 1, 0] = 0.25, 0.75
    made[:, 0, :, 1] = 0.5
    made[:, 1, :, 1] = 0.0
    made[:, 1, 0, 1, :, : size // 2] = 1.0
    made[:, 1, 1, 1, :, size // 2 :] = 1.0
    return made


def texts(picture: ImageSheet) -> list[str]:
    return [text.text for text in picture.texts]


def drawn(net: Net, collator: Collator) -> ImageSheet:
    picture = draw_samples(net, collator, "test", 2, "samples")
    assert picture is not None
    return picture


COLUMNS = [
    "image (truth)",
    "groups (truth)",
    "segment: groups",
    "segment",
    "segment: mu 1",
    "segment: mu 2",
]


def test_iterations_are_rows_and_every_group_has_its_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, collator = collated(SPEC, "textured_mnist", **TEXTURED)
    logits = torch.full((2, 2, 2, 11), -9.0)
    logits[:, 0, :, 10] = 9.0  # no object ...
    logits[:, 0, 0, 3], logits[:, 1, 1, 7] = 2.0, 9.0  # ... or a 3, then a 7
    returning(monkeypatch, segment=halves(), digit=logits)
    picture = drawn(net, collator)
    found = texts(picture)
    for column in COLUMNS:
        assert found.count(column) == 1
    labels = collator.data.batch("test", 0, np.arange(2))["label"]
    assert [t for t in found if t.endswith("predicted 7") and "=" not in t] == [
        f"{label}, predicted 7" for label in labels
    ]
    assert [t for t in found if "t =" in t] == ["t = 1, predicted 3", "t = 2, predicted 7"] * 2
    colours = {text.text: text.colour for text in picture.texts}
    assert (colours["segment: mu 1"], colours["segment: mu 2"]) == (BLUE, ORANGE)

    batch = collator.data.batch("test", 0, np.arange(2))
    tiles = np.array([tile.image for tile in picture.tiles]).reshape(2, 2, 6, 12, 12, 3)
    for item in range(2):
        image = np.rint(255 * batch["image"][item, 0].clip(0, 1))
        assert np.array_equal(tiles[item, 0, 0, ..., 0], image), "bright pixels are white"
        truth = batch["groups"][item, 0]
        for group, colour in ((0, BLUE), (1, ORANGE), (-1, NO_GROUP)):
            assert (truth == group).any()
            assert (tiles[item, :, 1][:, truth == group] == colour).all()
        assert np.allclose(tiles[item, 0, 2], np.add(BLUE, ORANGE) / 2, atol=0.5), "undecided"
        assert (tiles[item, 1, 2, :, :6] == BLUE).all()
        assert (tiles[item, 1, 2, :, 6:] == ORANGE).all()
        assert (tiles[item, 0, 3] == 128).all(), "the mean of 0.25 and 0.75"
        assert (tiles[item, 1, 3, :, :6] == 64).all()
        assert (tiles[item, 1, 3, :, 6:] == 191).all()
        assert (tiles[item, :, 4] == 64).all()
        assert (tiles[item, :, 5] == 191).all()


def test_noisy_images_stand_beside_clean_ones() -> None:
    net, collator = collated(SPEC, "textured_mnist", **TEXTURED)
    clean, noisy = drawn(net, collator), drawn(net, collator.with_noise(net.noise))
    assert len(noisy.tiles) == len(clean.tiles) // 6 * 7
    assert "image, noisy" in texts(noisy)
    assert not np.array_equal(noisy.tiles[0].image, clean.tiles[0].image)
    assert np.array_equal(noisy.tiles[1].image, clean.tiles[0].image)


def test_vectors_of_pixels_are_drawn_as_images(monkeypatch: pytest.MonkeyPatch) -> None:
    net, collator = collated(VECTORS, "textured_mnist", flat=True, **TEXTURED)
    maps = halves()
    returning(monkeypatch, segment=maps.flatten(3))  # mu, then pi
    flat = drawn(net, collator)
    net, collator = collated(SPEC.replace("  digit:", "  #"), "textured_mnist", **TEXTURED)
    returning(monkeypatch, segment=maps)
    square = drawn(net, collator)
    assert texts(flat) == texts(square)
    for one, other in zip(flat.tiles, square.tiles, strict=True):
        assert np.array_equal(one.image, other.image)


def test_frames_go_to_the_right_with_predictions_below(monkeypatch: pytest.MonkeyPatch) -> None:
    net, collator = collated(
        MOVING, "moving_mnist", digits="embedded", canvas=12, frames=4, binary=True
    )
    returning(monkeypatch, segment=halves().repeat(1, 2, 1, 1, 1, 1))
    picture = drawn(net, collator)
    rows = ["frames (truth)", "groups (truth)", *COLUMNS[2:]]
    assert [t for t in texts(picture) if t in rows] == rows * 2
    tiles = np.array([tile.image for tile in picture.tiles]).reshape(2, 6, 4, 12, 12, 3)
    truth = collator.data.batch("test", 0, np.arange(2))["groups"][:, :, 0]
    assert (tiles[:, 1, 0] == NO_GROUP).all(), "there is no prediction of the first frame"
    for group, colour in ((0, BLUE), (1, ORANGE), (-1, NO_GROUP)):
        assert (tiles[:, 1, 1:][truth[:, 1:] == group] == colour).all()
    assert (tiles[:, 2, 2, :, :6] == BLUE).all(), "made at t = 2, of t = 3"
    assert np.allclose(tiles[:, 2, 3], np.add(BLUE, ORANGE) / 2, atol=0.5)


def test_more_groups_than_colours_and_colour_images(tmp_path: Path) -> None:
    spec = SPEC.replace("channels: 1,", "channels: 3,").replace("count: 2", "count: 8")
    spec = spec.replace("  digit:", "  #").replace(", truth: groups", "")
    images = np.random.default_rng(0).random((20, 3, 12, 12), dtype=np.float32)
    np.savez(tmp_path / "d.npz", frames=images)
    net, collator = collated(spec, "arrays", path=str(tmp_path / "d.npz"))
    picture = drawn(net, collator)
    assert len(picture.tiles) == 2 * 2 * (1 + 2 + 8)
    colours = {text.text: text.colour for text in picture.texts}
    assert colours["segment: mu 7"] == BLUE
