"""Further inputs in drawings: columns of their own at the bottom, left of the encoder."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ladderspec.api import graph, load, loads
from ladderspec.drawing import ladder
from ladderspec.drawing.grid import grid_of
from ladderspec.drawing.layout import lay_out
from ladderspec.drawing.options import View
from ladderspec.drawing.picture import Change, Picture, picture_of
from ladderspec.drawing.transforms import fold
from ladderspec.names import Side

SPEC = """
input: {channels: 1, size: 8}
inputs:
  action: {channels: 4, until: 2}
  goal: {channels: 1, size: 8, per: sequence, label: a goal}
time: {frames: 4}
levels:
  - {name: conv, repeat: 3, encoder: {cell: Conv, channels: 4}, decoder: convG3}
edges: {add: [input.action(t-1) -> encoder.conv_1, input.goal -> decoder.conv_1]}
tasks: {next: {kind: prediction, at: decoder.input}}
"""


def picture() -> Picture:
    return picture_of(graph(loads(SPEC)))


@pytest.mark.parametrize("kind", ["unrolled", "rolled", "mini"])
def test_each_input_has_a_column_beside_the_frames(kind: str) -> None:
    grid = grid_of(picture(), View(kind=kind))
    here = [column for column in grid.columns if column.iteration == 0]
    assert [(column.side, column.part) for column in here] == [
        (Side.INPUT, "input.action"),
        (Side.INPUT, "input.goal"),
        (Side.ENCODER, ""),
        (Side.DECODER, ""),
    ]
    rows = {part.name: spot.row for spot, part in grid.parts.items()}
    assert rows["input.action"] == rows["input.goal"] == rows["encoder.input"] == 0
    layout = lay_out(picture(), View(kind=kind))
    boxes = {p.name: layout.places.box(spot) for spot, p in reversed(grid.parts.items())}
    names = ["input.action", "input.goal", "encoder.input", "decoder.input"]
    assert all(boxes[a].right < boxes[b].x for a, b in pairwise(names))


def test_folded_rows_leave_the_inputs_alone() -> None:
    assert [part.name for part in fold(picture()).further_inputs] == ["input.action", "input.goal"]


def test_the_terminal_lists_them() -> None:
    lines = ladder(graph(loads(SPEC)), ascii_only=True).splitlines()
    assert "input.action  4, until 2" in lines
    assert "input.goal  1x8x8, constant" in lines
    assert any(line.startswith("input.goal -> decoder.conv_1") for line in lines)


def test_a_variant_without_an_input_shows_it_as_removed() -> None:
    from ladderspec.drawing.transforms import compare

    path = "specs/related/action_video.yaml"
    base, new = (picture_of(graph(load(path, variant))) for variant in (None, "no_action"))
    compared = compare(base, new)
    assert compared.parts["input.action"].change is Change.REMOVED
