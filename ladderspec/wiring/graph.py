"""Spec -> typed graph: one node per cell, one edge per arrow, with its role and its delay.

Two rules make everything else follow: without delayed edges the graph is acyclic, and every node is
there because a task reads it, now or at a later t.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import networkx as nx

from ladderspec.cells import Cell
from ladderspec.cells.unknown import Unknown
from ladderspec.errors import Finding, Findings, did_you_mean, tick
from ladderspec.language.read import Spec
from ladderspec.language.request import COMMAND_LINE
from ladderspec.names import INPUT, TABLE, Role, Side, edge_key, node_name, show_arrow, show_shape
from ladderspec.text.notation import Selector, matches, parse_selector
from ladderspec.text.tree import Node
from ladderspec.wiring.absent import few, missing_node
from ladderspec.wiring.grids import level_grids

Graph: TypeAlias = nx.MultiDiGraph


class LadderGraph(nx.MultiDiGraph):  # type: ignore[misc]
    """The graph of a spec: notebooks draw it."""

    def _repr_svg_(self) -> str | None:
        from ladderspec.drawing import svg

        return svg(self) if "levels" in self.graph else None


def place_nodes(spec: Spec, findings: Findings) -> Graph:
    """The nodes of a spec, and the facts that hold for the whole graph; no arrow yet."""
    words = spec.words
    names = _level_names(spec, findings)
    levels = [INPUT, *names]
    graph = LadderGraph(
        name=spec.name,
        title=spec.title,
        variants=spec.variants,
        levels=levels,
        order={level: index for index, level in enumerate(levels)},
        labels={str(row.name): row.label for row in words.levels if row.label},
        frames=words.time.frames,
        iterations=words.time.iterations,
        tasks={},
        delays={role: row.delay for role, row in TABLE.items()},
        notes=[],
        broken=spec.broken,
        unsure=spec.unsure,
        removed={},
        gains={},
        without=[text for p in spec.patches if p.name == COMMAND_LINE for text in p.without],
        dropped=[s.pattern for s in _selectors(spec) if s.kind == "level"],
        level_shapes={},
        grids=level_grids(
            zip(names, (row.encoder.row_stride for row in words.levels), strict=True)
        ),
    )
    bottom: Cell = Unknown() if "input" in spec.unsure else words.input
    _add_node(graph, Side.ENCODER, INPUT, bottom, spec.at("input"))
    below = INPUT
    for index, (level, row) in enumerate(zip(names, words.levels, strict=True)):
        _add_node(graph, Side.ENCODER, level, row.encoder, spec.at("levels", index, "encoder"))
        if row.decoder is not None:
            _add_node(graph, Side.DECODER, below, row.decoder, spec.at("levels", index, "decoder"))
        below = level
    if words.top is not None:
        _add_node(graph, Side.DECODER, below, words.top, spec.at("top"))
    for level, cell in words.laterals.items():
        _place_lateral(graph, level, cell, spec.at("laterals"), findings)
    return graph


def _level_names(spec: Spec, findings: Findings) -> list[str]:
    """The names of the rows; a second row of one name goes on under another."""
    lines: dict[str, Node] = {}
    for index, row in enumerate(spec.words.levels):
        name, node = str(row.name), spec.at("levels", index, "name")
        if name in lines and not findings.enough:
            hint = f"first on line {lines[name].mark.line}"
            if node.mark == lines[name].mark:
                hint = "a row that is used twice: `repeat: 2` numbers its copies"
            elif isinstance(node.key, int):  # not written: made from cell and position
                hint += "; a row without a name is called by its cell and position"
            findings.add(Finding("S108", f"two levels `{name}`", node.mark, node.path, hint))
        if name in lines:
            name = f"{name}'{index}"
        lines[name] = node
    return list(lines)


def _place_lateral(
    graph: Graph, level: str, cell: Cell | None, table: Node, findings: Findings
) -> None:
    place, path = table.key_place(level), f"{table.path}.{level}"
    levels = graph.graph["levels"]
    if any(matches(level, pattern) for pattern in graph.graph["dropped"]):
        return  # gone with its level
    if level not in levels and "levels" not in graph.graph["unsure"]:
        hint = did_you_mean(level, levels) or f"there are {few(levels)}"
        findings.add(Finding("G201", f"no level {tick(level)}", place, path, hint))
    elif level in levels and node_name(Side.DECODER, level) not in graph:
        message = f"level `{level}` has no decoder, so no lateral arrow either"
        hint = missing_node(graph, node_name(Side.DECODER, level))
        findings.add(Finding("G201", message, place, path, hint))
    elif level in levels and cell is not None:
        _add_node(graph, Side.LATERAL, level, cell, table.value[level])


def _selectors(spec: Spec) -> Iterator[Selector]:
    """All that the patches of a spec remove."""
    for patch in spec.patches:
        yield from map(parse_selector, patch.without)


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


def delay_of(graph: Graph, role: Role, source: str) -> int:
    """That of a role; a lateral arrow through a cell waits once, on its way to the cell."""
    through = role is Role.LATERAL and graph.nodes[source]["side"] is Side.LATERAL
    return 0 if through else int(graph.graph["delays"][role])


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
        return bool(graph.nodes[target]["level"] == graph.graph["levels"][-1])  # `top` has no more
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
