"""Picture -> sheet: which part stands in which column and row, and which arrows join them.

Levels are rows, counted from the input upwards; an iteration and a side are a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ladderspec.drawing.maths import Run, formula, letter, plain, reach_of
from ladderspec.drawing.parts import Arrow, Level, Part, Picture
from ladderspec.drawing.view import View, iterations_of
from ladderspec.names import Role, Side

Runs = tuple[Run, ...]

_LETTERS = {Side.ENCODER: "e", Side.LATERAL: "h", Side.DECODER: "d"}  # the paper's
_SPOKEN = {Role.ENCODER, Role.STATE, Role.LATERAL, Role.DECODER, Role.DECODER_TO_ENCODER}


class Spot(NamedTuple):
    column: int
    row: int


class Column(NamedTuple):
    iteration: int
    side: Side


class Link(NamedTuple):
    """An arrow at one iteration; without a source it comes from an iteration that is not shown."""

    arrow: Arrow
    iteration: int
    source: Spot | None
    target: Spot
    delayed: bool = False  # rolled: a square stands on it
    label: Runs = ()
    origin: Runs = ()  # what an arrow from outside carries, or where it comes from

    def origin_height(self, size: float) -> float:
        return size * sum(reach_of(self.origin)) + 1 if self.origin else 0.0


class Sheet(NamedTuple):
    columns: tuple[Column, ...]
    rows: tuple[Level, ...]
    parts: Mapping[Spot, Part]
    links: tuple[Link, ...]
    iterations: int


def lay(picture: Picture, view: View) -> Sheet:
    """Give every part its spot, at every iteration shown."""
    shown = iterations_of(view, picture)
    sides = [side for side in Side if any(part.side is side for part in picture.parts.values())]
    columns = tuple(Column(iteration, side) for iteration in range(shown) for side in sides)
    row = {level.name: index for index, level in enumerate(picture.levels)}
    where = {
        (part.name, column.iteration): Spot(index, row[part.level])
        for index, column in enumerate(columns)
        for part in picture.parts.values()
        if part.side is column.side
    }
    parts = {spot: picture.parts[name] for (name, _), spot in where.items()}
    links = tuple(_links(picture, view, where, shown))
    return Sheet(columns, picture.levels, parts, links, shown)


def _links(
    picture: Picture, view: View, where: Mapping[tuple[str, int], Spot], shown: int
) -> Iterator[Link]:
    levels = {level.name: level for level in picture.levels}
    for iteration in range(shown):
        for arrow in picture.arrows:
            target = where[arrow.target, iteration]
            label = _label(arrow, picture, levels, view)
            before = 0 if view.rolled else arrow.delay
            if before <= iteration:
                source = where[arrow.source, iteration - before]
                delayed = view.rolled and arrow.delay > 0
                yield Link(arrow, iteration, source, target, delayed, label)
            elif view.start:
                value = plain("learned") if arrow.initial == "learned" else formula("0")
                origin = (*label, *plain(" = "), *value) if label else value
                yield Link(arrow, iteration, None, target, origin=origin)
            elif before >= shown and iteration == shown - 1:  # else it would be seen nowhere
                origin = _symbol(arrow, picture, levels, view, f"(t-{arrow.delay})")
                origin = (*label, *plain(": "), *origin) if arrow.label else origin
                yield Link(arrow, iteration, None, target, origin=origin)


def _label(arrow: Arrow, picture: Picture, levels: Mapping[str, Level], view: View) -> Runs:
    """What stands beside an arrow: the spec's own words; in small pictures the paper's letters."""
    count = str(arrow.delay) if view.rolled and arrow.delay > 1 else ""
    if arrow.label:
        return formula(f"{arrow.label}, {count}" if count else arrow.label)
    if count:
        return plain(count)
    if view.mini and view.labels and arrow.role in _SPOKEN:
        return _symbol(arrow, picture, levels, view)
    return ()


def _symbol(
    arrow: Arrow, picture: Picture, levels: Mapping[str, Level], view: View, time: str = ""
) -> Runs:
    source = picture.parts[arrow.source]
    symbol = "s" if arrow.role is Role.STATE else _LETTERS[source.side]
    level = levels[source.level]
    return letter(symbol, level.number if view.mini else level.shown, time)
