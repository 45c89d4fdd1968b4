"""Which batch comes when: from any position on, with any number of workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ladderspec.data import DataError
from ladderspec.data._types import Batch, Indices
from ladderspec.learn.feed import Diet

Item = tuple[int, int, Indices]  # epoch, number in it, items
Shown = tuple[int, int, int, Batch]  # epoch, number in it, items of all processes, own fields


@dataclass(frozen=True)
class Order:
    """The batches of training, epoch after epoch; rows `rank`, `rank + world`, ... of each."""

    diet: Diet
    split: str
    size: int
    rank: int = 0
    world: int = 1

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of one pass. A last one that is smaller is left out where lengths are equal.

        CHOICE: batch norm would see few sequences there; the items come in other batches next time.
        """
        data = self.diet.data
        even = data.lengths(self.split) is None and data.size(self.split) >= self.size
        found = data.batches(self.split, epoch, self.size, drop_last=even)
        if not found:
            raise DataError(
                f"there are too few items in {self.split} for a batch of {self.size}; make `batch`"
                " or `labelled_per_batch` smaller"
            )
        return found

    def updates(self, epoch: int) -> int:
        """How many updates one pass takes."""
        lengths = self.diet.data.lengths(self.split)
        batches = self.epoch(epoch)
        if lengths is None:
            return len(batches) * self.diet.count(None)
        return sum(self.diet.count(lengths[batch]) for batch in batches)

    def total(self, epochs: float) -> int:
        """How many updates so many passes take."""
        whole = int(epochs)
        varies = self.diet.data.lengths(self.split) is not None and self.diet.steps is not None
        if not varies:
            return max(1, round(epochs * self.updates(0)))
        part = round((epochs - whole) * self.updates(whole)) if epochs > whole else 0
        return max(1, sum(map(self.updates, range(whole))) + part)

    def items(self, epoch: int, number: int) -> Iterator[Item]:
        """From batch `number` of an epoch on, without end."""
        while True:
            for i, indices in enumerate(self.epoch(epoch)):
                if i >= number:
                    yield epoch, i, indices
            epoch, number = epoch + 1, 0

    def check(self) -> None:
        """Refuse what cannot be shared out."""
        if self.world > self.size:
            raise DataError(f"a batch of {self.size} cannot be shared by {self.world} processes")
        if self.world > 1 and self.diet.data.lengths(self.split) is not None:
            raise DataError("sequences of unequal length are trained in one process")

    def batches(self, epoch: int, number: int, workers: int) -> Iterator[Shown]:
        """The batches themselves; with workers, made ahead in so many threads, in the same order.

        Threads, not processes: numpy works beside Python, nothing has to travel, and none is left
        behind by a process that is killed.
        """
        if workers == 0:
            yield from map(self._show, self.items(epoch, number))
            return
        with ThreadPoolExecutor(workers) as pool:
            ahead: deque[Future[Shown]] = deque()
            try:
                for item in self.items(epoch, number):
                    ahead.append(pool.submit(self._show, item))
                    if len(ahead) > 2 * workers:
                        yield ahead.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _show(self, item: Item) -> Shown:
        epoch, number, indices = item
        own = np.asarray(indices)[self.rank :: self.world]
        return epoch, number, len(indices), self.diet.take(self.split, epoch, own)
