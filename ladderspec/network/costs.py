"""The costs of tasks: which t they read, against which targets, with which weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ladderspec.names import equal_but_for_ones
from ladderspec.network.history import Carry
from ladderspec.network.inputs import Given, as_tensor, check_names
from ladderspec.schedule.equations import Reader
from ladderspec.schedule.plan import times
from ladderspec.tasks import Task

# Tensors; arrays of numpy and lists are taken too.
Targets = Mapping[str, Any] | Tensor | None


class Costs(dict[str, Tensor]):
    """The cost of every task by name; `total` is their sum with the tasks' weights."""

    total: Tensor
    carry: Carry | None = None


@dataclass(frozen=True)
class TaskCost:
    """One task on one batch: the t that it reads, its targets and the weights of samples."""

    task: Task
    reader: Reader  # its `ahead` is 0 if there is a target for each t
    times: list[int]  # at which t any sequence is read; 0 is t = 1
    target: Tensor
    length: int
    weights: Tensor | None  # (n, B) or (n, 1); None if all weights are equal
    grouped: bool = False  # what is seen has an axis of groups, (n, B, K, ...)

    @property
    def name(self) -> str:
        return self.reader.name

    def reads(self, nodes: Iterable[str]) -> list[tuple[str, int]]:
        """Each of these nodes, at all t that the task reads."""
        return [(node, sum(1 << t for t in self.times)) for node in nodes]

    def cost(self, seen: Tensor, likelihood: Mapping[str, Any]) -> Tensor:
        """The mean over samples and iterations of what is seen, (n, B, ...)."""
        n, batch = seen.shape[:2]
        if self.grouped:
            combined = self.task.combine(seen.flatten(0, 1))
            seen = combined.view(n, batch, *combined.shape[1:])
        target = self._target_of(seen)
        if self.weights is not None:  # what does not count may be anything, even NaN
            counts = (self.weights != 0).expand(n, batch)
            wide = counts.view(n, batch, *(1 for _ in target.shape[2:]))
            target = target.where(wide, torch.zeros_like(target[:1, :1]))
        given = likelihood if self.task.explains else {}
        each = self.task.compare(seen.flatten(0, 1), target.flatten(0, 1), **given)
        return self._mean(each, seen)

    def clean_cost(self, seen: Tensor, target: Tensor, moments: Tensor | None = None) -> Tensor:
        """The cost against a level in a pass without noise, both (n, B, ...).

        An estimate of a batch-normalised level is normalised by the `moments` of that pass: mean
        and standard deviation, (n, 2, B or 1, C).
        """
        if moments is not None:
            moments = moments.detach() if self.task.stops else moments
            wide = moments.view(*moments.shape, *(1 for _ in seen.shape[3:]))
            seen = (seen - wide[:, 0]) / wide[:, 1]
        target = target.detach() if self.task.stops else target
        return self._mean(self.task.compare(seen.flatten(0, 1), target.flatten(0, 1)), seen)

    def _mean(self, each: Tensor, seen: Tensor) -> Tensor:
        """The weighted mean of the costs of samples, (n B,)."""
        n, batch = seen.shape[:2]
        if self.weights is None:
            return each.mean()
        weights = self.weights.to(each.dtype).expand(n, batch)
        # CHOICE: a weighted mean, so that equal weights mean the same as `when: all`.
        return (each.view(n, batch) * weights).sum() / weights.sum()

    def _target_of(self, seen: Tensor) -> Tensor:
        """(n, B, ...); a target without time is the same at every t."""
        if not self.task.compares:
            return seen.new_zeros(seen.shape[:2])
        batch, shape = seen.shape[1], self.task.target_shape(tuple(seen.shape[2:]))
        given = tuple(self.target.shape)
        if given[:1] == (batch,) and equal_but_for_ones(given[1:], shape):
            return self.target.reshape(batch, *shape).expand(seen.shape[0], batch, *shape)
        if given[:2] != (batch, self.length) or not equal_but_for_ones(given[2:], shape):
            raise ValueError(
                f"task `{self.name}` sees {tuple(seen.shape[1:])} at each of {self.length} t: its"
                f" target is {(batch, *shape)}, or {(batch, self.length, *shape)} over time, but"
                f" this one is {given}"
            )
        later = self.target.reshape(batch, self.length, *shape).transpose(0, 1)
        times = [t + self.reader.ahead for t in self.times]
        if times[-1] - times[0] + 1 == len(times):
            return later[times[0] : times[-1] + 1]
        return later[times]


def costs_of(
    tasks: Mapping[str, Task],
    readers: Sequence[Reader],
    given: Given,
    targets: Targets,
    grouped: bool,
) -> list[TaskCost]:
    """The costs of the tasks on a batch; `grouped`: what they see has an axis of groups."""
    fields = {task.field for task in tasks.values()} - {None}
    found = []
    for reader in readers:
        if reader.name in tasks:
            task = tasks[reader.name]
            target, own = _target(reader.name, task, given.frames, targets, len(fields) == 1)
            aligned = replace(reader, ahead=0) if own else reader
            read, weights = _weights(aligned, given)
            found.append(TaskCost(task, aligned, read, target, given.length, weights, grouped))
    return found


def _target(
    name: str, task: Task, frames: Tensor, targets: Targets, alone: bool
) -> tuple[Tensor, bool]:
    """The target of a task, and whether it is given under the task's own name.

    Targets without names are those of the one field that tasks compare with, if it is `alone`.
    """
    by_name = targets if isinstance(targets, Mapping) else {}
    field = task.field
    if name in by_name:
        found = by_name[name]
    elif field is None or task.clean:
        return frames, False
    elif field in by_name:
        found = by_name[field]
    elif targets is not None and not isinstance(targets, Mapping) and alone:
        found = targets
    else:
        raise ValueError(f"task `{name}` compares with `{field}`: give targets[{field!r}]")
    return as_tensor(found, f"the target of task `{name}` is", frames.device), name in by_name


def _weights(reader: Reader, given: Given) -> tuple[list[int], Tensor | None]:
    """The t at which a task reads, and how each sample weighs there."""
    lengths = given.ends or (given.length,)
    bits = {length: times(reader, length) for length in set(lengths)}
    read = [t for t in range(given.length) if any(mask >> t & 1 for mask in bits.values())]
    if given.ends is None and isinstance(reader.when, str):
        return read, None
    by_time = reader.when if isinstance(reader.when, tuple) else [1.0] * given.length
    table = [[by_time[t] * (bits[length] >> t & 1) for length in lengths] for t in read]
    return read, torch.tensor(table).to(given.frames.device)


def later(readers: Sequence[Reader], t: int | Tensor) -> list[Reader]:
    """The readers of a chunk that begins after t iterations: weights are those of the whole."""
    if isinstance(t, Tensor) and t.dim() and any(isinstance(r.when, tuple) for r in readers):
        raise ValueError("a task has weights for each t, but these sequences ended at different t")
    return [
        replace(each, when=each.when[int(t) :]) if isinstance(each.when, tuple) else each
        for each in readers
    ]


def check_tasks(
    tasks: Mapping[str, Task],
    targets: Targets,
    chosen: Iterable[str],
    weights: Mapping[str, float],
) -> None:
    """Refuse names and weights that mean nothing here: they would be ignored silently."""
    check_names(list(chosen), tasks, "task")
    check_names(list(weights), tasks, "task")
    for name, weight in weights.items():
        if not isinstance(weight, Real) and not (isinstance(weight, Tensor) and not weight.dim()):
            raise ValueError(f"the weight of task `{name}` is a number, not {weight!r}")
    if isinstance(targets, Mapping) and not torch.compiler.is_compiling():
        known = {*tasks, *(task.field for task in tasks.values() if task.field is not None)}
        for name in targets.keys() - known:
            # Further fields of the data are fine: another variant may read them.
            if meant := get_close_matches(name, known - targets.keys(), 1, cutoff=0.8):
                raise ValueError(f"no task compares with `{name}`: did you mean `{meant[0]}`?")


def mean_of_nodes(costs: Mapping[str, Tensor], weights: Mapping[str, float] | None) -> Tensor:
    """The mean of the costs of several nodes; with weights by node, their weighted sum."""
    each = [*costs.values()] if weights is None else [weights[n] * c for n, c in costs.items()]
    if len(each) == 1:
        return each[0]
    return torch.stack(each).mean() if weights is None else torch.stack(each).sum()


def tied(value: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """The same value, with a gradient of zero for parameters.

    Sequences too short for some edge or task would leave its parameters without a gradient:
    distributed training waits for each of them.
    """
    nothing = [each[:0].sum(dtype=value.dtype) for each in parameters if each.requires_grad]
    return sum(nothing, value)
