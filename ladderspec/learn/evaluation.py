"""Evaluation of a network: recalibrated batch norm, metrics, and what follows during training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ladderspec.data import Split
from ladderspec.experiments.runs import Run
from ladderspec.experiments.training import TEACHER, EvaluationNoise
from ladderspec.files import make_folder
from ladderspec.learn import checkpoint, processes
from ladderspec.learn.batches import Collator, TensorBatch
from ladderspec.learn.log import MetricsLog
from ladderspec.learn.metrics import Report, measure, merged, trimmed
from ladderspec.learn.pictures import draw_samples
from ladderspec.learn.progress import Progress
from ladderspec.learn.status import without_nll
from ladderspec.learn.train_state import TrainState
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.nn import FIRST, BatchNorm
from ladderspec.nn.norms import statistics_of
from ladderspec.tasks import Metric
from ladderspec.wiring.graph import parameters


def training_batches(
    collator: Collator, split: str, size: int, count: int
) -> Iterator[TensorBatch]:
    """The first training batches, to recalibrate batch norm. Items are divided by process."""
    rank, world = processes.rank(), processes.world()
    for indices in collator.data.batches(split, 0, size, drop_last=False)[:count]:
        if len(indices) >= 2 * world:
            yield from collator.pieces(collator.take(split, 0, indices[rank::world]))


def split_batches(
    collator: Collator, split: str, size: int, items: int | None = None
) -> Iterator[TensorBatch]:
    """All batches of a split, or those of its first items. Batches are divided by process."""
    rank, world = processes.rank(), processes.world()
    batches = collator.data.batches(split, 0, size, labelled=0)  # every item once
    if items is not None:
        batches = [chosen for b in batches if len(chosen := b[np.asarray(b) < items])]
    for indices in batches[rank::world]:
        yield from collator.pieces(collator.take(split, 0, indices))


def report_on(
    net: Net,
    collator: Collator,
    noise: bool | None,
    batches: Callable[[Collator], Iterable[TensorBatch]],
    training: Callable[[Collator], Iterable[TensorBatch]],
    draw: Callable[[Collator], None] | None = None,
) -> Report:
    """Measure every task of a network, on noisy or on clean input.

    Args:
        net: the network.
        collator: the data and the tasks, without noise.
        noise: `evaluation.noise` of the experiment.
        batches: the data to measure, from a collator that adds noise or does not.
        training: the training data that batch norm is recalibrated on, with the same input.
        draw: called in the first pass, which is the one on noisy input if there is one.
    """
    chosen = EvaluationNoise(noise, net.noise)
    reports: list[Report] = []
    for noisy, prefixes in chosen.passes(net.tasks).items():
        given = collator.with_noise(net.noise if noisy else None)
        with recalibrated(net, training(given)):
            if draw is not None and not reports:
                draw(given)
            reports.append(measure(net, given, batches(given), prefixes))
    return merged(reports, chosen.metrics(net.tasks))


# --- batch norm -----------------------------------------------------------------------------------


@contextmanager
def recalibrated(net: Net, batches: Iterable[TensorBatch]) -> Iterator[None]:
    """The network in evaluation mode, its batch norm recalibrated on `batches`; then as before.

    Running averages lag behind the weights; in a network of many levels each level is then a little
    wrong, and the errors add up. As in the original Ladder's final numbers, means and variances are
    measured with the present weights, over several training batches.
    """
    norms = [part for part in net.modules() if isinstance(part, BatchNorm)]
    before = [(norm.running_mean.clone(), norm.running_var.clone()) for norm in norms]
    training = net.training
    net.eval()
    try:
        _recalibrate(net, norms, batches)
        yield
    finally:
        for norm, (mean, var) in zip(norms, before, strict=True):
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(var)
        net.train(training)


@torch.no_grad()
def _recalibrate(net: Net, norms: list[BatchNorm], batches: Iterable[TensorBatch]) -> None:
    """CHOICE: on inputs as they are in this evaluation, with noise only if it adds noise."""
    if not norms:
        return
    moments = [_Moments(norm) for norm in norms]
    hooks = [
        norm.register_forward_pre_hook(one.add, with_kwargs=True)
        for norm, one in zip(norms, moments, strict=True)
    ]
    for norm in norms:
        norm.train()
    carry: Carry | None = None
    try:
        for batch in batches:
            carry = None if batch.first else trimmed(carry, len(batch))
            carry = net(batch.given, batch.lengths, carry).carry
    finally:
        for hook in hooks:
            hook.remove()
    for norm, one in zip(norms, moments, strict=True):
        one.apply(norm)
        norm.eval()


class _Moments:
    """The inputs of one batch norm by iteration: number of values, mean and variance."""

    def __init__(self, norm: BatchNorm) -> None:
        running = norm.running_mean
        kind = processes.sum_dtype(running.device)
        self.count = running.new_zeros(running.shape[0], 1, dtype=kind)
        self.mean = torch.zeros_like(running, dtype=kind)
        self.var = torch.zeros_like(self.mean)

    def add(self, norm: BatchNorm, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before each call of the norm. CHOICE: means of the batches' variances, by their sizes."""
        step = kwargs.get("step", args[3] if len(args) > 3 else FIRST)
        found = statistics_of(args[0], step.alive)
        n, mean, var = (value.to(self.mean.dtype) for value in found)
        var = var * (n / (n - 1).clamp(min=1))
        row = norm.row(step)
        self.count[row] += n
        self.mean[row] += n * mean
        self.var[row] += n * var

    def apply(self, norm: BatchNorm) -> None:
        """Replace the running averages of the iterations that had any input."""
        count = self.count.clamp(min=1)
        for running, total in ((norm.running_mean, self.mean), (norm.running_var, self.var)):
            running.copy_(torch.where(self.count > 0, total / count, running.to(total)))


# --- during training ------------------------------------------------------------------------------


@dataclass
class Evaluator:
    """Evaluates a network during and after its training."""

    run: Run
    state: TrainState
    log: MetricsLog
    folder: Path
    progress: Progress
    watched: str = field(init=False)  # metric of early stopping and of the best weights
    watched_by_rate: str = field(init=False)  # metric of `schedule: halve`

    def __post_init__(self) -> None:
        config = self.run.training
        schedule = config.optimiser.schedule
        stop = config.stop.watch if config.stop is not None else None
        rate = schedule.watched
        self.watched = stop or rate or next(iter(self.metrics), "")
        self.watched_by_rate = rate or self.watched

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics by name."""
        net = self.state.net
        return EvaluationNoise(self.run.evaluation.noise, net.noise).metrics(net.tasks)

    def _to_minimise(self, report: Report, name: str) -> float:
        """A metric with its sign changed if higher is better."""
        value = report.metrics[name]
        return -value if self.metrics[name].better == "higher" else value

    @property
    def has_validation(self) -> bool:
        """Not if the validation data are part of the training data."""
        return (
            self.state.sampler.split is Split.TRAIN and self.state.collator.data.size("valid") > 0
        )

    def validate(self) -> None:
        """Evaluate the validation data, and adjust learning rate, early stopping and the best."""
        state = self.state
        if self.has_validation:
            self.progress.note("validating")
            report = self.report("valid", self.run.evaluation.items, draw=True)
            row = {"update": state.update, "epoch": state.epoch, "split": "valid"}
            state.written = self.log.append({**row, **report.metrics}, state.written)
            after = f"{Split.VALID.phrase} after {state.update} updates"
            self.progress.say(f"{after}: {self._short(report.metrics)}")
            self.progress.measured("valid", report.metrics)
            if self.watched and not state.replays:
                config, schedule = self.run.training, state.schedule
                schedule.adjust_rate(
                    config, state.update, self._to_minimise(report, self.watched_by_rate)
                )
                if schedule.record(config, state.update, self._to_minimise(report, self.watched)):
                    self._save_best(report.metrics[self.watched])

    def report(self, split: str, items: int | None = None, draw: bool = False) -> Report:
        """The metrics of the network, and of its Mean Teacher if it has one, on a split."""
        found = self._report(self.state.net, split, items, draw)
        if self.state.teacher is not None:
            found = found.with_teacher(self._report(self.state.teacher, split, items, False))
        return found

    def _report(self, net: Net, split: str, items: int | None, draw: bool) -> Report:
        config, split_of_training = self.run.evaluation, self.state.sampler.split
        batch = self.run.training.batch
        draws = draw and self.run.machine.pictures and processes.rank() == 0
        return report_on(
            net,
            self.state.collator,
            config.noise,
            lambda collator: split_batches(collator, split, config.batch or batch, items),
            lambda collator: training_batches(
                collator, split_of_training, batch, config.statistics
            ),
            (lambda collator: self._draw(net, collator, split)) if draws else None,
        )

    def _draw(self, net: Net, collator: Collator, split: str) -> None:
        update = self.state.update
        title = f"{self.run.id}: {Split(split).phrase} after {update} updates"
        picture = draw_samples(net, collator, split, self.run.machine.pictures, title)
        if picture is not None:
            picture.save(make_folder(self.folder / "pictures") / f"{split}-{update:06}.png")

    def _short(self, metrics: dict[str, float]) -> str:
        known = self.metrics
        return "  ".join(
            f"{name} {value:.4g} {known.get(name.removeprefix(TEACHER), Metric()).unit}".rstrip()
            for name, value in without_nll(metrics).items()
        )

    def _save_best(self, value: float) -> None:
        if processes.rank() == 0:
            tensors = {
                name: value
                for name, value in self.state.tensors().items()
                if name.startswith(("net.", "teacher."))
            }
            attributes = {
                checkpoint.OWNER: self.state.owner,
                "update": self.state.update,
                "value": value,
            }
            checkpoint.write(self.folder, "best", tensors, attributes)
        processes.wait()

    def conclude(self) -> dict[str, Any]:
        """Test the weights to report: the last or the best ones."""
        report = self.run.evaluation.report or (
            "best" if self.run.training.stop is not None else "last"
        )
        best = report == "best" and self.has_validation and bool(self.watched)
        if best:
            found = checkpoint.read(self.folder, "best", self.state.owner)
            checkpoint.restore(self.state.net, found.under("net."), "the best checkpoint")
            if self.state.teacher is not None:
                teacher = found.under("teacher.")
                checkpoint.restore(self.state.teacher, teacher, "the best teacher")
        splits = ["valid"] if self.has_validation else []
        splits += ["test"] if self.run.evaluation.split == "test" else []
        splits = [split for split in splits if self.state.collator.data.size(split)]
        self.progress.note("testing")
        reports = {split: self.report(split) for split in splits}
        for split, each in reports.items():
            self.progress.measured(split, each.metrics)
        higher = [name for name, metric in self.metrics.items() if metric.better == "higher"]
        return {
            "reported": "best" if best else "last",
            "watched": self.watched,
            "metrics": {split: each.metrics for split, each in reports.items()},
            "by_time": {split: each.by_time for split, each in reports.items()},
            "units": {name: metric.unit for name, metric in self.metrics.items()},
            **({"higher_is_better": higher} if higher else {}),
            "parameters": parameters(self.state.net.graph),
        }
