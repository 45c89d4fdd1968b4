"""Activation checkpointing: memory for one stretch of time, at the price of a second pass.

Only what passes from one stretch to the next is kept; the inside is computed again when the
backward pass comes to it. Running statistics count the first pass alone.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ladderspec.names import size_of
from ladderspec.network.carry import Carry
from ladderspec.network.clock import Clock
from ladderspec.network.doorway import check_count
from ladderspec.network.engine import Call, Engine
from ladderspec.network.program import Masks, by_iteration
from ladderspec.network.run import run
from ladderspec.network.tracks import Row, Tracks, past_of

WAITING = 3  # tensors that wait for the backward pass, about, for one value of a node
Found = tuple[list[Row], list[Row]]  # what is read at the end, and the past of the next stretch


def unroll_twice(
    engine: Engine, frames: Tensor, call: Call, carry: Carry | None, stretch: bool | int
) -> Tracks:
    """Like `Engine.unroll`, in stretches of so many t; True chooses for the least memory."""
    if stretch is not True:
        check_count(stretch, 1, "checkpoint is True, or a number of t")
    size = _stretch_for(engine, call.length) if stretch is True else stretch
    masks, clock = engine.masks(call), engine.clock(frames, call, carry)
    past = past_of(engine.layout, frames.shape[0], carry)
    tracks = engine.tracks(frames, call.length, past)
    lead, carried = engine.layout.lead, engine.carried
    slots = [step.seen for step in engine.layout.steps.values() if step.seen >= 0]
    slots += carried if call.ends is not None else []
    for start in range(0, call.length, size):
        stop = min(start + size, call.length)
        part = frames if engine.plan.iterations else frames[:, start:stop]
        compute = _stretch(engine, masks, clock, start, stop, slots)
        found, past = checkpoint(compute, part, past, use_reentrant=False)
        for slot, row in zip(slots, found, strict=True):
            tracks.rows[slot][lead + start : lead + stop] = row
    for slot in carried:
        tracks.rows[slot][-lead:] = past[slot]
    return tracks


def _stretch_for(engine: Engine, length: int) -> int:
    """The s with the least length / s . carried + s . inside, numbers of one sequence."""
    slots = engine.layout.slots
    carried = sum(slot.depth * size_of(slot.shape) for slot in slots)
    inside = WAITING * sum(size_of(slot.shape) for slot in slots)
    return max(1, round(sqrt(length * carried / inside)))


def _stretch(
    engine: Engine, masks: Masks, clock: Clock, start: int, stop: int, slots: list[int]
) -> Callable[[Tensor, list[Row]], Found]:
    """Iterations `start` to `stop`, as a function of their frames and their past."""
    later = {node: mask >> start for node, mask in masks.items()}
    program = by_iteration(engine.layout, later, stop - start, frozenset(slots))
    calls = 0

    def compute(frames: Tensor, past: list[Row]) -> Found:
        nonlocal calls
        calls += 1
        tracks = engine.tracks(frames, stop - start, past)
        run(program, tracks, clock.later(start, again=calls > 1), stop - start)
        lead = engine.layout.lead
        nothing: Row = [None] * lead
        kept = [
            tracks.row(index)[stop - start :] if slot.depth else nothing
            for index, slot in enumerate(engine.layout.slots)
        ]
        return [tracks.row(slot)[lead:] for slot in slots], kept

    return compute
