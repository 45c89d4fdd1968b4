"""The rules of the graph and the `expect` of a spec, each reported at what breaks it."""

from __future__ import annotations

import networkx as nx

from ladderspec.cells import Cell
from ladderspec.errors import Place, tick
from ladderspec.language.read import Spec
from ladderspec.language.repair import UNKNOWN
from ladderspec.names import GROUPS, INPUT, TABLE, Role, Side, show_arrow, show_shape
from ladderspec.wiring.graph import (
    EdgeAttributes,
    Graph,
    in_order,
    inputs_of,
    location,
    now,
    parameters,
    steps_of,
    unit_of,
)
from ladderspec.wiring.selection import missing_node
from ladderspec.wiring.wire import Compilation


def check(work: Compilation) -> None:
    """Cells have the edges they need and none that they cannot take; no cycle within one t."""
    lacking: dict[tuple[object, int, Role | None], list[str]] = {}
    for node in in_order(work.graph):
        _check_taken(work, node)
        _check_readout(work, node)
        for role in needed(work.graph, node):
            _, (place, _) = _cause(work, node, role)
            where = (id(place.source), place.start) if place else (node, 0)
            lacking.setdefault((*where, role), []).append(node)
    if not work.broken:  # otherwise nothing has been pruned
        for (_, _, role), nodes in lacking.items():
            _report_lack(work, nodes, role)
    _check_cycles(work)
    if "time" not in work.unsure:
        _check_delays(work)
        _check_inputs(work)
        _check_statistics(work)


def _check_taken(work: Compilation, node: str) -> None:
    attributes = work.graph.nodes[node]
    cell = attributes["cell"]
    arrows = [
        (show_arrow(a, node, e["delay"]), e) for a, _, e in work.graph.in_edges(node, data=True)
    ]
    refused = [(arrow, edge) for arrow, edge in arrows if edge["role"] not in cell.takes]
    for arrow, edge in refused:
        hint = f"arrows it takes: {', '.join(_possible(cell, attributes['side']))}"
        message = f"{cell.cell} at {node} takes no {edge['role']} arrow: {arrow}"
        if cell.cell == "Input":
            message, hint = f"no arrow can lead to the input: {arrow}", "to the level above it?"
        work.report("G204", message, edge, hint)
    if cell.single and not refused and len(arrows) > 1:
        names = ", ".join(arrow for arrow, _ in arrows)
        message = f"{cell.cell} at {node} copies one value, but several arrive: {names}"
        declared = [edge for _, edge in arrows if edge["declared"]]
        work.report("G204", message, (declared or [attributes])[0], "use convG3, which adds")


def _check_readout(work: Compilation, node: str) -> None:
    """The explanation of the groups is that of the input."""
    attributes = work.graph.nodes[node]
    if attributes["cell"].cell == "Readout" and attributes["level"] != INPUT:
        message = f"Readout at {node}: it explains the input, so it is the decoder of the first row"
        work.report("G204", message, attributes, "use convG1 or convG3 on other rows")


def _possible(cell: Cell, side: Side) -> list[str]:
    """The roles that a cell takes on its side, in the order of the table."""
    ends = {role: wiring.target for role, wiring in TABLE.items()}
    here = [role for role in Role if role in cell.takes and ends.get(role, side) is side]
    lateral = [role for role in (Role.LATERAL, Role.STATE, Role.SKIP) if role in cell.takes]
    return [role.value for role in (lateral if side is Side.LATERAL else here)]


# --- needed edges ---------------------------------------------------------------------------------


def needed(graph: Graph, node: str) -> list[Role | None]:
    """The roles that a node needs and lacks; None if it has no incoming edge at all."""
    attributes = graph.nodes[node]
    cell = attributes["cell"]
    present = {role for _, _, role in graph.in_edges(node, data="role")}
    needs = cell.needs(attributes["side"])
    if not needs and not present and cell.cell not in ("Input", UNKNOWN):
        return [None]
    return [role for role in Role if role in needs - present]


def _cause(work: Compilation, node: str, role: Role | None) -> tuple[str, tuple[Place | None, str]]:
    """The node that a removed edge came from, if it was removed too; and what removed the edge."""
    for lost in [role] if role else list(Role):
        if (node, lost) in work.removed_edges:
            source, at = work.removed_edges[node, lost]
            return source, location(at)
    return "", location(work.graph.nodes[node])


def _report_lack(work: Compilation, nodes: list[str], role: Role | None) -> None:
    node = nodes[0]
    attributes = work.graph.nodes[node]
    source, at = _cause(work, node, role)
    message = f"{attributes['cell'].cell} at {node} cannot be without its {role} arrow"
    if role is None:
        message = f"no arrow would lead to {node}"
    notes = [f"nor can {other}" for other in nodes[1:4]]
    notes += [f"nor can {len(nodes) - 4} more"] if len(nodes) > 4 else []
    if at[0] != location(attributes)[0] and attributes["place"] is not None:
        notes.append(f"{node} stands at {attributes['place']}")
    hint = _instead(node, role, source)
    _, removed = work.removed_edges.get((node, role), ("", None)) if role else ("", None)
    if isinstance(getattr(removed, "value", None), list | dict):
        hint = (
            "the list names all levels with such an arrow;"
            f" `{role}: [{{levels: [...], delay: 1}}]` changes the arrows of some"
        )
    if attributes["cell"].cell == "Readout":
        hint = "mu and pi are made of what it carries"
    work.report("G205", message, at, hint, notes)


def _instead(node: str, role: Role | None, source: str) -> str:
    side, _, level = node.partition(".")
    if role is None:
        return f"remove `{node}` too"
    if role is Role.STATE:
        return "a cell without state is Conv or FC"
    if role is Role.ENCODER:
        row = source.partition(".")[2] or level
        return f"`level.{row}` removes the whole row and joins its neighbours"
    if level == GROUPS:
        return (
            "groups compare the input with the mu and pi of the iteration before, which"
            " `decoder: Readout` makes on the first row"
        )
    if side == Side.LATERAL:
        return f"remove `{node}` too"
    return f"remove `{node}` too, or use a cell that can do without: convG3"


# --- time -----------------------------------------------------------------------------------------


def _check_delays(work: Compilation) -> None:
    """An edge whose delay is longer than the sequence has weights, but never carries a value."""
    steps, unit = steps_of(work.graph), unit_of(work.graph)
    if steps is None:
        return
    reported = set()
    for source, target, edge in work.graph.edges(data=True):
        delay, where = edge["delay"], (str(edge["place"]), edge["path"])
        if edge["declared"] and delay >= steps > 1 and where not in reported:
            reported.add(where)  # a role with a delay is many edges of one place
            message = f"`{show_arrow(source, target, delay)}` never carries a value"
            work.report("G208", message, edge, f"there are {steps} {unit}")


def _check_inputs(work: Compilation) -> None:
    """`until` lies within time; an input that is the same at every t is read without a delay."""
    graph = work.graph
    steps, unit = steps_of(graph), unit_of(graph)
    for node in inputs_of(graph):
        attributes = graph.nodes[node]
        until = getattr(attributes["cell"], "until", None)
        if until is not None and steps is not None and until >= steps:
            message = f"`until: {until}` of {node} hides nothing: there are {steps} {unit}"
            work.report("S106", message, attributes, "leave it out, or name an earlier t")
        if getattr(attributes["cell"], "per", None) != "sequence":
            continue
        for _, target, edge in graph.out_edges(node, data=True):
            if edge["delay"]:
                arrow = show_arrow(node, target, edge["delay"])
                message = f"`{arrow}` waits for an input that is the same at every t"
                work.report("G208", message, edge, f"write `{node} -> {target}`")


def _check_statistics(work: Compilation) -> None:
    """Batch norms can keep statistics for each t only if the number of t is fixed."""
    if work.graph.graph["frames"] != "any":
        return
    reported = set()
    for node in in_order(work.graph):
        attributes = work.graph.nodes[node]
        asked = getattr(attributes["cell"], "statistics", None)
        if asked == "per_iteration" and str(attributes["place"]) not in reported:
            reported.add(str(attributes["place"]))  # a row that repeats is many nodes of one place
            message = f"{node} keeps statistics per iteration, but how many is open: `frames: any`"
            hint = "say how many: `time: {frames: 5}`; or `statistics: shared`"
            work.report("G209", message, attributes, hint)


# --- cycles ---------------------------------------------------------------------------------------


def _check_cycles(work: Compilation) -> None:
    graph, today = work.graph, now(work.graph)
    order = {node: index for index, node in enumerate(in_order(graph))}
    for component in nx.strongly_connected_components(today):
        nodes = sorted(component, key=order.__getitem__)
        inside = [e for e in today.out_edges(nodes, keys=True) if e[1] in component]
        if not inside:
            continue
        part = nx.MultiDiGraph(inside)  # in a fixed order, so that the same cycle is reported
        cycle = [(a, b, graph.edges[a, b, k]) for a, b, k in nx.find_cycle(part, nodes[0])]
        path = " -> ".join([cycle[0][0], *(b for _, b, _ in cycle)])
        source, target, edge = max(cycle, key=_could_wait)
        hint = f"let one wait: `{show_arrow(source, target, 1)}`"
        if str(edge["path"]).endswith(edge["role"]):
            hint = f"let them wait: `edges: {{{edge['role']}: {{delay: 1}}}}`"
        work.report("G203", f"at one t the arrows go in a circle: {path}", edge, hint)


def _could_wait(edge: tuple[str, str, EdgeAttributes]) -> tuple[bool, int]:
    """The edge of a cycle that should get a delay: a declared one, else one against the flow."""
    return (edge[2]["declared"], edge[2]["role"].order)


# --- expect ---------------------------------------------------------------------------------------


def check_expect(work: Compilation, spec: Spec) -> None:
    """Compare the graph with what the spec expects of it."""
    graph = work.graph
    if spec.expect is None or work.broken or work.findings:
        return
    root = ("variants", spec.variants[-1], "expect") if spec.variants else ("expect",)
    expected, total = spec.expect, parameters(graph)
    if expected.parameters not in (None, total):
        message = f"expected {expected.parameters:,} parameters, but there are {total:,}"
        work.report("E401", message, spec.at(*root, "parameters"))
    for node, shape in expected.shape.items():
        at = spec.at(*root, "shape", node)
        if node not in graph:
            pruned = any(note.startswith(f"{node} pruned") for note in graph.graph["notes"])
            hint = "pruned: no task reads it" if pruned else missing_node(graph, node)
            place = spec.at(*root, "shape").key_place(node)
            work.report("E401", f"{tick(node)} is not there", (place, at.path), hint)
        elif graph.nodes[node]["shape"] != shape:
            is_now = show_shape(graph.nodes[node]["shape"])
            message = f"expected {node} to be {show_shape(shape)}, but it is {is_now}"
            work.report("E401", message, at)
