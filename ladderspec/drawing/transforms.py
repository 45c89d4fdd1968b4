"""Picture -> Picture: compare two networks, fold identical rows, give arrows their worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from math import isfinite
from typing import Any

from ladderspec.drawing.picture import Arrow, Change, Level, Part, Picture, TaskLabel
from ladderspec.drawing.typesetting import DASH
from ladderspec.errors import UsageError
from ladderspec.names import Role
from ladderspec.text.notation import NotationProblem, parse_selector
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.selection import EdgeKey, closest, select

# --- comparison -----------------------------------------------------------------------------------


def compare(base: Picture, new: Picture) -> Picture:
    """`new` with its changes marked; parts, arrows and tasks removed from `base` stay in place."""
    parts = dict(_compared_parts(base, new))
    used = {part.level for part in parts.values()}
    levels = _merged_levels(base.levels, new.levels)
    return Picture(
        name=new.name,
        title=_compared_title(base, new),
        levels=tuple(level for level in levels if level.name in used),
        parts=parts,
        arrows=tuple(_compared_arrows(base.arrows, new.arrows)),
        groups=new.groups,
    )


def _compared_title(base: Picture, new: Picture) -> str:
    """The title of a variant; both titles if two specs are compared."""
    if base.name == new.name:
        return new.title
    pair = (base.title, new.title) if base.title != new.title else (base.name, new.name)
    return " \u2192 ".join(pair)


def _merged_levels(base: Sequence[Level], new: Sequence[Level]) -> Iterator[Level]:
    """All levels, each between its neighbours in either order."""
    names = [level.name for level in base], [level.name for level in new]
    matcher = SequenceMatcher(None, *names, autojunk=False)
    for _, start, stop, new_start, new_stop in matcher.get_opcodes():
        yield from (level for level in base[start:stop] if level.name not in names[1])
        yield from new[new_start:new_stop]


def _compared_parts(base: Picture, new: Picture) -> Iterator[tuple[str, Part]]:
    for name, part in base.parts.items():
        if name in new.parts:
            yield name, _compared_part(part, new.parts[name])
        else:
            yield name, _marked(part, Change.REMOVED)
    for name, part in new.parts.items():
        if name not in base.parts:
            yield name, _marked(part, Change.ADDED)


def _marked(part: Part, change: Change) -> Part:
    tasks = tuple(task._replace(change=change) for task in part.tasks)
    return part._replace(change=change, tasks=tasks)


def _compared_part(old: Part, new: Part) -> Part:
    """A part of both pictures: changed if its cell or its shape differs."""
    tasks = tuple(_compared_tasks(old.tasks, new.tasks))
    if old.cell == new.cell and old.shape == new.shape:
        return new._replace(tasks=tasks)
    return new._replace(tasks=tasks, change=Change.CHANGED, before=old)


def _compared_tasks(old: Sequence[TaskLabel], new: Sequence[TaskLabel]) -> Iterator[TaskLabel]:
    yield from (task if task in new else task._replace(change=Change.REMOVED) for task in old)
    yield from (task._replace(change=Change.ADDED) for task in new if task not in old)


def _compared_arrows(base: Sequence[Arrow], new: Sequence[Arrow]) -> Iterator[Arrow]:
    before = {(arrow.edge, arrow.delay) for arrow in base}
    after = {(arrow.edge, arrow.delay): arrow for arrow in new}
    for arrow in base:
        yield after.get((arrow.edge, arrow.delay)) or arrow._replace(change=Change.REMOVED)
    for arrow in new:
        if (arrow.edge, arrow.delay) not in before:
            yield arrow._replace(change=Change.ADDED)


# --- folding --------------------------------------------------------------------------------------


def fold(picture: Picture) -> Picture:
    """Merge neighbouring rows with equal cells, shapes, tasks and arrows; parameters add up."""
    groups = _identical_rows(picture)
    first_of = {level.name: group[0].name for group in groups for level in group}
    names = picture.names
    folded = {
        name: names.get((part.side, first_of[part.level]), name)
        for name, part in picture.parts.items()
    }
    stacks: dict[str, list[Part]] = defaultdict(list)
    for name, part in picture.parts.items():
        stacks[folded[name]].append(part)
    return picture._replace(
        levels=tuple(_folded_level(group) for group in groups),
        parts={name: _folded_part(picture.parts[name], stack) for name, stack in stacks.items()},
        arrows=tuple(_folded_arrows(picture, folded)),
    )


def _identical_rows(picture: Picture) -> list[list[Level]]:
    signatures = _signatures(picture)
    groups: list[list[Level]] = []
    for level in picture.levels:
        if groups and signatures[groups[-1][0].name] == signatures[level.name]:
            groups[-1].append(level)
        else:
            groups.append([level])
    return groups


def _signatures(picture: Picture) -> Mapping[str, Any]:
    """Everything drawn in a row, with the ends of its arrows relative to the row."""
    row = {level.name: index for index, level in enumerate(picture.levels)}
    found: dict[str, Any] = {level.name: ([], []) for level in picture.levels}
    for part in picture.parts.values():
        fields = part.cell.model_dump() if hasattr(part.cell, "model_dump") else part.cell
        content = (part.cell.cell, fields, part.shape, part.parameters, part.tasks)
        found[part.level][0].append((part.side, content, part.change, part.phase))
    for arrow in picture.arrows:
        source, target = picture.parts[arrow.source], picture.parts[arrow.target]
        rise = row[target.level] - row[source.level]
        look = (arrow.role, arrow.delay, arrow.label, arrow.change, arrow.worth)
        found[source.level][1].append(("out", rise, *look, source.side, target.side))
        found[target.level][1].append(("in", rise, *look, source.side, target.side))
    return {name: (parts, sorted(arrows, key=str)) for name, (parts, arrows) in found.items()}


def _folded_level(group: Sequence[Level]) -> Level:
    first, last = group[0], group[-1]
    if first is last:
        return first
    stem = first.shown.rstrip("0123456789")
    tail = last.shown.removeprefix(stem) if stem and last.shown.startswith(stem) else last.shown
    shown, number = f"{first.shown}{DASH}{tail}", f"{first.number}{DASH}{last.number}"
    return Level(first.name, shown, number, first.labelled)


def _folded_part(first: Part, stack: Sequence[Part]) -> Part:
    total = sum(part.parameters for part in stack)
    return first._replace(parameters=total, copies=len(stack))


def _folded_arrows(picture: Picture, folded: Mapping[str, str]) -> Iterator[Arrow]:
    """Arrows between groups, once each.

    Arrows from one copy to the next are not drawn; arrows within each copy (state, lateral) are
    drawn for the first copy only.
    """
    for arrow in picture.arrows:
        new = arrow._replace(source=folded[arrow.source], target=folded[arrow.target])
        within_one = picture.parts[new.source].level == picture.parts[new.target].level
        if not within_one or (new.source, new.target) == (arrow.source, arrow.target):
            yield new


# --- worth ----------------------------------------------------------------------------------------


def set_worth(picture: Picture, graph: Graph, worth: Mapping[str, float]) -> Picture:
    """Set the worth of every arrow that a selector matches; later selectors win."""
    found: dict[EdgeKey, float] = {}
    for text, number in worth.items():
        if not isinstance(number, int | float) or not isfinite(number):
            raise UsageError(f"worth of `{text}`: {number!r} is not a finite number")
        found |= dict.fromkeys(_selected_edges(graph, text), float(number))
    arrows = (arrow._replace(worth=found.get(arrow.edge)) for arrow in picture.arrows)
    return picture._replace(arrows=tuple(arrows))


def _selected_edges(graph: Graph, text: str) -> set[EdgeKey]:
    try:  # a role alone, like `decoder`, could also mean nodes: they have no worth
        selector = parse_selector(f"{text}@*" if text in set(Role) else text)
    except NotationProblem as problem:
        raise UsageError(": ".join(filter(None, (problem.message, problem.hint)))) from None
    if selector.kind not in ("role", "arrow"):
        raise UsageError(f"worth of `{text}`: select arrows, like `lateral@conv_*`")
    _, edges = select(graph, selector)
    if not edges:
        hint = closest(graph, selector, text)
        raise UsageError(f"worth of `{text}`: it matches nothing{f': {hint}' if hint else ''}")
    return edges
