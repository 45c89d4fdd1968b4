"""Spec -> typed graph: one node per cell, one edge per arrow, with its role and its delay.

Two rules make everything else follow: without delayed edges the graph is acyclic, and every node is
there because a task reads it, now or at a later t.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

import networkx as nx

from ladderspec.cells import Cell
from ladderspec.cells.unknown import UNKNOWN
from ladderspec.errors import Finding, Findings, did_you_mean
from ladderspec.names import (
    INPUT,
    TABLE,
    Role,
    Side,
    edge_key,
    node_name,
    show_arrow,
    show_shape,
)
from ladderspec.read import Spec
from ladderspec.tree import Node

Graph = nx.MultiDiGraph


def place_nodes(spec: Spec, findings: Findings) -> Graph:
    """The nodes of a spec, and the facts that hold for the whole graph; no arrow yet."""
    words = spec.words
    levels = [INPUT, *dict.fromkeys(str(row.name) for row in words.levels)]
    graph = nx.MultiDiGraph(
        name=spec.name,
        title=spec.title,
        levels=levels,
        order={level: index for index, level in enumerate(levels)},
        labels={str(row.name): row.label for row in words.levels if row.label},
        frames=words.time.frames,
        iterations=words.time.iterations,
        tasks={},
        delays={role: row.delay for role, row in TABLE.items()},
        notes=[],
        broken=spec.broken,
    )
    _add_node(graph, Side.ENCODER, INPUT, words.input, spec.at("input"))
    below = INPUT
    for index, row in enumerate(words.levels):
        level = str(row.name)
        if node_name(Side.ENCODER, level) in graph:
            name = spec.at("levels", index, "name")
            first = graph.nodes[node_name(Side.ENCODER, level)]["place"].line
            hint = f"first on line {first}"
            findings.add(Finding("S108", f"two levels `{level}`", name.place, name.path, hint))
            continue
        if row.encoder is not None:
            _add_node(graph, Side.ENCODER, level, row.encoder, spec.at("levels", index, "encoder"))
        if row.decoder is not None:
            _add_node(graph, Side.DECODER, below, row.decoder, spec.at("levels", index, "decoder"))
        below = level
    if words.top is not None:
        _add_node(graph, Side.DECODER, below, words.top, spec.at("top"))
    for level, cell in words.laterals.items():
        node = spec.at("laterals", level)
        if level not in graph.graph["levels"]:
            hint = did_you_mean(level, graph.graph["levels"])
            place = spec.at("laterals").key_place(level)
            findings.add(Finding("G201", f"no level `{level}`", place, node.path, hint))
        elif cell is not None:
            _add_node(graph, Side.LATERAL, level, cell, node)
    return graph


def _add_node(graph: Graph, side: Side, level: str, cell: Cell, node: Node) -> None:
    graph.add_node(
        node_name(side, level),
        side=side,
        level=level,
        cell=cell,
        initial=cell.initial,
        place=node.place,
        path=node.path,
    )


# --- arrows ---------------------------------------------------------------------------------------


def ends(graph: Graph, role: Role, level: str) -> Iterator[tuple[str, str]]:
    """The arrows that a role can have at a level: those of the table whose both ends exist."""
    wiring = TABLE[role]
    levels: list[str] = graph.graph["levels"]
    here = graph.graph["order"][level] + wiring.offset
    if not 0 <= here < len(levels):
        return
    source, target = node_name(wiring.source, levels[here]), node_name(wiring.target, level)
    through = node_name(Side.LATERAL, level)
    if role is Role.DECODER and source not in graph:
        source = node_name(Side.ENCODER, levels[here])  # nothing above it: from the encoder
    pairs = [(source, target)]
    if role is Role.LATERAL and through in graph:
        pairs = [(source, through), (through, target)]
    if role is Role.STATE:
        pairs = [(node, node) for node in (target, through)]
    yield from ((a, b) for a, b in pairs if a in graph and b in graph)


def connect(graph: Graph, source: str, target: str, role: Role, delay: int, **words: Any) -> None:
    """Add an arrow; `words` are its own filter, norm, label, place and path."""
    key = edge_key(role, source, delay)
    at = graph.nodes[target]
    facts = {"place": at["place"], "path": at["path"], "declared": False, **words}
    graph.add_edge(source, target, key=key, role=role, delay=delay, **facts)


def wire(graph: Graph) -> None:
    """The arrows that follow from the rows alone."""
    for level in graph.graph["levels"]:
        for role in TABLE:
            for source, target in ends(graph, role, level):
                if by_default(graph, role, target):
                    connect(graph, source, target, role, TABLE[role].delay)


def by_default(graph: Graph, role: Role, target: str) -> bool:
    """The last column of the table of roles: where a role has arrows unless told otherwise."""
    if role in (Role.UPWARD_DIAGONAL, Role.DOWNWARD_DIAGONAL, Role.RECURRENT_DECODER):
        return False
    if role is Role.DECODER_TO_ENCODER:
        return cell_of(graph, target).stateful
    return accepts(graph, role, target)


def accepts(graph: Graph, role: Role, target: str) -> bool:
    """Whether the cell at `target` takes an arrow of this role, and has a place for it."""
    cell = cell_of(graph, target)
    if role is Role.STATE:
        return cell.stateful
    if role is Role.LATERAL and cell.single:
        return graph.nodes[target]["level"] == graph.graph["levels"][-1]  # `top` has nothing else
    return role in cell.takes


def cell_of(graph: Graph, node: str) -> Cell:
    cell: Cell = graph.nodes[node]["cell"]
    return cell


# --- views ----------------------------------------------------------------------------------------


def now(graph: Graph) -> Graph:
    """The arrows within one iteration."""
    today = nx.MultiDiGraph()
    today.add_nodes_from(graph)
    today.add_edges_from((a, b, k) for a, b, k, d in graph.edges(keys=True, data="delay") if d == 0)
    return today


def in_order(graph: Graph) -> list[str]:
    """Nodes as an iteration visits them: encoders and lateral cells upward, decoders down."""
    levels = graph.graph["levels"]
    up = [node_name(s, level) for level in levels for s in (Side.ENCODER, Side.LATERAL)]
    down = [node_name(Side.DECODER, level) for level in reversed(levels)]
    return [node for node in [*up, *down] if node in graph]


def to_text(graph: Graph) -> str:
    """One line per node and arrow, sorted as an iteration visits them."""
    lines = [f"graph {graph.graph['name']}" + _titled(graph), ""]
    for node in in_order(graph):
        facts = graph.nodes[node]
        lines.append(
            f"{node:<24} {facts['cell'].cell:<10} {show_shape(facts.get('shape')):<12}"
            f" {facts.get('parameters', 0):>12,}"
        )
    lines.append("")
    for target in in_order(graph):
        for source, _, facts in sorted(graph.in_edges(target, data=True), key=_arrow_order):
            arrow = show_arrow(source, target, facts["delay"])
            lines.append(f"{arrow:<52} {facts['role']:<20} {facts.get('parameters', 0):>12,}")
    for name, entry in graph.graph["tasks"].items():
        lines.append(f"task {name}: {entry['task'].kind} at {', '.join(entry['at'])}")
    lines += ["", *(f"note: {note}" for note in graph.graph["notes"])]
    return "\n".join(lines).rstrip() + "\n"


def _titled(graph: Graph) -> str:
    return f" ({graph.graph['title']})" if graph.graph["title"] else ""


def _arrow_order(edge: tuple[str, str, dict[str, Any]]) -> tuple[int, int, str]:
    source, _, facts = edge
    return (list(Role).index(facts["role"]), facts["delay"], source)


# --- check ----------------------------------------------------------------------------------------


def check(graph: Graph, findings: Findings) -> None:
    """The rules of the graph, each said of the node or arrow that breaks it."""
    for node in in_order(graph):
        _check_arrows(graph, node, findings)
    _check_cycles(graph, findings)


def _check_arrows(graph: Graph, node: str, findings: Findings) -> None:
    facts = graph.nodes[node]
    cell: Cell = facts["cell"]
    arrows = [(source, edge) for source, _, edge in graph.in_edges(node, data=True)]
    for source, edge in arrows:
        if edge["role"] not in cell.takes:
            arrow = show_arrow(source, node, edge["delay"])
            message = f"{cell.cell} at {node} takes no {edge['role']} arrow: {arrow}"
            known = ", ".join(sorted(cell.takes)) or "none"
            findings.add(
                Finding("G204", message, edge["place"], edge["path"], f"it takes: {known}")
            )
    taken = all(edge["role"] in cell.takes for _, edge in arrows)
    if cell.single and taken and len(arrows) > 1:
        names = ", ".join(show_arrow(source, node, edge["delay"]) for source, edge in arrows)
        message = f"{cell.cell} at {node} copies one value, but several arrive: {names}"
        findings.add(Finding("G204", message, facts["place"], facts["path"]))
    present = {edge["role"] for _, edge in arrows}
    for role in sorted(cell.needs(facts["side"]) - present):
        message = f"{cell.cell} at {node} cannot be without its {role} arrow"
        findings.add(Finding("G205", message, facts["place"], facts["path"], _instead(node, role)))
    if not arrows and cell.cell not in ("Input", UNKNOWN) and not cell.needs(facts["side"]):
        message = f"no arrow leads to {node}"
        findings.add(
            Finding("G205", message, facts["place"], facts["path"], f"remove `{node}` too")
        )


def _instead(node: str, role: Role) -> str:
    level = node.partition(".")[2]
    if role is Role.STATE:
        return "use a stateless cell: Conv or FC"
    if role is Role.ENCODER:
        return f"`level.{level}` removes the whole row and joins its neighbours"
    return f"remove `{node}` too, or use a cell that can do without"


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
    for component in nx.strongly_connected_components(today):
        part = today.subgraph(component)
        if part.number_of_edges() == 0:
            continue
        cycle = [(a, b, graph.edges[a, b, k]) for a, b, k, *_ in nx.find_cycle(part)]
        path = " -> ".join([cycle[0][0], *(b for _, b, _ in cycle)])
        source, target, edge = max(cycle, key=_could_wait)
        hint = f"let `{source} -> {target}` take `delay: 1`"
        message = f"at one t the arrows go in a circle: {path}"
        findings.add(Finding("G203", message, edge["place"], edge["path"], hint))


def _could_wait(edge: tuple[str, str, dict[str, Any]]) -> tuple[bool, int]:
    """The arrow of a cycle that should wait: a declared one, else one against the flow."""
    return (edge[2]["declared"], list(Role).index(edge[2]["role"]))
