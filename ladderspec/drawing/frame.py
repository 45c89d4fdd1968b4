"""Everything around the ladder: levels, iterations, the lines between them, plates, phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ladderspec.drawing.coordinates import Coordinates
from ladderspec.drawing.grid import Channel, Grid, Spot, horizontal
from ladderspec.drawing.options import View
from ladderspec.drawing.picture import Level, Picture
from ladderspec.drawing.routing import Lanes
from ladderspec.drawing.scene import Backdrop, Ink, Rect, Rule, Text
from ladderspec.drawing.style import Sizes, Theme
from ladderspec.drawing.transforms import rows_named
from ladderspec.drawing.typesetting import DASH, Runs, formula, plain, width_of_runs
from ladderspec.errors import UsageError

# --- levels ---------------------------------------------------------------------------------------


_LEVEL_WIDTH = 40.0  # at most, if several levels are drawn as one


def level_lines(level: Level, view: View, size: float) -> list[Runs]:
    """The lines at the left of a row; the names of several levels may need two."""
    if view.levels == "none" or not level.shown or (view.mini and level.members):
        return []
    if view.levels == "index":
        return [formula(level.number)]
    if view.levels == "numbers" or view.mini:  # in mini, as in the subscripts of its letters
        return [plain(level.number, "serif")]
    names = [level.shown]
    if level.members and width_of_runs(plain(level.shown), size) > _LEVEL_WIDTH:
        first, _, last = level.shown.rpartition(DASH)
        names = [first + DASH, last]
    return [(formula if level.labelled else plain)(name) for name in names]


def levels(
    texts: Sequence[Sequence[Runs]], places: Coordinates, right: float, theme: Theme
) -> Iterator[Text]:
    for lines, row in zip(texts, places.rows, strict=True):
        size = places.sizes.level
        for number, runs in enumerate(lines):
            middle = row.middle + size * 1.15 * (number - (len(lines) - 1) / 2)
            yield Text(right, middle + size * 0.34, size, runs, theme.faint, "end")


# --- iterations -----------------------------------------------------------------------------------


def iteration_rules(
    texts: Sequence[Text],
    grid: Grid,
    places: Coordinates,
    lanes: Lanes,
    view: View,
    theme: Theme,
) -> Iterator[Rule]:
    """The lines between iterations; they end above a text that would be in their way."""
    top, bottom = places.extent.y - 4, places.extent.bottom + depth(grid, view, places.sizes) - 2
    for channel in grid.iteration_borders():
        x = places.lanes[lanes.rules[channel][0]]
        near = [text.rect.grown(4) for text in texts]
        ends = [rect.y for rect in near if rect.x < x < rect.right and rect.y > places.extent.y]
        yield Rule((x, top), (x, min([bottom, *ends])), Ink(theme.rule, 0.9, (4.5, 3.5)))


def has_times(grid: Grid, view: View) -> bool:
    """Whether iterations are named: if there are several, or arrows from others."""
    several = grid.iterations > 1 or any(link.arrow.delay for link in grid.links)
    return several and not view.rolled


def times(grid: Grid, places: Coordinates, view: View, theme: Theme) -> Iterator[Text]:
    """The names of the iterations below their columns."""
    if not has_times(grid, view):
        return
    size = places.sizes.time
    base = places.extent.bottom + depth(grid, view, places.sizes) - 6
    for iteration in range(grid.iterations):
        columns = [i for i, column in enumerate(grid.columns) if column.iteration == iteration]
        middle = (places.columns[columns[0]].start + places.columns[columns[-1]].end) / 2
        back = grid.iterations - 1 - iteration
        name = f"t = {iteration + 1}" if view.start else f"t-{back}" if back else "t"
        yield Text(middle, base, size, formula(name), theme.text)


def _value_size(grid: Grid, view: View, sizes: Sizes) -> float:
    """The font size of the letters below the boxes of the input; 0 if there are none."""
    lowest = [part for spot, part in grid.parts.items() if spot.row == 0]
    return sizes.label if view.mini and view.labels and any(p.value for p in lowest) else 0.0


def depth(grid: Grid, view: View, sizes: Sizes) -> float:
    """The height of everything below the ladder, except the legend."""
    times = sizes.time + 10 if has_times(grid, view) else 2
    return times + _value_size(grid, view, sizes) * 1.25


def values(grid: Grid, places: Coordinates, view: View, theme: Theme) -> Iterator[Text]:
    """The letters x and x-hat with their time, below the boxes of the input."""
    size = _value_size(grid, view, places.sizes)
    for spot, part in grid.parts.items():
        if size and part.value and spot.row == 0:
            letter, ahead = part.value
            back = grid.iterations - 1 - grid.columns[spot.column].iteration
            at = ahead - back
            time = f"t{at:+d}" if at else "t"
            x, base = places.columns[spot.column].middle, places.extent.bottom + size * 0.8
            shown = formula(f"{letter}_{{{time}}}" if has_times(grid, view) or ahead else letter)
            yield Text(x, base, size, shown, theme.text)


# --- plates ---------------------------------------------------------------------------------------

_PLATE_STEP = 7.0  # between nested plates


class Plate(NamedTuple):
    """A frame around neighbouring rows, as in plate notation."""

    label: str
    bottom: int
    top: int


def plates_of(view: View, picture: Picture) -> tuple[Plate, ...]:
    """The plates of a view and that of the groups, small ones first."""
    rows = picture.levels
    found = [_plate(label, list(levels), rows) for label, levels in (view.plates or {}).items()]
    if picture.groups:  # around all levels above the input [f:tagger]
        found.append(Plate(picture.plate_label, 1, len(rows) - 1))
    return tuple(sorted(found, key=lambda plate: plate.top - plate.bottom))


def _plate(label: str, patterns: Sequence[str], levels: Sequence[Level]) -> Plate:
    rows = rows_named(levels, patterns, f"plate `{label}`: ")
    if not rows:
        raise UsageError(f"plate `{label}` needs at least one level")
    if rows != list(range(rows[0], rows[-1] + 1)):
        between = levels[next(i for i in range(rows[0], rows[-1]) if i not in rows)].names[0]
        raise UsageError(f"plate `{label}`: level `{between}` is between its levels")
    return Plate(label, rows[0], rows[-1])


def plate_edges(plates: Sequence[Plate]) -> list[tuple[Channel, Plate, bool]]:
    """Upper (True) and lower edges, from below in each channel: large plates enclose small ones."""
    upper = [(horizontal(plate.top + 1), plate, True) for plate in plates]
    return upper + [(horizontal(plate.bottom), plate, False) for plate in reversed(plates)]


def plate_margins(plates: Sequence[Plate], sizes: Sizes) -> tuple[float, float]:
    """The room that plates need left and right of the ladder."""
    return (len(plates) * _PLATE_STEP, sum(_label_room(plate, sizes) for plate in plates))


def _label_room(plate: Plate, sizes: Sizes) -> float:
    return width_of_runs(formula(plate.label), sizes.time) + 4 + _PLATE_STEP


def plate_panels(
    plates: Sequence[Plate], places: Coordinates, lanes: Lanes, theme: Theme, outside: float
) -> Iterator[Backdrop]:
    """A labelled rectangle for each plate; `outside` is the width of texts left of the ladder."""
    unused = {channel: list(found) for channel, found in lanes.rules.items()}
    edges = {
        (id(plate), upper): places.lanes[unused[channel].pop(0)]
        for channel, plate, upper in plate_edges(plates)
    }
    left, right = places.extent.x - outside, places.extent.right
    for plate in plates:
        left, right = left - _PLATE_STEP, right + _label_room(plate, places.sizes)
        top, bottom = edges[id(plate), True], edges[id(plate), False]
        runs = formula(plate.label)
        label = Text(right - 7, bottom - 6, places.sizes.time, runs, theme.text, "end")
        rect = Rect(left, top, right - left, bottom - top)
        yield Backdrop(rect, Ink(theme.text, 0.9), None, 0, label)


# --- phases ---------------------------------------------------------------------------------------

_PHASE_MARGIN = 6.0  # around the boxes of a phase


def phase_panels(grid: Grid, places: Coordinates, theme: Theme) -> Iterator[Backdrop]:
    """A shade behind neighbouring boxes of one phase."""
    for column in range(len(grid.columns)):
        spots = [Spot(column, row) for row in range(len(grid.rows))]
        for phase, group in groupby(spots, lambda spot: _phase(grid, spot)):
            found = list(group)
            if phase:
                bottom, top = places.box(found[0]), places.box(found[-1])
                rect = Rect(top.x, top.y, top.width, bottom.bottom - top.y).grown(_PHASE_MARGIN)
                yield Backdrop(rect, theme.phase_ink, theme.phases[phase], 12)


def _phase(grid: Grid, spot: Spot) -> str | None:
    part = grid.parts.get(spot)
    return part.phase if part else None
