"""Shapes as Graphviz draws them on the sheet itself: exactly as told, behind nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.drawing.scene import Panel, Point, Rect
from ladderspec.drawing.writers.words import number

_ROUND = 0.4477  # from a corner to a cubic's hands, per radius


def polygon(corners: Sequence[Point], fill: str) -> str:
    return f"{_colour('c', 'transparent')} {_colour('C', fill)} P {_points(corners)}"


def panel(each: Panel, rect: Rect) -> str:
    """`rect`: where the panel is, in the directions of Graphviz."""
    words = [_colour("c", each.ink.colour if each.ink else "transparent")]
    if each.ink:
        width = f"setlinewidth({number(each.ink.width)})"
        words.append(f"S {len(width)} -{width}")
    if each.fill:
        words.append(_colour("C", each.fill))
    outline = list(_outline(rect, min(each.radius, rect.height / 2)))
    return " ".join([*words, "b" if each.fill else "B", _points(outline)])


def _colour(what: str, colour: str) -> str:
    return f"{what} {len(colour)} -{colour}"


def _points(points: Sequence[Point]) -> str:
    return f"{len(points)} " + " ".join(f"{number(x)} {number(y)}" for x, y in points)


def _outline(rect: Rect, radius: float) -> Iterator[Point]:
    """A rectangle with round corners as cubic curves."""
    hand = radius * _ROUND
    corners = [
        (rect.x, rect.y, 1, 0), (rect.right, rect.y, 0, 1),
        (rect.right, rect.bottom, -1, 0), (rect.x, rect.bottom, 0, -1),
    ]  # fmt: skip
    here = (rect.x, rect.y + radius)
    yield here
    for index, (x, y, dx, dy) in enumerate(corners):
        # Into the corner along (dy, -dx), out of it along (dx, dy), straight to the next one.
        yield (x - dy * hand, y + dx * hand)
        yield (x + dx * hand, y + dy * hand)
        out = (x + dx * radius, y + dy * radius)
        yield out
        end_x, end_y, _, _ = corners[(index + 1) % 4]
        into = (end_x - dx * radius, end_y - dy * radius)
        yield from (out, into, into)
