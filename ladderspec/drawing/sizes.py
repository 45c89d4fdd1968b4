"""Lengths of the drawing, in points."""

from __future__ import annotations

import re
from typing import NamedTuple

from ladderspec.errors import UsageError


class Sizes(NamedTuple):
    """What differs between a full drawing and a schematic one."""

    heading: float = 10.5  # sizes of text
    facts: float = 8.5
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
    pad: float = 9.0  # left and right inside a box
    filled: bool = True

    def apart(self, by: float) -> Sizes:
        """The same with all gaps that much wider."""
        return self._replace(
            row_gap=self.row_gap * by,
            inner_gap=self.inner_gap * by,
            outer_gap=self.outer_gap * by,
            pitch=self.pitch * by,
        )

    def tight(self) -> Sizes:
        """For a given width on paper: less air, so that words stay large."""
        return self._replace(
            box_width=50.0,
            inner_gap=self.inner_gap * 0.65,
            outer_gap=self.outer_gap * 0.65,
            corner=9.0,
            pad=5.0,
        )


FULL = Sizes()
ROLLED = Sizes(inner_gap=66.0)
MINI = Sizes(
    label=9.5, box_width=26.0, box_height=26.0, radius=7.0, row_gap=28.0, inner_gap=36.0,
    outer_gap=46.0, corner=5.5, edge=6.5, filled=False,
)  # fmt: skip

WORD_PITCH = 10.0  # between slots whose arrows have a word at their start, at least
THICK_PITCH = 11.0  # where arrows are as thick as their worth
CLEAR = 9.5  # between a box and the first track: room for a head
PAD_Y = 5.0  # above and below inside a box
MARGIN = 10.0  # around everything
PILL_HEIGHT, PILL_GAP, PILL_SIZE = 11.5, 2.5, 8.0
LEVEL_SIZE, TIME_SIZE, TITLE_SIZE, LEGEND_SIZE = 9.0, 12.0, 13.0, 9.0
HEAD_LENGTH, HEAD_WIDTH, HEAD_NOTCH = 8.0, 6.4, 6.0
SQUARE = 6.4
TURN = 10.0  # radius of a turn

_UNITS = {"pt": 1.0, "cm": 72 / 2.54, "mm": 7.2 / 2.54, "in": 72.0}
_LENGTH = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(pt|cm|mm|in)\s*")
_LEAST, _MOST = 36.0, 7200.0  # widths on paper


def points_of(length: str | float | None) -> float | None:
    """A width on paper in points.

    >>> points_of("1in"), points_of(" 2.54 cm "), points_of(240), points_of(None)
    (72.0, 72.0, 240.0, None)
    """
    if length is None:
        return None
    found = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    points = float(found[1]) * _UNITS[found[2]] if found else length
    if not isinstance(points, int | float) or not _LEAST <= points <= _MOST:
        raise UsageError(f"no width `{length}`: 36pt to 7200pt, like 8.5cm, 85mm, 3.3in or 240pt")
    return float(points)
