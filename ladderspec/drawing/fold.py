"""Rows that are truly identical -> one row that says how many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ladderspec.drawing.metrics import DASH
from ladderspec.drawing.parts import Arrow, Level, Part, Picture


def fold(picture: Picture) -> Picture:
    """Neighbouring rows alike in cells, shapes, tasks and arrows become one; counts add up."""
    groups = _groups(picture)
    home = {level.name: group[0].name for group in groups for level in group}
    inside: dict[str, list[Part]] = defaultdict(list)
    for part in picture.parts.values():
        inside[f"{part.side}.{home[part.level]}"].append(part)
    return picture._replace(
        levels=tuple(_joined(group) for group in groups),
        parts={name: _stack(name, parts) for name, parts in inside.items()},
        arrows=tuple(_arrows(picture, groups, home)),
    )


def _groups(picture: Picture) -> list[list[Level]]:
    signatures = _signatures(picture)
    groups: list[list[Level]] = []
    for level in picture.levels:
        if groups and signatures[groups[-1][0].name] == signatures[level.name]:
            groups[-1].append(level)
        else:
            groups.append([level])
    return groups


def _signatures(picture: Picture) -> Mapping[str, Any]:
    """All that a row says, with the ends of its arrows counted from the row itself."""
    row = {level.name: index for index, level in enumerate(picture.levels)}
    found: dict[str, Any] = {level.name: ([], []) for level in picture.levels}
    for part in picture.parts.values():
        words = part.cell.model_dump() if hasattr(part.cell, "model_dump") else part.cell
        facts = (part.cell.cell, words, part.shape, part.parameters, part.readings)
        found[part.level][0].append((part.side, facts, part.change, part.phase))
    for arrow in picture.arrows:
        ends = picture.parts[arrow.source], picture.parts[arrow.target]
        rise = row[ends[1].level] - row[ends[0].level]
        words = (arrow.role, arrow.delay, arrow.label, arrow.change, arrow.worth)
        sides = (ends[0].side, ends[1].side)
        found[ends[0].level][1].append(("out", rise, *words, *sides))
        found[ends[1].level][1].append(("in", rise, *words, *sides))
    return {name: (parts, sorted(arrows, key=str)) for name, (parts, arrows) in found.items()}


def _joined(group: Sequence[Level]) -> Level:
    first, last = group[0], group[-1]
    if first is last:
        return first
    stem = first.shown.rstrip("0123456789")
    tail = last.shown.removeprefix(stem) if stem and last.shown.startswith(stem) else last.shown
    shown, number = f"{first.shown}{DASH}{tail}", f"{first.number}{DASH}{last.number}"
    return Level(first.name, shown, number, first.labelled)


def _stack(name: str, parts: Sequence[Part]) -> Part:
    first = parts[0]
    total = sum(part.parameters for part in parts)
    return first._replace(
        name=name, level=name.partition(".")[2], parameters=total, copies=len(parts)
    )


def _arrows(
    picture: Picture, groups: Sequence[Sequence[Level]], home: Mapping[str, str]
) -> Iterator[Arrow]:
    """Arrows between rows once; those from one copy to the next are inside the stack.

    Arrows that stay within each copy (state, lateral) are drawn for the first copy only.
    """
    first = {group[0].name for group in groups}
    for arrow in picture.arrows:
        source, target = picture.parts[arrow.source], picture.parts[arrow.target]
        together = home[source.level] == home[target.level]
        within = source.level == target.level
        if together and not (within and source.level in first):
            continue
        yield arrow._replace(
            source=f"{source.side}.{home[source.level]}",
            target=f"{target.side}.{home[target.level]}",
        )
