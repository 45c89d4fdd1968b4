"""When checkpoints are written, and how."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from ladderspec.learn import checkpoint, processes
from ladderspec.learn.learner import Learner
from ladderspec.learn.words import Saving as SavingWords

APART = 500  # updates between checkpoints of several processes: their clocks differ


@dataclass
class Saving:
    """Not too often for what it costs."""

    words: SavingWords
    last: float = field(default_factory=time.monotonic)
    cost: float = 0.0  # seconds

    def due(self, update: int) -> bool:
        every = self.words.updates or (APART if processes.world() > 1 else None)
        if every is not None:
            return update % every == 0
        pause = max(self.words.seconds, self.cost / self.words.share)
        return time.monotonic() - self.last >= pause

    def save(self, learner: Learner, folder: Path) -> None:
        self.cost = save(learner, folder)
        self.last = time.monotonic()


def save(learner: Learner, folder: Path) -> float:
    """Write the last checkpoint; how many seconds that took."""
    start = time.monotonic()
    if processes.rank() == 0:
        checkpoint.write(folder, "last", learner.tensors(), learner.facts())
    processes.wait()
    return time.monotonic() - start
