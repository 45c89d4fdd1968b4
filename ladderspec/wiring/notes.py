"""Notes on a graph that is valid, but may not do what its author means."""

from __future__ import annotations

import math
from collections.abc import Iterator

import networkx as nx

from ladderspec.cells import ACTIVATIONS, Cell, Projection, Site
from ladderspec.cells.fields import Noise, NormChoice
from ladderspec.cells.norms import NORMS
from ladderspec.cells.pool import Pool
from ladderspec.language.read import Spec
from ladderspec.names import Role, Shape, Side, is_input, show_arrow, show_shape, split_node
from ladderspec.tasks.base import Ramp
from ladderspec.text.notation import Selector
from ladderspec.text.tree import items_of
from ladderspec.wiring.graph import (
    Graph,
    TaskAttributes,
    cell_of,
    groups_of,
    in_order,
    inputs_of,
    steps_of,
    unit_of,
)
from ladderspec.wiring.selection import closest
from ladderspec.wiring.shapes import reading_of, site_of
from ladderspec.wiring.wire import Compilation


def take_notes(work: Compilation, spec: Spec) -> None:
    """Add notes to a graph without mistakes."""
    if work.broken or work.findings:
        return
    graph = work.graph
    found = [
        *_of_the_text(spec, graph),
        *_of_ineffective(work, spec),
        *_of_tasks(graph),
        *_of_time(graph),
        *_of_initial_values(graph),
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
        if entry["task"].clean and not any(_noisy(graph, node) for node in graph):
            yield (
                f"task `{name}`: `target: clean` compares two equal passes: there is no noise;"
                " give the input or a cell `noise: {gaussian: 0.3}`"
            )


def _noisy(graph: Graph, node: str) -> bool:
    noise = getattr(cell_of(graph, node), "noise", None)
    return isinstance(noise, Noise) and noise.active


# --- fields without effect ------------------------------------------------------------------------


def _of_ineffective(work: Compilation, spec: Spec) -> Iterator[str]:
    """A field is noted if nothing that it applies to follows it.

    If variants or rows change a spec, only their own fields are noted: their changes may well leave
    fields of the spec without effect.
    """
    fields = work.graph.graph["ineffective"]
    for place, note in (*_of_roles(work), *_of_fields(work)):
        fields[place] = note and fields.get(place, note)
    changes = spec.patches[1:]
    tables = (items_of(patch.node.get(key)) for patch in changes for key in ("set", "edges"))
    own = {str(value.place) for items in tables for _, value in items}
    yield from (note for place, note in fields.items() if note and (place in own or not changes))


def _of_roles(work: Compilation) -> Iterator[tuple[str, str]]:
    """The places that change the arrows of a role, each with a note if there are none."""
    there = {role for _, _, role in work.graph.edges(data="role")}
    there |= {role for _, role in work.removed_edges}
    for place, role in work.changed.items():
        why = closest(work.graph, Selector("role", role=role), role)
        used = role in there or work.dropped
        yield place, "" if used else f"`edges.{role}` changes nothing: {why}"


def _of_fields(work: Compilation) -> Iterator[tuple[str, str]]:
    """The fields of cells in the text, each with a note if another value would change nothing."""
    graph = work.graph
    for node in in_order(graph):
        cell, text = cell_of(graph, node), work.texts[node]
        if is_input(node) or cell is groups_of(graph):
            continue
        site, out = site_of(graph, node), graph.nodes[node]["shape"]
        declared, read = _declared(cell, site, out), cell.signature().keywords
        maps = [edge["projection"] for *_, edge in graph.in_edges(node, data=True)]
        bare = not any(map.has_weight for map in maps)
        for name, value in items_of(text):
            if name in Cell.model_fields or name in read:
                continue
            other = cell.model_copy(update={name: _another(cell, name)})
            used = other == cell or _declared(other, site, out) != declared
            why = ": no arrow into it has weights" if bare else ""
            why = {
                "statistics": ": it has no batch norm",
                "resample": ": all maps that arrive have its size",
            }.get(name, why)
            yield str(value.place), "" if used else f"`{name}` of {node} changes nothing{why}"


def _another(cell: Cell, name: str) -> object:
    """Another value of a field, or the same if there is none to try."""
    value, info = getattr(cell, name), type(cell).model_fields[name]
    if isinstance(value, NormChoice) and value.kind != "none":
        return NormChoice(kind="none", terms=value.terms)
    if type(value) is int:
        return value + 1
    if isinstance(value, tuple) and all(type(each) is int for each in value):
        return tuple(each + 1 for each in value)
    return value if info.is_required() else info.get_default(call_default_factory=True)


def _declared(cell: Cell, site: Site, out: Shape) -> object:
    """All that a cell declares at its site; None if it cannot stand there."""
    try:
        maps = [cell.project(site, inlet, out) for inlet in site.inlets]
        sizes = cell.out_shape(site), cell.row_stride, cell.state_shapes(out)
        own = cell.parameters(site, out), cell.constants(site, out), cell.node_norm()
    except Exception:  # the cell of a user may refuse a value in any way
        return None
    norms = {cell.node_norm()[1], *(map.norm for map in maps)} - {"none"}
    keeps = any(NORMS[norm].statistics for norm in norms)
    return maps, sizes, own, cell.needs(site.side), keeps and getattr(cell, "statistics", None)


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
        if end is not None and end < 0:
            yield f"task `{name}`: no t counts, because `when` is 0 at every t with a target"
            continue
        for node in entry["at"]:
            if node not in arrival:
                yield f"task `{name}`: the input never reaches {node}"
            elif end is not None and arrival[node] > end:
                yield (
                    f"task `{name}`: the input reaches {node} {arrival[node]} {unit} later, but the"
                    f" last t that counts is {end + 1}"
                )
            if entry["task"].teaches and _weighs(entry, node):
                before = nx.single_source_dijkstra_path_length(backwards, node, weight="delay")
                for source, delay in before.items():
                    known = 10**9 if end is None else end
                    last[source] = max(last.get(source, -1), known - delay)
    untrained = [node for node in in_order(graph) if node not in last and not is_input(node)]
    if tasks and untrained:
        yield f"{', '.join(untrained)}: no cost trains what only probes and tasks of weight 0 read"
    if not tasks or length == 1:
        return
    for node in in_order(graph):
        for source, _, key, edge in graph.in_edges(node, keys=True, data=True):
            learned = graph.nodes[source]["initial"] == "learned"
            starts = learned and not _removes_constants(
                cell_of(graph, node), key, edge["projection"]
            )
            owns = edge.get("parameters") and not starts
            if owns and node in last and last[node] < edge["delay"]:
                arrow = show_arrow(source, node, edge["delay"])
                yield f"`{arrow}` gets no gradient: no cost within {length} {unit} depends on it"


def _of_initial_values(graph: Graph) -> Iterator[str]:
    """A learned initial value is the same in all samples, so that batch norms may remove it."""
    for node in in_order(graph):
        later = [
            _removes_constants(cell_of(graph, target), key, edge["projection"])
            for _, target, key, edge in graph.out_edges(node, keys=True, data=True)
            if edge["delay"]
        ]
        if "initial" in graph.nodes[node]["own"] and all(later):
            yield (
                f"`initial: learned` of {node} gets no gradient: batch norms remove what is the"
                " same in all samples"
            )


def _removes_constants(cell: Cell, key: str, map: Projection) -> bool:
    """Whether a norm over samples follows a map that has no borders."""
    norms = {map.norm, cell.node_norm()[1]} if cell.signature().sums(key) else {map.norm}
    plain = len(map.target) == 1 or map.kind in ("none", "scaled") or map.filter == (1, 1)
    return plain and any(NORMS[norm].statistics for norm in norms - {"none"})


def _weighs(entry: TaskAttributes, node: str) -> bool:
    """Whether the weight of a task at a node is ever above 0."""
    task = entry["task"]
    if (weights := task.node_weights([node])) is not None:
        return bool(weights.get(node))
    return bool(
        max(task.weight.start, task.weight.to) if isinstance(task.weight, Ramp) else task.weight
    )


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
            cell, size = cell_of(graph, node), edge["projection"].source
            window = cell.window if isinstance(cell, Pool) else None
            if window and any(k > n for k, n in zip(window, size[1:], strict=True)):
                yield (
                    f"{node}: a window of {show_shape(window)} is larger than the maps of"
                    f" {show_shape(size[1:])}; `filter: global` reads whole maps"
                )


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
