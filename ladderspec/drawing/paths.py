"""Routes and coordinates -> the lines of arrows: corners, rounded turns, heads, squares, dashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from math import hypot
from typing import NamedTuple

from ladderspec.drawing.coordinates import Coordinates
from ladderspec.drawing.routing import SOURCE, TARGET, Lanes, PathForm, Route
from ladderspec.drawing.scene import Point, Segment
from ladderspec.drawing.style import HEAD_LENGTH, HEAD_NOTCH, HEAD_WIDTH, SQUARE, TURN

_CIRCLE = 0.5523  # distance of Bezier control points for a quarter of a circle, per radius
_USUAL_WIDTH = 3.0  # lines up to this width share one size of head
_FLAT_STEPS = 8  # straight pieces per curve
BOW_DEPTH = 8.0


class Trace(NamedTuple):
    """The corners of an arrow's line; its square and label are on the `main` side."""

    form: PathForm
    corners: tuple[Point, ...]
    main: tuple[Point, Point]


def trace(route: Route, index: int, places: Coordinates, lanes: Lanes) -> Trace:
    """The corners of a route; `index` is its number among all routes."""
    loop = route.form is PathForm.LOOP
    slot = lanes.slots.get((index, TARGET), 0)
    target = places.point(route.link.target, route.target, slot, loop)
    spot = route.link.source
    if spot is None or route.source is None:
        source = (places.extent.x, target[1])
    else:
        end = TARGET if route.form is PathForm.BOW else SOURCE
        source = places.point(spot, route.source, lanes.slots.get((index, end), 0), loop)
    if route.form is PathForm.ELBOW:
        turn = (target[0], source[1])
        return Trace(route.form, (source, turn, target), (source, turn))
    if not route.legs:
        return Trace(route.form, (source, target), (source, target))
    lines = [places.lanes[lanes.of_leg[index, number]] for number in range(len(route.legs))]
    corners = tuple(_corners(route, source, target, lines))
    first = route.longest_leg + (spot is not None)
    return Trace(route.form, corners, (corners[first], corners[first + 1]))


def _corners(route: Route, source: Point, target: Point, lines: Sequence[float]) -> Iterator[Point]:
    """From port to lane to lane to port; arrows from outside start on their lane."""
    x, y = source
    if route.source:
        yield source
    for leg, line in zip(route.legs, lines, strict=True):
        x, y = (x, line) if leg.channel.axis == "H" else (line, y)
        yield (x, y)
    yield (target[0], y) if route.legs[-1].channel.axis == "H" else (x, target[1])
    yield target


# --- curves ---------------------------------------------------------------------------------------


Curve = tuple[Point, tuple[Segment, ...], Point]  # start, line to the base of the head, tip


def curve_of(traced: Trace, width: float) -> Curve:
    if traced.form is not PathForm.BOW:
        return rounded(traced.corners, width)
    source, target = traced.corners
    reach = (target[0] - source[0]) * 0.28
    depth = BOW_DEPTH / 0.75
    controls = (source[0] + reach, source[1] + depth), (target[0] - reach, target[1] + depth)
    base = _towards(target, controls[1], HEAD_NOTCH * _head_scale(width))
    return source, ((*controls[0], *controls[1], *base),), target


def rounded(corners: Sequence[Point], width: float) -> Curve:
    """Straight lines with rounded turns."""
    tip = corners[-1]
    points = [*corners[:-1], _towards(tip, corners[-2], HEAD_NOTCH * _head_scale(width))]
    sides = [_distance(a, b) for a, b in pairwise(points)]
    radius = min([TURN, sides[0], sides[-1], *(side / 2 for side in sides[1:-1])])
    here, found = points[0], list[Segment]()
    for corner, after in pairwise(points[1:]):
        start, end = _towards(corner, here, radius), _towards(corner, after, radius)
        if _distance(here, start) > 0.01:
            found.append(start)
        control = radius * (1 - _CIRCLE)
        found.append((*_towards(corner, start, control), *_towards(corner, end, control), *end))
        here = end
    found.append(points[-1])
    return points[0], tuple(found), tip


def _distance(a: Point, b: Point) -> float:
    return hypot(b[0] - a[0], b[1] - a[1])


def between(a: Point, b: Point, share: float) -> Point:
    """The point at `share` of the line from a to b."""
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share)


def _towards(point: Point, target: Point, distance: float) -> Point:
    """The point `distance` away from `point` in the direction of `target`."""
    return between(point, target, distance / (_distance(point, target) or 1.0))


def end_of(segment: Segment) -> Point:
    return (segment[-2], segment[-1])


def flat(start: Point, segments: Sequence[Segment], steps: int = _FLAT_STEPS) -> Iterator[Point]:
    """A line as points, `steps` of them on each curve."""
    here = start
    yield here
    for segment in segments:
        if len(segment) == 2:
            here = (segment[0], segment[1])
            yield here
            continue
        controls = (here, segment[0:2], segment[2:4], segment[4:6])
        for step in range(1, steps + 1):
            t = step / steps
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (
                sum(w * control[i] for w, control in zip(weights, controls, strict=True))
                for i in (0, 1)
            )
            yield (x, y)
        here = (segment[4], segment[5])


def dashes(
    start: Point, segments: Sequence[Segment], pattern: Sequence[float]
) -> Iterator[list[Point]]:
    """The dashes of a line, for formats that know few dash patterns.

    >>> list(dashes((0, 0), [(10, 0)], (4, 2)))
    [[(0, 0), (4.0, 0.0)], [(6.0, 0.0), (10.0, 0.0)]]
    """
    lengths = cycle(pattern)
    left, inked = next(lengths), True
    dash = [start]
    for a, b in pairwise(flat(start, segments)):
        length, done = _distance(a, b), 0.0
        while length - done > left:
            done += left
            here = (a[0] + (b[0] - a[0]) * done / length, a[1] + (b[1] - a[1]) * done / length)
            if inked:
                yield [*dash, here]
            dash, left, inked = [here], next(lengths), not inked
        left -= length - done
        dash.append((float(b[0]), float(b[1])))
    if inked and len(dash) > 1:
        yield dash


# --- heads and squares ----------------------------------------------------------------------------


def square_positions(traced: Trace) -> Iterator[Point]:
    """Candidates for the square of a delayed arrow: on its main side, away from its head."""
    a, b = traced.main
    if traced.form is PathForm.BOW:
        start, segments, _ = curve_of(traced, SQUARE)
        points = list(flat(start, segments, 16))
        yield from (points[i] for i in (8, 6, 10, 5, 11))
        return
    if b == traced.corners[-1]:
        b = _towards(b, a, HEAD_LENGTH)
    # On a slant: clear of the bow in the next row.
    middle = (0.5, 0.42, 0.58, 0.34, 0.66, 0.25, 0.75, 0.18, 0.82, 0.1, 0.9)
    shares = (0.3, 0.5, 0.7, 0.2, 0.8) if traced.form is PathForm.SLANT else middle
    yield from (between(a, b, share) for share in shares)


def _head_scale(width: float) -> float:
    """How much larger the head of a thick line is."""
    return 1 + 0.25 * max(0.0, width - _USUAL_WIDTH)


def square_size(width: float) -> float:
    """The side of the square on a delayed arrow: always wider than its line."""
    return max(SQUARE, width + 4.0)


def head(base: Point, tip: Point, width: float) -> tuple[Point, Point, Point, Point]:
    """The four corners of an arrowhead: tip, wing, notch, wing."""
    scale = _head_scale(width)
    length = _distance(base, tip) or 1.0
    x, y = (tip[0] - base[0]) / length, (tip[1] - base[1]) / length
    back = (tip[0] - x * HEAD_LENGTH * scale, tip[1] - y * HEAD_LENGTH * scale)
    wide = HEAD_WIDTH * scale / 2
    notch = (tip[0] - x * HEAD_NOTCH * scale, tip[1] - y * HEAD_NOTCH * scale)
    left, right = ((back[0] - side * y * wide, back[1] + side * x * wide) for side in (1, -1))
    return (tip, left, notch, right)
