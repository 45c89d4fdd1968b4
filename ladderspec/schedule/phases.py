"""Graph -> phases: what needs nothing from its own past, and what loops over t.

The strongly connected components of the graph with its delayed arrows, in topological order, are
the schedule. A component without a delayed arrow inside needs nothing from its own past; one with a
delayed arrow inside is a loop over t. A delayed arrow between two is a shift in time, not a loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from heapq import heappop, heappush
from itertools import groupby

import networkx as nx

from ladderspec.schedule.equations import Equation, Term
from ladderspec.wiring.graph import Graph, inputs_of


class Kind(StrEnum):
    """How a phase meets time."""

    ONCE = "once"
    LOOP = "loop"


@dataclass(frozen=True)
class Phase:
    """Nodes that are computed together, in this order."""

    kind: Kind
    nodes: tuple[str, ...]
    static: bool = False  # follows from an input that is the same at every t: one evaluation
    reads: tuple[Term, ...] = ()  # from earlier phases, at the same t
    shifts: tuple[Term, ...] = ()  # delayed, from what is known for all t by then
    carries: tuple[Term, ...] = ()  # delayed, from inside the loop


class _Mode(IntEnum):
    """Which components may share a phase."""

    STATIC = 0
    ONCE = 1
    LOOP = 2  # none: each has its own


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
    mode: dict[int, _Mode] = {}
    hidden = {node for node in inputs_of(graph) if graph.nodes[node]["cell"].until}

    def find_mode(first: int) -> _Mode:
        """Called when the modes of all that the component reads are known."""
        if len(before[first]) < len(edges[first]):
            mode[first] = _Mode.LOOP
        elif (
            graph.graph["iterations"] is not None
            and not hidden & {*members[first]}
            and all(
                edge.delay == 0 and mode[home[edge.source]] is _Mode.STATIC for edge in edges[first]
            )
        ):
            mode[first] = _Mode.STATIC
        else:
            mode[first] = _Mode.ONCE
        return mode[first]

    phases: list[Phase] = []
    for shared, run in groupby(_visit(before, find_mode), key=mode.__getitem__):
        if shared is _Mode.LOOP:
            phases += [_loop(members[first], equations, position) for first in run]
        else:
            nodes = [members[first][0] for first in run]
            phases.append(_phase(Kind.ONCE, nodes, equations, shared is _Mode.STATIC))
    return tuple(phases)


def _visit(
    before: Mapping[int, Sequence[int]], mode: Callable[[int], _Mode] = lambda _: _Mode.ONCE
) -> Iterator[int]:
    """Topological order; stays in one mode while it can, and takes the lower number first.

    >>> list(_visit({0: [], 1: [3], 2: [0], 3: [0]}))
    [0, 2, 3, 1]
    """
    after = defaultdict(list)
    for item, sources in before.items():
        for source in sources:
            after[source].append(item)
    waiting = {item: len(sources) for item, sources in before.items()}
    ready: dict[_Mode, list[int]] = {each: [] for each in _Mode}
    for item in before:
        if not waiting[item]:
            heappush(ready[mode(item)], item)
    now = _Mode.STATIC
    while any(ready.values()):
        if not ready[now]:
            now = next(each for each in _Mode if ready[each])
        done = heappop(ready[now])
        yield done
        for item in after[done]:
            waiting[item] -= 1
            if not waiting[item]:
                heappush(ready[mode(item)], item)


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
    return _phase(Kind.LOOP, [called[index] for index in _visit(before)], equations)


def _phase(
    kind: Kind, nodes: Sequence[str], equations: Mapping[str, Equation], static: bool = False
) -> Phase:
    inside = set(nodes)
    looped = set() if kind is Kind.ONCE else inside
    edges = [edge for node in nodes for edge in equations[node].edges]
    return Phase(
        kind=kind,
        nodes=tuple(nodes),
        static=static,
        reads=tuple(edge for edge in edges if not edge.delay and edge.source not in inside),
        shifts=tuple(edge for edge in edges if edge.delay and edge.source not in looped),
        carries=tuple(edge for edge in edges if edge.delay and edge.source in looped),
    )
