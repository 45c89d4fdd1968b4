"""What is to be drawn: levels, parts and arrows of a graph, and what a comparison says of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from ladderspec.names import Role, Shape, Side
from ladderspec.wiring.graph import Graph, in_order

TASK_COSTS = {"classification": "CE", "consistency": "MT"}


class Change(StrEnum):
    """What a variant did to a part, an arrow or a task."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Reading(NamedTuple):
    """A task, where it reads."""

    text: str
    only_last: bool
    change: Change = Change.KEPT


class Part(NamedTuple):
    """A node, or several alike that are drawn as one."""

    name: str
    side: Side
    level: str
    cell: Any
    shape: Shape | None
    parameters: int  # with those of the arrows that enter
    readings: tuple[Reading, ...] = ()
    change: Change = Change.KEPT
    before: Part | None = None  # what a changed part was
    phase: str | None = None  # how it meets time in the plan
    copies: int = 1


class Arrow(NamedTuple):
    """An edge of the graph."""

    source: str
    target: str
    key: str
    role: Role
    delay: int
    label: str | None = None
    change: Change = Change.KEPT
    initial: str = "zeros"  # what it carries before the first iteration
    worth: float | None = None  # how thick it is, where arrows are as thick as their worth


class Level(NamedTuple):
    name: str
    shown: str
    number: str
    labelled: bool = False  # `shown` is a label of the spec, not a name


class Picture(NamedTuple):
    """All of it; levels from the input upwards, arrows in the order in which an iteration runs."""

    name: str
    title: str
    levels: tuple[Level, ...]
    parts: Mapping[str, Part]
    arrows: tuple[Arrow, ...]

    @property
    def compares(self) -> bool:
        """Whether it shows what a variant changed."""
        return any(change is not Change.KEPT for change in self.changes())

    @property
    def heaviest(self) -> float | None:
        """The largest worth of an arrow, where arrows have one."""
        return max((arrow.worth for arrow in self.arrows if arrow.worth is not None), default=None)

    def changes(self) -> Iterator[Change]:
        yield from (arrow.change for arrow in self.arrows)
        for part in self.parts.values():
            yield part.change
            yield from (reading.change for reading in part.readings)


def picture_of(graph: Graph, phases: Mapping[str, str] | None = None) -> Picture:
    """The picture of one graph; `phases` says of nodes how they meet time: once, loop, sequence."""
    names = in_order(graph)
    inhabited = {graph.nodes[name]["level"] for name in names}
    levels = [level for level in graph.graph["levels"] if level in inhabited]
    labels: Mapping[str, str] = graph.graph["labels"]
    order = graph.graph["order"]
    return Picture(
        name=graph.graph["name"],
        title=_title(graph),
        levels=tuple(
            Level(name, labels.get(name, name), str(order[name]), name in labels) for name in levels
        ),
        parts={name: _part(graph, name, phases or {}) for name in names},
        arrows=tuple(_arrows(graph, names)),
    )


def _title(graph: Graph) -> str:
    """Its own, and what was taken away by hand."""
    title = str(graph.graph["title"] or graph.graph["name"])
    without = graph.graph.get("without", ())
    more = f" and {len(without) - 2} more" if len(without) > 3 else ""
    shown = ", ".join(without[:2] if more else without)
    return f"{title} without {shown}{more}" if without else title


def _part(graph: Graph, name: str, phases: Mapping[str, str]) -> Part:
    facts = graph.nodes[name]
    arrows = sum(count or 0 for _, _, count in graph.in_edges(name, data="parameters"))
    return Part(
        name=name,
        side=facts["side"],
        level=facts["level"],
        cell=facts["cell"],
        shape=facts.get("shape"),
        parameters=(facts.get("parameters") or 0) + arrows,
        readings=tuple(_tasks_at(graph, name)),
        phase=phases.get(name),
    )


def _tasks_at(graph: Graph, node: str) -> Iterator[Reading]:
    for name, entry in graph.graph["tasks"].items():
        if node in entry["at"]:
            task = entry["task"]
            cost = getattr(task, "cost", None) or TASK_COSTS.get(task.kind, task.kind)
            text = f"{task.label or name}: {cost.upper()}{_weight(task.weight)}"
            yield Reading(text, task.when == "last")


def _weight(weight: Any) -> str:
    """
    >>> _weight(1.0), _weight(100.0) == " " + chr(0xD7) + " 100"
    ('', True)
    """
    if not isinstance(weight, int | float):
        return f" \u00d7 {weight.start:g}\u2026{weight.to:g}"
    return "" if weight == 1 else f" \u00d7 {weight:g}"


def _arrows(graph: Graph, names: list[str]) -> Iterator[Arrow]:
    roles = {role: index for index, role in enumerate(Role)}
    for target in names:
        found = [
            Arrow(
                source, target, key, facts["role"], facts["delay"], facts.get("label"),
                initial=graph.nodes[source].get("initial", "zeros"),
            )
            for source, _, key, facts in graph.in_edges(target, keys=True, data=True)
        ]  # fmt: skip
        yield from sorted(found, key=lambda arrow: (roles[arrow.role], arrow.delay, arrow.source))
