"""What `freeze` means: selectors -> the beginnings of the names of parameters."""

from __future__ import annotations

from ladderspec.text.notation import matches, parse_selector
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.selection import select


def prefixes(graph: Graph, text: str) -> list[str]:
    """Of the parameters that a selector names; none, where it selects nothing."""
    selector = parse_selector(text)
    if selector.kind == "task":
        return [f"task.{name}." for name in graph.graph["tasks"] if matches(name, selector.pattern)]
    if selector.kind == "level":
        levels = graph.nodes(data="level")
        return [f"{node}." for node, level in levels if matches(level, selector.pattern)]
    nodes, edges = select(graph, selector)
    return [*(f"{node}." for node in nodes), *(f"{target}.{key}." for _, target, key in edges)]
