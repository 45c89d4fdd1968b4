"""The batches of `digits`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from ladderspec.data import _glyphs
from ladderspec.data._contract import DataSet, Form, Split
from ladderspec.data._types import Batch, Indices
from ladderspec.data.digits import Digits


class Still(DataSet):
    """Still digits."""

    words: Digits
    classes = _glyphs.CLASSES

    def __init__(self, words: Digits, seed: int, folder: Path | None) -> None:
        self.words, self.seed, self.folder = words, seed, folder
        self.digits = _glyphs.load(words.digits, words.image_side, words.valid, folder)
        self._labelled = cache(self._chosen)
        side = words.image_side
        self.forms = {
            "image": Form((side * side,) if words.flat else (1, side, side), False, "0 is paper"),
            "label": Form((), False, "the digit"),
            "labelled": Form((), False, "whether the label may be used"),
        }

    def size(self, split: str) -> int:
        return len(self.digits.rows(Split(split)))

    def labelled(self, split: str) -> Indices | None:
        return self._labelled(Split(split))

    def _chosen(self, split: Split) -> Indices | None:
        if self.words.labelled is None or not split.trains:
            return None
        return self.digits.some_labelled(self.digits.rows(split), self.words.labelled, self.seed)

    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        rows = self.digits.rows(Split(split))
        item = np.asarray(indices) % len(rows)
        known = self.labelled(split)
        whole: Batch = {
            "image": self.digits.images[rows.start + item].reshape(
                len(item), *self.forms["image"].shape
            ),
            "label": self.digits.labels[rows.start + item],
            "labelled": np.ones(len(item), bool) if known is None else np.isin(item, known),
        }
        return {name: whole[name] for name in self.asked(fields)}
