"""Activation checkpointing over time: less memory, at the price of a second forward pass.

Only what passes from one segment of time to the next is kept; the inside of a segment is computed
again when the backward pass reaches it. Running statistics count the first pass alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ladderspec.names import BOTTOM, size_of
from ladderspec.network.executor import Call, Executor
from ladderspec.network.history import History, Row
from ladderspec.network.inputs import Given, check_count
from ladderspec.nn import TimeStep
from ladderspec.ops import choose

TENSORS_PER_VALUE = 3  # that wait for the backward pass, about, for one value of a node
Found = tuple[dict[str, Row], dict[str, Row]]  # what is read at the end, and the next past


def run_checkpointed(executor: Executor, given: Given, call: Call, segment: bool | int) -> History:
    """Like `Executor.run`, in segments of so many t; True chooses for the least memory."""
    if segment is not True:
        check_count(segment, 1, "checkpoint is True, or a number of t")
    size = _best_segment(executor, given.length) if segment is True else segment
    history = executor.begin(given)
    steps, lead = list(executor.steps(given, call)), history.lead
    past = {name: row[:lead] for name, row in history.rows.items()}
    for start in range(0, given.length, size):
        stop = min(start + size, given.length)
        part = {
            name: value[:, start:stop] if executor.is_timed(name, value) else value
            for name, value in given.values.items()
        }
        later = {node: mask >> start for node, mask in call.needs.items()}
        compute = _segment(executor, replace(call, needs=later), steps[start:stop])
        found, past = checkpoint(compute, part, past, use_reentrant=False)
        for name, row in found.items():
            history.rows[name][lead + start : lead + stop] = row
    for name in executor.carried:
        history.rows[name][given.length :] = past[name]
    return history


def _best_segment(executor: Executor, length: int) -> int:
    """The s with the least length / s . carried + s . inside, numbers of one sequence."""
    slots = executor.slots.values()
    carried = sum(slot.depth * size_of(slot.shape) for slot in slots)
    inside = TENSORS_PER_VALUE * sum(size_of(slot.shape) for slot in slots)
    return max(1, round(sqrt(length * carried / inside)))


def _segment(
    executor: Executor, call: Call, steps: list[TimeStep]
) -> Callable[[dict[str, Tensor], dict[str, Row]], Found]:
    """The iterations of `steps` as a function of their frames and their past."""
    computed = False

    def compute(values: dict[str, Tensor], past: dict[str, Row]) -> Found:
        nonlocal computed
        history = History(executor.slots, len(steps), values[BOTTOM])
        for name, row in past.items():
            history.rows[name][: history.lead] = row
        executor.read_input(history, values)
        project = choose(values[BOTTOM])  # its spectra of filters belong to this pass
        timed = [replace(step, recomputed=computed, project=project) for step in steps]
        if not torch.compiler.is_compiling():  # which traces one pass, and recomputes by itself
            computed = True
        executor.loop(history, timed, call)
        rows = history.rows
        last = {name: rows[name][history.length :] for name in executor.carried}
        return {name: rows[name][history.lead :] for name in call.kept}, last

    return compute
