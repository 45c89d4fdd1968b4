"""Plan -> torch: a module that unrolls time by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ladderspec.network.adopt import Adopted, adopt
from ladderspec.network.carry import Carry
from ladderspec.network.costs import Batch, Costs, Targets, read_by
from ladderspec.network.engine import INPUT, Call, Engine
from ladderspec.network.modules import cells_of, names_of, readouts_of
from ladderspec.network.stretches import unroll_twice
from ladderspec.network.tracks import Tracks, channels_last
from ladderspec.nn import initialise
from ladderspec.nn._build import nest
from ladderspec.nn._own import undrawn
from ladderspec.schedule.equations import Reader
from ladderspec.schedule.plan import Plan
from ladderspec.tasks import Prediction, Task
from ladderspec.wiring.graph import Graph

Lengths = Tensor | Sequence[int] | None


class Outputs(dict[str, Any]):
    """What each task sees by its name, (B, T, ...); by node where it reads several."""

    carry: Carry


class Net(nn.Module):
    """The network of a plan. Time runs over frames (B, T, ...), or over iterations on (B, ...)."""

    def __init__(self, graph: Graph, plan: Plan, seed: int = 0) -> None:
        super().__init__()
        self.plan = plan
        self.tasks: dict[str, Task] = {
            name: entry["task"] for name, entry in graph.graph["tasks"].items()
        }
        with undrawn():
            self.readouts = {name: readouts_of(graph, name) for name in self.tasks}
            cells = cells_of(graph, seed)
        nest(self, cells | names_of(self.readouts))
        initialise(self, seed)
        # What convolves with such weights follows. (The stubs of torch do not know the word.)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.noise = graph.nodes[INPUT]["cell"].noise
        self.shape = tuple(graph.nodes[INPUT]["shape"])
        self.engine = Engine(plan, cells)

    # --- all t at once ---------------------------------------------------------------------------

    def forward(
        self, frames: Tensor, lengths: Lengths = None, carry: Carry | None = None
    ) -> Outputs:
        """All outputs at all t, and the carry.

        With `lengths`, what is seen of a sequence beyond its own end means nothing.
        """
        call = Call(*self._times(frames, lengths))
        tracks = self.engine.unroll(self._noisy(frames), call, carry)
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

        `targets` are fields of the data by name; a field under a task's own name is taken as it
        stands, one target for each t. `tasks` are those that count, `weights` replace their own.
        With a `carry`, `costs.carry` is the next one: so sequences can be trained in chunks.
        `checkpoint` keeps only what passes from one stretch of time to the next (of so many t; True
        chooses) and computes the rest a second time for the backward pass.
        """
        length, ends = self._times(frames, lengths)
        chosen = {name: task for name, task in self.tasks.items() if tasks is None or name in tasks}
        readings = read_by(chosen, self.plan.tasks, Batch(frames, targets, length, ends))
        readers = tuple(reading.reader() for reading in readings)
        call = Call(length, ends, readers, carries=carry is not None)
        noisy = self._noisy(frames)
        if checkpoint:
            tracks = unroll_twice(self.engine, noisy, call, carry, checkpoint)
        else:
            tracks = self.engine.unroll(noisy, call, carry)
        costs = Costs()
        costs.total = frames.new_zeros(())
        for reading in readings:
            cost = frames.new_zeros(())
            if reading.times:
                seen = self._see(tracks, reading.name, reading.times).values()
                cost = torch.stack([reading.cost(value) for value in seen]).mean()
            costs[reading.name] = cost
            weight = (weights or {}).get(reading.name, reading.task.weight_at())
            costs.total = costs.total + weight * cost
        if carry is not None:
            costs.carry = self.engine.carry(tracks, call, carry)
        return costs

    def values(
        self, frames: Tensor, *nodes: str, lengths: Lengths = None, carry: Carry | None = None
    ) -> Tensor | dict[str, Tensor]:
        """What nodes give at all t, (B, T, ...): `net.values(frames, "decoder.conv_2")`."""
        unknown = [node for node in nodes if node not in self.engine.layout.index]
        if unknown or not nodes:
            raise ValueError(
                f"no node {', '.join(unknown)}; there are {', '.join(self.plan.equations)}"
            )
        owners = tuple(".".join(node.split(".")[:2]) for node in nodes)
        readers = (Reader("values", owners, "all", 0, 0, 0),)
        length, ends = self._times(frames, lengths)
        call = Call(length, ends, readers, carries=False, keep=nodes)
        tracks = self.engine.unroll(self._noisy(frames), call, carry)
        index, times = self.engine.layout.index, list(range(length))
        found = {node: tracks.series(index[node], times).transpose(0, 1) for node in nodes}
        return found if len(found) > 1 else found[nodes[0]]

    # --- one t after the other -------------------------------------------------------------------

    def initial_carry(self, batch: int) -> Carry:
        """What the first iteration remembers."""
        like = next(self.parameters(), torch.zeros(()))
        values = {}
        for slot in self.engine.layout.slots:
            if slot.depth:
                first = slot.initial()
                first = like.new_zeros(()) if first is None else first
                whole = channels_last(first.expand(batch, *slot.shape))
                # Apart from each other: torch.export takes one tensor twice for one input.
                values[slot.name] = (whole, *(whole.clone() for _ in range(slot.depth - 1)))
        return Carry(0, values)

    def iterate(self, frame: Tensor, carry: Carry) -> tuple[dict[str, Any], Carry]:
        """One t: a frame (B, ...) and what is remembered -> what each task sees, and the next."""
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
        name, task = self._predictor()
        if sample and task.cost != "bce":
            raise ValueError(f"task `{name}` predicts by mse: there is no distribution to sample")
        length, ends = self._times(frames, lengths)
        before = self.forward(frames, lengths, carry)
        seen = before[name]
        last = torch.tensor(ends or (length,) * len(seen), device=seen.device) - 1
        seen, carry = seen[torch.arange(len(seen), device=seen.device), last], before.carry
        found: list[Tensor] = []
        while len(found) < n:
            frame = task.present(seen).view(-1, *self.shape)
            found.append(torch.bernoulli(frame) if sample else frame)
            if len(found) < n:
                outputs, carry = self.iterate(found[-1], carry)
                seen = outputs[name]
        return torch.stack(found, 1) if found else frames.new_empty(len(frames), 0, *self.shape)

    def _predictor(self) -> tuple[str, Prediction]:
        for name, task in self.tasks.items():
            if isinstance(task, Prediction) and task.ahead == 1 and len(self.readouts[name]) == 1:
                return name, task
        raise ValueError("no task predicts the next frame: nothing can be fed back")

    # --- weights ---------------------------------------------------------------------------------

    def set_offset(self, mean: Tensor | float, task: str | None = None) -> None:
        """Let the output of a prediction or denoising task start at the mean of the data.

        `mean` is a number or a frame: the mean pixel; under bce the rate of ones.
        """
        for name, readouts in self.readouts.items():
            for readout in readouts.values():
                if readout.offset is not None and task in (None, name):
                    words = self.tasks[name]
                    value = torch.as_tensor(mean, dtype=readout.offset.dtype)
                    value = value.logit(1e-6) if getattr(words, "cost", "") == "bce" else value
                    readout.offset.copy_(value.reshape(value.shape).expand_as(readout.offset))

    def adopt(self, weights: Mapping[str, Tensor]) -> Adopted:
        """Take over what another variant has too, and name what it has not."""
        return adopt(self, weights)

    # --- the doorway -----------------------------------------------------------------------------

    def _times(self, frames: Tensor, lengths: Lengths) -> tuple[int, tuple[int, ...] | None]:
        """How many t there are, and the end of every sequence where they differ."""
        over_time = () if self.plan.iterations else (frames.shape[1],) if frames.dim() > 1 else (0,)
        if tuple(frames.shape[1:]) != (*over_time, *self.shape):
            wanted = "(B, " if self.plan.iterations else "(B, T, "
            raise ValueError(
                f"frames are {wanted}{', '.join(map(str, self.shape))}), but these are"
                f" {tuple(frames.shape)}"
            )
        if self.plan.iterations:
            assert self.plan.length is not None
            if lengths is not None:
                raise ValueError("time runs over iterations on one input: there are no lengths")
            return self.plan.length, None
        length = frames.shape[1]
        if lengths is None:
            return length, None
        ends = tuple(map(int, lengths.tolist() if isinstance(lengths, Tensor) else lengths))
        if len(ends) != frames.shape[0] or min(ends) < 0 or max(ends) > length:
            raise ValueError(
                f"lengths are {len(frames)} numbers from 0 to {length}, not {list(ends)}"
            )
        return length, ends

    def _noisy(self, frames: Tensor) -> Tensor:
        """The input as the network gets it: with its noise, in training."""
        if not frames.is_floating_point():
            frames = frames.to(next(self.parameters()).dtype)
        if not self.training or self.noise is None:
            return frames
        if self.noise.gaussian:
            frames = frames + self.noise.gaussian * torch.randn_like(frames)
        if self.noise.flip:
            turned = torch.rand_like(frames) < self.noise.flip
            frames = torch.where(turned, 1 - frames, frames)
        return frames

    def _see(self, tracks: Tracks, name: str, times: list[int]) -> dict[str, Tensor]:
        """What a task sees by node, (n, B, ...)."""
        index = self.engine.layout
        return {
            node: readout(tracks.series(index.seen(node), times))
            for node, readout in self.readouts[name].items()
        }
