"""Plan -> torch: a module that unrolls time by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ladderspec.network.adopt import Adopted, adopt
from ladderspec.network.carry import Carry
from ladderspec.network.closed_loop import generate
from ladderspec.network.costs import (
    Batch,
    Costs,
    Targets,
    add_up,
    check_tasks,
    later,
    read_by,
    tied,
)
from ladderspec.network.doorway import (
    Doorway,
    Lengths,
    check_count,
    check_names,
    check_nodes,
    names_of_nodes,
    without_padding,
)
from ladderspec.network.engine import INPUT, Call, Engine
from ladderspec.network.heap import keep_freed_memory
from ladderspec.network.modules import OFFSET, cells_of, homes_of, names_of, readouts_of
from ladderspec.network.noise import noisy
from ladderspec.network.readouts import Readout
from ladderspec.network.stretches import unroll_twice
from ladderspec.network.tape import Tapes
from ladderspec.network.tracks import Tracks, channels_last
from ladderspec.nn import initialise
from ladderspec.nn._build import nest
from ladderspec.nn._own import undrawn
from ladderspec.nn._tally import LONG
from ladderspec.schedule.equations import Reader
from ladderspec.schedule.plan import Plan
from ladderspec.tasks import Task
from ladderspec.wiring.graph import Graph


class Outputs(dict[str, Any]):
    """What each task sees by its name, (B, T, ...); by node where it reads several."""

    carry: Carry


class Net(nn.Module):
    """The network of a plan. Time runs over frames (B, T, ...), or over iterations on (B, ...)."""

    def __init__(self, graph: Graph, plan: Plan, seed: int = 0) -> None:
        super().__init__()
        self.graph, self.plan = graph, plan
        self.tasks: dict[str, Task] = {
            name: entry["task"] for name, entry in graph.graph["tasks"].items()
        }
        with undrawn():
            readouts = {name: readouts_of(graph, name) for name in self.tasks}
            nest(self, cells_of(graph, seed) | names_of(readouts))
        initialise(self, seed)
        # What convolves with such weights follows. (The stubs of torch do not know the word.)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.noise = graph.nodes[INPUT]["cell"].noise
        self.shape = tuple(graph.nodes[INPUT]["shape"])
        self.engine = Engine(plan, self)
        self.tapes = Tapes()
        self.heads = homes_of(self, readouts)
        once = plan.length if plan.iterations else None
        self.doorway = Doorway(self.shape, once, self.engine.layout.slots)
        keep_freed_memory()

    @property
    def readouts(self) -> dict[str, dict[str, Readout]]:
        """What each task owns, by the node that it reads."""
        return {
            name: {node: cast(Readout, home.module) for node, home in homes.items()}
            for name, homes in self.heads.items()
        }

    # --- all t at once ---------------------------------------------------------------------------

    def forward(
        self, frames: Tensor, lengths: Lengths = None, carry: Carry | None = None
    ) -> Outputs:
        """All outputs at all t, and the carry.

        With `lengths`, what is seen of a sequence beyond its own end means nothing.
        """
        frames, length, ends = self._enter(frames, lengths, carry)
        call = Call(length, ends)
        tracks = self._unroll(self._noisy(frames), call, carry)
        outputs = Outputs()
        for name in self.tasks:
            seen = {
                node: value.transpose(0, 1)
                for node, value in self._see(tracks, name, list(range(call.length))).items()
            }
            outputs[name] = seen if len(seen) > 1 else next(iter(seen.values()))
        outputs.carry = self.engine.carry(tracks, call, carry)
        return outputs

    def cost(
        self,
        frames: Tensor,
        targets: Targets = None,
        lengths: Lengths = None,
        *,
        carry: Carry | None = None,
        tasks: Collection[str] | None = None,
        weights: Mapping[str, float] | None = None,
        checkpoint: bool | int = False,
    ) -> Costs:
        """The cost of every task, computing only what the costs read.

        `targets` are fields of the data by name, (B, ...) or (B, T, ...) over time; a field under a
        task's own name is taken as it stands, one target for each t. `tasks` are those that count,
        `weights` replace their own. With a `carry`, `costs.carry` is the next one: so sequences can
        be trained in chunks. `checkpoint` keeps only what passes from one stretch of time to the
        next (of so many t; True chooses) and computes the rest again for the backward pass.
        """
        frames, length, ends = self._enter(frames, lengths, carry)
        counting = (tasks,) if isinstance(tasks, str) else self.tasks if tasks is None else tasks
        check_tasks(self.tasks, targets, counting, weights or {})
        chosen = {name: task for name, task in self.tasks.items() if name in counting}
        whole = self.plan.tasks if carry is None else later(self.plan.tasks, carry.t)
        readings = read_by(chosen, whole, Batch(frames, targets, length, ends))
        readers = tuple(reading.reader() for reading in readings)
        call = Call(length, ends, readers, carries=carry is not None)
        again = checkpoint is not False
        unroll = partial(unroll_twice, self.engine, stretch=checkpoint) if again else self._unroll

        def unrolled(frames: Tensor) -> tuple[dict[str, dict[str, Tensor]], Carry | None]:
            tracks = unroll(frames, call, carry)
            seen = {r.name: self._see(tracks, r.name, r.times) for r in readings if r.times}
            return seen, None if carry is None else self.engine.carry(tracks, call, carry)

        short = carry is None and ends is None and not again and length < LONG  # else t by t
        noisy, kind = self._noisy(frames), (call, self.engine.static_holds())
        player = self.tapes.player(self, noisy) if short else None
        if player is None:
            seen, after = unrolled(noisy)
        else:
            seen, after = player.repeat(kind, 0, unrolled, (noisy,))
        costs = add_up(
            readings,
            lambda reading: seen[reading.name].values(),
            weights or {},
            self,
            frames.new_zeros(()),
        )
        costs.carry = after
        if carry is None and self.engine.starves(call):
            # Arrows from the past have had nothing to carry.
            costs.total = tied(costs.total, self.parameters())
        elif starts := self.engine.unread_starts(call, carry):
            costs.total = tied(costs.total, starts)
        return costs

    def values(
        self,
        frames: Tensor,
        *nodes: str | Sequence[str],
        lengths: Lengths = None,
        carry: Carry | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """What nodes give at all t, (B, T, ...): `net.values(frames, "decoder.conv_2")`.

        Several, or a list of them, by name; `encoder.lstm1.c` is what that cell remembers.
        """
        names = names_of_nodes(nodes)
        index = self.engine.layout.index
        check_nodes(names, index, self.graph)
        owners = tuple(".".join(name.split(".")[:2]) for name in names)
        readers = (Reader("values", owners, "all", 0, 0, 0),)
        frames, length, ends = self._enter(frames, lengths, carry)
        call = Call(length, ends, readers, carries=False, keep=tuple(names))
        tracks = self._unroll(self._noisy(frames), call, carry)
        times = list(range(length))
        found = {name: tracks.series(index[name], times).transpose(0, 1) for name in names}
        return found[nodes[0]] if len(found) == 1 and isinstance(nodes[0], str) else found

    # --- one t after the other -------------------------------------------------------------------

    def initial_carry(self, batch: int) -> Carry:
        """What the first iteration remembers."""
        if not torch.compiler.is_compiling():
            check_count(batch, 1, "a batch is a number of sequences")
        like = next(self.parameters(), torch.zeros(()))
        values = {}
        for slot in self.engine.layout.slots:
            if slot.depth:
                first = slot.initial()
                first = like.new_zeros(()) if first is None else first
                whole = channels_last(first.expand(batch, *slot.shape).clone())
                # Apart from each other: torch.export takes one tensor twice for one input.
                values[slot.name] = (whole, *(whole.clone() for _ in range(slot.depth - 1)))
        return Carry(0, values)

    def iterate(self, frame: Tensor, carry: Carry) -> tuple[dict[str, Any], Carry]:
        """One t: a frame (B, ...) and what is remembered -> what each task sees, and the next."""
        frame = self.doorway.frames(frame, self._like(), alone=True)
        if carry is None:
            raise ValueError(f"a carry is needed; the first is `net.initial_carry({len(frame)})`")
        self.doorway.check_carry(carry, frame)
        return self.tapes.iterate(self, self._iterate, frame, carry)

    def _iterate(self, frame: Tensor, carry: Carry) -> tuple[dict[str, Any], Carry]:
        tracks = self.engine.once(self._noisy(frame), carry)
        outputs: dict[str, Any] = {}
        for name, readouts in self.readouts.items():
            seen = {
                node: readout(tracks.last(self.engine.layout.seen(node)))
                for node, readout in readouts.items()
            }
            outputs[name] = seen if len(seen) > 1 else next(iter(seen.values()))
        return outputs, self.engine.carry(tracks, Call(1), carry)

    def generate(
        self,
        frames: Tensor,
        n: int,
        sample: bool = False,
        lengths: Lengths = None,
        carry: Carry | None = None,
    ) -> Tensor:
        """The next n frames (B, n, ...), each made from those before: a closed loop.

        Under bce these are probabilities, or with `sample` draws from them.
        """
        return generate(self, frames, n, sample, lengths, carry)

    # --- weights ---------------------------------------------------------------------------------

    def set_offset(self, mean: Tensor | float, task: str | None = None) -> None:
        """Let the output of a prediction or denoising task start at the mean of the data.

        `mean` is a number or a frame: the mean pixel; under bce the rate of ones.
        """
        known = [name for name, words in self.tasks.items() if words.kind in OFFSET]
        check_names([] if task is None else [task], known, "task with an offset")
        for name in known if task is None else [task]:
            for readout in self.readouts[name].values():
                readout.start_at(mean, logits=getattr(self.tasks[name], "cost", "") == "bce")

    def adopt(self, weights: Mapping[str, Tensor]) -> Adopted:
        """Take over what another variant has too, and name what it has not."""
        return adopt(self, weights)

    # --- the doorway -----------------------------------------------------------------------------

    def _enter(
        self, frames: Tensor, lengths: Lengths, carry: Carry | None
    ) -> tuple[Tensor, int, tuple[int, ...] | None]:
        """Frames as the network takes them, how many t there are, and where sequences end."""
        frames = self.doorway.frames(frames, self._like())
        length, ends = self.doorway.times(frames, lengths)
        self.doorway.check_carry(carry, frames)
        return without_padding(frames, ends), length, ends

    def _like(self) -> Tensor | None:
        """A parameter: where the network is, and in which type."""
        return None if torch.compiler.is_compiling() else next(self.parameters(), None)

    def _noisy(self, frames: Tensor) -> Tensor:
        """The input as the network gets it: with its noise, in training."""
        return noisy(frames, self.noise) if self.training else frames

    def _unroll(self, frames: Tensor, call: Call, carry: Carry | None) -> Tracks:
        """All that a call asks for; the many t of a long one from tapes."""
        one = frames if self.plan.iterations else frames[:, :1]
        player = self.tapes.player(self, one) if call.length >= LONG else None
        return self.engine.unroll(frames, call, carry, player)

    def _see(self, tracks: Tracks, name: str, times: list[int]) -> dict[str, Tensor]:
        """What a task sees by node, (n, B, ...)."""
        index = self.engine.layout
        return {
            node: readout(tracks.series(index.seen(node), times))
            for node, readout in self.readouts[name].items()
        }
