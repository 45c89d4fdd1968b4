"""The order of an epoch: which items make which batch, as a pure function of (seed, epoch)."""

from __future__ import annotations

import numpy as np

from ladderspec.data._contract import DataError, DataSet, Split
from ladderspec.data._counter import draws, key_of, permutation
from ladderspec.data._types import Indices

JITTER = 0.1  # lengths that differ by less than this share meet in a batch at random


def batches(
    data: DataSet, split: Split, epoch: int, size: int, labelled: int, drop_last: bool
) -> list[Indices]:
    if not 0 <= labelled <= size or size < 1:
        raise DataError(f"a batch of {size} cannot hold {labelled} labelled items")
    lengths = data.lengths(split)
    if lengths is not None:
        if labelled:
            raise DataError("`labelled_per_batch` needs items of equal length")
        return _bucketed(data.seed, split, epoch, size, lengths, drop_last)
    items = np.arange(data.size(split))
    if not split.trains:
        return _cut(items, size, drop_last)
    known = data.labelled(split)
    known = items if known is None else known
    if labelled == size:  # an epoch of labelled items alone
        return _cut(_shuffled(data.seed, split, epoch, known), size, drop_last)
    groups = _cut(_shuffled(data.seed, split, epoch, items), size - labelled, drop_last)
    repeated = _repeated(data.seed, split, epoch, known, len(items), labelled * len(groups))
    return [
        np.concatenate([repeated[i * labelled : (i + 1) * labelled], group])
        for i, group in enumerate(groups)
    ]


def _shuffled(seed: int, split: Split, epoch: int, items: Indices) -> Indices:
    return items[permutation(key_of(seed, "order", split, epoch), len(items))]


def _cut(items: Indices, size: int, drop_last: bool) -> list[Indices]:
    stop = len(items) - len(items) % size if drop_last else len(items)
    return [items[start : start + size] for start in range(0, stop, size)]


def _repeated(
    seed: int, split: Split, epoch: int, known: Indices, count: int, needed: int
) -> Indices:
    """The labelled items over and over, each round in an order of its own.

    Round r of item i has index i + count * (r + 1): the same item, drawn anew.
    """
    rounds = -(-needed // max(1, len(known)))
    parts = [
        known[permutation(key_of(seed, "labelled", split, epoch, r), len(known))] + count * (r + 1)
        for r in range(rounds)
    ]
    return np.concatenate(parts)[:needed] if parts else known[:0]


def _bucketed(
    seed: int, split: Split, epoch: int, size: int, lengths: Indices, drop_last: bool
) -> list[Indices]:
    """Sorted by length, cut, and the batches shuffled; for training, near lengths mix first."""
    sort_by = lengths.astype(np.float64)
    if split.trains:
        bits = draws(key_of(seed, "bucket", split, epoch), np.arange(len(lengths)), 1)[:, 0]
        sort_by = sort_by * (1 + JITTER * (bits / 2.0**64))
    items = np.argsort(-sort_by, kind="stable")
    groups = _cut(items, size, drop_last)
    if split.trains and size > 1 and len(groups) > 1 and len(groups[-1]) == 1:
        # CHOICE: batch norm learns nothing from a sequence alone, so it joins those before it.
        groups[-2:] = [np.concatenate(groups[-2:])]
    groups = [group[np.argsort(-lengths[group], kind="stable")] for group in groups]
    if not split.trains:
        return groups
    return [groups[i] for i in permutation(key_of(seed, "order", split, epoch), len(groups))]
