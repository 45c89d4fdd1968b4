"""Images of digits, from MNIST's files or from scikit-learn, at the size that is asked for."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ladderspec.data._contract import DataError, Split
from ladderspec.data._counter import draws, key_of
from ladderspec.data._extra import need
from ladderspec.data._types import Indices
from ladderspec.data.sources import folder, obtain

Images = NDArray[np.float32]
Origin = Literal["mnist", "embedded"]

HELD_OUT = {"mnist": 10_000, "embedded": 300}  # the validation items where the words say nothing
EMBEDDED_TEST = 300
CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """Digits in [0, 1], 1 = ink. The last `valid` of the training digits are for validation."""

    images: Images  # (n, size, size): training and validation, then test
    labels: Indices
    valid: int
    test: int

    def rows(self, split: Split) -> range:
        stop = len(self.labels) - self.test
        return {
            Split.TRAIN: range(0, stop - self.valid),
            Split.VALID: range(stop - self.valid, stop),
            Split.BOTH: range(0, stop),
            Split.TEST: range(stop, len(self.labels)),
        }[split]

    def some_labelled(self, rows: range, count: int, seed: int) -> Indices:
        """`count` of these rows, as many of each class, chosen by the seed."""
        bits = draws(key_of(seed, "labelled subset"), np.arange(rows.start, rows.stop), 1)[:, 0]
        labels = self.labels[rows.start : rows.stop]
        chosen = []
        for digit in range(CLASSES):
            members = np.flatnonzero(labels == digit)
            if len(members) < count // CLASSES:
                raise DataError(f"only {len(members)} training digits are a {digit}; {count} asked")
            chosen.append(members[np.argsort(bits[members])[: count // CLASSES]])
        return np.sort(np.concatenate(chosen)).astype(np.int64)


def load(origin: Origin, size: int, valid: int | None, given: Path | None) -> Digits:
    images, labels, test = _loaded(origin, size, None if origin == "embedded" else folder(given))
    valid = HELD_OUT[origin] if valid is None else valid
    if valid > len(labels) - test - CLASSES:
        raise DataError(f"`valid: {valid}` leaves no training digits of {len(labels) - test}")
    return Digits(images, labels, valid, test)


@lru_cache(maxsize=4)
def _loaded(origin: Origin, size: int, root: Path | None) -> tuple[Images, Indices, int]:
    if origin == "embedded":
        raw, labels = _embedded()
        core = max(min(size, 8), round(size * 5 / 7))  # MNIST's margins, where there is room
        before = (size - core) // 2
        margins = (before, size - core - before)
        images = np.pad(resized(raw, core) / np.float32(16), ((0, 0), margins, margins))
        return images, labels, EMBEDDED_TEST
    names = [f"mnist/{part}-ubyte.gz" for part in _IDX]
    train, train_labels, test, test_labels = map(read_idx, obtain(names, root))
    images = resized(np.concatenate([train, test]), size) / np.float32(255)
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    return images, labels, len(test_labels)


_IDX = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of bytes, compressed."""
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    axes = data[3] if len(data) > 3 and data[:3] == b"\0\0\x08" else 0
    shape = tuple(np.frombuffer(data, ">u4", axes, 4).astype(int)) if axes else ()
    if not axes or len(data) != 4 + 4 * axes + int(np.prod(shape)):
        raise DataError(f"{path} is no IDX file of bytes")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _embedded() -> tuple[NDArray[Any], Indices]:
    """The 1,797 digits of 8x8 in scikit-learn, values 0..16; writers follow each other."""
    found = need("sklearn.datasets", "scikit-learn's digits").load_digits()
    return found.images, found.target.astype(np.int64)


def resized(images: NDArray[Any], size: int) -> Images:
    """Means over equal areas: for 28 -> 14 the means of 2x2 pixels."""
    n, height, width = images.shape
    if (height, width) == (size, size):
        return images.astype(np.float32)
    rows, columns = _areas(height, size), _areas(width, size)
    found = np.empty((n, size, size), np.float32)
    for start in range(0, n, 4096):  # so that little is in memory at once
        some = images[start : start + 4096].astype(np.float32)
        found[start : start + 4096] = rows @ some @ columns.T
    return np.clip(found, images.min(initial=0), images.max(initial=0))  # sums of shares round


def _areas(n: int, m: int) -> NDArray[np.float32]:
    """(m, n): which share of each of m equal parts of a line each of n equal parts covers.

    >>> _areas(4, 2).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    fine, coarse = np.arange(n) * m, np.arange(m)[:, None] * n  # in units of 1 / (n m)
    overlap = np.minimum(fine + m, coarse + n) - np.maximum(fine, coarse)
    shares: NDArray[np.float32] = (np.maximum(overlap, 0) / n).astype(np.float32)
    return shares
