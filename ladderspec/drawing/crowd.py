"""What is on the sheet already, found by place: how much would a word disturb there?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import floor

from ladderspec.drawing.scene import Point, Rect

STRUCK, COVERED = 20.0, 1000.0  # the cost of a line through a word; of a word on something else
_CELL = 48.0  # size of the buckets in which things are found again
_CLEAR = 1.0  # between a word and the edge of a line

Line = tuple[Point, Point, float]  # its ends, and how far it reaches to its sides


class Crowd:
    """Rectangles that no word may cover, and lines that none should touch."""

    def __init__(self, bounds: Rect) -> None:
        self.bounds = bounds  # words stay inside
        self._rects: dict[tuple[int, int], list[Rect]] = defaultdict(list)
        self._lines: dict[tuple[int, int], list[Line]] = defaultdict(list)

    def add_rect(self, rect: Rect) -> None:
        for cell in _cells(rect):
            self._rects[cell].append(rect)

    def remove_rect(self, rect: Rect) -> None:
        for cell in _cells(rect):
            self._rects[cell].remove(rect)

    def add_line(self, corners: Sequence[Point], width: float) -> None:
        for a, b in pairwise(corners):
            low, high = (min(a[0], b[0]), min(a[1], b[1])), (max(a[0], b[0]), max(a[1], b[1]))
            for cell in _cells(Rect(*low, high[0] - low[0], high[1] - low[1])):
                self._lines[cell].append((a, b, width / 2))

    def cost(self, rect: Rect) -> float:
        """How much a word there would disturb."""
        struck = self.lines_through(rect)
        inside = holds(self.bounds, rect)
        return COVERED * (len(self.covered(rect)) + 2 * (not inside)) + STRUCK * struck

    def lines_through(self, rect: Rect) -> int:
        near = {
            line for cell in _cells(_around(rect, _CLEAR)) for line in self._lines.get(cell, ())
        }
        return sum(crosses(_around(rect, _CLEAR + reach), a, b) for a, b, reach in near)

    def covered(self, rect: Rect) -> set[Rect]:
        """What a word there would lie on."""
        near = {other for cell in _cells(rect) for other in self._rects.get(cell, ())}
        return {other for other in near if overlap(rect, other)}


def _around(rect: Rect, by: float) -> Rect:
    return Rect(rect.x - by, rect.y - by, rect.width + 2 * by, rect.height + 2 * by)


def _cells(rect: Rect) -> Iterator[tuple[int, int]]:
    for i in range(floor(rect.x / _CELL), floor(rect.right / _CELL) + 1):
        for j in range(floor(rect.y / _CELL), floor(rect.bottom / _CELL) + 1):
            yield i, j


def holds(rect: Rect, other: Rect) -> bool:
    return (
        rect.x <= other.x and other.right <= rect.right
        and rect.y <= other.y and other.bottom <= rect.bottom
    )  # fmt: skip


def overlap(one: Rect, two: Rect) -> bool:
    return (
        one.x < two.right and two.x < one.right and one.y < two.bottom and two.y < one.bottom
    )  # fmt: skip


def crosses(rect: Rect, a: Point, b: Point) -> bool:
    """Whether a line goes through a rectangle (the part of it inside, by clipping)."""
    low, high = 0.0, 1.0
    for start, step, near, far in (
        (a[0], b[0] - a[0], rect.x, rect.right),
        (a[1], b[1] - a[1], rect.y, rect.bottom),
    ):
        if step == 0:
            if not near < start < far:
                return False
            continue
        first, second = sorted(((near - start) / step, (far - start) / step))
        low, high = max(low, first), min(high, second)
    return low < high
