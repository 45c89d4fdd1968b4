"""Two graphs -> what differs: rows, nodes, arrows, fields, tasks, parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ladderspec.names import show_arrow, show_shape
from ladderspec.wiring.graph import (
    EdgeAttributes,
    EdgeKey,
    Graph,
    NodeAttributes,
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


def compare(first: Graph, second: Graph) -> list[Difference]:
    """All differences, in the order in which an iteration visits them."""
    return [
        *_levels(first, second),
        *_nodes(first, second),
        *_arrows(first, second),
        *_tasks(first, second),
        *_time(first, second),
    ]


def _levels(first: Graph, second: Graph) -> list[Difference]:
    one, two = first.graph["levels"], second.graph["levels"]
    gone = [Difference("-", "level", level) for level in one if level not in two]
    return gone + [Difference("+", "level", level) for level in two if level not in one]


def _nodes(first: Graph, second: Graph) -> list[Difference]:
    found = []
    for node in in_order(first):
        if node not in second:
            found.append(Difference("-", "node", node, _cell(first, node), -_own(first, node)))
        elif change := _changes(first.nodes[node], second.nodes[node]):
            gained = _own(second, node) - _own(first, node)
            found.append(Difference("~", "node", node, change, gained))
    for node in in_order(second):
        if node not in first:
            found.append(Difference("+", "node", node, _cell(second, node), _own(second, node)))
    return found


def _own(graph: Graph, node: str) -> int:
    return int(graph.nodes[node]["parameters"])


def _cell(graph: Graph, node: str) -> str:
    return str(graph.nodes[node]["cell"].cell)


def _changes(one: NodeAttributes, two: NodeAttributes) -> str:
    shared = {*type(one["cell"]).model_fields} & {*type(two["cell"]).model_fields}
    before, after = (
        {"cell": each["cell"].cell, **_flat(each["cell"].model_dump(include=shared))}
        for each in (one, two)
    )
    fields = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    changes = [f"{key} {_show(before.get(key))} -> {_show(after.get(key))}" for key in fields]
    if one["shape"] != two["shape"]:
        changes.append(f"shape {show_shape(one['shape'])} -> {show_shape(two['shape'])}")
    if one["initial"] != two["initial"] and "initial" not in fields:
        changes.append(f"initial {one['initial']} -> {two['initial']}")
    return ", ".join(changes)


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


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "unset" if value is None else str(value)


def _arrows(first: Graph, second: Graph) -> list[Difference]:
    one, two = _by_ends(first), _by_ends(second)
    found = []
    for ends, edge in one.items():
        if ends not in two:
            found.append(_arrow("-", ends, edge))
        elif change := _changed_arrow(ends, edge, two[ends]):
            found.append(change)
    return found + [_arrow("+", ends, edge) for ends, edge in two.items() if ends not in one]


_COMPARED = ("delay", "filter", "norm", "map", "resample", "scale", "tap", "shared")


def _by_ends(graph: Graph) -> dict[EdgeKey, EdgeAttributes]:
    order = {node: index for index, node in enumerate(in_order(graph))}
    edges = sorted(graph.edges(keys=True, data=True), key=lambda e: (order[e[1]], e[2], e[0]))
    return {(source, target, key): attributes for source, target, key, attributes in edges}


def _arrow(sign: str, ends: EdgeKey, edge: EdgeAttributes) -> Difference:
    count = edge["parameters"] if sign == "+" else -edge["parameters"]
    shown = show_arrow(ends[0], ends[1], edge["delay"])
    return Difference(sign, "arrow", shown, str(edge["role"]), count)


def _changed_arrow(ends: EdgeKey, one: EdgeAttributes, two: EdgeAttributes) -> Difference | None:
    """What differs between two arrows of the same ends; None if nothing does."""
    changes = [
        f"{key} {_show(one.get(key))} -> {_show(two.get(key))}"
        for key in _COMPARED
        if one.get(key) != two.get(key)
    ]
    gains = one["projection"].gain, two["projection"].gain
    if gains[0] != gains[1]:
        changes.append(f"gain {gains[0]:g} -> {gains[1]:g}")
    if not changes and one["projection"] == two["projection"]:
        return None
    shown = show_arrow(ends[0], ends[1], one["delay"])
    gained = two["parameters"] - one["parameters"]
    return Difference("~", "arrow", shown, ", ".join([str(one["role"]), *changes]), gained)


def _tasks(first: Graph, second: Graph) -> list[Difference]:
    one, two = first.graph["tasks"], second.graph["tasks"]
    found = []
    for name in [*one, *(n for n in two if n not in one)]:
        if name not in two:
            lost = -one[name]["parameters"]
            found.append(Difference("-", "task", name, one[name]["task"].kind, lost))
        elif name not in one:
            gained = two[name]["parameters"]
            found.append(Difference("+", "task", name, two[name]["task"].kind, gained))
        elif one[name]["task"] != two[name]["task"]:
            before, after = one[name]["task"].model_dump(), two[name]["task"].model_dump()
            keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            text = ", ".join(f"{k} {_show(before.get(k))} -> {_show(after.get(k))}" for k in keys)
            gained = two[name]["parameters"] - one[name]["parameters"]
            found.append(Difference("~", "task", name, text, gained))
    return found


def _time(first: Graph, second: Graph) -> list[Difference]:
    one, two = ((g.graph["frames"], g.graph["iterations"]) for g in (first, second))
    if one == two:
        return []
    return [Difference("~", "time", "frames, iterations", f"{one} -> {two}")]


def summary(first: Graph, second: Graph) -> str:
    one, two = parameters(first), parameters(second)
    return f"parameters: {one:,} -> {two:,} ({two - one:+,})"
