"""The batches of `music`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import _rolls, sources
from ladderspec.data._contract import DataSet, Form, Split
from ladderspec.data._counter import below, draws, key_of
from ladderspec.data._types import Batch, Indices
from ladderspec.data.music import NOTES, Music


class Pieces(DataSet):
    """Piano rolls, padded with silence to the longest of a batch."""

    words: Music

    def __init__(self, words: Music, seed: int, folder: Path | None) -> None:
        self.words, self.seed, self.folder = words, seed, folder
        self._rolls = _read(words, folder)
        self.forms = {
            "frames": Form((1, 1, NOTES), True, "the notes that sound, 0 or 1"),
            "mask": Form((), True, "whether the frame is part of the piece"),
            "lengths": Form((), False, "frames of the piece"),
        }

    def rolls(self, split: str) -> _rolls.Rolls:
        """The sequences as they are."""
        return self._joined if Split(split) is Split.BOTH else self._rolls[split]

    @cached_property
    def _joined(self) -> _rolls.Rolls:
        return _rolls.both(self._rolls["train"], self._rolls["valid"])

    def size(self, split: str) -> int:
        return len(self.lengths(split))

    def lengths(self, split: str) -> Indices:
        return self.rolls(split).lengths

    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        rolls = self.rolls(split)
        item = np.asarray(indices) % len(rolls)
        lengths = rolls.lengths[item]
        frames = np.zeros((len(item), lengths.max(initial=0), 1, 1, NOTES), np.float32)
        shifts = self._shifts(Split(split), epoch, item)
        for row, index in enumerate(item):
            frames[row, : lengths[row], 0, 0] = _transposed(rolls[index], shifts[row])
        mask = np.arange(frames.shape[1]) < lengths[:, None]
        whole: Batch = {"frames": frames, "mask": mask, "lengths": lengths}
        return {name: whole[name] for name in self.asked(fields)}

    def _shifts(self, split: Split, epoch: int, item: Indices) -> Indices:
        """By how many semitones each piece is moved."""
        most = self.words.transpose if split.trains else 0
        key = key_of(self.seed, "transpose", epoch)
        return below(draws(key, item, 1)[:, 0], 2 * most + 1) - most


def _transposed(roll: NDArray[Any], shift: int) -> NDArray[Any]:
    """A piece, moved as far towards `shift` as all its notes stay on the keyboard."""
    if not shift or not roll.any():
        return roll
    used = np.flatnonzero(roll.any(0))
    return np.roll(roll, np.clip(shift, -used[0], NOTES - 1 - used[-1]), axis=1)


def _read(words: Music, folder: Path | None) -> dict[str, _rolls.Rolls]:
    if words.name == "etudes":
        from ladderspec.data._etudes import etudes

        return etudes()
    if words.file is not None:
        named = Path(words.file).expanduser()
        return _rolls.read(named if named.is_file() else sources.folder(folder) / named)
    copy = sources.folder(folder) / f"music/{words.name}.npz"
    if copy.is_file() and sources.locate(sources.FILES[words.files()[0]], copy.parents[1]) is None:
        return _rolls.read(copy)  # the same content without MATLAB's format
    return _rolls.read(sources.obtain(words.files(), folder)[0])
