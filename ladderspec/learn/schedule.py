"""Learning rates, task weights and stopping: numbers that follow from the update and the past."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ladderspec.learn.words import Cosine, Halve, Linear, Optimiser, Training
from ladderspec.tasks import Consistency, Task


def rate(words: Optimiser, update: int, total: int, factor: float = 1.0) -> float:
    """The learning rate of an update, the first being 0; `factor` is what halving has left.

    >>> from ladderspec.learn.words import Cosine
    >>> words = Optimiser(lr=1.0, schedule=Cosine(kind="cosine"), warm_up=2)
    >>> [round(rate(words, update, 4), 3) for update in range(4)]
    [0.5, 0.854, 0.5, 0.146]
    """
    schedule, lr = words.schedule, words.lr
    done = min(1.0, update / max(1, total))
    if isinstance(schedule, Halve):
        lr = max(lr * factor, min(schedule.floor, lr))
    elif isinstance(schedule, Cosine):
        lr = schedule.floor + (lr - schedule.floor) * (1 + math.cos(math.pi * done)) / 2
    elif isinstance(schedule, Linear):
        left = min(1.0, (1 - done) / max(1e-12, 1 - schedule.start))
        lr = schedule.floor + (lr - schedule.floor) * left
    return lr * min(1.0, (update + 1) / max(1, words.warm_up))


def ramp(task: Consistency, update: int, total: int) -> float:
    """exp(-5 (1 - t/T)^2) over the first `task.ramp` of training, then 1.

    >>> task = Consistency(kind="consistency", at="encoder.class", ramp=0.5)
    >>> [round(ramp(task, update, 80_000), 10) for update in (0, 10_000, 20_000, 40_000)]
    [0.006737947, 0.0600546679, 0.2865047969, 1.0]
    """
    length = task.ramp * total
    return math.exp(-5 * (1 - min(1.0, update / length)) ** 2) if length > 0 else 1.0


def weights(tasks: Mapping[str, Task], update: int, total: int) -> dict[str, float]:
    """What each task weighs at an update."""
    return {
        name: task.weight_at(update)
        * (ramp(task, update, total) if isinstance(task, Consistency) else 1.0)
        for name, task in tasks.items()
    }


@dataclass
class Course:
    """What evaluations have decided so far."""

    factor: float = 1.0  # of the learning rate
    last: float | None = None  # what the learning rate follows, at the last evaluation
    best: float | None = None
    best_update: int = 0
    waited: int = 0  # evaluations since the best
    stopped: str = ""  # why
    changes: list[tuple[int, float]] = field(default_factory=list)  # from which update on

    def slow_down(self, words: Training, update: int, value: float) -> None:
        """Let the learning rate follow an evaluation."""
        schedule = words.optimiser.schedule
        if isinstance(schedule, Halve) and self.last is not None and value > self.last:
            lowest = min(1.0, schedule.floor / words.optimiser.lr)
            if self.factor <= lowest and schedule.stop:
                self.stopped = "the error rose at the smallest learning rate"
            self.factor = max(self.factor / 2, lowest)
            self.changes.append((update, self.factor))
        self.last = value

    def follow(self, words: Training, update: int, value: float) -> bool:
        """Let stopping follow an evaluation; whether it is the best so far."""
        better = self.best is None or value < self.best
        self.waited = 0 if better else self.waited + 1
        if better:
            self.best, self.best_update = value, update
        if words.stop is not None and self.waited >= words.stop.patience:
            self.stopped = f"no better one in {self.waited} evaluations"
        return better

    def replay(self, update: int) -> None:
        """The learning rate that another training had at this update."""
        for start, factor in self.changes:
            if start <= update:
                self.factor = factor

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def load(found: Mapping[str, Any]) -> Course:
        changes = [(int(update), float(factor)) for update, factor in found["changes"]]
        return Course(**{**found, "changes": changes})
