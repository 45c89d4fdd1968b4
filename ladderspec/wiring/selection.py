"""Graph -> the nodes and edges that a selector means, and suggestions if it matches none."""

from __future__ import annotations

from itertools import pairwise

from ladderspec.errors import did_you_mean, name_or_pattern_meant
from ladderspec.names import Role, Side, node_name, show_arrow
from ladderspec.text.notation import ArrowNotation, Selector, matches
from ladderspec.wiring.graph import EdgeKey as EdgeKey
from ladderspec.wiring.graph import Graph, cell_of, level_at
from ladderspec.wording import some_of


def select(graph: Graph, selector: Selector) -> tuple[set[str], set[EdgeKey]]:
    """The nodes and edges that a selector means."""
    if selector.kind == "node":
        return {node for node in graph if matches(node, selector.pattern)}, set()
    found: set[EdgeKey] = set()
    for source, target, key, edge in graph.edges(keys=True, data=True):
        if selector.kind == "role":
            level = graph.nodes[target]["level"]
            wanted = edge["role"] is selector.role and matches(level, selector.pattern)
        else:
            wanted = any(_is(arrow, source, target, edge["delay"]) for arrow in selector.arrows)
        if wanted:
            found.add((source, target, key))
    return set(), found


def _is(arrow: ArrowNotation, source: str, target: str, delay: int) -> bool:
    return delay == arrow.delay and matches(source, arrow.source) and matches(target, arrow.target)


def parts(selector: Selector) -> list[Selector]:
    """The parts that must match something: each hop of a chain."""
    if selector.kind != "arrow":
        return [selector]
    return [Selector("arrow", arrows=(arrow,)) for arrow in selector.arrows]


def closest(graph: Graph, selector: Selector, text: str) -> str:
    """A suggestion for a selector that matches nothing."""
    if selector.kind == "node":
        meant = name_or_pattern_meant(text.strip(), graph)
        return meant if "*" in meant else missing_node(graph, text)
    if selector.kind == "arrow":
        arrow = selector.arrows[0]
        source, target = arrow.source, arrow.target
        delays = [d for a, b, d in graph.edges(data="delay") if (a, b) == (source, target)]
        if delays:
            return f"did you mean `{show_arrow(source, target, min(delays))}`?"
        shown = [show_arrow(a, b, d) for a, b, d in graph.edges(data="delay")]
        return did_you_mean(show_arrow(source, target, arrow.delay), shown)
    levels = {graph.nodes[b]["level"] for _, b, r in graph.edges(data="role") if r is selector.role}
    there = [level for level in graph.graph["levels"] if level in levels]
    if not there:
        return f"this spec has no {selector.role} arrows" + _no_decoder(graph, selector.role)
    if close := name_or_pattern_meant(selector.pattern, there):
        return close.replace("`", f"`{selector.role}@", 1)
    return f"{selector.role} arrows are at {some_of(there)}"


def _no_decoder(graph: Graph, role: Role | None) -> str:
    """Why a cell with a state gets nothing from the decoder of its level."""
    levels = graph.graph["levels"]
    for level, above in pairwise(levels) if role is Role.DECODER_TO_ENCODER else ():
        encoder, decoder = (node_name(side, level) for side in (Side.ENCODER, Side.DECODER))
        if encoder in graph and cell_of(graph, encoder).stateful and decoder not in graph:
            return f": {decoder} would stand on the row above {encoder}, `{above}`, which has none"
    return ""


def missing_node(graph: Graph, name: str) -> str:
    """Why a node does not exist, or which one was meant."""
    levels = graph.graph["levels"]
    side, dot, level = name.partition(".")
    if not dot:
        here = [node for node in (f"{s}.{name}" for s in Side) if node in graph]
        return f"did you mean `{here[0]}`?" if here else did_you_mean(f"encoder.{name}", graph)
    if level in levels and side == Side.DECODER:
        if level == levels[-1]:
            return "the topmost level has a decoder only with `top:`"
        if (above := level_at(graph, level, 1, Side.DECODER)) is None:
            return "nothing estimates what each group reads"
        return f"the decoder of `{level}` stands on the row above it, `{above}`, which has none"
    if level in levels and side == Side.LATERAL:
        return f"`laterals: {{{level}: ...}}` would put a cell there"
    if side == Side.INPUT and not any(node.startswith(f"{side}.") for node in graph):
        return f"`inputs: {{{level}: {{channels: 4}}}}` would declare it"
    there = [node.partition(".")[2] for node in graph if node.startswith(f"{side}.")]
    if close := did_you_mean(level, there):
        return close.replace("`", f"`{side}.", 1)
    return did_you_mean(name, graph)
