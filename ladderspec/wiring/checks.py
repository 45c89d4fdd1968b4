"""The rules of the graph, each said of the arrow, selector or row that breaks it."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import Any

import networkx as nx

from ladderspec.cells import Cell
from ladderspec.cells.unknown import UNKNOWN
from ladderspec.errors import Finding, Findings
from ladderspec.names import TABLE, Role, Side, show_arrow
from ladderspec.wiring.graph import Graph, in_order, now


def check(graph: Graph, findings: Findings) -> None:
    """Cells take and have the arrows they can take and need; no circle within one t."""
    lacking: dict[tuple[object, int, Role | None], list[str]] = {}
    for node in in_order(graph):
        _check_taken(graph, node, findings)
        for role in needed(graph, node):
            _, place, _ = _cause(graph, node, role)
            where = (id(place.source), place.start) if place else (node, 0)
            lacking.setdefault((*where, role), []).append(node)
    if not graph.graph["broken"]:  # else what no task reads is still there
        for (_, _, role), nodes in lacking.items():
            _report_lack(graph, nodes, role, findings)
    _check_cycles(graph, findings)
    _check_delays(graph, findings)
    _check_statistics(graph, findings)


def _check_taken(graph: Graph, node: str, findings: Findings) -> None:
    facts = graph.nodes[node]
    cell: Cell = facts["cell"]
    arrows = [(source, edge) for source, _, edge in graph.in_edges(node, data=True)]
    refused = [(source, edge) for source, edge in arrows if edge["role"] not in cell.takes]
    for source, edge in refused:
        arrow = show_arrow(source, node, edge["delay"])
        hint = f"arrows it takes: {', '.join(_possible(cell, facts['side']))}"
        message = f"{cell.cell} at {node} takes no {edge['role']} arrow: {arrow}"
        if cell.cell == "Input":
            message, hint = f"no arrow can lead to the input: {arrow}", "to the level above it?"
        findings.add(Finding("G204", message, edge["place"], edge["path"], hint))
    if cell.single and not refused and len(arrows) > 1:
        names = ", ".join(show_arrow(source, node, edge["delay"]) for source, edge in arrows)
        message = f"{cell.cell} at {node} copies one value, but several arrive: {names}"
        declared = [edge for _, edge in arrows if edge["declared"]]
        at = declared[0] if declared else facts
        findings.add(Finding("G204", message, at["place"], at["path"], "use convG3, which adds"))


def _possible(cell: Cell, side: Side) -> list[str]:
    """The roles that a cell takes on its side, in the order of the table."""
    ends = {role: wiring.target for role, wiring in TABLE.items()}
    here = [role for role in Role if role in cell.takes and ends.get(role, side) is side]
    lateral = [role for role in (Role.LATERAL, Role.STATE, Role.SKIP) if role in cell.takes]
    return [role.value for role in (lateral if side is Side.LATERAL else here)]


# --- what is lacking ------------------------------------------------------------------------------


def needed(graph: Graph, node: str) -> list[Role | None]:
    """The roles that a node cannot be without and is; None where no arrow arrives at all."""
    facts = graph.nodes[node]
    cell: Cell = facts["cell"]
    present = {role for _, _, role in graph.in_edges(node, data="role")}
    needs = cell.needs(facts["side"])
    if not needs and not present and cell.cell not in ("Input", UNKNOWN):
        return [None]
    return [role for role in Role if role in needs - present]


def _cause(graph: Graph, node: str, role: Role | None) -> tuple[str, Any, str]:
    """The node that a lost arrow came from, if it went too; and the place that removed it."""
    removed = graph.graph.get("removed", {})
    for lost in [role] if role else list(Role):
        if (node, lost) in removed:
            source, word = removed[node, lost]
            return source, word.place, word.path
    return "", graph.nodes[node]["place"], graph.nodes[node]["path"]


def _report_lack(graph: Graph, nodes: list[str], role: Role | None, findings: Findings) -> None:
    node = nodes[0]
    facts = graph.nodes[node]
    source, place, path = _cause(graph, node, role)
    message = f"{facts['cell'].cell} at {node} cannot be without its {role} arrow"
    if role is None:
        message = f"no arrow would lead to {node}"
    notes = [f"nor can {other}" for other in nodes[1:4]]
    notes += [f"nor can {len(nodes) - 4} more"] if len(nodes) > 4 else []
    if place != facts["place"] and facts["place"] is not None:
        notes.append(f"{node} stands at {facts['place']}")
    hint = _instead(node, role, source)
    findings.add(Finding("G205", message, place, path, hint, tuple(notes)))


def _instead(node: str, role: Role | None, source: str) -> str:
    side, _, level = node.partition(".")
    if role is None:
        return f"remove `{node}` too"
    if role is Role.STATE:
        return "a cell without state is Conv or FC"
    if role is Role.ENCODER:
        row = source.partition(".")[2] or level
        return f"`level.{row}` removes the whole row and joins its neighbours"
    if side == Side.LATERAL:
        return f"remove `{node}` too"
    return f"remove `{node}` too, or use a cell that can do without: convG3"


# --- delays ---------------------------------------------------------------------------------------


def _check_delays(graph: Graph, findings: Findings) -> None:
    """An arrow that waits longer than time lasts has weights, but never carries a value."""
    unit = "iterations" if graph.graph["frames"] is None else "frames"
    steps = graph.graph[unit]
    if not isinstance(steps, int) or "time" in graph.graph.get("unsure", ()):
        return
    told = set()
    for source, target, edge in graph.edges(data=True):
        delay, where = edge["delay"], (str(edge["place"]), edge["path"])
        if edge["declared"] and delay >= steps > 1 and where not in told:
            told.add(where)  # a role with a delay is many arrows of one place
            message = f"`{show_arrow(source, target, delay)}` never carries a value"
            hint = f"there are {steps} {unit}"
            findings.add(Finding("G208", message, edge["place"], edge["path"], hint))


# --- statistics -----------------------------------------------------------------------------------


def _check_statistics(graph: Graph, findings: Findings) -> None:
    """Batch norms can keep statistics by t only where the number of t is fixed."""
    if graph.graph["frames"] != "any" or "time" in graph.graph.get("unsure", ()):
        return
    told = set()
    for node in in_order(graph):
        facts = graph.nodes[node]
        asked = getattr(facts["cell"], "statistics", None)
        if asked == "per_iteration" and str(facts["place"]) not in told:
            told.add(str(facts["place"]))  # a row that repeats is many nodes of one place
            message = f"{node} keeps statistics per iteration, but how many is open: `frames: any`"
            hint = "say how many: `time: {frames: 5}`; or `statistics: shared`"
            findings.add(Finding("G209", message, facts["place"], facts["path"], hint))


# --- circles --------------------------------------------------------------------------------------


def _check_cycles(graph: Graph, findings: Findings) -> None:
    before: dict[str, set[str]] = {node: set() for node in graph}
    for source, target, delay in graph.edges(data="delay"):
        if delay == 0:
            before[target].add(source)
    try:
        TopologicalSorter(before).prepare()
        return
    except CycleError:
        today = now(graph)
    order = {node: index for index, node in enumerate(in_order(graph))}
    for component in nx.strongly_connected_components(today):
        nodes = sorted(component, key=order.__getitem__)
        inside = [e for e in today.out_edges(nodes, keys=True) if e[1] in component]
        if not inside:
            continue
        part = nx.MultiDiGraph(inside)  # in a fixed order, so that the same circle is told
        cycle = [(a, b, graph.edges[a, b, k]) for a, b, k in nx.find_cycle(part, nodes[0])]
        path = " -> ".join([cycle[0][0], *(b for _, b, _ in cycle)])
        source, target, edge = max(cycle, key=_could_wait)
        hint = f"let one wait: `{show_arrow(source, target, 1)}`"
        if str(edge["path"]).endswith(edge["role"]):
            hint = f"let them wait: `edges: {{{edge['role']}: {{delay: 1}}}}`"
        message = f"at one t the arrows go in a circle: {path}"
        findings.add(Finding("G203", message, edge["place"], edge["path"], hint))


def _could_wait(edge: tuple[str, str, dict[str, Any]]) -> tuple[bool, int]:
    """The arrow of a cycle that should wait: a declared one, else one against the flow."""
    return (edge[2]["declared"], list(Role).index(edge[2]["role"]))
