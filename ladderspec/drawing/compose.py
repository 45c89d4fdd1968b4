"""Picture -> scene: the rooms of the drawing, once each and in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ladderspec.drawing import frame
from ladderspec.drawing.arrange import Layout, arrange
from ladderspec.drawing.contents import write
from ladderspec.drawing.fold import fold
from ladderspec.drawing.legend import Key, entries, lay_out
from ladderspec.drawing.maths import plain, reach_of
from ladderspec.drawing.parts import Change, Part, Picture
from ladderspec.drawing.scene import Box, Ink, Panel, Rule, Scene, Text, Wire
from ladderspec.drawing.sizes import MARGIN, TIME_SIZE, TITLE_SIZE
from ladderspec.drawing.themes import Theme, theme_of
from ladderspec.drawing.view import View, check
from ladderspec.drawing.wires import crowd_of, wires_of

_LINE, _STATEFUL, _CHANGED = 1.2, 2.0, 3.2  # widths of outlines
_LEGEND = 250.0  # the least room for a legend
_APART = (1.0, 1.4, 2.0, 2.8)  # tried one after the other


def compose(picture: Picture, view: View) -> Scene:
    """Everything that is drawn, in its place and with its ink."""
    check(view)
    theme = theme_of(view.theme)
    stage = _set(fold(picture) if view.fold else picture, view, theme)
    layout, key = stage.layout, _legend(stage, theme)
    texts = (*stage.words, *key.texts)
    width = max([_right(layout), *(text.rect.right for text in texts)]) + MARGIN
    return Scene(
        width=width,
        height=key.rect.bottom + MARGIN,
        background=theme.background,
        title=layout.title or picture.title,
        description=_description(layout),
        panels=(*frame.phases(layout.sheet, layout.grid, theme), *stage.plates),
        rules=stage.rules,
        wires=stage.wires,
        boxes=stage.boxes,
        texts=texts,
        samples=key.samples,
        scale=min(1.0, view.width / width) if view.width else 1.0,
    )


class _Stage(NamedTuple):
    """The ladder, without its legend."""

    layout: Layout
    boxes: tuple[Box, ...]
    words: tuple[Text, ...]
    plates: tuple[Panel, ...]
    rules: tuple[Rule, ...]
    wires: tuple[Wire, ...]


def _set(picture: Picture, view: View, theme: Theme) -> _Stage:
    """As close as the words beside arrows allow: where they collide, everything moves apart."""
    for apart in _APART:
        layout = arrange(picture, view, apart)
        grid, sheet, tracks = layout.grid, layout.sheet, layout.tracks
        boxes = tuple(_boxes(layout, theme))
        words = tuple(_texts(layout, theme))
        plates = tuple(frame.frames(layout.plates, grid, tracks, theme, layout.outside))
        rules = tuple(frame.time_lines(sheet, grid, tracks, theme))
        crowd = crowd_of(layout, [*boxes, *words], plates, rules)
        wires, clear = wires_of(layout, crowd, theme)
        if clear:
            break
    return _Stage(layout, boxes, words, plates, rules, wires)


def _right(layout: Layout) -> float:
    return layout.grid.extent.right + frame.plate_room(layout.plates)[1]


def _legend(stage: _Stage, theme: Theme) -> Key:
    """Below the ladder; from the left margin where it would be cramped under the boxes."""
    layout = stage.layout
    view, grid = layout.view, layout.grid
    wanted = view.legend if view.legend is not None else not view.mini
    found = list(entries(layout.picture, stage.wires, stage.boxes, view.worth_of)) if wanted else []
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
            size, (above, below) = layout.sizes.facts, reach_of(route.link.origin)
            base = y + size * (above - below) / 2
            gone = route.link.arrow.change is Change.REMOVED
            colour = theme.removed.colour if gone else theme.faint
            yield Text(x - 3, base, size, route.link.origin, colour, "end")
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
            ink=outline(part, theme, layout.view.mini),
            fill=theme.background if removed else fill,
            node=part.name,
            iteration=layout.sheet.columns[spot.column].iteration,
            texts=tuple(texts),
            pills=tuple(pills),
            radius=layout.sizes.radius,
        )


def outline(part: Part, theme: Theme, mini: bool = False) -> Ink:
    """A thick line marks a cell with a state; in comparisons, a thicker one what is new."""
    if part.change is Change.REMOVED:
        return theme.removed
    colour = theme.coats[part.side].line
    if part.change in (Change.ADDED, Change.CHANGED):
        return Ink(colour, _CHANGED)
    stateful = getattr(part.cell, "stateful", False) and not mini
    return Ink(colour, _STATEFUL if stateful else _LINE)
