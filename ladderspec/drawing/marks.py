"""Two pictures -> one: what only the first has is removed, what only the second has is added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from ladderspec.drawing.parts import Arrow, Change, Level, Part, Picture, Reading


def compare(base: Picture, new: Picture) -> Picture:
    """What is removed stays in its place; all facts are those of `new`."""
    return Picture(
        name=new.name,
        title=_title(base, new),
        levels=tuple(_levels(base.levels, new.levels)),
        parts=dict(_parts(base, new)),
        arrows=tuple(_arrows(base.arrows, new.arrows)),
    )


def _title(base: Picture, new: Picture) -> str:
    """A variant has a title of its own; two specs have both of theirs."""
    if base.name == new.name:
        return new.title
    pair = (base.title, new.title) if base.title != new.title else (base.name, new.name)
    return " \u2192 ".join(pair)


def _levels(base: Sequence[Level], new: Sequence[Level]) -> Iterator[Level]:
    """Both orders in one: a level stands between its neighbours of either."""
    names = [level.name for level in base], [level.name for level in new]
    matcher = SequenceMatcher(None, *names, autojunk=False)
    for _, start, stop, at, end in matcher.get_opcodes():
        yield from (level for level in base[start:stop] if level.name not in names[1])
        yield from new[at:end]


def _parts(base: Picture, new: Picture) -> Iterator[tuple[str, Part]]:
    for name, part in base.parts.items():
        if name in new.parts:
            yield name, _both(part, new.parts[name])
        else:
            gone = tuple(each._replace(change=Change.REMOVED) for each in part.readings)
            yield name, part._replace(change=Change.REMOVED, readings=gone)
    for name, part in new.parts.items():
        if name not in base.parts:
            come = tuple(each._replace(change=Change.ADDED) for each in part.readings)
            yield name, part._replace(change=Change.ADDED, readings=come)


def _both(old: Part, new: Part) -> Part:
    """A part of both: changed where its words or its shape are others."""
    same = old.cell == new.cell and old.shape == new.shape
    readings = tuple(_readings(old.readings, new.readings))
    if same:
        return new._replace(readings=readings)
    return new._replace(readings=readings, change=Change.CHANGED, before=old)


def _readings(old: Sequence[Reading], new: Sequence[Reading]) -> Iterator[Reading]:
    for reading in old:
        yield reading if reading in new else reading._replace(change=Change.REMOVED)
    for reading in new:
        if reading not in old:
            yield reading._replace(change=Change.ADDED)


def _arrows(base: Sequence[Arrow], new: Sequence[Arrow]) -> Iterator[Arrow]:
    there = {_identity(arrow) for arrow in base}
    still = {_identity(arrow): arrow for arrow in new}
    for arrow in base:
        yield still.get(_identity(arrow)) or arrow._replace(change=Change.REMOVED)
    for arrow in new:
        if _identity(arrow) not in there:
            yield arrow._replace(change=Change.ADDED)


def _identity(arrow: Arrow) -> tuple[str, str, str, int]:
    return (arrow.source, arrow.target, arrow.key, arrow.delay)
