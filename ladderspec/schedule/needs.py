"""Which (node, t) the costs read, now or through later values: the rest need not be computed."""

from __future__ import annotations

from collections.abc import Collection

from ladderspec.schedule.equations import Reader
from ladderspec.schedule.phases import Kind, Phase
from ladderspec.schedule.plan import Plan

Needs = dict[str, tuple[bool, ...]]  # by node, from t = 1


def needs(plan: Plan, length: int, tasks: Collection[str] | None = None) -> Needs:
    """For every node, at which of t = 1..length the costs of the tasks (default: all) need it.

    A task whose weight is 0 still reads: its cost is reported. What is needed is no prefix: with a
    state of delay 2, the last t needs every second one before it.
    """
    masks = need_masks(plan, length, tasks)
    return {node: tuple(bit == "1" for bit in _bits(masks[node], length)) for node in masks}


def times(reader: Reader, length: int) -> int:
    """The t at which a task reads, as bits: bit 0 is t = 1.

    Only where its target is there: t = 1..length - ahead. `last` is the last of them. Weights are
    those of t = 1, 2, ...; beyond the last weight nothing is read.
    """
    last = max(0, length - reader.ahead)
    if isinstance(reader.when, tuple):
        return sum(1 << t for t, weight in enumerate(reader.when[:last]) if weight > 0)
    every = (1 << last) - 1
    return every if reader.when == "all" else every ^ (every >> 1)


def need_masks(plan: Plan, length: int, tasks: Collection[str] | None = None) -> dict[str, int]:
    """`needs` as bits: bit 0 is t = 1."""
    masks = dict.fromkeys(plan.equations, 0)
    for reader in plan.tasks:
        if tasks is None or reader.name in tasks:
            for node in reader.at:
                masks[node] |= times(reader, length)
    for phase in reversed(plan.phases):
        if phase.kind is not Kind.ONCE:
            _need_past(plan, phase, masks, length)
        for node in reversed(phase.nodes):
            for edge in plan.equations[node].edges:
                masks[edge.source] |= masks[node] >> edge.delay
    return masks


def _need_past(plan: Plan, phase: Phase, masks: dict[str, int], length: int) -> None:
    """Inside a loop, backwards over t.

    Every node of a loop is read inside it. So once all nodes were needed at as many t in a row as
    the largest delay, they are all needed at every earlier t.
    """
    inside = set(phase.nodes)
    edges = {
        node: [(e.source, e.delay) for e in plan.equations[node].edges if e.source in inside]
        for node in phase.nodes
    }
    enough, in_a_row = max(edge.delay for edge in phase.carries), 0
    for t in reversed(range(length)):
        for node in reversed(phase.nodes):
            if masks[node] >> t & 1:
                for source, delay in edges[node]:
                    if delay <= t:
                        masks[source] |= 1 << (t - delay)
        in_a_row = in_a_row + 1 if all(masks[node] >> t & 1 for node in phase.nodes) else 0
        if in_a_row == enough:
            for node in phase.nodes:
                masks[node] |= (1 << t) - 1
            break


def _bits(mask: int, length: int) -> str:
    """
    >>> _bits(0b011, 3)
    '110'
    """
    return f"{mask:0{length}b}"[::-1] if length else ""
