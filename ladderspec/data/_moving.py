"""The batches of `occluded_mnist`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import _flight, _glyphs
from ladderspec.data._contract import DataSet, Form, Split
from ladderspec.data._counter import draws, key_of, normal
from ladderspec.data._types import Batch, Indices
from ladderspec.data.occluded_mnist import OccludedMnist


class Flight:
    """Some digits on their way, and what can be said of them; each worked out when it is asked."""

    def __init__(self, stage: _flight.Stage, digits: _flight.Images, positions: _flight.Ints):
        self.stage, self.positions = stage, positions
        self.digits = digits[:, None]  # (n, 1, d, d)

    @cached_property
    def visible(self) -> _flight.Mask:
        return _flight.visible(self.stage, self.positions)

    @cached_property
    def seen(self) -> _flight.Mask:
        """(n, T, d, d): pixels of the digit that some frame up to t has shown."""
        return np.logical_or.accumulate(self.visible, axis=1)

    def frames(self) -> _flight.Images:
        return _flight.place(self.stage, self.digits * self.visible, self.positions)

    def clean(self) -> _flight.Images:
        return _flight.place(self.stage, self.digits, self.positions)

    def reconstruction(self) -> _flight.Images:
        return _flight.place(self.stage, self.digits * self.seen, self.positions)

    def optimal(self, last: int) -> _flight.Images:
        at = slice(last, last + 1)
        return _flight.place(self.stage, self.digits * self.seen[:, at], self.positions[:, at])[
            :, 0
        ]


class Moving(DataSet):
    """Occluded Moving MNIST, made as it is asked for."""

    words: OccludedMnist
    classes = _glyphs.CLASSES

    def __init__(self, words: OccludedMnist, seed: int, folder: Path | None) -> None:
        self.words, self.seed, self.folder = words, seed, folder
        self.digits = _glyphs.load(words.digits, words.digit_size, words.valid, folder)
        self.stage = _flight.Stage(
            words.canvas, words.digit_size, *words.bars, words.velocity, words.velocities == "grid"
        )
        self.steps = words.frames
        self._rows = cache(self._chosen_rows)
        frame = (1, words.canvas, words.canvas)
        self.forms = {
            "frames": Form(frame, True, "what is seen"),
            "noiseless": Form(frame, True, "the frames before noise", noisy="frames"),
            "clean": Form(frame, True, "the digit without bars"),
            "reconstruction": Form(frame, True, "every pixel seen up to t, where it is at t"),
            "optimal": Form(frame, False, "the reconstruction at the last frame"),
            "position": Form((2,), True, "row and column of the digit's box"),
            "label": Form((), False, "the digit"),
            "labelled": Form((), False, "whether the label may be used"),
        }

    def size(self, split: str) -> int:
        flights = self.words.test_flights if Split(split) is Split.TEST else 1
        return len(self._rows(Split(split))[0]) * flights

    def labelled(self, split: str) -> Indices | None:
        with_label = self._rows(Split(split))[1]
        return None if with_label.all() else np.flatnonzero(with_label)

    def _chosen_rows(self, split: Split) -> tuple[Indices, NDArray[np.bool_]]:
        """The digits of a split, and which of them have a label."""
        rows = self.digits.rows(split)
        every = np.arange(rows.start, rows.stop)
        if self.words.labelled is None or not split.trains:
            return every, np.ones(len(every), bool)
        chosen = self.digits.some_labelled(rows, self.words.labelled, self.seed)
        if self.words.keep == "labelled":
            return every[chosen], np.ones(len(chosen), bool)
        return every, np.isin(np.arange(len(every)), chosen)

    def flight(self, split: str, epoch: int, indices: Indices) -> Flight:
        """The flights of these indices. Index i + digits * r is digit i on another flight."""
        rows = self._rows(Split(split))[0]
        frames = self.words.frames + self.words.extra
        bits = draws(self._key("flight", split, epoch), self._counters(split, indices), 3 + frames)
        positions = _flight.fly(self.stage, bits, frames, self.words.bounce)
        item = np.asarray(indices) % len(rows)
        return Flight(self.stage, self.digits.images[rows[item]], positions)

    def noisy(
        self, split: str, epoch: int, indices: Indices, frames: _flight.Images
    ) -> _flight.Images:
        """The frames of these indices with Gaussian noise.

        The draws do not depend on the standard deviation: a sweep over `noise` scales one draw.
        """
        if not self.words.noise:
            return frames
        key, count = self._key("noise", split, epoch), int(np.prod(frames.shape[1:]))
        unit = normal(key, self._counters(split, indices), count).reshape(frames.shape)
        return frames + np.float32(self.words.noise) * unit

    def _key(self, purpose: str, split: str, epoch: int) -> int:
        """The key of the draws for a purpose."""
        split = Split(split)
        redrawn = split.trains and self.words.flights == "redrawn"
        # A digit flies the same way in `train` and in `train+valid`, whichever digits are kept.
        stream = Split.TRAIN if split.trains else split
        return key_of(self.seed, purpose, stream, epoch if redrawn else 0)

    def _counters(self, split: str, indices: Indices) -> Indices:
        """A number for every flight of every digit, whichever digits are kept."""
        rows = self._rows(Split(split))[0]
        turn, item = np.divmod(np.asarray(indices), len(rows))
        counters: Indices = rows[item] + len(self.digits.labels) * turn
        return counters

    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        rows, with_label = self._rows(Split(split))
        item = np.asarray(indices) % len(rows)
        flight = self.flight(split, epoch, indices)
        makers: dict[str, Callable[[], NDArray[Any]]] = {
            "frames": lambda: self.noisy(split, epoch, indices, flight.frames()),
            "noiseless": flight.frames,
            "clean": flight.clean,
            "reconstruction": flight.reconstruction,
            "optimal": lambda: flight.optimal(self.words.frames - 1),
            "position": lambda: flight.positions,
            "label": lambda: self.digits.labels[rows[item]],
            "labelled": lambda: with_label[item],
        }
        return {name: makers[name]() for name in self.asked(fields)}
