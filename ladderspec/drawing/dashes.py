"""A line and its dashes -> the pieces that are inked, for formats with few dashes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from math import hypot

from ladderspec.drawing.scene import Point, Segment

_PIECES = 8  # straight pieces per curve


def pieces(
    start: Point, segments: Sequence[Segment], pattern: Sequence[float]
) -> Iterator[list[Point]]:
    """
    >>> list(pieces((0, 0), [(10, 0)], (4, 2)))
    [[(0, 0), (4.0, 0.0)], [(6.0, 0.0), (10.0, 0.0)]]
    """
    lengths = cycle(pattern)
    left, inked = next(lengths), True
    dash = [start]
    for a, b in pairwise(flat(start, segments)):
        length, done = hypot(b[0] - a[0], b[1] - a[1]), 0.0
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


def flat(start: Point, segments: Sequence[Segment], steps: int = _PIECES) -> Iterator[Point]:
    """A line as points, `steps` of them on each curve."""
    here = start
    yield here
    for segment in segments:
        if len(segment) == 2:
            here = (segment[0], segment[1])
            yield here
            continue
        hands = (here, segment[0:2], segment[2:4], segment[4:6])
        for step in range(1, steps + 1):
            t = step / steps
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (
                sum(w * hand[i] for w, hand in zip(weights, hands, strict=True)) for i in (0, 1)
            )
            yield (x, y)
        here = (segment[4], segment[5])
