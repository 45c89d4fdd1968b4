"""Plan -> program: which steps run at which t, and in what pieces of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ladderspec.network.steps import Layout, Step
from ladderspec.schedule.phases import Kind
from ladderspec.schedule.plan import Plan


@dataclass(frozen=True)
class Piece:
    """Steps that run one after the other, for `count` iterations at once."""

    start: int
    count: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Stage:
    """A phase with its times."""

    kind: Kind
    static: bool
    pieces: tuple[Piece, ...]
    drops: tuple[tuple[int, int], ...]  # slots read here for the last time, and how long they wait


Program = tuple[Stage, ...]
Masks = Mapping[str, int]  # by node, the t at which it is needed: bit 0 is t = 1


def by_phase(
    plan: Plan,
    layout: Layout,
    masks: Masks,
    length: int,
    chunk: Callable[[Sequence[Step]], int],
    fuse: bool = True,
    keep: frozenset[int] = frozenset(),
) -> Program:
    """Phase after phase; `chunk` says how many iterations a phase takes at once.

    Without `fuse`, lone LSTMs loop too, as where their states are to `keep`: a fused call gives the
    last one alone. Slots to `keep` stay to the end.
    """
    stages = []
    for phase, freed in zip(plan.phases, plan.frees, strict=True):
        steps = [layout.steps[node] for node in phase.nodes]
        states = any(slot in keep for step in steps for _, slot in step.state)
        loops = phase.kind is Kind.SEQUENCE and (states or not fuse)
        kind = Kind.LOOP if loops else phase.kind
        most = {Kind.ONCE: chunk(steps), Kind.LOOP: 1, Kind.SEQUENCE: length}[kind]
        pieces = tuple(_pieces(steps, masks, length, most))
        stages.append(Stage(kind, phase.static, pieces, tuple(_drops(layout, freed, keep))))
    return tuple(stages)


def by_iteration(
    layout: Layout, masks: Masks, length: int, keep: frozenset[int] = frozenset()
) -> Program:
    """All phases at t = 1, then all at t = 2, ...: little is kept at a time."""
    pieces = tuple(_pieces(list(layout.steps.values()), masks, length, 1))
    drops = _drops(layout, layout.steps, keep) if length > 1 else ()  # there is no later t
    return (Stage(Kind.LOOP, False, pieces, tuple(drops)),)


def _pieces(steps: Sequence[Step], masks: Masks, length: int, most: int) -> Iterator[Piece]:
    """Stretches of time in which the same steps are needed, cut at multiples of `most`."""
    needed = [masks[step.node] for step in steps]

    def at(t: int) -> tuple[int, tuple[bool, ...]]:
        return t // most, tuple(bool(mask >> t & 1) for mask in needed)

    for (_, pattern), run in groupby(range(length), key=at):
        if any(pattern):
            times = list(run)
            here = tuple(step for step, is_needed in zip(steps, pattern, strict=True) if is_needed)
            yield Piece(times[0], len(times), here)


def _drops(layout: Layout, nodes: Iterable[str], keep: frozenset[int]) -> Iterator[tuple[int, int]]:
    for node in nodes:
        step = layout.steps[node]
        for slot in (step.slot, *(slot for _, slot in step.state)):
            if slot not in keep:
                yield slot, layout.slots[slot].depth
