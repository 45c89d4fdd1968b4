"""Route and grid -> the line of an arrow: corners, round turns, the head, the square of a delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import hypot
from typing import NamedTuple

from ladderspec.drawing.grid import Grid
from ladderspec.drawing.scene import Point, Segment
from ladderspec.drawing.sizes import HEAD_LENGTH, HEAD_NOTCH, HEAD_WIDTH, SQUARE, TURN
from ladderspec.drawing.tracks import SOURCE, TARGET, Tracks, spoken
from ladderspec.drawing.ways import Form, Route

_ROUND = 0.5523  # how far a cubic's hands reach along a quarter of a circle
_USUAL = 3.0  # lines up to this width share one size of head
DIP = 8.0  # of a bow


class Trace(NamedTuple):
    """The corners of an arrow's line; `main` is where its middle, square and label are."""

    form: Form
    corners: tuple[Point, ...]
    main: tuple[Point, Point]


def trace(route: Route, index: int, grid: Grid, tracks: Tracks, edge: float) -> Trace:
    """`edge`: x of the start of arrows from outside."""
    target = grid.point(route.link.target, route.target, tracks.slot.get((index, TARGET), 0))
    spot = route.link.source
    if spot is None or route.source is None:
        source = (edge, target[1])
    else:
        end = TARGET if route.form is Form.BOW else SOURCE
        source = grid.point(spot, route.source, tracks.slot.get((index, end), 0))
    if route.form is Form.ELBOW:
        turn = (target[0], source[1])
        return Trace(route.form, (source, turn, target), (source, turn))
    if route.form is not Form.STRETCHES:
        return Trace(route.form, (source, target), (source, target))
    lines = [grid.lines[tracks.track[index, number]] for number in range(len(route.stretches))]
    corners = tuple(_corners(route, source, target, lines))
    first = spoken(route) + (spot is not None)
    return Trace(route.form, corners, (corners[first], corners[first + 1]))


def _corners(route: Route, source: Point, target: Point, lines: Sequence[float]) -> list[Point]:
    """From port to track to track to port; arrows from outside begin on their track."""
    x, y = source
    found = [source] if route.source else []
    for stretch, line in zip(route.stretches, lines, strict=True):
        x, y = (x, line) if stretch.gutter.axis == "H" else (line, y)
        found.append((x, y))
    if route.stretches[-1].gutter.axis == "H":
        found.append((target[0], y))
    else:
        found.append((x, target[1]))
    return [*found, target]


def segments(traced: Trace, width: float) -> tuple[Point, tuple[Segment, ...], Point]:
    """Start, line to the foot of the head, and the head's point."""
    if traced.form is Form.BOW:
        source, target = traced.corners
        return _bow(source, target, width)
    return rounded(traced.corners, width)


def _bow(source: Point, target: Point, width: float) -> tuple[Point, tuple[Segment, ...], Point]:
    reach = (target[0] - source[0]) * 0.28
    depth = DIP / 0.75
    hands = (source[0] + reach, source[1] + depth), (target[0] - reach, target[1] + depth)
    foot = _before(target, hands[1], HEAD_NOTCH * growth_of(width))
    return source, ((*hands[0], *hands[1], *foot),), target


def rounded(corners: Sequence[Point], width: float) -> tuple[Point, tuple[Segment, ...], Point]:
    """Straight lines with round turns."""
    tip = corners[-1]
    points = [*corners[:-1], _before(tip, corners[-2], HEAD_NOTCH * growth_of(width))]
    radius = _radius(points)
    here, found = points[0], list[Segment]()
    for corner, after in pairwise(points[1:]):
        into, out = _before(corner, here, radius), _before(corner, after, radius)
        if _distance(here, into) > 0.01:
            found.append(into)
        hand = radius * (1 - _ROUND)
        found.append((*_before(corner, into, hand), *_before(corner, out, hand), *out))
        here = out
    found.append(points[-1])
    return points[0], tuple(found), tip


def _radius(points: Sequence[Point]) -> float:
    """One for all turns of a line; a side between two turns serves both."""
    sides = [_distance(a, b) for a, b in pairwise(points)]
    return min([TURN, sides[0], sides[-1], *(side / 2 for side in sides[1:-1])])


def _distance(a: Point, b: Point) -> float:
    return hypot(b[0] - a[0], b[1] - a[1])


def _before(point: Point, towards: Point, by: float) -> Point:
    """`by` away from `point`, on the way to `towards`."""
    length = _distance(point, towards) or 1.0
    share = by / length
    return (
        point[0] + (towards[0] - point[0]) * share,
        point[1] + (towards[1] - point[1]) * share,
    )


def middles(traced: Trace) -> Iterator[Point]:
    """Where the square of an arrow may stand: on its main line, away from its head; best first."""
    (ax, ay), (bx, by) = traced.main
    if traced.form is Form.BOW:
        yield ((ax + bx) / 2, ay + DIP)
        return
    if traced.main[1] == traced.corners[-1]:
        bx, by = _before((bx, by), (ax, ay), HEAD_LENGTH)
    shares = (0.3, 0.5, 0.7) if traced.form is Form.SLANT else (0.5, 0.42, 0.58, 0.34, 0.66, 0.25)
    for share in shares:  # a slant: clear of the bow in the next row
        yield (ax + (bx - ax) * share, ay + (by - ay) * share)


def growth_of(width: float) -> float:
    """How much larger the head of a thick line is."""
    return 1 + 0.25 * max(0.0, width - _USUAL)


def square(width: float) -> float:
    """The side of the square on a delayed arrow: always to be told from its line."""
    return max(SQUARE, width + 4.0)


def head(foot: Point, tip: Point, width: float) -> tuple[Point, Point, Point, Point]:
    """The four corners of an arrow's head: point, wing, notch, wing."""
    growth = growth_of(width)
    length = _distance(foot, tip) or 1.0
    x, y = (tip[0] - foot[0]) / length, (tip[1] - foot[1]) / length
    back = (tip[0] - x * HEAD_LENGTH * growth, tip[1] - y * HEAD_LENGTH * growth)
    wide = HEAD_WIDTH * growth / 2
    notch = (tip[0] - x * HEAD_NOTCH * growth, tip[1] - y * HEAD_NOTCH * growth)
    left, right = ((back[0] - side * y * wide, back[1] + side * x * wide) for side in (1, -1))
    return (tip, left, notch, right)


def end_of(segment: Segment) -> Point:
    return (segment[-2], segment[-1])
