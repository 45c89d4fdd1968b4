"""What is reported of a network: each task by itself, in the paper's units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ladderspec.learn import processes
from ladderspec.learn.feed import Diet, Feed
from ladderspec.learn.words import TEACHER
from ladderspec.network.carry import Carry
from ladderspec.network.net import Net
from ladderspec.tasks import Classification, Task


@dataclass
class Sums:
    """Weighted sums by name; the mean of each is what is reported."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, values: Tensor, weights: Tensor) -> None:
        """Sums over the first axis, in float64."""
        weights = weights.double()
        kept = torch.where(weights > 0, values.double() * weights, 0.0)
        for table, new in ((self.sums, kept), (self.weights, weights)):
            table[name] = table[name] + new.sum(0) if name in table else new.sum(0)

    def means(self, names: Sequence[str]) -> dict[str, Tensor]:
        """The mean of each of these, over all processes."""
        sums = processes.summed_tables(self.sums, names)
        weights = processes.summed_tables(self.weights, names)
        return {name: sums[name] / weights[name] for name in names if name in sums}


@dataclass(frozen=True)
class Report:
    """What was measured: a number for each measure; by t; and which class was taken for which."""

    metrics: dict[str, float]
    by_time: dict[str, list[float]]
    confusion: dict[str, list[list[int]]]
    units: dict[str, str]

    def beside(self, taught: Report) -> Report:
        """With the numbers of its teacher."""
        extra = {f"{TEACHER}{name}": value for name, value in taught.metrics.items()}
        return replace(self, metrics={**self.metrics, **extra})


def joined(reports: Sequence[Report], units: Mapping[str, str]) -> Report:
    """What several passes over the data have measured, in the order of `units`."""
    return Report(
        {n: report.metrics[n] for n in units for report in reports if n in report.metrics},
        {n: report.by_time[n] for n in units for report in reports if n in report.by_time},
        {n: table for report in reports for n, table in report.confusion.items()},
        dict(units),
    )


@torch.no_grad()
def measure(
    net: Net, diet: Diet, feeds: Iterable[Feed], prefixes: Mapping[str, str] | None = None
) -> Report:
    """Run a network over feeds and measure its tasks.

    Args:
        net: the network, in evaluation.
        diet: the data and the tasks.
        feeds: the batches; targets come from them too.
        prefixes: the tasks to measure, each with the prefix of its measures (`clean_` gives
            `denoise.clean_error`); default: all tasks, without a prefix.
    """
    prefixes = dict.fromkeys(diet.tasks, "") if prefixes is None else prefixes
    tasks = {name: task for name, task in diet.tasks.items() if name in prefixes}
    whole, by_time = Sums(), Sums()
    confusion: dict[str, Tensor] = {}
    carry: Carry | None = None
    for feed in feeds:
        carry = trimmed(carry, len(feed)) if not feed.first else None
        outputs = net(feed.frames, feed.lengths, carry)
        carry = outputs.carry
        for name, task in tasks.items():
            if task.units:
                seen = outputs[name]
                for value in seen.values() if isinstance(seen, dict) else [seen]:
                    _add(name, prefixes[name], task, diet, feed, value, whole, by_time)
                    if isinstance(task, Classification) and value.dim() == 3:
                        _confuse(confusion, name, task, diet, feed, value)
    units = {f"{n}.{prefixes[n]}{m}": u for n, task in tasks.items() for m, u in task.units.items()}
    metrics = {name: float(value) for name, value in whole.means(list(units)).items()}
    times = {name: value.tolist() for name, value in by_time.means(list(units)).items()}
    counts = processes.summed_tables(confusion, list(tasks))
    tables = {name: _square(table).long().tolist() for name, table in counts.items()}
    return Report(metrics, times, tables, units)


def _square(table: Tensor) -> Tensor:
    side = math.isqrt(table.numel())
    return table.view(side, side)


def trimmed(carry: Carry | None, rows: int) -> Carry | None:
    """What is remembered of the first sequences; the others have ended."""
    if carry is None:
        return None
    t = carry.t if isinstance(carry.t, int) else carry.t[:rows]
    values = {name: tuple(value[:rows] for value in kept) for name, kept in carry.values.items()}
    return Carry(t, values)


def _add(
    name: str,
    prefix: str,
    task: Task,
    diet: Diet,
    feed: Feed,
    seen: Tensor,
    whole: Sums,
    by_time: Sums,
) -> None:
    target, there = aligned(name, task, diet, feed, seen)
    batch, length = there.shape
    flat_seen, flat = seen[:, :length].flatten(0, 1), target.flatten(0, 1)
    known = task.known(flat)
    there = there if known is None else there & known.view(batch, length)
    for measure, values in task.measure(flat_seen, flat).items():
        key, values = f"{name}.{prefix}{measure}", values.view(batch, length)
        counts = there * _when(task, there)
        whole.add(key, values.flatten(), counts.flatten())
        if not diet.data.forms[diet.input].time or (diet.data.steps and not diet.cuts):
            by_time.add(key, values, there)


def aligned(name: str, task: Task, diet: Diet, feed: Feed, seen: Tensor) -> tuple[Tensor, Tensor]:
    """The target of every t that has one, (B, T, ...), and where it is, (B, T)."""
    own, steps, ahead = name in feed.targets, seen.shape[1], diet.ahead(task)
    field = diet.field(task)
    assert field is not None
    target = feed.target(name, field)
    shape = task.target_shape(seen.shape[2:])
    timed = own or diet.data.forms[field].time
    if not timed:
        target = target.reshape(len(seen), 1, *shape).expand(-1, steps, *shape)
    late = 0 if own else ahead
    target = target[:, late:steps].reshape(len(seen), -1, *shape)
    ends = torch.tensor(feed.lengths or (steps,) * len(seen), device=seen.device)
    times = torch.arange(late, steps, device=seen.device)
    return target, times < ends[:, None]


def _when(task: Task, there: Tensor) -> Tensor:
    """How much each t counts, (B, T)."""
    if task.when == "all":
        return there.double()
    if task.when == "last":
        later = torch.zeros_like(there)
        later[:, :-1] = there[:, 1:]
        return (there & ~later).double()
    weights = torch.tensor(task.when[: there.shape[1]], device=there.device).double()
    return weights.expand(there.shape[0], -1)


def _confuse(
    found: dict[str, Tensor], name: str, task: Task, diet: Diet, feed: Feed, seen: Tensor
) -> None:
    """Rows: the class it is; columns: the class that it is taken for, at the t that count."""
    target, there = aligned(name, task, diet, feed, seen)
    counts = there & (_when(task, there) > 0) & (target >= 0)
    classes = seen.shape[2]
    pairs = target[counts] * classes + seen[:, : there.shape[1]].argmax(2)[counts]
    table = torch.bincount(pairs, minlength=classes * classes).view(classes, classes).double()
    found[name] = found[name] + table if name in found else table
