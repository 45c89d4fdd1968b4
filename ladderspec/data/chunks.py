"""Long sequences in pieces, for truncated back-propagation with a carried state.

A chunk runs over `steps` frames and shows `ahead` more, so that the last frame it runs over has its
target too: over all chunks each frame is read once and each target scored once.

>>> import numpy as np
>>> batch = {"frames": np.arange(7)[None, :, None], "mask": np.ones((1, 7), bool)}
>>> forms = {"frames": Form((1,), time=True), "mask": Form((), time=True)}
>>> [(c.start, c.steps, c.batch["frames"].ravel().tolist()) for c in chunks(batch, forms, 3)]
[(0, 3, [0, 1, 2, 3]), (3, 3, [3, 4, 5, 6])]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ladderspec.data._contract import Form
from ladderspec.data._types import Batch


@dataclass(frozen=True)
class Chunk:
    """Frames start .. start + steps of the first `rows` sequences of a batch."""

    batch: Batch  # as the whole, with at most steps + ahead frames
    start: int
    steps: int  # frames to run over
    rows: int  # sequences that still have something to predict; the carry shrinks to these

    @property
    def first(self) -> bool:
        """Whether the state starts anew."""
        return self.start == 0


def chunks(
    batch: Batch, forms: Mapping[str, Form], steps: int | None, ahead: int = 1
) -> Iterator[Chunk]:
    """Cut a batch along time; `steps` None: one chunk.

    The sequences must come longest first, as `DataSet.batches` orders them: finished ones leave.
    """
    lengths = batch["mask"].sum(1)
    if (np.diff(lengths) > 0).any():
        raise ValueError("the sequences of a batch must come longest first")
    end = max(1, batch["mask"].shape[1] - ahead)
    size = steps or end
    for start in range(0, end, size):
        run = min(size, end - start)
        rows = int((lengths > start + ahead).sum()) if start else len(lengths)
        window = slice(start, start + run + ahead)
        part = {
            name: field[:rows, window] if forms[name].time else field[:rows]
            for name, field in batch.items()
        }
        yield Chunk(part, start, run, rows)
