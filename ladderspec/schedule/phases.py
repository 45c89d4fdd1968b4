"""Graph -> phases: what needs nothing from its own past, what loops over t, and why.

The strongly connected components of the graph with its delayed arrows, in topological order, are
the schedule. A component without a delayed arrow inside needs nothing from its own past; one with a
delayed arrow inside is a loop over t. A delayed arrow between two is a shift in time, not a loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING

import networkx as nx

from ladderspec.schedule.equations import Equation, Term
from ladderspec.wiring.graph import Graph

if TYPE_CHECKING:
    from ladderspec.schedule.plan import Plan


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


# --- why each node is in its phase: a delayed arrow ties it into a loop, or none does -------------


class Why(StrEnum):
    ALONE = "alone"  # follows from the input at t alone
    BEFORE = "before"  # a later loop reads it, now or through others, but never leads back to it
    AFTER = "after"  # no loop reads it
    CYCLE = "cycle"  # `edges[0]` leaves the cycle's end and enters its start
    LONG_CYCLE = "long cycle"  # leads to `edges[0]`, and back from `edges[1]` at a still later t
    OWN = "own"  # reads its own past: `edges`


@dataclass(frozen=True)
class Reason:
    why: Why
    edges: tuple[Term, ...] = ()  # for nodes outside of loops: the shifts they read


def explain(plan: Plan) -> dict[str, Reason]:
    """The reason of every node, in the order of the plan."""
    found: dict[str, Reason] = {}
    leads_on = _leading_on(plan)
    alone: set[str] = set()
    for phase in plan.phases:
        if phase.kind is Kind.ONCE:
            for node in phase.nodes:
                edges = plan.equations[node].edges
                shifts = tuple(edge for edge in edges if edge.delay)
                if not shifts and all(edge.source in alone for edge in edges):
                    alone.add(node)
                    found[node] = Reason(Why.ALONE)
                else:
                    found[node] = Reason(Why.BEFORE if node in leads_on else Why.AFTER, shifts)
        elif len(phase.nodes) == 1:
            found[phase.nodes[0]] = Reason(Why.OWN, phase.carries)
        else:
            found |= _cycles(plan, phase)
    return found


def _leading_on(plan: Plan) -> set[str]:
    """The nodes from which a path leads into a later loop."""
    found: set[str] = set()
    for phase in reversed(plan.phases):
        for node in reversed(phase.nodes):
            if phase.kind is not Kind.ONCE or node in found:
                found.update(edge.source for edge in plan.equations[node].edges)
    return found


def _cycles(plan: Plan, phase: Phase) -> dict[str, Reason]:
    """For every node of a loop, the delayed arrow that closes the tightest cycle through it.

    Delayed arrow i is bit i, tight ones first. It closes a cycle through a node if, within one t,
    its head leads to the node and the node to its tail: one pass over the other arrows in each
    direction finds these bits for all nodes.
    """
    order = {node: index for index, node in enumerate(phase.nodes)}
    delayed = [edge for edge in phase.carries if edge.source != edge.target]
    delayed.sort(key=lambda edge: _span(order[edge.source] - order[edge.target]))
    comes, goes = defaultdict[str, int](int), defaultdict[str, int](int)
    for bit, edge in enumerate(delayed):
        comes[edge.target] |= 1 << bit
        goes[edge.source] |= 1 << bit
    within = [
        edge
        for node in phase.nodes
        for edge in plan.equations[node].edges
        if edge.source in order and not edge.delay
    ]
    for edge in within:
        comes[edge.target] |= comes[edge.source]
    for edge in reversed(within):
        goes[edge.source] |= goes[edge.target]
    found: dict[str, Reason] = {}
    for node in phase.nodes:
        both = comes[node] & goes[node]
        bits = [both] if both else [goes[node], comes[node]]
        edges = tuple(delayed[_lowest(bit)] for bit in bits)
        found[node] = Reason(Why.CYCLE if both else Why.LONG_CYCLE, edges)
    return found


def _span(distance: int) -> tuple[bool, int]:
    """Short distances back first; an arrow that runs forward closes nothing within one t."""
    return (distance < 0, abs(distance))


def _lowest(bits: int) -> int:
    """
    >>> _lowest(0b1100)
    2
    """
    return (bits & -bits).bit_length() - 1


def grouped(reasons: dict[str, Reason], nodes: Iterable[str]) -> dict[Reason, list[str]]:
    """The nodes by reason, in their order."""
    found: dict[Reason, list[str]] = {}
    for node in nodes:
        found.setdefault(reasons[node], []).append(node)
    return found
