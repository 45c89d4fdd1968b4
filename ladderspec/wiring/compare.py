"""Two graphs -> what differs: rows, nodes, arrows, fields, tasks, parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ladderspec.names import show_arrow, show_shape
from ladderspec.wiring.graph import (
    EdgeAttributes,
    EdgeKey,
    Graph,
    NodeAttributes,
    TaskAttributes,
    in_order,
    parameters,
)


@dataclass(frozen=True)
class Difference:
    """One thing that only one of two graphs has, or that differs between them."""

    sign: str  # - only in the first, + only in the second, ~ changed
    kind: str  # level, node, arrow, task, time
    name: str
    detail: str = ""
    parameters: int = 0  # gained (or lost) with it

    def __str__(self) -> str:
        detail = f"  {self.detail}" if self.detail else ""
        count = f"  ({self.parameters:+,} parameters)" if self.parameters else ""
        return f"{self.sign} {self.kind:<5} {self.name}{detail}{count}"


Shown = tuple[str, str, int]  # a thing in words: its name, what it is, its parameters
T = TypeVar("T")


def compare(first: Graph, second: Graph) -> list[Difference]:
    """All differences, in the order in which an iteration visits them."""
    one, two = first.graph, second.graph
    found = _compare("level", _levels(first), _levels(second), _show_level, lambda a, b: None)
    found += _compare("node", _nodes(first), _nodes(second), _show_node, _change_of_node)
    found += _compare("arrow", _arrows(first), _arrows(second), _show_arrow, _change_of_arrow)
    found += _compare("task", one["tasks"], two["tasks"], _show_task, _change_of_task)
    times = [(about["frames"], about["iterations"]) for about in (one, two)]
    if times[0] != times[1]:
        detail = f"{times[0]} -> {times[1]}"
        found.append(Difference("~", "time", "frames, iterations", detail))
    return found


def _compare(
    kind: str,
    first: Mapping[Any, T],
    second: Mapping[Any, T],
    show: Callable[[Any, T], Shown],
    change: Callable[[T, T], str | None],
) -> list[Difference]:
    """The differences of two graphs in one kind of part; `change` gives None for equal parts."""
    found = []
    for key, one in first.items():
        name, detail, count = show(key, one)
        if key not in second:
            found.append(Difference("-", kind, name, detail, -count))
        elif (changes := change(one, second[key])) is not None:
            gained = show(key, second[key])[2] - count
            found.append(Difference("~", kind, name, changes, gained))
    new = [show(key, two) for key, two in second.items() if key not in first]
    return found + [Difference("+", kind, *each) for each in new]


# --- levels and nodes -----------------------------------------------------------------------------


def _levels(graph: Graph) -> dict[str, str]:
    return {level: level for level in graph.graph["levels"]}


def _show_level(level: str, _: str) -> Shown:
    return level, "", 0


def _nodes(graph: Graph) -> dict[str, NodeAttributes]:
    return {node: graph.nodes[node] for node in in_order(graph)}


def _show_node(name: str, node: NodeAttributes) -> Shown:
    return name, node["cell"].cell, node["parameters"]


def _change_of_node(one: NodeAttributes, two: NodeAttributes) -> str | None:
    shared = {*type(one["cell"]).model_fields} & {*type(two["cell"]).model_fields}
    before, after = (
        {"cell": each["cell"].cell, **_flat(each["cell"].model_dump(include=shared))}
        for each in (one, two)
    )
    changes = _changes(before, after)
    if one["shape"] != two["shape"]:
        changes.append(f"shape {show_shape(one['shape'])} -> {show_shape(two['shape'])}")
    if one["initial"] != two["initial"] and before.get("initial") == after.get("initial"):
        changes.append(f"initial {one['initial']} -> {two['initial']}")
    return ", ".join(changes) or None


def _flat(fields: dict[str, Any], above: str = "") -> dict[str, Any]:
    """
    >>> _flat({"filter": 3, "norm": {"kind": "batch"}})
    {'filter': 3, 'norm.kind': 'batch'}
    """
    found: dict[str, Any] = {}
    for name, value in fields.items():
        below = isinstance(value, dict)
        found |= _flat(value, f"{above}{name}.") if below else {above + name: value}
    return found


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The fields that differ, in words."""
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [f"{key} {_value(before.get(key))} -> {_value(after.get(key))}" for key in keys]


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "unset" if value is None else str(value)


# --- arrows and tasks -----------------------------------------------------------------------------

_OF_MAP = ("kind", "filter", "stride", "norm", "dilation", "channel_groups")
_COMPARED = ("delay", "filter", "norm", "map", "resample", "scale", "tap", "shared")


def _arrows(graph: Graph) -> dict[EdgeKey, EdgeAttributes]:
    order = {node: index for index, node in enumerate(in_order(graph))}
    edges = sorted(graph.edges(keys=True, data=True), key=lambda e: (order[e[1]], e[2], e[0]))
    return {(source, target, key): attributes for source, target, key, attributes in edges}


def _show_arrow(ends: EdgeKey, edge: EdgeAttributes) -> Shown:
    return show_arrow(ends[0], ends[1], edge["delay"]), str(edge["role"]), edge["parameters"]


def _change_of_arrow(one: EdgeAttributes, two: EdgeAttributes) -> str | None:
    before, after = ({key: edge.get(key) for key in _COMPARED} for edge in (one, two))
    gains = {"gain": one["projection"].gain}, {"gain": two["projection"].gain}
    changes = _changes(before, after) + _changes(*gains)
    if not changes and one["projection"] == two["projection"]:
        return None
    if not changes:  # what follows from its ends
        changes = _changes(*({k: getattr(e["projection"], k) for k in _OF_MAP} for e in (one, two)))
    return ", ".join([str(one["role"]), *changes])


def _show_task(name: str, task: TaskAttributes) -> Shown:
    return name, task["task"].kind, task["parameters"]


def _change_of_task(one: TaskAttributes, two: TaskAttributes) -> str | None:
    if one["task"] == two["task"]:
        return None
    return ", ".join(_changes(one["task"].model_dump(), two["task"].model_dump()))


def summary(first: Graph, second: Graph) -> str:
    one, two = parameters(first), parameters(second)
    return f"parameters: {one:,} -> {two:,} ({two - one:+,})"
