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
    forms_of,
    groups_of,
    in_order,
    steps_of,
    unit_of,
)
from ladderspec.wiring.readings import reading_of
from ladderspec.wiring.selection import closest
from ladderspec.wiring.shapes import site_of
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
        *_of_taps(graph),
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
    here = {str(value.place) for items in tables for _, value in items}
    yield from (note for place, note in fields.items() if note and (place in here or not changes))


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
        if cell is groups_of(graph):
            continue
        site, out = site_of(graph, node), graph.nodes[node]["shape"]
        declared, read = _declared(cell, site, out), cell.signature().keywords
        maps = [edge["projection"] for *_, edge in graph.in_edges(node, data=True)]
        bare = not any(map.has_weight for map in maps)
        for name, value in items_of(text):
            if name == "initial":
                unread = (
                    value.value == "learned"
                    and "initial" not in graph.nodes[node]["cell_parameters"]
                )
                why = f"`initial` of {node} changes nothing: no delayed arrow reads it"
                yield str(value.place), why if unread else ""
            if name in Cell.model_fields or name in read or is_input(node):
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
        declared = cell.parameters(site, out), cell.constants(site, out), cell.node_norm()
    except Exception:  # the cell of a user may refuse a value in any way
        return None
    norms = {cell.node_norm()[1], *(map.norm for map in maps)} - {"none"}
    keeps = any(NORMS[norm].statistics for norm in norms)
    return maps, sizes, declared, cell.needs(site.side), keeps and getattr(cell, "statistics", None)


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
        return f"{activation.limits} by `activation: {activation.name}`"
    if getattr(cell, "crelu", False):
        return "rectified by `crelu: true`"
    if cell.stateful:
        return f"squashed by the tanh of its {cell.cell}"
    for source, _, tap in graph.in_edges(node, data="tap") if cell.keeps_range else ():
        limits = limits_of(graph, source) if tap in (None, "output") else ""
        return f"{limits} at {source}" if limits and " at " not in limits else limits
    return ""


# --- what time allows -----------------------------------------------------------------------------


def _of_time(graph: Graph) -> Iterator[str]:
    """The input must reach a cost, and a cost every arrow that has weights, within all t.

    Sets of t are numbers whose bits are the t. Those of costs begin below the first t, by the sum
    of all delays, so that no way back to an arrow is lost.
    """
    length, unit, tasks = steps_of(graph), unit_of(graph), graph.graph["tasks"]
    before = sum(delay for *_, delay in graph.edges(data="delay"))
    shown = {form.node: form.until for form in forms_of(graph)}
    ahead = max((entry["task"].horizon for entry in tasks.values()), default=0)
    longest = max(until or 0 for until in shown.values()) + ahead + 2 * before + 2
    span = length or longest  # of any number of frames, a long sequence
    always = (1 << span) - 1
    values = {node: always if until is None else (1 << until) - 1 for node, until in shown.items()}
    reached = _spread(graph, values, span + before)
    costs: dict[str, int] = {}
    for name, entry in tasks.items():
        counts = _counted(entry, span)
        if length is None:  # it may be a little longer
            for _ in range(before):
                counts |= counts >> 1
        if not counts:
            yield f"task `{name}`: no t counts, because `when` is 0 at every t with a target"
            continue
        for node in entry["at"]:
            arrival, last = (reached[node] & -reached[node]).bit_length(), counts.bit_length()
            if not reached[node]:
                yield f"task `{name}`: the input never reaches {node}"
            elif arrival > last:
                yield (
                    f"task `{name}`: the input reaches {node} {arrival - 1} {unit} later, but the"
                    f" last t that counts is {last}"
                )
            elif not reached[node] & counts:
                yield (
                    f"task `{name}`: the input is shown too early: none of it is left at {node}"
                    " when the cost counts"
                )
            if entry["task"].teaches and _weighs(entry, node):
                costs[node] = costs.get(node, 0) | counts << before
    trained = _spread(graph.reverse(copy=False), costs, span + before, back=True)
    untrained = [node for node in in_order(graph) if not trained[node] and not is_input(node)]
    if tasks and untrained:
        yield f"{', '.join(untrained)}: no cost trains what only probes and tasks of weight 0 read"
    within = "" if length is None else f" within {length} {unit}"
    for node in in_order(graph):
        for source, _, key, edge in graph.in_edges(node, keys=True, data=True):
            carried = values.get(source, always) << edge["delay"]
            learned = graph.nodes[source]["initial"] == "learned"
            if learned and not _removes_constants(cell_of(graph, node), key, edge["projection"]):
                carried |= (1 << edge["delay"]) - 1
            if edge.get("parameters") and trained[node] and not trained[node] >> before & carried:
                arrow = show_arrow(source, node, edge["delay"])
                yield f"`{arrow}` gets no gradient: no cost{within} depends on it"
        starts = [
            trained[target] >> before & (1 << edge["delay"]) - 1
            for _, target, edge in graph.out_edges(node, data=True)
            if edge["tap"] in (None, "output")  # before the first t, taps are zeros
        ]
        if "initial" in graph.nodes[node]["cell_parameters"] and trained[node] and not any(starts):
            yield f"`initial: learned` of {node} gets no gradient: no cost{within} depends on it"


def _spread(
    graph: nx.MultiDiGraph, start: dict[str, int], span: int, back: bool = False
) -> dict[str, int]:
    """By node, the t of `start` and all t that arrows lead to from there; `back` in time."""
    found = dict.fromkeys(graph, 0) | start
    changed = list(start)
    while changed:
        node = changed.pop()
        for _, target, delay in graph.out_edges(node, data="delay"):
            moved = found[node] >> delay if back else found[node] << delay & (1 << span) - 1
            if moved & ~found[target]:
                found[target] |= moved
                changed.append(target)
    return found


def _of_taps(graph: Graph) -> Iterator[str]:
    """Gain and offset come after the normalised pre-activation."""
    read = {node for entry in graph.graph["tasks"].values() for node in entry["at"]}
    for node in in_order(graph):
        taps = {tap for *_, tap in graph.out_edges(node, data="tap")}
        if taps == {"normalised"} and node not in read:
            yield (
                f"the gain and the offset of {node} get no gradient: all that reads it has `tap:"
                " normalised`"
            )


def _of_initial_values(graph: Graph) -> Iterator[str]:
    """A learned initial value is the same in all samples, so that batch norms may remove it."""
    for node in in_order(graph):
        later = [
            _removes_constants(cell_of(graph, target), key, edge["projection"])
            for _, target, key, edge in graph.out_edges(node, keys=True, data=True)
            if edge["delay"]
        ]
        if "initial" in graph.nodes[node]["cell_parameters"] and all(later):
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


def _counted(entry: TaskAttributes, length: int) -> int:
    """The t, from 0, at which a task counts, as bits."""
    task = entry["task"]
    end = max(length - task.horizon, 0)
    if isinstance(task.when, tuple):
        return sum(1 << t for t, weight in enumerate(task.when[:end]) if weight)
    return (1 << end) - 1 if task.when == "all" else 1 << end >> 1


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
                    f" decoders above it do not reach {node} this way, unless row"
                    f" `{levels[levels.index(level) + 1]}` gets a decoder"
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
            pairs = zip(map.filter, map.stride, strict=True)
            whole = show_shape(tuple(max(k, s, 2 * s - 2) for k, s in pairs))
            yield (
                f"a filter of {filter} with stride {show_shape(map.stride)} leaves"
                f" {max(100 * (1 - share), 1):.0f} % of the places without a value; one of {whole}"
                " reaches all"
            )
    if map.kind == "conv":
        taps = zip(map.filter, map.dilation, map.source[1:], strict=True)
        largest = tuple(min(k, (2 * n - 1) // d + 1) for k, d, n in taps)
        if largest != map.filter:
            yield (
                f"a filter of {filter} has taps that reach only padding on maps of {size}; one of"
                f" {show_shape(largest)} has none"
            )


def _reached(taps: int, stride: int, source: int, target: int) -> set[int]:
    """The places that a transposed filter reaches, along one axis."""
    first = (taps - 1) // 2
    starts = [index * stride - first for index in range(source)]
    return {start + tap for start in starts for tap in range(taps)} & {*range(target)}
