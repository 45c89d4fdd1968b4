"""The batches of `arrays`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import sources
from ladderspec.data._contract import DataError, DataSet, Form, Split
from ladderspec.data._counter import key_of, permutation
from ladderspec.data._mapped import read_arrays
from ladderspec.data._part import Part, part_of
from ladderspec.data._types import Batch, Indices
from ladderspec.data.arrays import Arrays

Rows = list[tuple[Part, Indices]]


class Named(DataSet):
    """Named arrays of the user's own."""

    words: Arrays

    def __init__(self, words: Arrays, seed: int, folder: Path | None) -> None:
        self.words, self.seed, self.folder = words, seed, folder
        self._rows = _splits(words, _find(words.path, folder))
        self._rows[Split.BOTH] = self._rows[Split.TRAIN] + self._rows[Split.VALID]
        parts = [part for rows in self._rows.values() for part, _ in rows]
        self._part = parts[0]
        for part in parts:
            if part.forms != parts[0].forms:
                raise DataError(f"{words.path}: the splits hold different fields or shapes")
        self.forms = dict(self._part.forms)
        if self._part.lengths is not None:
            self.forms["mask"] = Form((), True, "whether the frame is part of the sequence")
        elif self.forms[words.input].time:
            self.steps = self._part.arrays[words.input].shape[1]
        if "label" in self.forms:
            self.classes = 1 + max(int(part.arrays["label"].max(initial=0)) for part in parts)
        if self.forms.get("label") == Form(()):
            self.forms["labelled"] = Form((), False, "whether the label may be used")

    def size(self, split: str) -> int:
        return sum(len(rows) for _, rows in self._rows[Split(split)])

    def lengths(self, split: str) -> Indices | None:
        if self._part.lengths is None:
            return None
        return self._column(split, "lengths").astype(np.int64)

    def labelled(self, split: str) -> Indices | None:
        if "labelled" not in self.forms:
            return None
        known = self._known(split)
        return None if known.all() else np.flatnonzero(known)

    def _known(self, split: str) -> NDArray[np.bool_]:
        if "labelled" in self._part.arrays:
            return self._column(split, "labelled").astype(bool)
        return np.asarray(self._column(split, "label") >= 0)

    def _column(self, split: str, name: str) -> NDArray[Any]:
        """A small field of all items of a split."""
        found = [part.arrays[name][rows] for part, rows in self._rows[Split(split)]]
        return np.concatenate([self._part.arrays[name][:0], *found])

    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        items = self._items(split, np.asarray(indices) % max(1, self.size(split)))
        found: Batch = {}
        for name in self.asked(fields):
            if name == "labelled":
                found[name] = self._known(split)[np.asarray(indices) % self.size(split)]
            elif name == "mask":
                lengths = np.array(
                    [part.lengths[row] for part, row in items if part.lengths is not None]
                )
                found[name] = np.arange(lengths.max(initial=0)) < lengths[:, None]
            else:
                found[name] = self._scaled(name, _padded([p.value(name, r) for p, r in items]))
        return found

    def _items(self, split: str, indices: Indices) -> list[tuple[Part, int]]:
        found, parts = [], self._rows[Split(split)]
        ends = np.cumsum([len(rows) for _, rows in parts])
        for index in indices:
            which = int(np.searchsorted(ends, index, side="right"))
            part, rows = parts[which]
            found.append((part, int(rows[index - ends[which]])))  # counted from the end
        return found

    def _scaled(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        if self.forms[name] == self.forms[self.words.input]:
            return values.astype(np.float32) / np.float32(self.words.scale or 1)
        kinds: dict[str, type] = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}
        return values.astype(kinds[values.dtype.kind])


def _padded(values: list[NDArray[Any]]) -> NDArray[Any]:
    """Items of one field, with zeros after the shorter ones."""
    if len({value.shape for value in values}) == 1:
        return np.stack(values)
    longest = max(len(value) for value in values)
    found = np.zeros((len(values), longest, *values[0].shape[1:]), values[0].dtype)
    for row, value in enumerate(values):
        found[row, : len(value)] = value
    return found


def _find(path: str, folder: Path | None) -> Path:
    named = Path(path).expanduser()
    found = next((p for p in (named, sources.folder(folder) / named) if p.exists()), None)
    if found is None:
        raise DataError(f"no file or folder {path}, here or in {sources.folder(folder)}")
    return found


def _splits(words: Arrays, path: Path) -> dict[Split, Rows]:
    """Files or folders of that name, or shares of all items, drawn once and for all."""
    names = (Split.TRAIN, Split.VALID, Split.TEST)
    places = {
        name: place
        for name in names
        for place in (path / name, path / f"{name}.npz")
        if place.exists()
    }
    if places:
        if Split.TRAIN not in places:
            raise DataError(f"{path} has {', '.join(places)} but no train")
        parts = {name: part_of(read_arrays(p), words, p) for name, p in places.items()}
        return {
            name: [(parts[name], np.arange(parts[name].items))] if name in parts else []
            for name in names
        }
    if words.valid + words.test >= 1:
        raise DataError(f"shares of {words.valid} and {words.test} leave nothing to train on")
    part = part_of(read_arrays(path), words, path)
    order = permutation(key_of("split"), part.items)
    test, valid = round(words.test * part.items), round(words.valid * part.items)
    cuts = {
        Split.TEST: order[:test],
        Split.VALID: order[test : test + valid],
        Split.TRAIN: order[test + valid :],
    }
    return {name: [(part, np.sort(cuts[name]))] for name in names}
