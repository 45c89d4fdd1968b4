"""Graph and options -> Picture -> Scene: the stages of a drawing, once each and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from ladderspec.drawing import frame
from ladderspec.drawing.boxes import box_of, halo_of
from ladderspec.drawing.label_placement import (
    ArrowLine,
    Obstacles,
    place_labels,
    place_squares,
)
from ladderspec.drawing.layout import Layout, lay_out
from ladderspec.drawing.legend import LegendEntry, entries, place_legend
from ladderspec.drawing.options import (
    DPI,
    Options,
    View,
    check_choice,
    check_length,
    check_options,
    view_of,
)
from ladderspec.drawing.paths import curve_of
from ladderspec.drawing.picture import Change, Picture, picture_of
from ladderspec.drawing.scene import (
    Backdrop,
    Box,
    Point,
    Rect,
    Rule,
    Scene,
    Text,
    Wire,
    moved,
)
from ladderspec.drawing.style import (
    MINI_SCALE,
    OTHER_FONTS,
    PAPER,
    TITLE_SIZE,
    Sizes,
    Theme,
    ink_of,
    sizes_of,
    theme_of,
)
from ladderspec.drawing.transforms import compare, merge_rows, number_rows, set_worth
from ladderspec.drawing.typesetting import (
    Face,
    height_of_runs,
    plain,
    width_of,
)
from ladderspec.errors import UsageError
from ladderspec.wiring.graph import Graph

_LEGEND_WIDTH, _LEGEND_OF_PAGE = 250.0, 560.0  # minimum of a drawing, maximum in a page
_SPREADS = (1.0, 1.4, 2.0, 2.8)  # of gaps, tried in turn until all labels are clear


class Drawing:
    """One picture with its options, perhaps with others beside it; formats are written from it."""

    def __init__(self, what: Any, options: Options) -> None:
        check_options(options)
        self.view = view_of(options)
        self.layout = options.get("layout", "ladder")
        self.dpi = options.get("dpi", DPI)
        self.graph = graph_of(what)
        check_length(self.view, self.graph)
        self.picture = _picture(self.graph, options)
        self.beside = [picture_of(graph_of(each)) for each in options.get("beside") or ()]
        self.variants: dict[str, Graph] = {
            name: graph_of(each) for name, each in (options.get("variants") or {}).items()
        }

    @cached_property
    def scene(self) -> Scene:
        if self.beside:
            return compose_beside([self.picture, *self.beside], self.view)
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
    picture = number_rows(merge_rows(picture, view), view)
    for spread in _SPREADS:
        layout = lay_out(picture, view, spread)
        ladder, clear = _ladder(layout, theme)
        if clear:
            break
    scene = _below(layout, ladder, theme)
    return _scaled(_titled(scene, layout.title, layout.sizes, theme), view)


def _scaled(scene: Scene, view: View) -> Scene:
    scales = [MINI_SCALE if view.mini else 1.0]
    scales += [view.width / scene.width] if view.width else []
    scales += [view.height / scene.height] if view.height else []
    return scene._replace(scale=min(scales))


def compose_beside(pictures: Sequence[Picture], view: View) -> Scene:
    """Several networks side by side, with their titles below them and one legend."""
    theme = theme_of(view.theme)
    alone = view._replace(legend=False, title="")
    scenes = [compose(picture, _shown_alone(picture, alone)) for picture in pictures]
    sizes = sizes_of(pictures[0], view)
    size, tallest = sizes.label, max(scene.height for scene in scenes)
    x, deepest = 0.0, tallest
    panels: list[Scene] = []
    captions: list[Text] = []
    for number, (picture, scene) in enumerate(zip(pictures, scenes, strict=True)):
        letter = "abcdefghijklmnopqrstuvwxyz"[number % 26]
        lines = _wrapped_words(f"({letter}) {picture.title}", max(scene.width, 11 * size), size)
        width = max([scene.width, *(width_of(line, size) * OTHER_FONTS for line in lines)])
        for i, line in enumerate(lines):
            base = tallest + size * (1.2 + 1.2 * i)
            captions.append(Text(x + width / 2, base, size, plain(line), theme.text))
        deepest = max(deepest, tallest + size * (0.6 + 1.2 * len(lines)))
        left = x + (width - scene.width) / 2
        panels.append(_named(moved(scene, left, tallest - scene.height), letter))
        x += width + _PANEL_GAP
    whole = Scene(
        width=x - _PANEL_GAP,
        height=deepest,
        background=theme.background,
        title=view.title or pictures[0].title,
        description=" ".join(scene.description for scene in scenes),
        panels=tuple(chain.from_iterable(panel.panels for panel in panels)),
        rules=tuple(chain.from_iterable(panel.rules for panel in panels)),
        wires=tuple(chain.from_iterable(panel.wires for panel in panels)),
        boxes=tuple(chain.from_iterable(panel.boxes for panel in panels)),
        texts=(*chain.from_iterable(panel.texts for panel in panels), *captions),
    )
    if view.legend is not False:
        found = {
            entry.text: entry
            for picture, scene in zip(pictures, scenes, strict=True)
            for entry in entries(picture, scene.wires, scene.boxes, view.worth_of, theme)
        }
        at, width = (sizes.margin, deepest + size * 0.5), whole.width - sizes.margin
        whole = _with_legend(whole, list(found.values()), theme, sizes, at, width)
        whole = whole._replace(height=whole.height + sizes.margin)
    return _scaled(_titled(whole, view.title, sizes, theme), view)


_PANEL_GAP = 26.0


def _shown_alone(picture: Picture, view: View) -> View:
    """The view for a network that may have no delays, or lack levels that others have."""
    levels = picture.levels
    show = view.show and tuple(p for p in view.show if any(each.matches([p]) for each in levels))
    return view._replace(start=view.start and picture.has_delays, show=show)


def _named(scene: Scene, letter: str) -> Scene:
    """The nodes of a panel, with names that no other panel has."""
    return scene._replace(
        boxes=tuple(box._replace(node=f"{letter}:{box.node}") for box in scene.boxes),
        wires=tuple(
            wire._replace(source=f"{letter}:{wire.source}", target=f"{letter}:{wire.target}")
            for wire in scene.wires
        ),
    )


def compose_legend(picture: Picture, view: View, scene: Scene) -> Scene:
    """The legend of a scene by itself."""
    theme = theme_of(view.theme)
    found = list(entries(picture, scene.wires, scene.boxes, view.worth_of, theme))
    sizes = sizes_of(picture, view)
    bare = Scene(0.0, 0.0, scene.background, scene.title, scene.description)
    legend = _with_legend(bare, found, theme, sizes, (0.0, 0.0), _LEGEND_OF_PAGE)
    return legend._replace(width=legend.width + 4)


def _titled(scene: Scene, title: str | None, sizes: Sizes, theme: Theme) -> Scene:
    """The scene below its title, which is as wide as the scene at most."""
    if not title:
        return scene
    margin, size = sizes.margin, max(TITLE_SIZE, sizes.label)
    lines = _wrapped_words(title, scene.width - 2 * margin, size, "bold")
    widths = [width_of(line, size, "bold") * OTHER_FONTS + 2 * margin for line in lines]
    width, pitch = max(scene.width, *widths), size * 1.2
    texts = [
        Text(margin, margin + size + i * pitch, size, plain(line, "bold"), theme.text, "start")
        for i, line in enumerate(lines)
    ]
    high = size * 0.7 + len(lines) * pitch
    below = moved(scene, 0, high)
    return below._replace(width=width, height=scene.height + high, texts=(*below.texts, *texts))


def _wrapped_words(text: str, width: float, size: float, face: Face = "sans") -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, size, face) * OTHER_FONTS > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _ladder(layout: Layout, theme: Theme) -> tuple[Scene, bool]:
    """The scene without its legend, and whether all labels are clear of everything."""
    grid, places, lanes = layout.grid, layout.places, layout.lanes
    boxes, texts = tuple(_boxes(layout, theme)), tuple(_texts(layout, theme))
    plates = tuple(frame.plate_panels(layout.plates, places, lanes, theme, layout.outside))
    rules = tuple(frame.iteration_rules(texts, grid, places, lanes, layout.view, theme))
    wires, clear = _wires(layout, _obstacles(layout, [*boxes, *texts], plates, rules), theme)
    scene = Scene(
        width=0,
        height=0,
        background=theme.background,
        title=layout.title or layout.picture.title,
        description=_description(layout),
        panels=(*frame.phase_panels(grid, places, theme), *plates, *_halos(layout, boxes, theme)),
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


def _halos(layout: Layout, boxes: Sequence[Box], theme: Theme) -> Iterator[Backdrop]:
    for box in boxes:
        halo = halo_of(layout.picture.parts[box.node], box, theme)
        if halo:
            yield halo


def _texts(layout: Layout, theme: Theme) -> Iterator[Text]:
    places = layout.places
    yield from frame.levels(layout.levels, places, layout.levels_end, theme)
    yield from frame.values(layout.grid, places, layout.view, theme)
    yield from frame.times(layout.grid, places, layout.view, theme)
    for route, traced in zip(layout.routes, layout.traces, strict=True):
        if route.link.origin:
            x, y = traced.corners[0]
            size, (above, below) = layout.sizes.detail, height_of_runs(route.link.origin)
            base = y + size * (above - below) / 2
            removed = route.link.arrow.change is Change.REMOVED
            colour = theme.removed.colour if removed else theme.faint
            yield Text(x - 3, base, size, route.link.origin, colour, "end")


def _below(layout: Layout, ladder: Scene, theme: Theme) -> Scene:
    """The ladder with the legend below it, and a margin around both."""
    view, sizes, margin = layout.view, layout.sizes, layout.sizes.margin
    found = []
    if view.legend if view.legend is not None else not view.mini:
        found = list(entries(layout.picture, ladder.wires, ladder.boxes, view.worth_of, theme))
    bottom = layout.places.extent.bottom + frame.depth(layout.grid, view, sizes)
    start = (margin, bottom + (8 if found else 0))
    beyond = max(0.0, margin - min((text.rect.x for text in ladder.texts), default=margin))
    ladder = moved(ladder, beyond, 0.0) if beyond else ladder
    right = layout.right + beyond
    width = max([right, *(text.rect.right for text in ladder.labels())])
    limit = max(right - margin, _LEGEND_WIDTH)
    scene = _with_legend(ladder._replace(width=width), found, theme, sizes, start, limit)
    return scene._replace(width=scene.width + margin, height=scene.height + margin)


def _with_legend(
    scene: Scene,
    found: Sequence[LegendEntry],
    theme: Theme,
    sizes: Sizes,
    start: Point,
    width: float,
) -> Scene:
    """A scene that ends with its legend, which has room for a wider font."""
    legend = place_legend(found, theme, sizes, start, width)
    rights = [text.left + text.width * OTHER_FONTS for text in legend.texts]
    return scene._replace(
        width=max([scene.width, *rights]),
        height=legend.bottom,
        texts=(*scene.texts, *legend.texts),
        samples=legend.samples,
    )


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
    width = left + extent.width + layout.label_room
    obstacles = Obstacles(Rect(extent.x - left, extent.y, width, extent.height))
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
        ArrowLine(traced, ink, link.label, link.delayed, link.steps)
        for traced, ink, link in zip(layout.traces, inks, links, strict=True)
    ]
    if any(line.label or line.delayed for line in lines):
        for line in lines:
            obstacles.add_line(line.points, line.ink.width)
    marks = place_squares(lines, obstacles, layout.sizes.label)
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
