"""Metrics of a network: each task's, in the paper's units, over batches and processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ladderspec.escaping import html_table
from ladderspec.experiments.training import TEACHER
from ladderspec.learn import processes
from ladderspec.learn.batches import Collator, TensorBatch
from ladderspec.names import Shape
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.tasks import Metric, Task
from ladderspec.tasks.base import When


@dataclass
class Averages:
    """Weighted means by name, from sums in float64 where the device has it."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, values: Tensor, weights: Tensor) -> None:
        """Add values, summed over the first axis."""
        weights = _wide(weights)
        weighted = torch.where(weights > 0, _wide(values) * weights, 0.0)
        for table, new in ((self.sums, weighted), (self.weights, weights)):
            table[name] = table[name] + new.sum(0) if name in table else new.sum(0)

    def means(self, names: Sequence[str]) -> dict[str, Tensor]:
        """The means of these names, over all processes."""
        sums = processes.summed_tables(self.sums, names)
        weights = processes.summed_tables(self.weights, names)
        return {name: sums[name] / weights[name] for name in names if name in sums}


@dataclass(frozen=True)
class Report:
    """The metrics of an evaluation: a number each, by iteration, and confusion matrices."""

    metrics: dict[str, float]
    by_time: dict[str, list[float]]
    confusion: dict[str, list[list[int]]]
    units: dict[str, str]

    def _repr_html_(self) -> str:
        """For notebooks: a row per metric, with its values by iteration."""
        times = max((len(values) for values in self.by_time.values()), default=0)
        rows = [
            [name, self.units.get(name, ""), f"{value:.4g}"]
            + [f"{v:.4g}" for v in self.by_time.get(name, ())]
            for name, value in self.metrics.items()
        ]
        return html_table(
            ["metric", "unit", "value", *(f"t = {t + 1}" for t in range(times))], rows
        )

    def with_teacher(self, teacher: Report) -> Report:
        """The report with the metrics of the network's Mean Teacher."""
        extra = {f"{TEACHER}{name}": value for name, value in teacher.metrics.items()}
        return replace(self, metrics={**self.metrics, **extra})


def merged(reports: Sequence[Report], names: Mapping[str, Metric]) -> Report:
    """The metrics of several passes over the data, in the order of `names`."""
    return Report(
        {n: report.metrics[n] for n in names for report in reports if n in report.metrics},
        {n: report.by_time[n] for n in names for report in reports if n in report.by_time},
        {n: table for report in reports for n, table in report.confusion.items()},
        {n: metric.unit for n, metric in names.items()},
    )


@torch.no_grad()
def measure(
    net: Net,
    collator: Collator,
    batches: Iterable[TensorBatch],
    prefixes: Mapping[str, str] | None = None,
) -> Report:
    """Run a network over batches and measure its tasks.

    Args:
        net: the network, in evaluation mode.
        collator: the data and the tasks.
        batches: inputs and targets.
        prefixes: the tasks to measure, each with the prefix of its metrics (`clean_` gives
            `denoise.clean_error`). Default: all tasks, without a prefix.
    """
    prefixes = dict.fromkeys(collator.tasks, "") if prefixes is None else prefixes
    tasks = {name: task for name, task in collator.tasks.items() if name in prefixes}
    overall, by_time = Averages(), Averages()
    # By iteration only if all sequences have the same, and are not cut into pieces.
    data = collator.data
    equal = not data.forms[collator.input].time or (data.steps and not collator.truncates)
    times = by_time if equal else None
    still = not data.forms[collator.input].time
    confusion: dict[str, Tensor] = {}
    carry: Carry | None = None
    for batch in batches:
        carry = trimmed(carry, len(batch)) if not batch.first else None
        outputs = net(batch.given, batch.lengths, carry)
        carry = outputs.carry
        for name, task in tasks.items():
            if task.metrics:
                seen = outputs[name]
                for value in seen.values() if isinstance(seen, dict) else [seen]:
                    value = combined(net, task, value)
                    aligned = align(name, task, collator, batch, value)
                    _add(f"{name}.{prefixes[name]}", task, value, aligned, overall, times, still)
                    if decides_classes(task, value.shape[2:]):
                        _count_confusions(confusion, name, task, value, aligned)
    known = {
        f"{name}.{prefixes[name]}{metric}": each
        for name, task in tasks.items()
        for metric, each in task.metrics.items()
    }
    metrics = {name: float(value) for name, value in _finished(overall, known).items()}
    by_times = {name: value.tolist() for name, value in _finished(by_time, known).items()}
    counts = processes.summed_tables(confusion, list(tasks))
    tables = {name: _square(table).long().tolist() for name, table in counts.items()}
    return Report(metrics, by_times, tables, {name: each.unit for name, each in known.items()})


def _finished(averages: Averages, metrics: Mapping[str, Metric]) -> dict[str, Tensor]:
    """The metrics that follow from the means of samples."""
    return {
        name: finish(mean) if (finish := metrics[name].finish) else mean
        for name, mean in averages.means(list(metrics)).items()
    }


def over_time(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """A function of samples (n, ...), applied to values (B, T, ...)."""
    found = function(values.flatten(0, 1))
    return found.view(*values.shape[:2], *found.shape[1:])


def combined(net: Net, task: Task, values: Tensor) -> Tensor:
    """The values that a task reads at each t, (B, T, ...), with groups (B, T, K, ...) combined."""
    return values if net.groups is None else over_time(task.combine, values)


def decides_classes(task: Task, seen: Shape) -> bool:
    """Whether the target of a sample is a class, not a map of classes."""
    return task.classes(seen) is not None and not task.target_shape(seen)


def _square(table: Tensor) -> Tensor:
    side = math.isqrt(table.numel())
    return table.view(side, side)


def trimmed(carry: Carry | None, rows: int) -> Carry | None:
    """The carried state of the first sequences; the others have ended."""
    if carry is None:
        return None
    t = carry.t if isinstance(carry.t, int) else carry.t[:rows]
    values = {name: tuple(value[:rows] for value in past) for name, past in carry.values.items()}
    return Carry(t, values)


@dataclass(frozen=True)
class Aligned:
    """The target of every iteration that has one, and what else the task measures with."""

    target: Tensor  # (B, T, ...)
    there: Tensor  # (B, T): which of them belong to a sequence
    further: dict[str, Tensor]  # (B, T, ...)


def _target(name: str, task: Task, collator: Collator, batch: TensorBatch, seen: Tensor) -> Tensor:
    """The target of a task, (B, T, ...); one without time is the same at every t."""
    field = collator.field(task)
    assert field is not None
    target = batch.target(name, field)
    shape = task.target_shape(seen.shape[2:])
    if name in batch.targets or collator.data.forms[field].time:
        return target.reshape(*target.shape[:2], *shape)
    return target.reshape(len(seen), 1, *shape).expand(-1, seen.shape[1], *shape)


def align(name: str, task: Task, collator: Collator, batch: TensorBatch, seen: Tensor) -> Aligned:
    """Align the output of a task, (B, T, ...), with its targets at each iteration."""
    aligned, steps = name in batch.targets, seen.shape[1]
    late = 0 if aligned else task.horizon
    if task.compares:
        target = _target(name, task, collator, batch, seen)[:, late:steps]
    else:
        target = seen.new_zeros(seen.shape[:2])
    further = {}
    for argument, values in batch.further.get(name, {}).items():
        if not collator.data.forms[task.further_fields[argument]].time:
            values = values[:, None].expand(-1, target.shape[1], *values.shape[1:])
        further[argument] = values
    length = min(target.shape[1], *(values.shape[1] for values in further.values()), steps)
    ends = torch.tensor(batch.lengths or (steps,) * len(seen), device=seen.device)
    times = torch.arange(late, late + length, device=seen.device)
    cut = {argument: values[:, :length] for argument, values in further.items()}
    return Aligned(target[:, :length], times < ends[:, None], cut)


def _add(
    prefix: str,
    task: Task,
    seen: Tensor,
    aligned: Aligned,
    overall: Averages,
    by_time: Averages | None,
    still: bool,
) -> None:
    """Add the metrics of one task and batch; `still`: time runs over iterations on one input."""
    there = aligned.there
    batch, length = there.shape
    flat_seen, flat_target = seen[:, :length].flatten(0, 1), aligned.target.flatten(0, 1)
    further = {argument: values.flatten(0, 1) for argument, values in aligned.further.items()}
    known = task.known(flat_target)
    there = there if known is None else there & known.view(batch, length)
    for metric, found in task.measure(flat_seen, flat_target, **further).items():
        values, weights = found if isinstance(found, tuple) else (found, None)
        values, counts = values.view(batch, length), _wide(there)
        if weights is not None:
            counts = torch.where(there, _wide(weights.view(batch, length)), 0.0)
        when = "last" if still and task.metrics[metric].last else task.when
        counted = counts * _time_weights(when, there)
        overall.add(f"{prefix}{metric}", values.flatten(), counted.flatten())
        if by_time is not None:
            by_time.add(f"{prefix}{metric}", values, counts)


def _wide(values: Tensor) -> Tensor:
    return values.to(processes.sum_dtype(values.device))


def _time_weights(when: When, there: Tensor) -> Tensor:
    """The weight of each iteration by `when`, (B, T)."""
    if when == "all":
        return _wide(there)
    if when == "last":
        later = torch.zeros_like(there)
        later[:, :-1] = there[:, 1:]
        return _wide(there & ~later)
    weights = _wide(torch.tensor(when[: there.shape[1]], device=there.device))
    return weights.expand(there.shape[0], -1)


def _count_confusions(
    found: dict[str, Tensor], name: str, task: Task, seen: Tensor, aligned: Aligned
) -> None:
    """Confusion matrix: rows are true classes, columns predicted ones, at the t that count."""
    target, there = aligned.target, aligned.there
    counts = there & (_time_weights(task.when, there) > 0) & (target >= 0)
    classes = task.classes(seen.shape[2:])
    assert classes is not None
    decided = over_time(task.decide, seen[:, : there.shape[1]])
    pairs = target[counts] * classes + decided[counts]
    table = _wide(torch.bincount(pairs, minlength=classes * classes).view(classes, classes))
    found[name] = found[name] + table if name in found else table
