"""Evaluations during training: what they measure, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ladderspec.data import Split
from ladderspec.experiments.runs import Run
from ladderspec.learn import checkpoint, processes
from ladderspec.learn.feed import Diet, Feed
from ladderspec.learn.inputs import EvaluationNoise
from ladderspec.learn.journal import Journal
from ladderspec.learn.learner import Learner
from ladderspec.learn.measure import Report, joined, measure
from ladderspec.learn.pictures import draw_samples
from ladderspec.learn.progress import Progress
from ladderspec.learn.statistics import settled
from ladderspec.learn.words import TEACHER, Halve
from ladderspec.network.net import Net
from ladderspec.wiring.shapes import parameters


def training_feeds(diet: Diet, split: str, size: int, count: int) -> Iterator[Feed]:
    """The first training batches, for the statistics of batch norms; rows by process."""
    rank, world = processes.rank(), processes.world()
    for indices in diet.data.batches(split, 0, size, drop_last=False)[:count]:
        if len(indices) >= 2 * world:
            yield from diet.pieces(diet.take(split, 0, indices[rank::world]))


def split_feeds(diet: Diet, split: str, size: int, items: int | None = None) -> Iterator[Feed]:
    """All batches of a split, or those of its first items; batches by process."""
    rank, world = processes.rank(), processes.world()
    batches = diet.data.batches(split, 0, size, labelled=0)  # every item once
    if items is not None:
        batches = [kept for b in batches if len(kept := b[np.asarray(b) < items])]
    for indices in batches[rank::world]:
        yield from diet.pieces(diet.take(split, 0, indices))


def report_on(
    net: Net,
    diet: Diet,
    noise: bool | None,
    feeds: Callable[[Diet], Iterable[Feed]],
    settling: Callable[[Diet], Iterable[Feed]],
    draw: Callable[[Diet], None] | None = None,
) -> Report:
    """Measure every task of a network on the input that it is evaluated on.

    Args:
        net: the network.
        diet: the data and the tasks, without noise.
        noise: `evaluation.noise` of the experiment.
        feeds: the data to measure, from a diet that adds noise or does not.
        settling: the training data that batch norms are measured on, in the same way.
        draw: called in the first pass, which is that on noisy input, if there is one.
    """
    chosen = EvaluationNoise(noise, net.noise)
    reports: list[Report] = []
    for each in chosen.passes(net.tasks):
        fed = diet.with_noise(net.noise if each.noisy else None)
        with settled(net, settling(fed)):
            if draw is not None and not reports:
                draw(fed)
            reports.append(measure(net, fed, feeds(fed), each.prefixes))
    return joined(reports, chosen.units(net.tasks))


@dataclass
class Examiner:
    """Evaluates a learner."""

    run: Run
    learner: Learner
    journal: Journal
    folder: Path
    progress: Progress
    watched: str = field(init=False)  # by stopping and the best
    watched_by_rate: str = field(init=False)

    def __post_init__(self) -> None:
        words, units = self.run.training, self.units
        schedule = words.optimiser.schedule
        stop = words.stop.watch if words.stop is not None else None
        rate = schedule.watch if isinstance(schedule, Halve) else None
        self.watched = stop or rate or next(iter(units), "")
        self.watched_by_rate = rate or self.watched

    @property
    def units(self) -> dict[str, str]:
        """All measures, and their units."""
        net = self.learner.net
        return EvaluationNoise(self.run.evaluation.noise, net.noise).units(net.tasks)

    @property
    def has_validation(self) -> bool:
        """Not where the training data hold it."""
        return self.learner.order.split is Split.TRAIN and self.learner.diet.data.size("valid") > 0

    def examine(self) -> None:
        """Measure the validation data; let the learning rate, stopping and the best follow."""
        learner = self.learner
        if self.has_validation:
            report = self.report("valid", self.run.evaluation.items, draw=True)
            row = {"update": learner.update, "epoch": learner.epoch, "split": "valid"}
            learner.written = self.journal.append({**row, **report.metrics}, learner.written)
            self.progress.say(f"valid after {learner.update}: {self._short(report.metrics)}")
            if self.watched and not learner.replays:
                words, course = self.run.training, learner.course
                course.slow_down(words, learner.update, report.metrics[self.watched_by_rate])
                if course.follow(words, learner.update, report.metrics[self.watched]):
                    self._keep_best()

    def report(self, split: str, items: int | None = None, draw: bool = False) -> Report:
        """Everything about a split: the network, and its teacher where it has one."""
        found = self._report(self.learner.net, split, items, draw)
        if self.learner.teacher is not None:
            found = found.beside(self._report(self.learner.teacher, split, items, False))
        return found

    def _report(self, net: Net, split: str, items: int | None, draw: bool) -> Report:
        words, diet = self.run.evaluation, self.learner.diet
        size = words.batch or self.run.training.batch
        batch, order = self.run.training.batch, self.learner.order
        draws = draw and self.run.machine.pictures and processes.rank() == 0
        return report_on(
            net,
            diet,
            words.noise,
            lambda fed: split_feeds(fed, split, size, items),
            lambda fed: training_feeds(fed, order.split, batch, words.statistics),
            (lambda fed: self._draw(net, fed, split)) if draws else None,
        )

    def _draw(self, net: Net, fed: Diet, split: str) -> None:
        update, folder = self.learner.update, self.folder / "pictures"
        title = f"{self.run.id}: {split} after {update} updates"
        picture = draw_samples(net, fed, split, self.run.machine.pictures, title)
        if picture is not None:
            folder.mkdir(exist_ok=True)
            picture.save(folder / f"{split}-{update:06}.png")

    def _short(self, metrics: dict[str, float]) -> str:
        units = self.units
        shown = {n: v for n, v in metrics.items() if not n.endswith("nll")} or metrics
        return "  ".join(
            f"{name} {value:.4g} {units.get(name.removeprefix(TEACHER), '')}".rstrip()
            for name, value in shown.items()
        )

    def _keep_best(self) -> None:
        if processes.rank() == 0:
            tensors = {
                name: value
                for name, value in self.learner.tensors().items()
                if name.startswith(("net.", "teacher."))
            }
            facts = {"update": self.learner.update, "value": self.learner.course.best}
            checkpoint.write(self.folder, "best", tensors, facts)
        processes.wait()

    def conclude(self) -> dict[str, Any]:
        """Test the weights that are to be reported."""
        words = self.run.evaluation
        report = words.report or ("best" if self.run.training.stop is not None else "last")
        best = report == "best" and self.has_validation and bool(self.watched)
        if best:
            found = checkpoint.read(self.folder, "best")
            checkpoint.restore(self.learner.net, found.under("net."), "the best checkpoint")
            if self.learner.teacher is not None:
                teacher = found.under("teacher.")
                checkpoint.restore(self.learner.teacher, teacher, "the best teacher")
        splits = [s for s in ("valid", "test") if s != "valid" or self.has_validation]
        splits = [split for split in splits if self.learner.diet.data.size(split)]
        reports = {split: self.report(split) for split in splits}
        for split, found_report in reports.items():
            self.progress.say(f"{split}: {self._short(found_report.metrics)}")
        return {
            "reported": "best" if best else "last",
            "watched": self.watched,
            "metrics": {split: found.metrics for split, found in reports.items()},
            "by_time": {split: found.by_time for split, found in reports.items()},
            "units": self.units,
            "parameters": parameters(self.learner.net.graph),
        }
