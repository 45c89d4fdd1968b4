"""A plan at work: which program runs for a call, on which tracks, by which clock."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
from torch import Tensor, nn

from ladderspec.network.carry import Carry
from ladderspec.network.clock import Clock
from ladderspec.network.program import Masks, Program, by_iteration, by_phase
from ladderspec.network.run import run
from ladderspec.network.steps import Step, lay_out
from ladderspec.network.tape import Player
from ladderspec.network.tracks import Row, Tracks, channels_last, past_of
from ladderspec.nn import Arrow, BatchNorm
from ladderspec.nn._fused import transformed
from ladderspec.nn._tally import LONG, Tally
from ladderspec.schedule.equations import Reader
from ladderspec.schedule.needs import need_masks
from ladderspec.schedule.plan import Plan

INPUT = "encoder.input"
MOST_PROGRAMS = 64

# How many numbers the values of several iterations may hold, folded into one.
FOLD_CPU = 1 << 16
FOLD_ACCELERATOR = 1 << 24


@dataclass(frozen=True)
class Call:
    """What a call asks for."""

    length: int
    ends: tuple[int, ...] | None = None  # of every sequence, where they differ
    readers: tuple[Reader, ...] | None = None  # None: everything at all t
    carries: bool = True
    keep: tuple[str, ...] = ()  # slots by name that are read at the end


class Engine:
    """Runs the phases of a plan with the modules of its nodes."""

    def __init__(self, plan: Plan, root: nn.Module) -> None:
        self.plan = plan
        self.layout = lay_out(plan, root)
        self.programs: dict[Hashable, Program] = {}
        self.starved: dict[Call, bool] = {}
        self.single = by_iteration(self.layout, dict.fromkeys(self.layout.steps, 1), 1)
        self.static = [node for phase in plan.phases if phase.static for node in phase.nodes]

    def unroll(
        self, frames: Tensor, call: Call, carry: Carry | None, player: Player | None = None
    ) -> Tracks:
        """All that a call asks for, phase after phase."""
        tracks = self.tracks(frames, call.length, past_of(self.layout, frames.shape[0], carry))
        program = self.program(call, frames)
        clock = replace(self.clock(frames, call, carry), tally=_tally(frames, call.length))
        run(program, tracks, clock, call.length, self.static_holds(), player)
        return tracks

    def once(self, frame: Tensor, carry: Carry) -> Tracks:
        """One iteration."""
        past = past_of(self.layout, frame.shape[0], carry)
        frames = frame if self.plan.iterations else frame[:, None]
        tracks = self.tracks(frames, 1, past)
        run(self.single, tracks, Clock(carry.t, streams=True), 1)
        return tracks

    # --- programs --------------------------------------------------------------------------------

    def program(self, call: Call, frames: Tensor) -> Program:
        """Phase after phase, found once for each kind of call."""
        most = FOLD_CPU if frames.device.type == "cpu" else FOLD_ACCELERATOR
        # A graph that is traced serves any batch: no size may decide in it.
        most = 0 if torch.compiler.is_compiling() else most // frames.shape[0]
        key = (replace(call, ends=None), call.ends is None, most)
        if key not in self.programs:

            def chunk(steps: Sequence[Step]) -> int:
                if any(_mixes(step.module) for step in steps):
                    return 1
                return max(1, most // max(step.numbers for step in steps))

            fuse = call.ends is None or not call.carries  # a fused call ends with one state
            masks, kept = self.masks(call), self._kept(call)
            if len(self.programs) >= MOST_PROGRAMS:
                self.programs.clear()
            self.programs[key] = by_phase(
                self.plan, self.layout, masks, call.length, chunk, fuse, kept
            )
        return self.programs[key]

    def masks(self, call: Call) -> Masks:
        """At which t each node is needed, as bits."""
        if call.readers is None:
            return dict.fromkeys(self.layout.steps, (1 << call.length) - 1)
        carried = tuple(self._carried(call)) if call.carries else ()
        return need_masks(replace(self.plan, tasks=call.readers + carried), call.length)

    def starves(self, call: Call) -> bool:
        """Whether an arrow from the past is never needed after its first values."""
        key = replace(call, ends=None)
        if key not in self.starved:
            masks = self.masks(call)
            edges = [edge for each in self.plan.equations.values() for edge in each.edges]
            if len(self.starved) >= MOST_PROGRAMS:
                self.starved.clear()
            self.starved[key] = any(
                masks[edge.target] and not masks[edge.target] >> edge.delay for edge in edges
            )
        return self.starved[key]

    def unread_starts(self, call: Call, carry: Carry | None) -> list[Tensor]:
        """Learnt values from before the first t that a call never reads."""
        learned = [slot for slot in self.layout.slots if slot.learned]
        if not learned:
            return []
        masks = self.masks(call)
        read = {
            edge.source
            for each in self.plan.equations.values()
            for edge in each.edges
            if carry is None and masks[edge.target] & ((1 << edge.delay) - 1)
        }
        return [s.parameter() for s in learned if ".".join(s.name.split(".")[:2]) not in read]

    def _carried(self, call: Call) -> Iterable[Reader]:
        for node, kept in self.plan.carry.items():
            # A sequence may end at any t.
            depth = min(kept.depth, call.length) if call.ends is None else call.length
            when = (0.0,) * (call.length - depth) + (1.0,) * depth
            yield Reader(node, (node,), when, 0, 0, 0)

    def _kept(self, call: Call) -> frozenset[int]:
        """The slots whose values are all read at the end."""
        kept = {self.layout.index[name] for name in call.keep}
        return frozenset(kept | set(self.carried if call.ends is not None else ()))

    @property
    def carried(self) -> list[int]:
        """The slots of the carry."""
        return [index for index, slot in enumerate(self.layout.slots) if slot.depth]

    # --- tracks and clocks -----------------------------------------------------------------------

    def tracks(self, frames: Tensor, length: int, past: list[Row]) -> Tracks:
        """Tracks with the input on them: frames (B, T, ...), or one input (B, ...) for all t."""
        tracks = Tracks(self.layout, length, frames, past)
        step = self.layout.steps[INPUT]
        for slot in (step.slot, step.seen) if step.seen >= 0 else (step.slot,):
            if self.plan.iterations:
                tracks.put(slot, 0, 1, channels_last(frames))
                tracks.repeat(slot)
            else:
                folded = channels_last(frames.transpose(0, 1).flatten(0, 1))
                tracks.put(slot, 0, length, folded)
        return tracks

    def clock(self, frames: Tensor, call: Call, carry: Carry | None) -> Clock:
        start = 0 if carry is None else carry.t
        if call.ends is None:
            return Clock(start)
        ends = torch.tensor(call.ends, device=frames.device)
        return Clock(start, torch.arange(call.length, device=frames.device)[:, None] < ends)

    def carry(self, tracks: Tracks, call: Call, before: Carry | None) -> Carry:
        """What the next iteration remembers of every sequence."""
        start = 0 if before is None else before.t
        kept = {}
        for slot in self.carried:
            facts = self.layout.slots[slot]
            ages = range(1, facts.depth + 1)
            kept[facts.name] = tuple(tracks.last(slot, age, call.ends) for age in ages)
        if call.ends is None:
            return Carry(start + call.length, kept)
        return Carry(start + torch.tensor(call.ends, device=tracks.like.device), kept)

    def static_holds(self) -> bool:
        """Whether what follows from the input alone is the same at every t.

        In evaluation, batch norms with statistics of their own for each t may see to it that not;
        in training, dropout does.
        """
        modules = [self.layout.steps[node].module for node in self.static]
        if any(module.training and (_mixes(module) or _drops(module)) for module in modules):
            return False
        norms = [part for module in modules for part in module.modules() if _by_time(part)]
        if not norms or torch.compiler.is_compiling():
            return not norms
        return all(
            bool((kept == kept[:1]).all())
            for norm in norms
            for kept in (norm.running_mean, norm.running_var)
        )


def _tally(frames: Tensor, length: int) -> Tally | None:
    """Not where somebody else sees to gradients, or to precision; measured on the CPU alone."""
    if length < LONG or not torch.is_grad_enabled() or transformed():
        return None
    on_cpu = frames.device.type == "cpu"
    return Tally() if on_cpu and not torch.is_autocast_enabled("cpu") else None


def _mixes(module: nn.Module) -> bool:
    """Whether a cell of a user's own would take several t for one batch."""
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())


def _drops(module: nn.Module) -> bool:
    return any(isinstance(part, Arrow) and part.drop for part in module.children())


def _by_time(part: nn.Module) -> TypeGuard[BatchNorm]:
    """Uses statistics of its own for each t."""
    return isinstance(part, BatchNorm) and part.iterations > 1 and not part.training
