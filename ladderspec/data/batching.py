"""Batches of an epoch, and chunks of long sequences for truncated back-propagation through time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.counter_rng import draws, key_of, permutation
from ladderspec.data.dataset import DataError, DataSet, Form, Split

Indices = NDArray[np.int64]
Batch = dict[str, NDArray[Any]]  # field -> array: batch axis first, then time, then the form

JITTER = 0.1  # lengths that differ by less than this share are mixed within a batch


# --- batches --------------------------------------------------------------------------------------


def epoch_batches(
    data: DataSet, split: Split, epoch: int, size: int, labelled: int, drop_last: bool
) -> list[Indices]:
    """The indices of every batch, a pure function of (seed, split, epoch, size)."""
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
    if labelled and not len(known):
        raise DataError(f"`labelled_per_batch` is {labelled}, but no item of {split} is labelled")
    order = key_of(data.seed, "order", split, epoch)
    if labelled == size:  # an epoch of labelled items only
        return _cut(known[permutation(order, len(known))], size, drop_last)
    groups = _cut(items[permutation(order, len(items))], size - labelled, drop_last)
    repeated = _repeated(data.seed, split, epoch, known, len(items), labelled * len(groups))
    return [
        np.concatenate([repeated[i * labelled : (i + 1) * labelled], group])
        for i, group in enumerate(groups)
    ]


def _cut(items: Indices, size: int, drop_last: bool) -> list[Indices]:
    stop = len(items) - len(items) % size if drop_last else len(items)
    return [items[start : start + size] for start in range(0, stop, size)]


def _repeated(
    seed: int, split: Split, epoch: int, known: Indices, count: int, needed: int
) -> Indices:
    """The labelled items in as many rounds as needed, each round in another order.

    In round r, item i has the index i + count * (r + 1): the same item with other random draws.
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
    """Length bucketing: sort by length, cut, shuffle the batches. Training adds jitter."""
    sort_by = lengths.astype(np.float64)
    if split.trains:
        bits = draws(key_of(seed, "bucket", split, epoch), np.arange(len(lengths)), 1)[:, 0]
        sort_by = sort_by * (1 + JITTER * (bits / 2.0**64))
    items = np.argsort(-sort_by, kind="stable")
    groups = _cut(items, size, drop_last)
    if split.trains and size > 1 and len(groups) > 1 and len(groups[-1]) == 1:
        # CHOICE: batch norm cannot train on one sequence, so it joins the batch before it.
        groups[-2:] = [np.concatenate(groups[-2:])]
    groups = [group[np.argsort(-lengths[group], kind="stable")] for group in groups]
    if not split.trains:
        return groups
    return [groups[i] for i in permutation(key_of(seed, "order", split, epoch), len(groups))]


def first_items(data: DataSet, fields: Sequence[str], count: int) -> Batch:
    """The first training items, as training reads them in its first epoch, with their mask."""
    mask = ["mask"] if "mask" in data.forms else []
    items = np.arange(min(count, data.size(Split.TRAIN)))
    return data.batch(Split.TRAIN, 0, items, [*fields, *mask])


# --- chunks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """Frames start .. start + steps of the first `rows` sequences of a batch."""

    batch: Batch  # all fields, with at most steps + ahead frames
    start: int
    steps: int  # number of frames that the network runs over
    rows: int  # sequences that still have a frame to predict; the carried state shrinks to these


def chunks(
    batch: Batch, forms: Mapping[str, Form], steps: int | None, ahead: int = 1
) -> Iterator[Chunk]:
    """Cut a batch along time, for truncated back-propagation with a carried state.

    A chunk has `steps` frames (None: all of them) and `ahead` more, so that the last frame has its
    target too: over all chunks, each frame is read once and each target is scored once.
    The sequences must be sorted longest first, as in `DataSet.batches`: finished ones drop out.

    >>> batch = {"frames": np.arange(7)[None, :, None], "mask": np.ones((1, 7), bool)}
    >>> forms = {"frames": Form((1,), time=True), "mask": Form((), time=True)}
    >>> [(c.start, c.steps, c.batch["frames"].ravel().tolist()) for c in chunks(batch, forms, 3)]
    [(0, 3, [0, 1, 2, 3]), (3, 3, [3, 4, 5, 6])]
    """
    lengths = batch["mask"].sum(1)
    if (np.diff(lengths) > 0).any():
        raise ValueError("the sequences of a batch must be sorted longest first")
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
