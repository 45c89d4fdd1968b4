"""Schedules: learning rates, task weights and early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ladderspec.experiments.training import OptimiserConfig, TrainingConfig
from ladderspec.tasks import Task


def learning_rate(config: OptimiserConfig, update: int, total: int, factor: float = 1.0) -> float:
    """The learning rate of an update.

    Args:
        config: the optimiser.
        update: the number of updates before this one.
        total: the number of all updates.
        factor: the product of all halvings so far (`schedule: halve`).

    >>> from ladderspec.experiments.schedules import Cosine
    >>> adam = OptimiserConfig(lr=1.0, schedule=Cosine(kind="cosine"), warm_up=2)
    >>> [round(learning_rate(adam, update, 4), 3) for update in range(4)]
    [0.5, 0.854, 0.5, 0.146]
    """
    lr = config.schedule.rate(config.lr, min(1.0, update / max(1, total)), factor)
    return lr * min(1.0, (update + 1) / max(1, config.warm_up))


def task_weights(tasks: Mapping[str, Task], update: int, total: int) -> dict[str, float]:
    """The weight of each task at an update."""
    return {name: task.weight_at(update, total) for name, task in tasks.items()}


@dataclass
class ScheduleState:
    """What follows from the evaluations so far: learning rate, best weights, early stopping."""

    factor: float = 1.0  # of the learning rate
    last: float | None = None  # the metric that the learning rate follows, at the last evaluation
    best: float | None = None  # with the sign changed if higher is better, as `last`
    best_update: int = 0
    waited: int = 0  # evaluations since the best
    stopped: str = ""  # the reason
    changes: list[tuple[int, float]] = field(default_factory=list)  # (update, factor from then on)

    def adjust_rate(self, config: TrainingConfig, update: int, value: float) -> None:
        """Ask the schedule for another factor if the metric has risen."""
        optimiser = config.optimiser
        if self.last is not None and value > self.last:
            factor, reason = optimiser.schedule.worse(optimiser.lr, self.factor)
            self.stopped = reason or self.stopped
            if factor != self.factor:
                self.factor = factor
                self.changes.append((update, factor))
        self.last = value

    def record(self, config: TrainingConfig, update: int, value: float) -> bool:
        """Take note of a metric, for early stopping. Returns whether it is the best so far."""
        better = self.best is None or value < self.best
        self.waited = 0 if better else self.waited + 1
        if better:
            self.best, self.best_update = value, update
        if config.stop is not None and self.waited >= config.stop.patience:
            self.stopped = f"no better one in {self.waited} evaluations"
        return better

    def replay(self, update: int) -> None:
        """Take the learning rate that the first training had at this update."""
        for start, factor in self.changes:
            if start <= update:
                self.factor = factor

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def load(found: Mapping[str, Any]) -> ScheduleState:
        changes = [(int(update), float(factor)) for update, factor in found["changes"]]
        return ScheduleState(**{**found, "changes": changes})
