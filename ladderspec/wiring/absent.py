"""Why a node is not there, or which one was meant."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from ladderspec.errors import did_you_mean
from ladderspec.names import Side


def missing_node(graph: nx.MultiDiGraph, name: str) -> str:
    """Why a node is not there, or which one was meant."""
    levels: list[str] = graph.graph["levels"]
    side, dot, level = name.partition(".")
    if not dot:
        here = [node for node in (f"{s}.{name}" for s in Side) if node in graph]
        return f"did you mean `{here[0]}`?" if here else did_you_mean(f"encoder.{name}", graph)
    if level in levels and side == Side.DECODER:
        if level == levels[-1]:
            return "the topmost level has a decoder only with `top:`"
        above = levels[levels.index(level) + 1]
        return f"the decoder of `{level}` stands on the row above it, `{above}`, which has none"
    if level in levels and side == Side.LATERAL:
        return f"`laterals: {{{level}: ...}}` would put a cell there"
    there = [node.partition(".")[2] for node in graph if node.startswith(f"{side}.")]
    if close := did_you_mean(level, there):
        return close.replace("`", f"`{side}.", 1)
    return did_you_mean(name, graph)


def few(names: Iterable[str]) -> str:
    """The first of many names."""
    names = list(names)
    return ", ".join(f"`{name}`" for name in names[:8]) + (", ..." if len(names) > 8 else "")
