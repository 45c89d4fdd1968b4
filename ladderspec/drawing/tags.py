"""Where the words beside arrows stand: next to their line, clear of boxes, words and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ladderspec.drawing.crowd import COVERED, STRUCK, Crowd
from ladderspec.drawing.dashes import flat
from ladderspec.drawing.maths import Run, reach_of, width_of_runs
from ladderspec.drawing.paths import DIP, Trace, segments
from ladderspec.drawing.scene import Point, Rect, Text
from ladderspec.drawing.ways import Form

Runs = tuple[Run, ...]
_AIR = 1.9  # between the edge of a line and its word
_RANK = 0.05  # by how much a later choice is worse
_ROUNDS = 3
_MIDDLE = (0.5, 0.4, 0.6, 0.28, 0.72, 0.16, 0.84, 0.06, 0.94)
_START = (0.2, *(k / 20 for k in range(2, 19)))  # near its start, as the paper does
_FINE = tuple(k / 48 for k in range(2, 47))


class Line(NamedTuple):
    """An arrow's line, as far as words have to know it."""

    trace: Trace
    width: float
    square: float = 0.0  # the side of the square on it
    words: Runs = ()

    @property
    def points(self) -> Sequence[Point]:
        """With its turns, which cut their corners."""
        start, found, tip = segments(self.trace, self.width)
        return [*flat(start, found, 4), tip]


def place(
    lines: Sequence[Line], crowd: Crowd, size: float, colour: str
) -> tuple[dict[int, Text], bool]:
    """A text for every line that has words, by its number; and whether all of them stand clear.

    The lines are in the crowd already.
    """
    if not any(line.words for line in lines):
        return {}, True
    writer = _Writer(lines, crowd, size, colour)
    for index, line in enumerate(lines):
        if line.words:
            writer.put(index)
    for _ in range(_ROUNDS):
        if not writer.improve():
            return writer.found, True
    return writer.found, False


class _Writer:
    def __init__(self, lines: Sequence[Line], crowd: Crowd, size: float, colour: str) -> None:
        self.lines, self.crowd, self.size, self.colour = lines, crowd, size, colour
        self.found: dict[int, Text] = {}
        self.owner: dict[Rect, int] = {}
        self.costs: dict[int, float] = {}

    def put(self, index: int) -> None:
        """At the first place where it disturbs nothing, or least."""
        best: tuple[float, Text] | None = None
        for rank, text in enumerate(self._choices(index)):
            cost = self.crowd.cost(text.rect) + _RANK * rank
            if best is None or cost < best[0]:
                best = cost, text
            if best[0] <= _RANK * (rank + 1):
                break  # all later ones are worse
        assert best is not None
        self._set(index, best[1], best[0])

    def improve(self) -> bool:
        """Words that disturb try again, and ask others to make room; whether some still do."""
        for index in self._disturbing():
            self._remove(index)
            self.put(index)
            if self.costs[index] >= STRUCK:
                self._ask(index)
        return bool(self._disturbing())

    def _disturbing(self) -> list[int]:
        return [index for index, cost in self.costs.items() if cost >= STRUCK]

    def _ask(self, index: int) -> None:
        """Take the place of one other word, where that one finds a better place than here."""
        for text in self._choices(index):
            cost = self.crowd.cost(text.rect)
            if not COVERED <= cost < COVERED + STRUCK:
                continue
            (rect,) = self.crowd.covered(text.rect)
            other = self.owner.get(rect)
            if other is None or other == index:
                continue
            before = dict(self.found), dict(self.costs)
            self._remove(index)
            self._remove(other)
            self._set(index, text, 0.0)
            self.put(other)
            if self.costs[other] < STRUCK:
                return
            for each in (index, other):
                self._remove(each)
                self._set(each, before[0][each], before[1][each])

    def _set(self, index: int, text: Text, cost: float) -> None:
        self.found[index], self.costs[index] = text, cost
        self.owner[text.rect] = index
        self.crowd.add_rect(text.rect)

    def _remove(self, index: int) -> None:
        rect = self.found.pop(index).rect
        del self.owner[rect]
        self.crowd.remove_rect(rect)

    def _choices(self, index: int) -> Iterator[Text]:
        line = self.lines[index]
        for x, y in _places(line, self.size):
            yield Text(x, y, self.size, line.words, self.colour)


class _Reach(NamedTuple):
    """How far a word reaches from the middle of its base line."""

    half: float
    above: float
    below: float
    air: float


def _places(line: Line, size: float) -> Iterator[Point]:
    """Middles of base lines, the best first."""
    traced, half = line.trace, width_of_runs(line.words, size) / 2
    height, depth = (size * part for part in reach_of(line.words))
    air = _AIR + max(line.width, line.square) / 2
    reach = _Reach(half, height, depth, air)
    if traced.form is Form.BOW:
        yield from _beside_bow(traced, reach)
        return
    main = traced.main
    shares = _START if traced.form is Form.STRETCHES else _MIDDLE
    yield from _beside(*main, shares, reach)
    reach = reach._replace(air=_AIR + line.width / 2)
    yield from _beside(*main, _FINE, reach)
    for side in pairwise(traced.corners):
        if side != main:
            yield from _beside(*side, _FINE[::2], reach)


def _beside_bow(traced: Trace, reach: _Reach) -> Iterator[Point]:
    (ax, y), (bx, _) = traced.main
    for share in (0.5, 0.4, 0.6, 0.3, 0.7):
        x = ax + (bx - ax) * share
        yield (x, y + DIP + reach.air + reach.above)
        yield (x, y - reach.air - reach.below)


def _beside(a: Point, b: Point, shares: Sequence[float], reach: _Reach) -> Iterator[Point]:
    """Above, below, right or left of a straight line."""
    half, height, depth, air = reach
    below, above = air + height, air + depth
    (ax, ay), (bx, by) = a, b
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
