"""The words for ways between boxes.

Between the rows and columns run gutters, free of boxes: gutter H(i) lies below row i, gutter V(i)
left of column i. An arrow is straight where nothing stands in its way; else it leaves a box through
a port, follows stretches of gutters, and enters the other box through a port.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Literal, NamedTuple

from ladderspec.drawing.sheet import Link

OUTSIDE = -1.0  # where arrows from iterations that are not shown begin


class Gutter(NamedTuple):
    axis: Literal["H", "V"]
    at: int


class Face(NamedTuple):
    """A gutter between two boxes that face each other: in a column (H) or in a row (V)."""

    gutter: Gutter
    lane: int


class Form(Enum):
    STRAIGHT = auto()
    ELBOW = auto()  # along a row, then down into a box
    SLANT = auto()  # straight across one gutter, to a neighbouring row
    BOW = auto()  # back to the neighbour in the same row
    STRETCHES = auto()


class Port(NamedTuple):
    """An end of an arrow: in the middle of a face (0), right or above (+1), left or below (-1)."""

    face: Face
    sign: int


class Stretch(NamedTuple):
    """A part of a gutter that an arrow follows.

    Places along the gutter are counted in halves: gutter i is at 2 i, row or column i at 2 i + 1.
    `near` says which boxes it serves: -1 those below or left of the gutter, +1 the others, 0 both.
    """

    gutter: Gutter
    start: float
    stop: float
    near: int


class Route(NamedTuple):
    link: Link
    form: Form
    source: Port | None
    target: Port
    stretches: tuple[Stretch, ...] = ()


def horizontal(index: int) -> Gutter:
    return Gutter("H", index)


def vertical(index: int) -> Gutter:
    return Gutter("V", index)
