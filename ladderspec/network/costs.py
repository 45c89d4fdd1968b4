"""What the tasks cost: which t they read, against which targets, with which weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ladderspec.names import size_of
from ladderspec.network.carry import Carry
from ladderspec.schedule.equations import Reader
from ladderspec.schedule.needs import times
from ladderspec.tasks import Task

Targets = Mapping[str, Tensor] | Tensor | None


class Costs(dict[str, Tensor]):
    """The cost of every task by name; `total` is their sum with the tasks' weights."""

    total: Tensor
    carry: Carry | None = None


@dataclass(frozen=True)
class Batch:
    """Frames as they came in, without noise, and what to compare with."""

    frames: Tensor
    targets: Targets
    length: int
    lengths: tuple[int, ...] | None

    def target(self, name: str, task: Task, fields: Sequence[str]) -> tuple[Tensor, bool]:
        """What a task compares with; and whether it stands under the task's own name."""
        given = self.targets
        if isinstance(given, Mapping) and name in given:
            return given[name], True
        if task.field is None:
            return self.frames, False
        if isinstance(given, Tensor) and len(fields) == 1:
            return given, False
        if isinstance(given, Mapping) and task.field in given:
            return given[task.field], False
        raise ValueError(
            f"task `{name}` compares with `{task.field}`: give targets[{task.field!r}]"
        )


@dataclass(frozen=True)
class Reading:
    """One task at work on a batch: when it reads, what it compares with, how samples weigh."""

    name: str
    task: Task
    nodes: tuple[str, ...]
    ahead: int
    times: list[int]  # at which t any sequence is read; 0 is t = 1
    target: Tensor
    length: int
    weights: Tensor | None  # (n, B) or (n, 1); None where all weigh alike

    def reader(self) -> Reader:
        """What the plan needs to know of it."""
        read = set(self.times)
        when = tuple(float(t in read) for t in range(self.length))
        return Reader(self.name, self.nodes, when, 0, 0, 0)

    def cost(self, seen: Tensor) -> Tensor:
        """The mean over samples and iterations of what is seen, (n, B, ...)."""
        n, batch = seen.shape[:2]
        target = self._target_of(seen).reshape(n * batch, *self.task.target_shape(seen.shape[2:]))
        each = self.task.compare(seen.flatten(0, 1), target)
        if self.weights is None:
            return each.mean()
        weights = self.weights.to(each.dtype).expand(n, batch)
        # CHOICE: a weighted mean, so that equal weights mean the same as `when: all`.
        return (each.view(n, batch) * weights).sum() / weights.sum()

    def _target_of(self, seen: Tensor) -> Tensor:
        """(n, B, ...); a target without time is the same at every t."""
        numbers = seen.shape[1] * size_of(self.task.target_shape(seen.shape[2:]))
        if self.target.numel() == numbers:
            return self.target.expand(seen.shape[0], *self.target.shape)
        if self.target.numel() != numbers * self.length:
            raise ValueError(
                f"task `{self.name}` sees {tuple(seen.shape[1:])} at each of {self.length} t,"
                f" but its target is {tuple(self.target.shape)}"
            )
        later = self.target.transpose(0, 1)
        first, last = self.times[0] + self.ahead, self.times[-1] + self.ahead
        if last - first + 1 == len(self.times):
            return later[first : last + 1]
        return later[[t + self.ahead for t in self.times]]


def read_by(tasks: Mapping[str, Task], readers: Sequence[Reader], batch: Batch) -> list[Reading]:
    """The tasks at work on a batch."""
    fields = {task.field for task in tasks.values()} - {None}
    found = []
    for reader in readers:
        if reader.name in tasks:
            task = tasks[reader.name]
            target, own = batch.target(reader.name, task, sorted(map(str, fields)))
            aligned = replace(reader, ahead=0) if own else reader
            read, weights = _weights(aligned, batch)
            found.append(
                Reading(
                    reader.name, task, reader.at, aligned.ahead, read, target, batch.length, weights
                )
            )
    return found


def _weights(reader: Reader, batch: Batch) -> tuple[list[int], Tensor | None]:
    """The t at which a task reads, and how each sample weighs there."""
    lengths = batch.lengths or (batch.length,)
    bits = {length: times(reader, length) for length in set(lengths)}
    read = [t for t in range(batch.length) if any(mask >> t & 1 for mask in bits.values())]
    if batch.lengths is None and isinstance(reader.when, str):
        return read, None
    by_time = reader.when if isinstance(reader.when, tuple) else [1.0] * batch.length
    table = [[by_time[t] * (bits[length] >> t & 1) for length in lengths] for t in read]
    return read, torch.tensor(table, device=batch.frames.device)
