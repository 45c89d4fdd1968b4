"""Arrays of one file or folder, and how their rows make items: padded, joined, or without time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data._contract import DataError, Form
from ladderspec.data._mapped import Arrays as Loaded
from ladderspec.data._types import Indices
from ladderspec.data.arrays import Arrays


@dataclass(frozen=True)
class Part:
    """Items by row. In joined fields the frames of all items lie one after another."""

    arrays: Loaded
    forms: dict[str, Form]
    lengths: Indices | None  # frames of each item, where `lengths` says it
    starts: Indices | None  # the first frame of each item, where they are joined
    items: int

    def value(self, name: str, row: int) -> NDArray[Any]:
        """One item of a field, with its own number of frames."""
        array = self.arrays[name]
        if not self.forms[name].time or self.lengths is None:
            return np.asarray(array[row])
        length = self.lengths[row]
        if self.starts is None:
            return np.asarray(array[row, :length])
        return np.asarray(array[self.starts[row] : self.starts[row] + length])


def part_of(arrays: Loaded, words: Arrays, path: Path) -> Part:
    if words.input not in arrays:
        raise DataError(f"{path} has no `{words.input}`; it has {', '.join(arrays)}")
    main, lengths = arrays[words.input], _lengths(arrays, path)
    items = len(main) if lengths is None else len(lengths)
    time = lengths is not None or main.ndim in (3, 5)
    joined = lengths is not None and main.ndim in (2, 4)
    if joined and lengths is not None and lengths.sum() != len(main):
        raise DataError(f"{path}: `lengths` add up to {lengths.sum()}, but `{words.input}` has"
                        f" {len(main)} frames")  # fmt: skip
    forms = {}
    for name, array in arrays.items():
        lead = main.shape[:1] if joined else main.shape[:2]
        runs = time and array.shape[: len(lead)] == lead and name not in (*words.still, "lengths")
        expected = len(main) if joined and runs else items
        if len(array) != expected:
            raise DataError(f"{path}: `{name}` has {len(array)} rows; {expected} are needed")
        forms[name] = Form(array.shape[len(lead) if runs else 1 :], runs)
    if lengths is not None and not joined and lengths.max(initial=0) > main.shape[1]:
        raise DataError(f"{path}: a length is {lengths.max()}, but `{words.input}` has"
                        f" {main.shape[1]} frames")  # fmt: skip
    _check_values(arrays, words, path)
    starts = np.cumsum(lengths) - lengths if joined and lengths is not None else None
    return Part(arrays, forms, lengths, starts, items)


def _lengths(arrays: Loaded, path: Path) -> Indices | None:
    if flat := [name for name, array in arrays.items() if array.ndim == 0]:
        raise DataError(f"{path}: `{flat[0]}` is a single number; arrays have one row per item")
    lengths = arrays.get("lengths")
    if lengths is None:
        return None
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
        raise DataError(f"{path}: `lengths` are whole numbers from 1 on, one per item")
    return lengths.astype(np.int64)


def _check_values(arrays: Loaded, words: Arrays, path: Path) -> None:
    if "mask" in arrays:
        raise DataError(f"{path}: `mask` is what `lengths` make here; give the array another name")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise DataError(f"{path}: `{name}` holds {array.dtype}, not numbers")
    if arrays[words.input].dtype.kind in "iu" and words.scale is None:
        raise DataError(
            f"{path}: `{words.input}` holds whole numbers ({arrays[words.input].dtype}); say what"
            " to divide them by: `scale: 255` for bytes of pictures, `scale: 1` for 0 and 1"
        )
    if "label" in arrays and arrays["label"].dtype.kind not in "iu":
        raise DataError(f"{path}: `label` holds {arrays['label'].dtype}; classes are 0, 1, 2, ...")
