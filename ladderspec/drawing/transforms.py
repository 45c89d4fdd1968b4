"""Picture -> Picture: compare two networks, draw several rows as one, give arrows their worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from itertools import groupby
from math import isfinite
from typing import Any

from ladderspec.drawing.options import View, check_choice
from ladderspec.drawing.picture import Arrow, Change, Level, Part, Picture, TaskLabel
from ladderspec.drawing.typesetting import DASH
from ladderspec.errors import UsageError
from ladderspec.names import INPUT, Role, Side
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
    """The title of a comparison, with the name of its base."""
    if base.title != new.title:
        return f"{new.title}, compared with {base.title}"
    if base.name != new.name:
        return f"{new.name}, compared with {base.name}"
    return f"{base.title} with changes"


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
    """A part of both pictures: changed if its cell, its shape or its parameters differ."""
    tasks = tuple(_compared_tasks(old.tasks, new.tasks))
    if (old.cell, old.shape, old.parameters) == (new.cell, new.shape, new.parameters):
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


# --- several rows as one --------------------------------------------------------------------------


def fold(picture: Picture) -> Picture:
    """Merge neighbouring rows with equal cells, shapes, tasks and arrows; parameters add up."""
    signatures = _signatures(picture)
    runs = groupby(picture.levels, lambda level: signatures[level.name])
    return _merged(picture, [list(run) for _, run in runs])


def merge_rows(picture: Picture, view: View) -> Picture:
    """The rows that a view shows: with `fold`, `group` or `show`, several as one."""
    picture = fold(picture) if view.fold else picture
    if view.mini and view.show is not None:
        return _stubs(picture, _named(picture, view.show))
    if not view.group and view.show is None:
        return picture
    return group(picture, view.show, view.plates or {})


def _stubs(picture: Picture, kept: Set[str]) -> Picture:
    """All rows except the `kept` ones as stubs, which say that the ladder goes on."""
    runs = groupby(picture.levels, lambda level: level.name if level.name in kept else None)
    merged = _merged(picture, [list(run) for _, run in runs])
    return merged._replace(
        levels=tuple(
            level if level.name in kept else level._replace(members=level.names)
            for level in merged.levels
        ),
        parts={
            name: part if part.level in kept else part._replace(members=part.members or (part,))
            for name, part in merged.parts.items()
        },
    )


def number_rows(picture: Picture, view: View) -> Picture:
    """In the mini view, merged rows are stubs; with `levels="index"`, rows are l-1, l, l+1."""
    if view.mini:
        parts = picture.parts
        kept = [
            a for a in picture.arrows if not (parts[a.source].members and parts[a.target].members)
        ]
        picture = picture._replace(arrows=tuple(kept))
    if view.levels != "index":
        return picture
    rows = [i for i, level in enumerate(picture.levels) if not level.members]
    if not rows or rows != list(range(rows[0], rows[-1] + 1)):
        raise UsageError(
            "levels `index`: the levels shown are not neighbours: choose them by `show`"
        )
    middle = rows[len(rows) // 2]
    indices = [f"l{i - middle:+d}" if i != middle else "l" for i in range(len(picture.levels))]
    named = zip(picture.levels, indices, strict=True)
    return picture._replace(levels=tuple(level._replace(number=index) for level, index in named))


def group(
    picture: Picture,
    show: Sequence[str] | None = None,
    plates: Mapping[str, Sequence[str]] | None = None,
) -> Picture:
    """Merge neighbouring rows that are not shown by themselves.

    Args:
        picture: The rows and their arrows.
        show: Names or patterns of the levels that keep a row. None: those with a delayed arrow,
            and those that a variant changed.
        plates: Rows of one group are in the same plates.
    """
    kept = {level.name for level in picture.levels if INPUT in level.names}
    if show is None:
        ends = [name for arrow in picture.arrows if arrow.delay for name in arrow.edge[:2]]
        kept |= {picture.parts[name].level for name in ends}
        changed = (Change.CHANGED, Change.ADDED)
        kept |= {part.level for part in picture.parts.values() if part.change in changed}
    else:
        kept |= _named(picture, show)
    sides: dict[str, list[Any]] = {
        level.name: [level.matches(patterns) for patterns in (plates or {}).values()]
        for level in picture.levels
    }
    for part in picture.parts.values():
        sides[part.level].append((part.side, part.change, part.phase))
    runs = groupby(
        picture.levels,
        lambda level: level.name if level.name in kept else sides[level.name],
    )
    return _merged(picture, [list(run) for _, run in runs])


def rows_named(levels: Sequence[Level], patterns: Sequence[str], prefix: str) -> list[int]:
    """The rows that names or patterns select; each of them must select one."""
    for pattern in patterns:
        if not any(level.matches([pattern]) for level in levels):
            names = [name for level in levels for name in level.names]
            check_choice("level", pattern, names, prefix)
    return [row for row, level in enumerate(levels) if level.matches(patterns)]


def _named(picture: Picture, show: Sequence[str]) -> set[str]:
    return {picture.levels[row].name for row in rows_named(picture.levels, show, "show: ")}


def _merged(picture: Picture, rows: Sequence[Sequence[Level]]) -> Picture:
    """One row for each group of neighbouring rows."""
    first_of = {level.name: row[0].name for row in rows for level in row}
    stacks: dict[tuple[Side, str, str], list[Part]] = defaultdict(list)
    for level in picture.levels:
        for part in picture.parts.values():
            if part.level == level.name:
                alone = part.name if part.is_further_input else ""
                stacks[part.side, first_of[level.name], alone].append(part)
    parts = [_merged_part(stack, level) for (_, level, _), stack in stacks.items()]
    into = {
        each.name: part.name
        for part, stack in zip(parts, stacks.values(), strict=True)
        for each in stack
    }
    order = {name: index for index, name in enumerate(picture.parts)}
    parts.sort(key=lambda part: order[part.name])
    return picture._replace(
        levels=tuple(map(_merged_level, rows)),
        parts={part.name: part for part in parts},
        arrows=tuple(_merged_arrows(picture, into)),
    )


def _merged_level(row: Sequence[Level]) -> Level:
    first, last = row[0], row[-1]
    if first is last:
        return first
    stem = first.shown.rstrip("0123456789")
    tail = last.shown.removeprefix(stem) if stem and last.shown.startswith(stem) else last.shown
    shown, number = f"{first.shown}{DASH}{tail}", f"{first.number}{DASH}{last.number}"
    members = tuple(name for level in row for name in level.members or (level.name,))
    return Level(first.name, shown, number, first.labelled, members)


def _merged_part(stack: Sequence[Part], level: str) -> Part:
    """The parts of one side; the shape is that of the last one to run."""
    if len(stack) == 1:
        return stack[0]._replace(level=level)
    in_order = stack[::-1] if stack[0].side is Side.DECODER else stack
    return stack[0]._replace(
        level=level,
        shape=in_order[-1].shape,
        parameters=sum(part.parameters for part in stack),
        tasks=tuple(dict.fromkeys(task for part in stack for task in part.tasks)),
        members=tuple(each for part in in_order for each in part.members or (part,)),
        before=None,
    )


def _merged_arrows(picture: Picture, into: Mapping[str, str]) -> Iterator[Arrow]:
    """Arrows between rows, and one of each kind within a row; those along a side are its order."""
    seen = set()
    for arrow in picture.arrows:
        new = arrow._replace(source=into[arrow.source], target=into[arrow.target])
        if new.source == new.target and not new.delay:
            continue
        look = (new.source, new.target, new.role, new.delay, new.label, new.change, new.worth)
        if look not in seen:
            seen.add(look)
            yield new


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
