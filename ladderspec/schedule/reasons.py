"""Why each node stands in its phase: which delayed arrow ties it into a loop, or that none does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ladderspec.schedule.equations import Term
from ladderspec.schedule.phases import Kind, Phase
from ladderspec.schedule.plan import Plan


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
