"""Where the words beside arrows stand: next to their line, clear of boxes, words and lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import floor

from ladderspec.drawing.maths import Run, reach_of, width_of_runs
from ladderspec.drawing.paths import DIP, Trace, middle
from ladderspec.drawing.scene import Point, Rect, Text
from ladderspec.drawing.sizes import SQUARE
from ladderspec.drawing.ways import Form

Runs = tuple[Run, ...]
_CELL = 48.0  # size of the buckets in which things are found again
_AIR = 2.5  # between a line and its word


class Crowd:
    """What is on the sheet already, found by place."""

    def __init__(self) -> None:
        self._rects: dict[tuple[int, int], list[Rect]] = defaultdict(list)
        self._lines: dict[tuple[int, int], list[tuple[Point, Point]]] = defaultdict(list)

    def add_rect(self, rect: Rect) -> None:
        for cell in _cells(rect):
            self._rects[cell].append(rect)

    def add_line(self, corners: Sequence[Point]) -> None:
        for a, b in pairwise(corners):
            low, high = (min(a[0], b[0]), min(a[1], b[1])), (max(a[0], b[0]), max(a[1], b[1]))
            for cell in _cells(Rect(*low, high[0] - low[0], high[1] - low[1])):
                self._lines[cell].append((a, b))

    def cost(self, rect: Rect) -> float:
        """How much a word there would disturb."""
        rects = {other for cell in _cells(rect) for other in self._rects[cell]}
        lines = {line for cell in _cells(rect) for line in self._lines[cell]}
        blocked = sum(overlap(rect, other) for other in rects)
        around = Rect(rect.x - 1, rect.y - 1, rect.width + 2, rect.height + 2)
        return 100.0 * blocked + 6.0 * sum(crosses(around, *line) for line in lines)


def _cells(rect: Rect) -> Iterator[tuple[int, int]]:
    for i in range(floor(rect.x / _CELL), floor(rect.right / _CELL) + 1):
        for j in range(floor(rect.y / _CELL), floor(rect.bottom / _CELL) + 1):
            yield i, j


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


def place(
    words: Mapping[int, Runs],
    traces: Sequence[Trace],
    occupied: Iterable[Rect],
    size: float,
    colour: str,
    marked: set[int],
) -> dict[int, Text]:
    """A text for every arrow that has words; `marked`: arrows with a square."""
    if not words:
        return {}
    crowd = Crowd()
    for rect in occupied:
        crowd.add_rect(rect)
    for traced in traces:
        crowd.add_line(traced.corners)
    for index in marked:
        x, y = middle(traces[index])
        crowd.add_rect(Rect(x - SQUARE / 2, y - SQUARE / 2, SQUARE, SQUARE))
    found: dict[int, Text] = {}
    for index, runs in words.items():
        air = _AIR + (SQUARE / 2 if index in marked else 0)
        choices = [
            Text(x, y, size, runs, colour) for x, y in _choices(traces[index], runs, size, air)
        ]
        costs = [crowd.cost(text.rect) + 0.1 * rank for rank, text in enumerate(choices)]
        found[index] = choices[costs.index(min(costs))]
        crowd.add_rect(found[index].rect)
    return found


def _choices(traced: Trace, runs: Runs, size: float, air: float) -> Iterator[Point]:
    """Middles of base lines, the best first."""
    (ax, ay), (bx, by) = traced.main
    half = width_of_runs(runs, size) / 2
    height, depth = (size * part for part in reach_of(runs))
    below, above = air + height, air + depth
    if traced.form is Form.BOW:
        x = (ax + bx) / 2
        yield (x, ay + DIP + below)
        yield (x, ay - above)
        return
    shares = [0.5, 0.4, 0.6, 0.28, 0.72, 0.16, 0.84, 0.06, 0.94]
    if traced.form is Form.STRETCHES:
        shares = [0.2, *(k / 20 for k in range(2, 19))]  # near its start, as the paper does
    for share in shares:
        x, y = ax + (bx - ax) * share, ay + (by - ay) * share
        if abs(by - ay) < 0.01:
            yield (x, ay - above)
            yield (x, ay + below)
        elif abs(bx - ax) < 0.01:
            centred = y + (height - depth) / 2
            yield (ax + air + half, centred)
            yield (ax - air - half, centred)
        else:
            yield (x + air + half, y + below)
            yield (x - air - half, y - above)
            yield (x + air + half, y - above)
            yield (x - air - half, y + below)
