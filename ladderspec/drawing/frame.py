"""What stands around the ladder: levels, iterations, the lines between them, plates, phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ladderspec.drawing.grid import Grid
from ladderspec.drawing.maths import Run, formula, plain, width_of_runs
from ladderspec.drawing.scene import Ink, Panel, Rect, Rule, Text
from ladderspec.drawing.sheet import Sheet, Spot
from ladderspec.drawing.sizes import LEVEL_SIZE, TIME_SIZE
from ladderspec.drawing.themes import Theme
from ladderspec.drawing.tracks import Tracks
from ladderspec.drawing.view import Plate, View
from ladderspec.drawing.ways import Gutter, horizontal, vertical

Runs = tuple[Run, ...]
_PLATE_STEP = 7.0  # one plate inside another
_PLATE_LABEL = 12.0
_SHADE = 6.0  # how far a phase reaches beyond its boxes


def level_words(sheet: Sheet, view: View) -> list[Runs]:
    """The words at the left, from the input upwards."""
    if view.levels == "none":
        return [() for _ in sheet.rows]
    if view.levels == "numbers" or view.mini:  # as in the letters beside its arrows
        return [(Run(level.number, "serif"),) for level in sheet.rows]
    return [(formula if x.labelled else plain)(x.shown) for x in sheet.rows]


def levels(words: Sequence[Runs], grid: Grid, right: float, theme: Theme) -> Iterator[Text]:
    for runs, row in zip(words, grid.rows, strict=True):
        if runs:
            base = row.middle + LEVEL_SIZE * 0.34
            yield Text(right, base, LEVEL_SIZE, runs, theme.faint, "end")


def borders(sheet: Sheet) -> list[Gutter]:
    """The gutters between two iterations."""
    return [
        vertical(index)
        for index in range(1, len(sheet.columns))
        if sheet.columns[index - 1].iteration != sheet.columns[index].iteration
    ]


def plate_edges(plates: Sequence[Plate]) -> list[tuple[Gutter, Plate, bool]]:
    """Upper (True) and lower edges, from below in each gutter: large plates around small ones."""
    small_first = sorted(plates, key=lambda plate: plate.top - plate.bottom)
    upper = [(horizontal(plate.top + 1), plate, True) for plate in small_first]
    return upper + [(horizontal(plate.bottom), plate, False) for plate in reversed(small_first)]


def time_lines(sheet: Sheet, grid: Grid, tracks: Tracks, theme: Theme) -> Iterator[Rule]:
    top, bottom = grid.extent.y - 4, grid.extent.bottom + TIME_SIZE + 8
    for gutter in borders(sheet):
        x = grid.lines[tracks.rules[gutter][0]]
        yield Rule((x, top), (x, bottom), Ink(theme.rule, 0.9, (4.5, 3.5)))


def has_times(sheet: Sheet, view: View) -> bool:
    """Iterations have names where there is more than one, or arrows from others."""
    several = sheet.iterations > 1 or any(link.arrow.delay for link in sheet.links)
    return several and not view.rolled


def times(sheet: Sheet, grid: Grid, view: View, theme: Theme) -> Iterator[Text]:
    """The names of the iterations below their columns."""
    if not has_times(sheet, view):
        return
    base = grid.extent.bottom + TIME_SIZE + 4
    for iteration in range(sheet.iterations):
        columns = [i for i, each in enumerate(sheet.columns) if each.iteration == iteration]
        middle = (grid.columns[columns[0]].start + grid.columns[columns[-1]].end) / 2
        back = sheet.iterations - 1 - iteration
        name = f"t = {iteration + 1}" if view.start else f"t-{back}" if back else "t"
        yield Text(middle, base, TIME_SIZE, formula(name), theme.text)


def plate_room(plates: Sequence[Plate]) -> tuple[float, float]:
    """What plates need left and right of the ladder."""
    return (len(plates) * _PLATE_STEP, sum(map(_label_room, plates)))


def _label_room(plate: Plate) -> float:
    return width_of_runs(formula(plate.label), _PLATE_LABEL) + 4 + _PLATE_STEP


def frames(
    plates: Sequence[Plate], grid: Grid, tracks: Tracks, theme: Theme, outside: float
) -> Iterator[Panel]:
    """A labelled rectangle around the rows of each plate, and around words from `outside`."""
    waiting = {gutter: list(found) for gutter, found in tracks.rules.items()}
    edges = {
        (id(plate), upper): grid.lines[waiting[gutter].pop(0)]
        for gutter, plate, upper in plate_edges(plates)
    }
    left, right = grid.extent.x - outside, grid.extent.right
    for plate in sorted(plates, key=lambda plate: plate.top - plate.bottom):
        left, right = left - _PLATE_STEP, right + _label_room(plate)
        top, bottom = edges[id(plate), True], edges[id(plate), False]
        words = formula(plate.label)
        label = Text(right - 4, bottom - 6, _PLATE_LABEL, words, theme.text, "end")
        rect = Rect(left, top, right - left, bottom - top)
        yield Panel(rect, Ink(theme.text, 0.9), None, 0, label)


def phases(sheet: Sheet, grid: Grid, theme: Theme) -> Iterator[Panel]:
    """Neighbours of one phase share a shade."""
    edge = Ink(theme.phase_edge, 0.6) if theme.phase_edge else None
    for column in range(len(sheet.columns)):
        spots = [Spot(column, row) for row in range(len(sheet.rows))]
        for phase, run in groupby(spots, lambda spot: _phase(sheet, spot)):
            found = list(run)
            if phase:
                bottom, top = grid.box(found[0]), grid.box(found[-1])
                x, y = bottom.x - _SHADE, top.y - _SHADE
                height = bottom.bottom - top.y + 2 * _SHADE
                rect = Rect(x, y, bottom.width + 2 * _SHADE, height)
                yield Panel(rect, edge, theme.phases[phase], 12)


def _phase(sheet: Sheet, spot: Spot) -> str | None:
    part = sheet.parts.get(spot)
    return part.phase if part else None
