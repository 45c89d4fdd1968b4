"""Graph -> Picture: the levels, parts and arrows to draw, before anything has a position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ladderspec.drawing.typesetting import TIMES
from ladderspec.names import INPUT, Role, Shape, Side, node_name
from ladderspec.wiring.graph import Graph, copies, in_order

SHARED = node_name(Side.ENCODER, INPUT)  # the only node that does not exist for each group
EXPLANATION = node_name(Side.DECODER, INPUT)  # what the groups make of it: pi and mu


class Change(StrEnum):
    """The change of a part, an arrow or a task by a variant."""

    UNCHANGED = "unchanged"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class TaskLabel(NamedTuple):
    """A task, shown in the part that it reads."""

    text: str
    only_last: bool  # it reads the last iteration only
    change: Change = Change.UNCHANGED


class Part(NamedTuple):
    """A node, or several identical nodes drawn as one."""

    name: str
    side: Side
    level: str
    cell: Any
    shape: Shape | None
    parameters: int  # including those of incoming arrows
    tasks: tuple[TaskLabel, ...] = ()
    change: Change = Change.UNCHANGED
    before: Part | None = None  # the same part in the base, if it changed
    phase: str | None = None  # its phase in the plan: once or loop
    symbol: str | None = None  # the paper's letters for its value
    value: tuple[str, int] | None = None  # a letter below it, and how far ahead in time it is
    members: tuple[Part, ...] = ()  # the nodes drawn as one, in the order in which they run
    for_each_group: bool = False  # although it is outside the plate of the groups

    @property
    def is_further_input(self) -> bool:
        return self.side is Side.INPUT


class Arrow(NamedTuple):
    """An edge of the graph."""

    source: str
    target: str
    key: str
    role: Role
    delay: int
    label: str | None = None
    change: Change = Change.UNCHANGED
    initial: str = "zeros"  # its value before the first iteration: zeros, learned or random
    worth: float | None = None  # drawn as line width

    @property
    def edge(self) -> tuple[str, str, str]:
        """The edge of the graph: source, target, key."""
        return (self.source, self.target, self.key)


class Level(NamedTuple):
    """A level of the graph, or several levels drawn as one row."""

    name: str
    shown: str
    number: str
    labelled: bool = False  # `shown` is a label from the spec, not the name
    members: tuple[str, ...] = ()  # the levels drawn as one

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all levels in this row."""
        return self.members or (self.name,)

    def matches(self, patterns: Iterable[str]) -> bool:
        """Whether a name or a pattern like `conv_*` selects this row."""
        return any(fnmatchcase(name, pattern) for pattern in patterns for name in self.names)


class Picture(NamedTuple):
    """Levels from the input upwards; arrows in the order in which an iteration runs."""

    name: str
    title: str
    levels: tuple[Level, ...]
    parts: Mapping[str, Part]
    arrows: tuple[Arrow, ...]
    groups: int | None = None  # copies of everything except the input: a plate, as in the paper

    @property
    def plate_label(self) -> str:
        """The label of the plate around the groups; empty if there are none."""
        return f"K = {self.groups}" if self.groups else ""

    @property
    def names(self) -> dict[tuple[Side, str], str]:
        """The name of the part on each side of a level; further inputs have no side."""
        parts = self.parts.items()
        return {(part.side, part.level): name for name, part in parts if not part.is_further_input}

    @property
    def further_inputs(self) -> list[Part]:
        """The inputs beside that at the bottom of the encoder."""
        return [part for part in self.parts.values() if part.is_further_input]

    @property
    def has_delays(self) -> bool:
        return any(arrow.delay for arrow in self.arrows)

    @property
    def is_comparison(self) -> bool:
        """Whether it shows what a variant changed."""
        return any(change is not Change.UNCHANGED for change in self.changes())

    @property
    def largest_worth(self) -> float | None:
        """None if no arrow has a worth."""
        return max((arrow.worth for arrow in self.arrows if arrow.worth is not None), default=None)

    def changes(self) -> Iterator[Change]:
        yield from (arrow.change for arrow in self.arrows)
        for part in self.parts.values():
            yield part.change
            yield from (task.change for task in part.tasks)


def picture_of(graph: Graph, phases: Mapping[str, str] | None = None) -> Picture:
    """The picture of one graph; `phases` maps nodes to once or loop."""
    names = in_order(graph)
    parts = {name: _part(graph, name, phases or {}) for name in names}
    return Picture(
        name=graph.graph["name"],
        title=_title(graph),
        levels=tuple(_levels(graph, {part.level for part in parts.values()})),
        parts=parts,
        arrows=tuple(_arrows(graph, names)),
        groups=copies(graph),
    )


def _levels(graph: Graph, used: Set[str]) -> Iterator[Level]:
    labels: Mapping[str, str] = graph.graph["labels"]
    for number, name in enumerate(graph.graph["levels"]):
        if name in used:
            yield Level(name, labels.get(name, name), str(number), name in labels)


def _title(graph: Graph) -> str:
    """The title of the spec, with what `without` removed from it."""
    title = str(graph.graph["title"] or graph.graph["name"])
    without = graph.graph.get("without", ())
    more = f" and {len(without) - 2} more" if len(without) > 3 else ""
    shown = ", ".join(without[:2] if more else without)
    return f"{title} without {shown}{more}" if without else title


def _part(graph: Graph, name: str, phases: Mapping[str, str]) -> Part:
    node = graph.nodes[name]
    grouped = copies(graph) is not None
    incoming = sum(count or 0 for _, _, count in graph.in_edges(name, data="parameters"))
    return Part(
        name=name,
        side=node["side"],
        level=node["level"],
        cell=node["cell"],
        shape=node.get("shape"),
        parameters=(node.get("parameters") or 0) + incoming,
        tasks=tuple(_tasks_at(graph, name)),
        phase=phases.get(name),
        symbol=_symbol(name, node["cell"]) if grouped else None,
        value=None if grouped else _value(graph, name),
        for_each_group=grouped and name == EXPLANATION,
    )


def _symbol(name: str, cell: Any) -> str | None:
    """The letters at the bottom of the paper's figure of groups [f:tagger]."""
    if name == EXPLANATION:
        return r"\pi, \mu"
    if name == SHARED:
        return r"\tilde{x}" if cell.noise and cell.noise.active else "x"
    return None


def _value(graph: Graph, name: str) -> tuple[str, int] | None:
    """The input x, and its estimate: of the next frame, if a task predicts that."""
    if name == EXPLANATION:
        tasks = [entry["task"] for entry in graph.graph["tasks"].values() if name in entry["at"]]
        return r"\hat{x}", max((getattr(task, "ahead", 0) for task in tasks), default=0)
    return ("x", 0) if name == SHARED else None


def _tasks_at(graph: Graph, node: str) -> Iterator[TaskLabel]:
    for name, entry in graph.graph["tasks"].items():
        if node in entry["at"]:
            task = entry["task"]
            weight = (task.node_weights([node]) or {}).get(node, task.weight)
            text = f"{task.label or name}: {task.cost_label}{_weight(weight)}"
            yield TaskLabel(text, task.when == "last")


def _weight(weight: Any) -> str:
    """
    >>> _weight(1.0), _weight(100.0) == " " + chr(0xD7) + " 100"
    ('', True)
    """
    if not isinstance(weight, int | float):
        return f" {TIMES} {weight.start:g}\u2026{weight.to:g}"
    return "" if weight == 1 else f" {TIMES} {weight:g}"


def _arrow_label(edge: Any) -> str | None:
    """The label of an arrow; one without weights, that shares or that carries a tap says so."""
    label: str | None = edge.get("label")
    scale: float | None = edge.get("scale")
    if label:
        return label
    found = []
    if edge.get("share") and edge.get("shared"):
        found.append(f"= {edge['shared'].split('.')[1]}$$")  # text, without subscripts
    elif edge.get("map") or scale is not None:
        found.append("id" if scale in (None, 1) else f"{scale:g} id")
    if edge.get("tap") not in (None, "output"):
        found.append({"normalised": "$z$"}.get(edge["tap"], edge["tap"]))
    return " ".join(found) or None


def _arrows(graph: Graph, names: list[str]) -> Iterator[Arrow]:
    order = list(Role)
    for target in names:
        incoming = [
            Arrow(
                source, target, key, edge["role"], edge["delay"], _arrow_label(edge),
                initial=_initial(graph.nodes[source]),
            )
            for source, _, key, edge in graph.in_edges(target, keys=True, data=True)
        ]  # fmt: skip
        yield from sorted(incoming, key=lambda a: (order.index(a.role), a.delay, a.source))


def _initial(source: Any) -> str:
    return "random" if source["cell"].first_value else source.get("initial", "zeros")
