"""Notes on a graph that is valid, but may not do what its author means."""

from __future__ import annotations

import math
from collections.abc import Iterator

import networkx as nx

from ladderspec.cells import ACTIVATIONS, Projection
from ladderspec.language.read import Spec
from ladderspec.names import Role, Side, is_input, show_arrow, show_shape, split_node
from ladderspec.text.notation import Selector
from ladderspec.wiring.graph import (
    Graph,
    TaskAttributes,
    cell_of,
    in_order,
    inputs_of,
    steps_of,
    unit_of,
)
from ladderspec.wiring.selection import closest
from ladderspec.wiring.shapes import reading_of
from ladderspec.wiring.wire import Compilation


def take_notes(work: Compilation, spec: Spec) -> None:
    """Add notes to a graph without mistakes."""
    if work.broken or work.findings:
        return
    graph = work.graph
    found = [
        *_of_the_text(spec, graph),
        *_of_roles(work, spec),
        *_of_tasks(graph),
        *_of_time(graph),
        *_of_maps(graph, spec),
    ]
    graph.graph["notes"] += dict.fromkeys(found)


# --- what the text says ---------------------------------------------------------------------------


def _of_the_text(spec: Spec, graph: Graph) -> Iterator[str]:
    for path in [("input",), *(("inputs", name) for name in spec.config.inputs)]:
        size, channels = spec.at(*path, "size"), spec.at(*path, "channels")
        if type(n := size.value) is int:
            other = f"a row of {n} places is [1, {n}]"
            if channels.key != "channels":
                other = f"a vector of {n} numbers is `channels: {n}` without a size"
            yield f"`{size.path}: {n}` is a square, [{n}, {n}]; {other}"
    for name, entry in graph.graph["tasks"].items():
        target = entry["task"].target
        if target in graph:
            yield f"task `{name}`: `target: {target}` is a field of the data, not the node"


def _of_roles(work: Compilation, spec: Spec) -> Iterator[str]:
    if spec.patches[-1].name in ("experiment", "column"):
        return  # which change many networks at once
    there = {role for _, _, role in work.graph.edges(data="role")}
    for role in sorted(work.unused - there):
        why = closest(work.graph, Selector("role", role=role), role)
        yield f"`edges.{role}` changes nothing: {why}"


# --- what tasks read ------------------------------------------------------------------------------


def _of_tasks(graph: Graph) -> Iterator[str]:
    for name, entry in graph.graph["tasks"].items():
        for node in entry["at"]:
            if note := entry["task"].note(reading_of(graph, node), limits_of(graph, node)):
                yield f"task `{name}`: {note}"


def limits_of(graph: Graph, node: str) -> str:
    """How the output of a node is limited, in words; empty if it is not."""
    cell = cell_of(graph, node)
    activation = ACTIVATIONS.get(getattr(cell, "activation", ""))
    if activation is not None and activation.limits:
        return f"{activation.limits} by {activation.name}"
    if getattr(cell, "crelu", False):
        return "rectified by crelu"
    return "squashed by tanh" if cell.stateful else ""


# --- what time allows -----------------------------------------------------------------------------


def _of_time(graph: Graph) -> Iterator[str]:
    """The input must reach a cost, and a cost every arrow that has weights, within all t."""
    length, unit = steps_of(graph), unit_of(graph)
    tasks = graph.graph["tasks"]
    last: dict[str, int] = {}  # the last t at which a node can change a cost that trains it
    inputs = set(inputs_of(graph))
    backwards = _delays(graph).reverse(copy=False)
    arrival = nx.multi_source_dijkstra_path_length(_delays(graph), inputs, weight="delay")
    for name, entry in tasks.items():
        end = None if length is None else _last_counted(entry, length)
        for node in entry["at"]:
            if node not in arrival:
                yield f"task `{name}`: the input never reaches {node}"
            elif end is not None and arrival[node] > end:
                yield (
                    f"task `{name}`: the input reaches {node} {arrival[node]} {unit} later, but the"
                    f" last t that counts is {end + 1}"
                )
            if entry["task"].teaches:
                before = nx.single_source_dijkstra_path_length(backwards, node, weight="delay")
                for source, delay in before.items():
                    known = 10**9 if end is None else end
                    last[source] = max(last.get(source, -1), known - delay)
    if not tasks or length == 1:
        return
    untrained = [node for node in in_order(graph) if node not in last and not is_input(node)]
    if untrained:
        yield f"{', '.join(untrained)}: no cost trains what only probes read"
    for node in in_order(graph):
        for source, _, edge in graph.in_edges(node, data=True):
            owns = edge.get("parameters") and graph.nodes[source]["initial"] != "learned"
            if owns and node in last and last[node] < edge["delay"]:
                arrow = show_arrow(source, node, edge["delay"])
                yield f"`{arrow}` gets no gradient: no cost within {length} {unit} depends on it"


def _delays(graph: Graph) -> nx.DiGraph:
    """The shortest delay between each two nodes that an arrow joins."""
    found = nx.DiGraph()
    found.add_nodes_from(graph)
    for source, target, delay in graph.edges(data="delay"):
        known = found.get_edge_data(source, target, {"delay": delay})["delay"]
        found.add_edge(source, target, delay=min(known, delay))
    return found


def _last_counted(entry: TaskAttributes, length: int) -> int:
    """The last t, from 0, at which a task counts."""
    task = entry["task"]
    if isinstance(task.when, tuple):
        counted = [t for t, weight in enumerate(task.when) if weight]
        return min(max(counted, default=-1), length - 1 - task.horizon)
    return length - 1 - task.horizon


# --- what maps reach ------------------------------------------------------------------------------


def _of_maps(graph: Graph, spec: Spec) -> Iterator[str]:
    levels = graph.graph["levels"]
    # The highest level that a decoder estimates, even if it was pruned.
    top = max((i for i, row in enumerate(spec.config.levels) if row.decoder), default=0)
    top += bool(top and spec.config.groups)  # the level of the groups is below the rows
    top = len(levels) if spec.config.top else top
    for node in in_order(graph):
        for source, _, edge in graph.in_edges(node, data=True):
            arrow = f"`{show_arrow(source, node, edge['delay'])}`"
            side, level = split_node(source)
            if (
                edge["role"] is Role.DECODER
                and not edge["declared"]
                and side is Side.ENCODER
                and level != split_node(node)[1]
                and levels.index(level) <= top
            ):
                yield (
                    f"{arrow}: {node} reads the encoder, because there is no decoder.{level};"
                    f" decoders above it do not reach {node} this way"
                )
            yield from (f"{arrow}: {note}" for note in _of_map(edge["projection"]))


def _of_map(map: Projection) -> Iterator[str]:
    filter, size = show_shape(map.filter), show_shape(map.source[1:])
    if map.kind == "transposed":
        axes = list(zip(map.filter, map.stride, map.source[1:], map.target[1:], strict=True))
        share = math.prod(len(_reached(*axis)) / axis[-1] for axis in axes)
        if share < 1:
            yield (
                f"a filter of {filter} with stride {show_shape(map.stride)} leaves"
                f" {max(100 * (1 - share), 1):.0f} % of the places without a value"
            )
    if map.kind == "conv":
        spans = [d * (k - 1) + 1 for k, d in zip(map.filter, map.dilation, strict=True)]
        if any((span - 1) // 2 >= n for span, n in zip(spans, map.source[1:], strict=True)):
            yield f"a filter of {filter} has taps that reach only padding on maps of {size}"


def _reached(taps: int, stride: int, source: int, target: int) -> set[int]:
    """The places that a transposed filter reaches, along one axis."""
    first = (taps - 1) // 2
    starts = [index * stride - first for index in range(source)]
    return {start + tap for start in starts for tap in range(taps)} & {*range(target)}
