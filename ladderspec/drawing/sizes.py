"""Lengths of the drawing, in points."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """What differs between a full drawing and a schematic one."""

    heading: float = 10.5  # sizes of text
    facts: float = 8.0
    label: float = 9.0
    box_width: float = 72.0  # at least
    box_height: float = 32.0
    radius: float = 9.0
    row_gap: float = 26.0
    inner_gap: float = 46.0  # between the sides of one iteration
    outer_gap: float = 60.0  # between two iterations
    corner: float = 12.0  # from the corner of a box to its first slot, along a row of ports
    edge: float = 8.0  # the same along the left and right edges
    pitch: float = 7.0  # between neighbouring tracks, and between slots
    filled: bool = True


FULL = Sizes()
ROLLED = Sizes(inner_gap=66.0)
MINI = Sizes(
    label=9.5, box_width=26.0, box_height=26.0, radius=7.0, row_gap=28.0, inner_gap=36.0,
    outer_gap=46.0, corner=5.5, edge=6.5, filled=False,
)  # fmt: skip

WORD_PITCH = 10.0  # between slots whose arrows have a word at their start, at least
THICK_PITCH = 11.0  # where arrows are as thick as their worth
CLEAR = 9.5  # between a box and the first track: room for a head
PAD_X, PAD_Y = 9.0, 5.0  # inside a box
MARGIN = 10.0  # around everything
PILL_HEIGHT, PILL_GAP, PILL_SIZE = 11.0, 2.5, 7.5
LEVEL_SIZE, TIME_SIZE, TITLE_SIZE, LEGEND_SIZE = 9.0, 12.0, 13.0, 9.0
HEAD_LENGTH, HEAD_WIDTH, HEAD_NOTCH = 8.0, 6.4, 6.0
SQUARE = 6.4
TURN = 10.0  # radius of a turn
