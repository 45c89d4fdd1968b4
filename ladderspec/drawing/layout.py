"""Picture -> Layout: rows and columns, routes, lanes, coordinates; nothing has a colour yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ladderspec.drawing import frame
from ladderspec.drawing.boxes import Content, content_of
from ladderspec.drawing.coordinates import Coordinates, coordinates_of
from ladderspec.drawing.grid import Channel, Grid, Spot, grid_of, vertical
from ladderspec.drawing.options import View
from ladderspec.drawing.paths import Trace, trace
from ladderspec.drawing.picture import Picture
from ladderspec.drawing.routing import Lanes, Route, assign_lanes, find_routes
from ladderspec.drawing.style import OTHER_FONTS, Sizes, sizes_of
from ladderspec.drawing.typesetting import Runs, width_of_runs

_SQUARE_ROOM = 3.0  # additional width of a lane with a square on it


class Layout(NamedTuple):
    """Everything that has a position."""

    view: View
    picture: Picture
    title: str
    plates: tuple[frame.Plate, ...]
    grid: Grid
    contents: Mapping[Spot, Content]
    routes: Sequence[Route]
    lanes: Lanes
    places: Coordinates
    traces: Sequence[Trace]
    levels: Sequence[Sequence[Runs]]  # the lines at the left of each row
    levels_end: float
    outside: float  # width of the texts at the start of arrows from iterations not shown

    @property
    def sizes(self) -> Sizes:
        return self.places.sizes

    @property
    def label_room(self) -> float:
        """Right of a ladder with one side: labels have no room between its columns."""
        has_lanes = vertical(len(self.grid.columns)) in self.lanes.channels
        return 0.0 if has_lanes else _room_beside(self.grid, self.routes, self.view, self.sizes)

    @property
    def right(self) -> float:
        return (
            self.places.extent.right
            + self.label_room
            + frame.plate_margins(self.plates, self.sizes)[1]
        )


def lay_out(picture: Picture, view: View, spread: float = 1.0) -> Layout:
    """Run the stages of the layout; gaps are `spread` times as wide."""
    sizes = sizes_of(picture, view).spread(spread)
    plates = frame.plates_of(view, picture)
    grid = grid_of(picture, view)
    routes = find_routes(grid)
    if len(grid.columns) == 1:  # labels are between the boxes and the lanes beside them
        beside = _room_beside(grid, routes, view, sizes)
        sizes = sizes._replace(aside=max(sizes.aside, beside))
    lanes = assign_lanes(routes, _label_rooms(routes, sizes), _rules(grid, plates, routes, sizes))
    contents = _contents(grid, view, sizes)
    levels = [frame.level_lines(level, view, sizes.level) for level in grid.rows]
    widths = [width_of_runs(runs, sizes.level) for lines in levels for runs in lines]
    levels_end = sizes.margin + max(widths, default=0.0) * OTHER_FONTS
    title = picture.title if view.title is None and picture.is_comparison else view.title or ""
    outside = _outside(grid, sizes)
    left = levels_end + sizes.beside_levels + frame.plate_margins(plates, sizes)[0] + outside
    rooms = _straight_label_rooms(routes, sizes)
    places = coordinates_of(grid, contents, lanes, rooms, sizes, (left, sizes.margin))
    traces = [trace(route, index, places, lanes) for index, route in enumerate(routes)]
    return Layout(
        view, picture, title, plates, grid, contents, routes, lanes, places, traces, levels,
        levels_end, outside,
    )  # fmt: skip


def _room_beside(grid: Grid, routes: Sequence[Route], view: View, sizes: Sizes) -> float:
    """The width of the labels of vertical arrows, if a mini view has one side only."""
    if not view.mini or len({column.side for column in grid.columns}) > 1:
        return 0.0
    labels = [route.link.label for route in routes if route.target.face.channel.axis == "H"]
    return max((width_of_runs(label, sizes.label) for label in labels), default=0.0)


def _rules(
    grid: Grid, plates: Sequence[frame.Plate], routes: Sequence[Route], sizes: Sizes
) -> list[tuple[Channel, float]]:
    """The channels with a line along them, and the room above it for labels inside a plate."""
    labelled = {
        route.link.target.row
        for route in routes
        if route.link.label and not route.legs and route.target.face.channel.axis == "V"
    }
    found = [(channel, 0.0) for channel in grid.iteration_borders()]
    for channel, plate, upper in frame.plate_edges(plates):
        crowded = not upper and plate.bottom in labelled
        found.append((channel, sizes.label * 1.1 if crowded else 0.0))
    return found


def _contents(grid: Grid, view: View, sizes: Sizes) -> dict[Spot, Content]:
    """The content of a box is the same in every iteration, except for tasks that read the last."""
    cache: dict[tuple[str, bool], Content] = {}
    found = {}
    for spot, part in grid.parts.items():
        last = grid.columns[spot.column].iteration == grid.iterations - 1
        if (part.name, last) not in cache:
            cache[part.name, last] = content_of(part, view, sizes, last)
        found[spot] = cache[part.name, last]
    return found


def _outside(grid: Grid, sizes: Sizes) -> float:
    widths = [width_of_runs(link.origin, sizes.detail) for link in grid.links if link.origin]
    return max(widths) + 4 if widths else 0.0


def _label_rooms(routes: Sequence[Route], sizes: Sizes) -> dict[int, float]:
    """The room that labels need beside their lane, by index of the route."""
    rooms: dict[int, float] = {}
    highest = max((route.link.origin_height(sizes.detail) for route in routes), default=0.0)
    for index, route in enumerate(routes):
        label = route.link.label
        if route.legs and label:
            horizontal = route.legs[route.longest_leg].channel.axis == "H"
            width = width_of_runs(label, sizes.label)
            rooms[index] = sizes.label * 1.1 if horizontal else width + 4
        elif route.legs and (route.link.origin or route.link.delayed):
            count = width_of_runs(route.link.steps, sizes.label)
            rooms[index] = max(_SQUARE_ROOM + count, highest - sizes.pitch)
    return rooms


def _straight_label_rooms(routes: Sequence[Route], sizes: Sizes) -> dict[Channel, float]:
    """The room that labels of straight arrows need in their channel."""
    rooms: dict[Channel, float] = defaultdict(float)
    for route in routes:
        label, channel = route.link.label, route.target.face.channel
        if label and not route.legs:
            width = width_of_runs(label, sizes.label) + sizes.label_air
            needed = width if channel.axis == "V" else sizes.label * 1.3 + 5
            rooms[channel] = max(rooms[channel], needed)
    return rooms
