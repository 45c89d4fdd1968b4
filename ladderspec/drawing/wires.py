"""Layout -> wires: every arrow with its ink, its square and its words."""

from __future__ import annotations

from collections.abc import Sequence

from ladderspec.drawing import tags
from ladderspec.drawing.arrange import Layout
from ladderspec.drawing.crowd import Crowd
from ladderspec.drawing.parts import Change
from ladderspec.drawing.paths import middles, segments, square
from ladderspec.drawing.scene import Box, Ink, Mark, Panel, Rect, Rule, Text, Wire
from ladderspec.drawing.sheet import Link
from ladderspec.drawing.themes import Theme
from ladderspec.drawing.worth import ink_of


def crowd_of(
    layout: Layout, things: Sequence[Box | Text], plates: Sequence[Panel], rules: Sequence[Rule]
) -> Crowd:
    """All that words beside arrows keep clear of, but for the arrows."""
    extent, left = layout.grid.extent, layout.outside
    crowd = Crowd(Rect(extent.x - left, extent.y, extent.width + left, extent.height))
    for thing in things:
        crowd.add_rect(thing.rect)
    for plate in plates:
        (x, y, _, _), right, bottom = plate.rect, plate.rect.right, plate.rect.bottom
        crowd.add_line([(x, y), (right, y), (right, bottom), (x, bottom), (x, y)], 1.0)
        if plate.label:
            crowd.add_rect(plate.label.rect)
    for rule in rules:
        crowd.add_line([rule.start, rule.end], rule.ink.width)
    return crowd


def wires_of(layout: Layout, crowd: Crowd, theme: Theme) -> tuple[tuple[Wire, ...], bool]:
    """The wires, and whether all of their words stand clear."""
    heaviest = layout.picture.heaviest
    inks = [ink_of(route.link.arrow, theme, heaviest) for route in layout.routes]
    lines = [
        tags.Line(traced, ink.width, _square(route.link, ink), route.link.label)
        for traced, ink, route in zip(layout.traces, inks, layout.routes, strict=True)
    ]
    marks: dict[int, Mark] = {}
    if any(line.words or line.square for line in lines):
        for line in lines:
            crowd.add_line(line.points, line.width)
        marks = {i: _mark(line, crowd, inks[i]) for i, line in enumerate(lines) if line.square}
    labels, clear = tags.place(lines, crowd, layout.sizes.label, theme.text)
    for index, text in labels.items():
        if layout.routes[index].link.arrow.change is Change.REMOVED:
            labels[index] = text._replace(colour=theme.removed.colour)
    wires = [
        _wire(layout, index, ink, marks.get(index), labels.get(index))
        for index, ink in enumerate(inks)
    ]
    return tuple(wires), clear


def _square(link: Link, ink: Ink) -> float:
    return square(ink.width) if link.delayed else 0.0


def _mark(line: tags.Line, crowd: Crowd, ink: Ink) -> Mark:
    """A square on its own line alone, where there is a place for it."""
    side = line.square
    rects = [Rect(x - side / 2, y - side / 2, side, side) for x, y in middles(line.trace)]
    best = min(rects, key=lambda rect: crowd.lines_through(rect) + len(crowd.covered(rect)))
    crowd.add_rect(best)
    return Mark(best.centre, side, ink.colour)


def _wire(layout: Layout, index: int, ink: Ink, mark: Mark | None, label: Text | None) -> Wire:
    link = layout.routes[index].link
    arrow = link.arrow
    start, line, tip = segments(layout.traces[index], ink.width)
    return Wire(
        start, line, tip, ink, arrow.source, arrow.target, arrow.key, arrow.role, arrow.delay,
        link.iteration, mark, label, from_outside=link.source is None,
    )  # fmt: skip
