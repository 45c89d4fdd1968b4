"""Graph -> phases: what needs nothing from its own past, and what loops over t.

The strongly connected components of the graph with its delayed arrows, in topological order, are
the schedule. A component without a delayed arrow inside needs nothing from its own past; one with a
delayed arrow inside is a loop over t. A delayed arrow between two is a shift in time, not a loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import groupby

import networkx as nx

from ladderspec.schedule.equations import Equation, Term
from ladderspec.wiring.graph import Graph


class Kind(StrEnum):
    """How a phase meets time."""

    ONCE = "once"
    LOOP = "loop"


@dataclass(frozen=True)
class Phase:
    """Nodes that are computed together, in this order."""

    kind: Kind
    nodes: tuple[str, ...]
    reads: tuple[Term, ...] = ()  # from earlier phases, at the same t
    shifts: tuple[Term, ...] = ()  # delayed, from what is known for all t by then
    carries: tuple[Term, ...] = ()  # delayed, from inside the loop


def find_phases(graph: Graph, equations: Mapping[str, Equation]) -> tuple[Phase, ...]:
    """The components as phases: neighbours that run once share one, every loop has its own."""
    position = {node: index for index, node in enumerate(equations)}
    members: dict[int, list[str]] = {}  # a component is called by the position of its first node
    for component in nx.strongly_connected_components(graph):
        nodes = sorted(component, key=position.__getitem__)
        members[position[nodes[0]]] = nodes
    home = {node: first for first, nodes in members.items() for node in nodes}
    edges = {first: [e for n in members[first] for e in equations[n].edges] for first in members}
    before = {
        first: [home[edge.source] for edge in edges[first] if home[edge.source] != first]
        for first in members
    }
    kinds = {
        first: Kind.LOOP if len(before[first]) < len(edges[first]) else Kind.ONCE
        for first in members
    }
    phases: list[Phase] = []
    for kind, run in groupby(_visit(before, kinds), key=kinds.__getitem__):
        if kind is Kind.LOOP:
            phases += [_loop(members[first], equations, position) for first in run]
        else:
            phases.append(_phase(kind, [members[first][0] for first in run], equations))
    return tuple(phases)


def _visit(before: Mapping[int, Sequence[int]], kinds: Mapping[int, Kind]) -> Iterator[int]:
    """Topological order; stays in one kind while it can, and takes the lower number first.

    >>> list(_visit({0: [], 1: [3], 2: [0], 3: [0]}, dict.fromkeys(range(4), Kind.ONCE)))
    [0, 2, 3, 1]
    """
    after = defaultdict(list)
    for item, sources in before.items():
        for source in sources:
            after[source].append(item)
    waiting = {item: len(sources) for item, sources in before.items()}
    ready: dict[Kind, list[int]] = {each: [] for each in Kind}
    for item in before:
        if not waiting[item]:
            heappush(ready[kinds[item]], item)
    now = Kind.ONCE
    while any(ready.values()):
        if not ready[now]:
            now = next(each for each in Kind if ready[each])
        done = heappop(ready[now])
        yield done
        for item in after[done]:
            waiting[item] -= 1
            if not waiting[item]:
                heappush(ready[kinds[item]], item)


def _loop(
    nodes: Sequence[str], equations: Mapping[str, Equation], position: Mapping[str, int]
) -> Phase:
    """A component as a loop over t, its nodes in the order of their arrows within one t."""
    called = {position[node]: node for node in nodes}
    before = {
        position[node]: [
            position[edge.source]
            for edge in equations[node].edges
            if position[edge.source] in called and not edge.delay
        ]
        for node in nodes
    }
    order = _visit(before, dict.fromkeys(before, Kind.LOOP))
    return _phase(Kind.LOOP, [called[index] for index in order], equations)


def _phase(kind: Kind, nodes: Sequence[str], equations: Mapping[str, Equation]) -> Phase:
    inside = set(nodes)
    looped = set() if kind is Kind.ONCE else inside
    edges = [edge for node in nodes for edge in equations[node].edges]
    return Phase(
        kind=kind,
        nodes=tuple(nodes),
        reads=tuple(edge for edge in edges if not edge.delay and edge.source not in inside),
        shifts=tuple(edge for edge in edges if edge.delay and edge.source not in looped),
        carries=tuple(edge for edge in edges if edge.delay and edge.source in looped),
    )
