"""Label placement: squares and texts are near their arrow, clear of boxes, texts and other lines.

Each takes the best of many candidate positions. If a label still touches something, the layout is
repeated with wider gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import floor
from typing import NamedTuple

from ladderspec.drawing.paths import (
    BOW_DEPTH,
    Trace,
    between,
    curve_of,
    flat,
    square_positions,
    square_size,
)
from ladderspec.drawing.routing import PathForm
from ladderspec.drawing.scene import Anchor, Ink, Mark, Point, Rect, Text
from ladderspec.drawing.typesetting import Runs, height_of_runs, width_of_runs

# --- obstacles ------------------------------------------------------------------------------------

# The costs of a text close to something, right of the ladder, crossed by a line, on something.
_CLOSE, _BEYOND, STRUCK, COVERED = 4.0, 18.0, 20.0, 1000.0
_BUCKET = 48.0  # size of the buckets of the spatial index
_CLEARANCE = 1.0  # between a text and the edge of a line
_APART = 2.0  # between a square and anything else
_AROUND = 2.5  # between a text and anything else, if possible


class Obstacles:
    """A spatial index of rectangles that no text may cover, and of lines that none should touch."""

    def __init__(self, bounds: Rect) -> None:
        self.bounds = bounds  # texts stay inside; at the right they may extend beyond it
        self._rects: dict[tuple[int, int], list[Rect]] = defaultdict(list)
        self._lines: dict[tuple[int, int], list[tuple[Point, Point, float]]] = defaultdict(list)

    def add_rect(self, rect: Rect) -> None:
        for bucket in _buckets(rect):
            self._rects[bucket].append(rect)

    def add_line(self, corners: Sequence[Point], width: float) -> None:
        for a, b in pairwise(corners):
            low, high = (min(a[0], b[0]), min(a[1], b[1])), (max(a[0], b[0]), max(a[1], b[1]))
            for bucket in _buckets(Rect(*low, high[0] - low[0], high[1] - low[1])):
                self._lines[bucket].append((a, b, width / 2))

    def cost(self, rect: Rect) -> float:
        """The cost of a text in `rect`."""
        covered = len(self.covered(rect))
        close = len(self.covered(rect.grown(_AROUND))) - covered
        outside = not self.bounds.contains(rect._replace(width=0.0))
        beyond = rect.right > self.bounds.right
        return (
            COVERED * (covered + 2 * outside)
            + STRUCK * self.lines_through(rect)
            + _BEYOND * beyond
            + _CLOSE * (close > 0)
        )

    def lines_through(self, rect: Rect, besides: Sequence[Point] = ()) -> int:
        """The number of lines through `rect`, apart from the pieces of one line."""
        own = set(pairwise(besides))
        near = {
            line
            for bucket in _buckets(rect.grown(_CLEARANCE))
            for line in self._lines.get(bucket, ())
            if line[:2] not in own
        }
        return sum(crosses(rect.grown(_CLEARANCE + half), a, b) for a, b, half in near)

    def covered(self, rect: Rect) -> set[Rect]:
        """The rectangles that a text in `rect` would cover."""
        near = {other for bucket in _buckets(rect) for other in self._rects.get(bucket, ())}
        return {other for other in near if rect.overlaps(other)}


def _buckets(rect: Rect) -> Iterator[tuple[int, int]]:
    for i in range(floor(rect.x / _BUCKET), floor(rect.right / _BUCKET) + 1):
        for j in range(floor(rect.y / _BUCKET), floor(rect.bottom / _BUCKET) + 1):
            yield i, j


def crosses(rect: Rect, a: Point, b: Point) -> bool:
    """Whether a line crosses a rectangle (Liang-Barsky clipping)."""
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


# --- labels ---------------------------------------------------------------------------------------

_AIR = 1.9  # between the edge of a line and its label
_RANK_COST = 0.05  # by how much a later candidate is worse
_FROM_MIDDLE = (0.5, 0.4, 0.6, 0.28, 0.72, 0.16, 0.84, 0.06, 0.94)
_LOW = (0.26, 0.22, 0.3, 0.18, 0.34, 0.14, 0.38, 0.42, 0.46, 0.5, 0.6, 0.72, 0.84)
_FROM_START = (0.2, *(k / 20 for k in range(2, 19)))  # near the start, as in the paper
_FINE = tuple(k / 48 for k in range(2, 47))


class ArrowLine(NamedTuple):
    """The line of an arrow, with its label."""

    trace: Trace
    ink: Ink
    label: Runs = ()
    delayed: bool = False  # drawn with a square
    steps: Runs = ()  # the number beside the square

    @property
    def square(self) -> float:
        """The side of the square on it."""
        return square_size(self.ink.width) if self.delayed else 0.0

    @property
    def is_level(self) -> bool:
        """Whether it is straight along a row: there are few places for its label."""
        (_, a), (_, b) = self.trace.main
        return self.trace.form is PathForm.STRAIGHT and a == b

    @property
    def points(self) -> Sequence[Point]:
        """Including its rounded turns."""
        start, found, tip = curve_of(self.trace, self.ink.width)
        return [*flat(start, found, 4), tip]


def place_labels(
    lines: Sequence[ArrowLine], obstacles: Obstacles, size: float, colour: str
) -> tuple[dict[int, Text], bool]:
    """The labels by index of their line, and whether all of them are clear of everything.

    `obstacles` contain the lines already.
    """
    found: dict[int, Text] = {}
    clear = True
    labelled = [index for index, line in enumerate(lines) if line.label]
    for index in sorted(labelled, key=lambda index: not lines[index].is_level):
        cost, found[index] = _best_label(lines[index], obstacles, size, colour)
        obstacles.add_rect(found[index].rect)
        clear = clear and cost < STRUCK
    return found, clear


def _best_label(
    line: ArrowLine, obstacles: Obstacles, size: float, colour: str
) -> tuple[float, Text]:
    """The first candidate without cost, or the cheapest one."""
    best: tuple[float, Text] | None = None
    for rank, (x, y, anchor) in enumerate(_positions(line, size)):
        text = Text(x, y, size, line.label, colour, anchor)
        cost = obstacles.cost(text.rect) + _RANK_COST * rank
        if best is None or cost < best[0]:
            best = cost, text
        if best[0] <= _RANK_COST * (rank + 1):
            break  # all later ones are worse
    assert best is not None
    return best


class _Reach(NamedTuple):
    """How far a label extends from its base line, and its distance to its line."""

    above: float
    below: float
    air: float


_Position = tuple[float, float, Anchor]


def _positions(line: ArrowLine, size: float) -> Iterator[_Position]:
    """Candidates for the anchor on the base line, best first.

    A label beside a line is anchored at its near end, so that wider fonts do not touch the line.
    """
    traced = line.trace
    above, below = (size * height for height in height_of_runs(line.label))
    reach = _Reach(above, below, _AIR + max(line.ink.width, line.square) / 2)
    if traced.form is PathForm.BOW:
        yield from _beside_bow(traced, reach)
        return
    (ax, _), (bx, _) = traced.main
    shares = _FROM_START if traced.form is PathForm.ORTHOGONAL else _FROM_MIDDLE
    if traced.form is PathForm.STRAIGHT and abs(bx - ax) < 0.01:
        shares = _LOW  # arrows up and down beside each other have their labels at two heights
    yield from _beside_line(*traced.main, shares, reach)
    reach = reach._replace(air=_AIR + line.ink.width / 2)
    yield from _beside_line(*traced.main, _FINE, reach)
    for side in pairwise(traced.corners):
        if side != traced.main:
            yield from _beside_line(*side, _FINE[::2], reach)


def _beside_bow(traced: Trace, reach: _Reach) -> Iterator[_Position]:
    (ax, y), (bx, _) = traced.main
    for share in (0.5, 0.4, 0.6, 0.3, 0.7):
        x = ax + (bx - ax) * share
        yield (x, y + BOW_DEPTH + reach.air + reach.above, "middle")
        yield (x, y - reach.air - reach.below, "middle")


def _beside_line(a: Point, b: Point, shares: Sequence[float], reach: _Reach) -> Iterator[_Position]:
    """Above, below, right or left of a straight line."""
    air = reach.air
    up, down = air + reach.below, air + reach.above
    for share in shares:
        x, y = between(a, b, share)
        if abs(b[1] - a[1]) < 0.01:
            yield (x, a[1] - up, "middle")
            yield (x, a[1] + down, "middle")
        elif abs(b[0] - a[0]) < 0.01:
            centred = y + (reach.above - reach.below) / 2
            yield (a[0] + air, centred, "start")
            yield (a[0] - air, centred, "end")
        else:
            yield (x + air, y + down, "start")
            yield (x - air, y - up, "end")
            yield (x + air, y - up, "start")
            yield (x - air, y + down, "end")


# --- squares --------------------------------------------------------------------------------------


def place_squares(lines: Sequence[ArrowLine], obstacles: Obstacles, size: float) -> dict[int, Mark]:
    """The squares of delayed arrows with their numbers, by index of their line."""
    found: dict[int, Mark] = {}
    for index, line in enumerate(lines):
        if line.delayed:
            found[index] = mark = min(
                _squares(line, size), key=lambda mark: _cost_of_square(mark, line, obstacles)
            )
            obstacles.add_rect(mark.rect)
            if mark.label:
                obstacles.add_rect(mark.label.rect)
    return found


def _cost_of_square(mark: Mark, line: ArrowLine, obstacles: Obstacles) -> float:
    cost = 100.0 * len(obstacles.covered(mark.rect.grown(_APART)))
    cost += 10.0 * obstacles.lines_through(mark.rect, line.points)
    return cost + (obstacles.cost(mark.label.rect) if mark.label else 0.0)


def _squares(line: ArrowLine, size: float) -> Iterator[Mark]:
    """Candidates, with the number of a square right of it, left, below or above."""
    above, below = (size * height for height in height_of_runs(line.steps))
    near = line.square / 2 + 1.5
    aside, middle = near + width_of_runs(line.steps, size) / 2, (above - below) / 2
    offsets = ((aside, middle), (-aside, middle), (0.0, near + above), (0.0, -near - below))
    for x, y in square_positions(line.trace):
        mark = Mark((x, y), line.square, line.ink.colour)
        if not line.steps:
            yield mark
            continue
        for dx, dy in offsets:
            yield mark._replace(label=Text(x + dx, y + dy, size, line.steps, mark.colour))
