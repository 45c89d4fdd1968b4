"""Which t it is."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ladderspec.nn import When
from ladderspec.nn._tally import Tally


@dataclass(frozen=True)
class Clock:
    """Which t the iterations of a call are, and which sequences are still alive then."""

    start: int | Tensor = 0
    alive: Tensor | None = None  # (T, B), where training statistics must know
    again: bool = False  # a second pass over iterations that were counted before
    tally: Tally | None = None
    streams: bool = False  # one iteration of a stream

    def when(self, start: int, count: int) -> When:
        """For `count` iterations, the first of them `start` after the first of the call."""
        alive = None if self.alive is None else self.alive[start : start + count].flatten()
        return When(
            self.start + start,
            count,
            alive,
            again=self.again,
            tally=self.tally,
            streams=self.streams,
        )

    def later(self, start: int, again: bool) -> Clock:
        """A clock that begins later."""
        alive = None if self.alive is None else self.alive[start:]
        return Clock(self.start + start, alive, again)
