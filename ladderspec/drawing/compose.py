"""Graph and options -> Picture -> Scene: the stages of a drawing, once each and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from ladderspec.drawing import frame
from ladderspec.drawing.boxes import box_of
from ladderspec.drawing.label_placement import ArrowLine, Obstacles, place_labels
from ladderspec.drawing.layout import Layout, lay_out
from ladderspec.drawing.legend import Legend, entries, place_legend
from ladderspec.drawing.options import (
    Options,
    View,
    check_choice,
    check_length,
    check_options,
    view_of,
)
from ladderspec.drawing.paths import curve_of, square_positions, square_size
from ladderspec.drawing.picture import Change, Picture, picture_of
from ladderspec.drawing.scene import Backdrop, Box, Ink, Mark, Rect, Rule, Scene, Text, Wire
from ladderspec.drawing.style import MARGIN, PAPER, TIME_SIZE, TITLE_SIZE, Theme, ink_of, theme_of
from ladderspec.drawing.transforms import compare, fold, set_worth
from ladderspec.drawing.typesetting import height_of_runs, plain
from ladderspec.errors import UsageError
from ladderspec.wiring.graph import Graph

_LEGEND_WIDTH = 250.0  # minimum
_SPREADS = (1.0, 1.4, 2.0, 2.8)  # of gaps, tried in turn until all labels are clear


class Drawing:
    """One picture with its options; every format is written from it."""

    def __init__(self, what: Any, options: Options) -> None:
        check_options(options)
        self.view = view_of(options)
        self.layout = options.get("layout", "ladder")
        self.graph = graph_of(what)
        check_length(self.view, self.graph)
        self.picture = _picture(self.graph, options)

    @cached_property
    def scene(self) -> Scene:
        return compose(self.picture, self.view)


def graph_of(what: Any) -> Graph:
    """The graph of a spec or of its file; a graph is returned unchanged."""
    from ladderspec.api import graph

    return graph(what)


def _picture(graph: Graph, options: Options) -> Picture:
    plan = options.get("plan", False)
    if plan is True:
        from ladderspec.schedule.plan import schedule

        plan = {node: phase.kind for phase in schedule(graph).phases for node in phase.nodes}
    elif plan:
        for node, phase in plan.items():
            check_choice("node", node, graph, "plan: ")
            check_choice("phase", phase, PAPER.phases, f"plan of `{node}`: ")
    picture = picture_of(graph, plan or None)
    if options.get("base") is not None:
        picture = compare(picture_of(graph_of(options["base"])), picture)
        if not picture.is_comparison:
            raise UsageError("nothing to compare: both are the same network")
    worth = options.get("worth")
    return set_worth(picture, graph, worth) if worth else picture


# --- scene ----------------------------------------------------------------------------------------


def compose(picture: Picture, view: View) -> Scene:
    """Everything that is drawn, with its position and its ink."""
    theme = theme_of(view.theme)
    picture = fold(picture) if view.fold else picture
    for spread in _SPREADS:
        layout = lay_out(picture, view, spread)
        ladder, clear = _ladder(layout, theme)
        if clear:
            break
    legend = _legend(layout, ladder, theme)
    texts = (*ladder.texts, *legend.texts)
    width = max([layout.right, *(text.rect.right for text in texts)]) + MARGIN
    return ladder._replace(
        width=width,
        height=legend.bottom + MARGIN,
        texts=texts,
        samples=legend.samples,
        scale=min(1.0, view.width / width) if view.width else 1.0,
    )


def _ladder(layout: Layout, theme: Theme) -> tuple[Scene, bool]:
    """The scene without its legend, and whether all labels are clear of everything."""
    grid, places, lanes = layout.grid, layout.places, layout.lanes
    boxes, texts = tuple(_boxes(layout, theme)), tuple(_texts(layout, theme))
    plates = tuple(frame.plate_panels(layout.plates, places, lanes, theme, layout.outside))
    rules = tuple(frame.iteration_rules(grid, places, lanes, theme))
    wires, clear = _wires(layout, _obstacles(layout, [*boxes, *texts], plates, rules), theme)
    scene = Scene(
        width=0,
        height=0,
        background=theme.background,
        title=layout.title or layout.picture.title,
        description=_description(layout),
        panels=(*frame.phase_panels(grid, places, theme), *plates),
        rules=rules,
        wires=wires,
        boxes=boxes,
        texts=texts,
    )
    return scene, clear


def _boxes(layout: Layout, theme: Theme) -> Iterator[Box]:
    for spot, part in layout.grid.parts.items():
        rect, iteration = layout.places.box(spot), layout.grid.columns[spot.column].iteration
        yield box_of(part, layout.contents[spot], rect, iteration, theme, layout.sizes)


def _texts(layout: Layout, theme: Theme) -> Iterator[Text]:
    places = layout.places
    yield from frame.levels(layout.levels, places, layout.levels_end, theme)
    yield from frame.times(layout.grid, places, layout.view, theme)
    for route, traced in zip(layout.routes, layout.traces, strict=True):
        if route.link.origin:
            x, y = traced.corners[0]
            size, (above, below) = layout.sizes.detail, height_of_runs(route.link.origin)
            base = y + size * (above - below) / 2
            removed = route.link.arrow.change is Change.REMOVED
            colour = theme.removed.colour if removed else theme.faint
            yield Text(x - 3, base, size, route.link.origin, colour, "end")
    if layout.title:
        at = (places.columns[0].start, MARGIN + TITLE_SIZE)
        yield Text(*at, TITLE_SIZE, plain(layout.title, "bold"), theme.text, "start")


def _legend(layout: Layout, ladder: Scene, theme: Theme) -> Legend:
    """Below the ladder; it starts at the left margin if the ladder is narrow."""
    view, places = layout.view, layout.places
    found = []
    if view.legend if view.legend is not None else not view.mini:
        found = list(entries(layout.picture, ladder.wires, ladder.boxes, view.worth_of, theme))
    below = TIME_SIZE + 10 if frame.has_times(layout.grid, view) else 2
    top = places.extent.bottom + below + (8 if found else 0)
    left = places.columns[0].start
    if layout.right - left < _LEGEND_WIDTH:
        left = MARGIN
    return place_legend(found, theme, (left, top), max(layout.right - left, _LEGEND_WIDTH))


def _description(layout: Layout) -> str:
    """A description for readers who cannot see the picture."""
    parts, arrows = layout.picture.parts.values(), layout.picture.arrows
    sides = {side: sum(part.side == side for part in parts) for side in ("encoder", "decoder")}
    delayed = sum(arrow.delay > 0 for arrow in arrows)
    return (
        f"A ladder of {len(layout.grid.rows)} levels, {layout.view.kind}:"
        f" {sides['encoder']} encoder and {sides['decoder']} decoder nodes,"
        f" {len(arrows)} arrows, {delayed} of them delayed."
    )


# --- arrows ---------------------------------------------------------------------------------------


def _obstacles(
    layout: Layout, items: Sequence[Box | Text], plates: Sequence[Backdrop], rules: Sequence[Rule]
) -> Obstacles:
    """Everything that labels must not touch, except the arrows."""
    extent, left = layout.places.extent, layout.outside
    obstacles = Obstacles(Rect(extent.x - left, extent.y, extent.width + left, extent.height))
    for item in items:
        obstacles.add_rect(item.rect)
    for plate in plates:
        (x, y, _, _), right, bottom = plate.rect, plate.rect.right, plate.rect.bottom
        obstacles.add_line([(x, y), (right, y), (right, bottom), (x, bottom), (x, y)], 1.0)
        if plate.label:
            obstacles.add_rect(plate.label.rect)
    for rule in rules:
        obstacles.add_line([rule.start, rule.end], rule.ink.width)
    return obstacles


def _wires(layout: Layout, obstacles: Obstacles, theme: Theme) -> tuple[tuple[Wire, ...], bool]:
    """The arrows with their squares and labels, and whether all labels are clear of everything."""
    links = [route.link for route in layout.routes]
    largest = layout.picture.largest_worth
    inks = [ink_of(link.arrow, theme, largest) for link in links]
    lines = [
        ArrowLine(traced, ink.width, square_size(ink.width) if link.delayed else 0.0, link.label)
        for traced, ink, link in zip(layout.traces, inks, links, strict=True)
    ]
    marks: dict[int, Mark] = {}
    if any(line.label or line.square for line in lines):
        for line in lines:
            obstacles.add_line(line.points, line.width)
        marks = {i: _mark(line, obstacles, inks[i]) for i, line in enumerate(lines) if line.square}
    labels, clear = place_labels(lines, obstacles, layout.sizes.label, theme.text)
    wires = []
    for index, (link, ink) in enumerate(zip(links, inks, strict=True)):
        arrow, label = link.arrow, labels.get(index)
        if label and arrow.change is Change.REMOVED:
            label = label._replace(colour=theme.removed.colour)
        wires.append(
            Wire(
                *curve_of(layout.traces[index], ink.width), ink, *arrow.edge, arrow.role,
                arrow.delay, link.iteration, marks.get(index), label, link.source is None,
            )
        )  # fmt: skip
    return tuple(wires), clear


def _mark(line: ArrowLine, obstacles: Obstacles, ink: Ink) -> Mark:
    """The square of a delayed arrow, on no other line if possible."""
    side = line.square
    rects = [Rect(x - side / 2, y - side / 2, side, side) for x, y in square_positions(line.trace)]
    best = min(rects, key=lambda rect: obstacles.lines_through(rect) + len(obstacles.covered(rect)))
    obstacles.add_rect(best)
    return Mark(best.centre, side, ink.colour)
