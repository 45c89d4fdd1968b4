"""Graph -> the nodes and arrows that a selector means; and what it may have meant."""

from __future__ import annotations

from ladderspec.cells.unknown import UNKNOWN
from ladderspec.errors import did_you_mean
from ladderspec.names import show_arrow
from ladderspec.text.notation import Arrow, Selector, matches
from ladderspec.wiring.absent import few, missing_node
from ladderspec.wiring.graph import Graph, cell_of

Edge = tuple[str, str, str]  # source, target, key


def select(graph: Graph, selector: Selector) -> tuple[set[str], set[Edge]]:
    """The nodes and arrows that a selector means."""
    if selector.kind == "node":
        return {node for node in graph if matches(node, selector.pattern)}, set()
    found: set[Edge] = set()
    for source, target, key, facts in graph.edges(keys=True, data=True):
        if selector.kind == "role":
            level = graph.nodes[target]["level"]
            wanted = facts["role"] is selector.role and matches(level, selector.pattern)
        else:
            wanted = any(_is(arrow, source, target, facts["delay"]) for arrow in selector.arrows)
        if wanted:
            found.add((source, target, key))
    return set(), found


def _is(arrow: Arrow, source: str, target: str, delay: int) -> bool:
    return delay == arrow.delay and matches(source, arrow.source) and matches(target, arrow.target)


def parts(selector: Selector) -> list[Selector]:
    """Each hop of a chain must match."""
    if selector.kind != "arrow":
        return [selector]
    return [Selector("arrow", arrows=(arrow,)) for arrow in selector.arrows]


def doubtful(graph: Graph, selector: Selector) -> bool:
    """Whether a mistake elsewhere may be why nothing matches."""
    if "levels" in graph.graph["unsure"]:
        return True
    return selector.kind != "node" and any(cell_of(graph, node).cell == UNKNOWN for node in graph)


def closest(graph: Graph, selector: Selector, text: str) -> str:
    """What a selector that matches nothing may have meant."""
    if selector.kind == "node":
        return missing_node(graph, text)
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
        return f"this spec has no {selector.role} arrows"
    if close := did_you_mean(selector.pattern, there):
        return close.replace("`", f"`{selector.role}@", 1)
    return f"{selector.role} arrows are at {few(there)}"
