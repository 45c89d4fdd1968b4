"""Picture -> scene: the rooms of the drawing, once each and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.drawing import frame, tags
from ladderspec.drawing.arrange import Layout, arrange
from ladderspec.drawing.contents import write
from ladderspec.drawing.crowd import Crowd
from ladderspec.drawing.fold import fold
from ladderspec.drawing.legend import Key, entries, lay_out
from ladderspec.drawing.maths import plain
from ladderspec.drawing.parts import Change, Part, Picture
from ladderspec.drawing.paths import middle, segments, square
from ladderspec.drawing.scene import Box, Ink, Mark, Panel, Rect, Rule, Scene, Text, Wire
from ladderspec.drawing.sizes import MARGIN, TIME_SIZE, TITLE_SIZE
from ladderspec.drawing.themes import Theme, theme_of
from ladderspec.drawing.view import View, check
from ladderspec.drawing.worth import ink_of

_LINE, _STATEFUL, _CHANGED, _ADDED = 1.2, 2.0, 2.0, 2.6  # widths of outlines
_LEGEND = 250.0  # the least room for a legend


def compose(picture: Picture, view: View) -> Scene:
    """Everything that is drawn, in its place and with its ink."""
    check(view)
    theme = theme_of(view.theme)
    layout = arrange(fold(picture) if view.fold else picture, view)
    boxes = tuple(_boxes(layout, theme))
    words = tuple(_texts(layout, theme))
    grid, sheet, tracks = layout.grid, layout.sheet, layout.tracks
    plates = tuple(frame.frames(layout.plates, grid, tracks, theme, layout.outside))
    rules = tuple(frame.time_lines(sheet, grid, tracks, theme))
    crowd = _crowd(layout, [*boxes, *words], plates, rules)
    wires = tuple(_wires(layout, crowd, theme))
    key = _legend(layout, wires, boxes, theme)
    texts = (*words, *key.texts)
    return Scene(
        width=max([_right(layout), *(text.rect.right for text in texts)]) + MARGIN,
        height=key.rect.bottom + MARGIN,
        background=theme.background,
        title=layout.title or picture.title,
        description=_description(layout),
        panels=(*frame.phases(sheet, grid, theme), *plates),
        rules=rules,
        wires=wires,
        boxes=boxes,
        texts=texts,
        samples=key.samples,
    )


def _right(layout: Layout) -> float:
    return layout.grid.extent.right + frame.plate_room(layout.plates)[1]


def _legend(layout: Layout, wires: Sequence[Wire], boxes: Sequence[Box], theme: Theme) -> Key:
    """Below the ladder; from the left margin where it would be cramped under the boxes."""
    view, grid = layout.view, layout.grid
    wanted = view.legend if view.legend is not None else not view.mini
    found = list(entries(layout.picture, wires, boxes, view.worth_of)) if wanted else []
    below = TIME_SIZE + 10 if frame.has_times(layout.sheet, view) else 2
    top = grid.extent.bottom + below + (8 if found else 0)
    left, right = grid.columns[0].start, _right(layout)
    if right - left < _LEGEND:
        left = MARGIN
    return lay_out(found, theme, (left, top), max(right - left, _LEGEND))


def _texts(layout: Layout, theme: Theme) -> Iterator[Text]:
    grid = layout.grid
    yield from frame.levels(layout.levels, grid, layout.levels_end, theme)
    yield from frame.times(layout.sheet, grid, layout.view, theme)
    for route, traced in zip(layout.routes, layout.traces, strict=True):
        if route.link.origin:
            x, y = traced.corners[0]
            size = layout.sizes.facts
            yield Text(x - 3, y + size * 0.33, size, route.link.origin, theme.faint, "end")
    if layout.title:
        words = plain(layout.title, "bold")
        at = (grid.columns[0].start, MARGIN + TITLE_SIZE)
        yield Text(*at, TITLE_SIZE, words, theme.text, "start")


def _description(layout: Layout) -> str:
    """For who cannot see the picture."""
    parts, arrows = layout.picture.parts.values(), layout.picture.arrows
    sides = {side: sum(part.side == side for part in parts) for side in ("encoder", "decoder")}
    delayed = sum(arrow.delay > 0 for arrow in arrows)
    return (
        f"A ladder of {len(layout.sheet.rows)} levels, {layout.view.kind}:"
        f" {sides['encoder']} encoder and {sides['decoder']} decoder nodes,"
        f" {len(arrows)} arrows, {delayed} of them delayed."
    )


# --- boxes ----------------------------------------------------------------------------------------


def _boxes(layout: Layout, theme: Theme) -> Iterator[Box]:
    for spot, part in layout.sheet.parts.items():
        rect = layout.grid.box(spot)
        removed = part.change is Change.REMOVED
        texts, pills = write(layout.contents[spot], rect, theme, removed)
        fill = theme.coats[part.side].fill if layout.sizes.filled else theme.background
        yield Box(
            rect=rect,
            ink=_outline(part, layout, theme),
            fill=theme.background if removed else fill,
            node=part.name,
            iteration=layout.sheet.columns[spot.column].iteration,
            texts=tuple(texts),
            pills=tuple(pills),
            radius=layout.sizes.radius,
        )


def _outline(part: Part, layout: Layout, theme: Theme) -> Ink:
    """A thick line marks a cell with a state; in comparisons, what is new."""
    if part.change is Change.REMOVED:
        return theme.removed
    colour = theme.coats[part.side].line
    if layout.compares or layout.view.mini:
        widths = {Change.ADDED: _ADDED, Change.CHANGED: _CHANGED}
        return Ink(colour, widths.get(part.change, _LINE))
    return Ink(colour, _STATEFUL if getattr(part.cell, "stateful", False) else _LINE)


# --- wires ----------------------------------------------------------------------------------------


def _crowd(
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


def _wires(layout: Layout, crowd: Crowd, theme: Theme) -> Iterator[Wire]:
    links = [route.link for route in layout.routes]
    heaviest = layout.picture.heaviest
    inks = [ink_of(link.arrow, theme, heaviest) for link in links]
    lines = [
        tags.Line(traced, ink.width, square(ink.width) if link.delayed else 0.0, link.label)
        for traced, ink, link in zip(layout.traces, inks, links, strict=True)
    ]
    labels = tags.place(lines, crowd, layout.sizes.label, theme.text)
    for index, (link, traced) in enumerate(zip(links, layout.traces, strict=True)):
        arrow, ink = link.arrow, inks[index]
        start, line, tip = segments(traced, ink.width)
        mark = Mark(middle(traced), square(ink.width), ink.colour) if link.delayed else None
        yield Wire(
            start, line, tip, ink, arrow.source, arrow.target, arrow.key, arrow.role, arrow.delay,
            link.iteration, mark, labels.get(index), from_outside=link.source is None,
        )  # fmt: skip
