"""arrays: the user's own data, as named arrays in an .npz file or a folder of .npy files.

docs/own_data.md describes their shapes and splits. Sequences of unequal length are padded to the
longest, or concatenated: (all frames, C, H, W) or (all frames, C).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ladderspec.cells.fields import AS_TUPLE
from ladderspec.data import sources
from ladderspec.data.batching import Batch, Indices
from ladderspec.data.counter_rng import key_of, permutation
from ladderspec.data.dataset import DataConfig, DataError, DataSet, Form, Split, register
from ladderspec.data.formats import NamedArrays, read_arrays
from ladderspec.names import Shape, show_shape

Share = Annotated[float, Field(ge=0, lt=1)]
Names = Annotated[tuple[str, ...], AS_TUPLE]
SPLITS = (Split.TRAIN, Split.VALID, Split.TEST)


@register
class Arrays(DataConfig):
    """Your own arrays, by name."""

    set: Literal["arrays"] = "arrays"
    path: str = Field(
        description="Path of an .npz file or a folder. It may be relative to the data folder."
    )
    scale: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Divisor of the input and of all fields of the same form but `groups`:"
        " 255 for bytes.",
    )
    still: Names = Field(
        (), description="Fields without a time axis although their size equals that of the frames."
    )
    valid: Share = Field(
        0.1, description="Share of validation items, if there are no files for the splits."
    )
    test: Share = Field(
        0.1, description="Share of test items, if there are no files for the splits."
    )

    about: ClassVar[str] = "your own: named arrays in an .npz file or a folder of .npy files"

    def advice(self, shape: Shape) -> str:
        maps = "(n, T, C, H, W) or (n, C, H, W), also if C is 1"
        return f"arrays of {show_shape(shape)} are {maps if len(shape) == 3 else '(n, T, C)'}"

    def content(self, folder: Path | None = None) -> str | None:
        path = _find(self, folder)
        files = [path]
        if os.path.isdir(path):
            files = sorted([*path.glob("*.np[yz]"), *path.glob("*/*.npy")])
        return sources.digest_of_files({str(file.relative_to(path)): file for file in files})

    def open(self, seed: int = 0, folder: Path | None = None) -> ArraysData:
        return ArraysData(self, seed, folder)


class ArraysData(DataSet):
    config: Arrays

    def __init__(self, config: Arrays, seed: int, folder: Path | None) -> None:
        super().__init__(config, seed, folder)
        self._rows = _open_splits(config, folder)
        self._rows[Split.BOTH] = self._rows[Split.TRAIN] + self._rows[Split.VALID]
        parts = [part for rows in self._rows.values() for part, _ in rows]
        self._part, self._parts = parts[0], tuple({id(part): part for part in parts}.values())
        if any(part.forms != parts[0].forms for part in parts):
            raise DataError(f"{config.path}: the splits have different fields or shapes")
        self.forms = dict(self._part.forms)
        self.photographs = len(self.forms[config.input].shape) == 3
        if self._part.lengths is not None:
            self.forms["mask"] = Form((), True, "whether the frame is part of the sequence")
        elif self.forms[config.input].time:
            self.steps = self._part.arrays[config.input].shape[1]
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
        """Whether the label of each item of a split may be used."""
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
        for part in self._parts:
            part.check_unchanged()
        index = np.asarray(indices) % max(1, self.size(split))
        items = self._items(split, index)
        found: Batch = {}
        for name in self.requested(fields):
            if name == "labelled":
                found[name] = self._known(split)[index]
            elif name == "mask":
                lengths = np.array([p.lengths[row] for p, row in items if p.lengths is not None])
                found[name] = np.arange(lengths.max(initial=0)) < lengths[:, None]
            else:
                found[name] = self._convert(name, _pad([p.value(name, row) for p, row in items]))
        return found

    def _items(self, split: str, indices: Indices) -> list[tuple[ArrayFiles, int]]:
        found, parts = [], self._rows[Split(split)]
        ends = np.cumsum([len(rows) for _, rows in parts])
        for index in indices:
            which = int(np.searchsorted(ends, index, side="right"))
            part, rows = parts[which]
            found.append((part, int(rows[index - ends[which]])))  # a negative index
        return found

    def _convert(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        if self.forms[name] == self.forms[self.config.input] and name != "groups":
            with np.errstate(over="ignore"):  # it is reported as data that are not finite
                return values.astype(np.float32) / np.float32(self.config.scale or 1)
        kinds: dict[str, type] = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}
        return values.astype(kinds[values.dtype.kind])


def _pad(values: list[NDArray[Any]]) -> NDArray[Any]:
    """Stack the items of one field, with zeros after the shorter ones."""
    if len({value.shape for value in values}) == 1:
        return np.stack(values)
    longest = max(len(value) for value in values)
    found = np.zeros((len(values), longest, *values[0].shape[1:]), values[0].dtype)
    for row, value in enumerate(values):
        found[row, : len(value)] = value
    return found


# --- files ----------------------------------------------------------------------------------------


Stamp = tuple[int, int] | None  # size and time of a file


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class ArrayFiles:
    """The arrays of one file or folder."""

    arrays: NamedArrays
    forms: dict[str, Form]
    lengths: Indices | None  # number of frames of each item, if there is an array `lengths`
    starts: Indices | None  # first frame of each item, if sequences are concatenated
    items: int
    stamps: dict[Path, Stamp]  # of the files, which are mapped into memory

    def check_unchanged(self) -> None:
        """Refuse a file that has changed: reading what was cut off would end the process."""
        for path, before in self.stamps.items():
            if _stamp(path) != before:
                raise DataError(f"{path} was changed while it was in use; start again")

    def value(self, name: str, row: int) -> NDArray[Any]:
        """One item of a field, without padding."""
        array = self.arrays[name]
        if not self.forms[name].time or self.lengths is None:
            return np.asarray(array[row])
        length = self.lengths[row]
        if self.starts is None:
            return np.asarray(array[row, :length])
        return np.asarray(array[self.starts[row] : self.starts[row] + length])


def _find(config: Arrays, folder: Path | None) -> Path:
    """The file or folder, here or in the data folder."""
    given = Path(config.path).expanduser()
    root = sources.folder(folder)
    path = next((place for place in (given, root / given) if os.path.exists(place)), None)
    if path is None:
        places = f"beside the experiment, in the current folder, or in {root}"
        raise DataError(f"no file or folder {config.path} {places}")
    return path


def _open_splits(
    config: Arrays, folder: Path | None
) -> dict[Split, list[tuple[ArrayFiles, Indices]]]:
    """Parts and their rows: files or folders named like the splits, or random shares of one."""
    path = _find(config, folder)
    places = {
        split: place
        for split in SPLITS
        for place in (path / split, path / f"{split}.npz")
        if os.path.exists(place)
    }
    if places:
        if Split.TRAIN not in places:
            raise DataError(f"{path} has {', '.join(places)} but no train")
        parts = {split: _open_part(place, config) for split, place in places.items()}
        return {
            split: [(parts[split], np.arange(parts[split].items))] if split in parts else []
            for split in SPLITS
        }
    if config.valid + config.test >= 1:
        raise DataError(f"shares of {config.valid} and {config.test} leave nothing to train on")
    part = _open_part(path, config)
    order = permutation(key_of("split"), part.items)
    test, valid = round(config.test * part.items), round(config.valid * part.items)
    cuts = {
        Split.TRAIN: order[test + valid :],
        Split.VALID: order[test : test + valid],
        Split.TEST: order[:test],
    }
    return {split: [(part, np.sort(rows))] for split, rows in cuts.items()}


def _open_part(path: Path, config: Arrays) -> ArrayFiles:
    files = sorted(path.glob("*.npy")) if os.path.isdir(path) else [path]
    stamps = {file: _stamp(file) for file in files}
    arrays = read_arrays(path)
    if config.input not in arrays:
        raise DataError(f"{path} has no `{config.input}`; it has {', '.join(arrays)}")
    main, lengths = arrays[config.input], _lengths(arrays, path)
    items = len(main) if lengths is None else len(lengths)
    time = lengths is not None or main.ndim in (3, 5)
    joined = lengths is not None and main.ndim in (2, 4)
    if 0 in main.shape[1:]:
        raise DataError(f"{path}: `{config.input}` has the shape {main.shape}: items are empty")
    if joined and lengths is not None and lengths.sum() != len(main):
        raise DataError(
            f"{path}: `lengths` add up to {lengths.sum()}, but `{config.input}` has"
            f" {len(main)} frames"
        )
    forms = {}
    for name, array in arrays.items():
        lead = main.shape[:1] if joined else main.shape[:2]
        timed = time and array.shape[: len(lead)] == lead and name not in (*config.still, "lengths")
        expected = len(main) if joined and timed else items
        if len(array) != expected:
            raise DataError(f"{path}: `{name}` has {len(array)} rows; {expected} are needed")
        forms[name] = Form(array.shape[len(lead) if timed else 1 :], timed)
    if lengths is not None and not joined and lengths.max(initial=0) > main.shape[1]:
        raise DataError(
            f"{path}: a length is {lengths.max()}, but `{config.input}` has {main.shape[1]} frames"
        )
    _check_values(arrays, config, path)
    starts = np.cumsum(lengths) - lengths if joined and lengths is not None else None
    return ArrayFiles(arrays, forms, lengths, starts, items, stamps)


def _lengths(arrays: NamedArrays, path: Path) -> Indices | None:
    if scalars := [name for name, array in arrays.items() if array.ndim == 0]:
        raise DataError(f"{path}: `{scalars[0]}` is a single number; arrays have one row per item")
    lengths = arrays.get("lengths")
    if lengths is None:
        return None
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
        raise DataError(f"{path}: `lengths` must be integers from 1 on, one per item")
    if (lengths > np.iinfo(np.int64).max).any():
        raise DataError(f"{path}: a length is {lengths.max()}, more than any array holds")
    return lengths.astype(np.int64)


def _check_values(arrays: NamedArrays, config: Arrays, path: Path) -> None:
    if "mask" in arrays:
        raise DataError(f"{path}: `mask` is made from `lengths`; give the array another name")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise DataError(f"{path}: `{name}` has type {array.dtype}, not numbers")
    dtype = arrays[config.input].dtype
    if dtype.kind in "iu" and config.scale is None:
        raise DataError(
            f"{path}: `{config.input}` has integers ({dtype}) and needs a divisor:"
            " `scale: 255` for bytes of pictures, `scale: 1` for 0 and 1"
        )
    with np.errstate(over="ignore"):
        if config.scale is not None and not 0 < np.float32(config.scale) < np.inf:
            raise DataError(f"`scale` is {config.scale:g}, which is 0 or infinite in float32")
    known = arrays.get("labelled")
    if known is not None and (known.ndim != 1 or not np.isin(known, (0, 1)).all()):
        raise DataError(f"{path}: `labelled` must be 0 or 1 for each item")
    if (label := arrays.get("label")) is None:
        return
    if label.dtype.kind not in "iu":
        raise DataError(f"{path}: `label` has type {label.dtype}; classes are 0, 1, 2, ...")
    if (lowest := min(label.min(initial=0), 0)) < -1:
        raise DataError(
            f"{path}: `label` goes down to {lowest}; classes are 0, 1, 2, ..., and -1 is an unknown"
            " one"
        )
