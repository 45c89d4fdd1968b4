"""Picture -> layout: rows and columns, ways, tracks, coordinates; nothing has ink yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ladderspec.drawing import frame
from ladderspec.drawing.contents import Content, content_of
from ladderspec.drawing.grid import Grid, fit
from ladderspec.drawing.maths import Run, width_of_runs
from ladderspec.drawing.parts import Picture
from ladderspec.drawing.paths import Trace, trace
from ladderspec.drawing.routes import find_routes
from ladderspec.drawing.sheet import Sheet, Spot, lay
from ladderspec.drawing.sizes import (
    FULL,
    LEVEL_SIZE,
    MARGIN,
    MINI,
    ROLLED,
    THICK_PITCH,
    TITLE_SIZE,
    Sizes,
)
from ladderspec.drawing.tracks import Tracks, share_out, spoken
from ladderspec.drawing.view import Plate, View, plates_of
from ladderspec.drawing.ways import Form, Gutter, Route

Runs = tuple[Run, ...]
_BESIDE_LEVELS = 8.0
_SQUARE_ROOM = 3.0  # what a track needs where a square stands on it


class Layout(NamedTuple):
    """Everything in its place."""

    view: View
    picture: Picture
    compares: bool  # whether the picture shows what a variant changed
    title: str
    plates: tuple[Plate, ...]
    sheet: Sheet
    contents: Mapping[Spot, Content]
    routes: Sequence[Route]
    tracks: Tracks
    grid: Grid
    traces: Sequence[Trace]
    levels: Sequence[Runs]  # the words at the left
    levels_end: float
    outside: float  # the room for words at the start of arrows from iterations not shown

    @property
    def sizes(self) -> Sizes:
        return self.grid.sizes


def arrange(picture: Picture, view: View, apart: float = 1.0) -> Layout:
    """Everything that has a place gets it, room by room; gaps are `apart` times as wide."""
    sizes = _sizes(picture, view).apart(apart)
    plates = plates_of(view, picture)
    sheet = lay(picture, view)  # rows and columns
    routes = find_routes(sheet)  # ways between boxes
    edges = [gutter for gutter, *_ in frame.plate_edges(plates)]
    tracks = share_out(routes, _rooms(routes, sizes), [*frame.borders(sheet), *edges])
    contents = _contents(sheet, view, sizes)
    levels = frame.level_words(sheet, view)
    levels_end = MARGIN + max((width_of_runs(runs, LEVEL_SIZE) for runs in levels), default=0.0)
    compares = picture.compares
    title = picture.title if view.title is None and compares else view.title or ""
    outside = _outside(sheet, sizes)
    left = levels_end + _BESIDE_LEVELS + frame.plate_room(plates)[0] + outside
    origin = (left, MARGIN + (TITLE_SIZE * 1.9 if title else 0.0))
    grid = fit(sheet, contents, tracks, _bands(routes, sizes), sizes, origin)  # coordinates
    edge = grid.extent.x
    traces = [trace(route, i, grid, tracks, edge) for i, route in enumerate(routes)]
    return Layout(
        view, picture, compares, title, plates, sheet, contents, routes, tracks, grid, traces,
        levels, levels_end, outside,
    )  # fmt: skip


def _sizes(picture: Picture, view: View) -> Sizes:
    sizes = MINI if view.mini else ROLLED if view.rolled else FULL
    if picture.heaviest is not None:
        sizes = sizes._replace(pitch=THICK_PITCH)
    return sizes.tight() if view.width and not view.mini else sizes


def _contents(sheet: Sheet, view: View, sizes: Sizes) -> dict[Spot, Content]:
    """The same part says the same at every iteration, but for tasks that read at the last one."""
    known: dict[tuple[str, bool], Content] = {}
    found = {}
    for spot, part in sheet.parts.items():
        last = sheet.columns[spot.column].iteration == sheet.iterations - 1
        key = (part.name, last)
        if key not in known:
            known[key] = content_of(part, view, sizes, last)
        found[spot] = known[key]
    return found


def _outside(sheet: Sheet, sizes: Sizes) -> float:
    widths = [width_of_runs(link.origin, sizes.facts) for link in sheet.links if link.origin]
    return max(widths) + 4 if widths else 0.0


def _rooms(routes: Sequence[Route], sizes: Sizes) -> dict[int, float]:
    """What labels need beside the tracks of arrows that go around boxes."""
    rooms: dict[int, float] = {}
    highest = max((route.link.origin_height(sizes.facts) for route in routes), default=0.0)
    for index, route in enumerate(routes):
        label = route.link.label
        if route.stretches and label:
            along = route.stretches[spoken(route)].gutter.axis == "H"
            rooms[index] = sizes.label * 1.1 if along else width_of_runs(label, sizes.label) + 4
        elif route.stretches and (route.link.origin or route.link.delayed):
            rooms[index] = max(_SQUARE_ROOM, highest - sizes.pitch)
    return rooms


def _bands(routes: Sequence[Route], sizes: Sizes) -> dict[Gutter, float]:
    """What labels of straight arrows need in their gutter."""
    bands: dict[Gutter, float] = defaultdict(float)
    for route in routes:
        label, gutter = route.link.label, route.target.face.gutter
        if label and route.form is not Form.STRETCHES:
            across = width_of_runs(label, sizes.label) + 16
            needed = across if gutter.axis == "V" else sizes.label * 1.3 + 5
            bands[gutter] = max(bands[gutter], needed)
    return bands
