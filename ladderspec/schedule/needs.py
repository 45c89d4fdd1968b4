"""Which (node, t) the costs read, now or through later values: the rest need not be computed."""

from __future__ import annotations

from collections.abc import Sequence

from ladderspec.schedule.equations import Reader
from ladderspec.schedule.phases import Kind, Phase
from ladderspec.schedule.plan import Plan

Needs = dict[str, int]  # by node, the t at which it is needed, as bits: bit 0 is t = 1


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


def need_masks(plan: Plan, length: int, readers: Sequence[Reader] | None = None) -> Needs:
    """For every node, at which of t = 1..length the tasks (default: those of the plan) need it.

    A task whose weight is 0 still reads: its cost is reported. What is needed is no prefix: with a
    state of delay 2, the last t needs every second one before it.
    """
    masks = dict.fromkeys(plan.equations, 0)
    for reader in plan.tasks if readers is None else readers:
        for node in reader.at:
            masks[node] |= times(reader, length)
    for phase in reversed(plan.phases):
        if phase.kind is not Kind.ONCE:
            _need_past(plan, phase, masks, length)
        for node in reversed(phase.nodes):
            for edge in plan.equations[node].edges:
                masks[edge.source] |= masks[node] >> edge.delay
    return masks


def _need_past(plan: Plan, phase: Phase, masks: Needs, length: int) -> None:
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
