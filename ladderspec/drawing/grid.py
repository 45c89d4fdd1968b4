"""Picture -> Grid: the column and row of every part, the links between them, and the channels.

Levels are rows, from the input upwards; an iteration and a side are a column. Further inputs have
columns of their own, left of the encoder. Between rows and columns run channels that hold no boxes:
channel H(i) is below row i, channel V(i) left of column i.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from ladderspec.drawing.options import View, iterations_shown
from ladderspec.drawing.picture import Arrow, Level, Part, Picture
from ladderspec.drawing.style import ROLES
from ladderspec.drawing.typesetting import DASH, Runs, formula, height_of_runs, plain, symbol
from ladderspec.names import Side, split_node


class Spot(NamedTuple):
    column: int
    row: int


class Channel(NamedTuple):
    """The space between two rows (H) or two columns (V) of boxes."""

    axis: Literal["H", "V"]
    at: int


def horizontal(index: int) -> Channel:
    return Channel("H", index)


def vertical(index: int) -> Channel:
    return Channel("V", index)


class GridColumn(NamedTuple):
    iteration: int
    side: Side
    part: str = ""  # the only part in it: each further input has a column to itself


class Link(NamedTuple):
    """An arrow in one iteration; it has no source if that iteration is not shown."""

    arrow: Arrow
    iteration: int
    source: Spot | None
    target: Spot
    delayed: bool = False  # rolled view: drawn with a square
    label: Runs = ()
    steps: Runs = ()  # rolled view: how many iterations later, if more than one
    origin: Runs = ()  # text at the start of a link without a source

    def origin_height(self, size: float) -> float:
        return size * sum(height_of_runs(self.origin)) + 1 if self.origin else 0.0


class Grid(NamedTuple):
    columns: tuple[GridColumn, ...]
    rows: tuple[Level, ...]
    parts: Mapping[Spot, Part]
    links: tuple[Link, ...]
    iterations: int

    def iteration_borders(self) -> list[Channel]:
        """The channels between two iterations."""
        return [
            vertical(index)
            for index in range(1, len(self.columns))
            if self.columns[index - 1].iteration != self.columns[index].iteration
        ]


def grid_of(picture: Picture, view: View) -> Grid:
    """Assign every part its spot in every iteration shown."""
    shown = iterations_shown(view, picture)
    sides = [side for side in Side if any(part.side is side for part in picture.parts.values())]
    further = [(Side.INPUT, part.name) for part in picture.further_inputs]
    lines = [*further, *((side, "") for side in sides if side is not Side.INPUT)]
    columns = tuple(GridColumn(t, side, name) for t in range(shown) for side, name in lines)
    row = {level.name: index for index, level in enumerate(picture.levels)}
    spots = {
        (part.name, column.iteration): Spot(index, row[part.level])
        for index, column in enumerate(columns)
        for part in picture.parts.values()
        if part.side is column.side and column.part in ("", part.name)
    }
    parts = {spot: picture.parts[name] for (name, _), spot in spots.items()}
    links = tuple(_links(picture, view, spots, shown))
    return Grid(columns, picture.levels, parts, links, shown)


def _links(
    picture: Picture, view: View, spots: Mapping[tuple[str, int], Spot], shown: int
) -> Iterator[Link]:
    letters = _Letters(picture, view)
    for iteration in range(shown):
        for arrow in picture.arrows:
            target = spots[arrow.target, iteration]
            label = letters.label(arrow, iteration == shown - 1)
            before = 0 if view.rolled else arrow.delay
            if before <= iteration:
                source = spots[arrow.source, iteration - before]
                delayed = view.rolled and arrow.delay > 0
                steps = plain(str(arrow.delay)) if delayed and arrow.delay > 1 else ()
                yield Link(arrow, iteration, source, target, delayed, label, steps)
            elif view.start:
                value = formula("0") if arrow.initial == "zeros" else plain(arrow.initial)
                origin = (*label, *plain(" = "), *value) if label else value
                yield Link(arrow, iteration, None, target, origin=origin)
            elif before >= shown and iteration == shown - 1:  # else it would not be shown at all
                origin = letters.symbol(arrow, f"(t-{arrow.delay})")
                origin = (*label, *plain(": "), *origin) if arrow.label else origin
                yield Link(arrow, iteration, None, target, origin=origin)


class _Letters:
    """The text beside arrows."""

    def __init__(self, picture: Picture, view: View) -> None:
        self.parts, self.view = picture.parts, view
        self.levels = {level.name: level for level in picture.levels}

    def label(self, arrow: Arrow, last: bool) -> Runs:
        """The label in the spec; in the mini view, the paper's letters, in the last iteration."""
        if arrow.label:
            return formula(arrow.label)
        if last and self.view.mini and self.view.labels and ROLES[arrow.role].basic:
            return self.symbol(arrow)
        return ()

    def symbol(self, arrow: Arrow, time: str = "") -> Runs:
        source = self.parts[arrow.source]
        if source.symbol:
            return (*formula(source.symbol), *formula(time))
        level = self.levels[source.level]
        if source.is_further_input:
            return symbol(source.side.letter, split_node(source.name)[1], time)
        letter = ROLES[arrow.role].letter or source.side.letter
        if self.view.levels == "index":
            return (*formula(f"{letter}_{{{level.number}}}"), *formula(time))
        first, _, last = level.number.partition(DASH)  # of a stub: the end where the arrow leaves
        number = last if last and source.side is Side.ENCODER else first
        return symbol(letter, number if self.view.mini else level.shown, time)
