"""Piano rolls in files: MATLAB's cells, or numpy arrays. Pickles are never read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data._contract import DataError
from ladderspec.data._extra import need
from ladderspec.data._types import Indices
from ladderspec.data.music import NOTES

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Rolls:
    """Sequences one after another: nothing is padded, nothing is cut."""

    notes: NDArray[np.uint8]  # (all steps, 88), 0 or 1
    lengths: Indices  # (sequences,)

    @cached_property
    def starts(self) -> Indices:
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        start = self.starts[index]
        return self.notes[start : start + self.lengths[index]]

    def __len__(self) -> int:
        return len(self.lengths)


def join(sequences: Sequence[NDArray[Any]]) -> Rolls:
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    empty = np.zeros((0, NOTES), np.uint8)
    return Rolls(np.concatenate([empty, *sequences]).astype(np.uint8), lengths)


def both(first: Rolls, second: Rolls) -> Rolls:
    notes = np.concatenate([first.notes, second.notes])
    return Rolls(notes, np.concatenate([first.lengths, second.lengths]))


def read(path: Path) -> dict[str, Rolls]:
    """The splits of a .mat or .npz file."""
    readers = {".mat": _read_mat, ".npz": _read_npz}
    if path.suffix not in readers:
        raise DataError(
            f"{path}: piano rolls are .mat or .npz files, never pickles (a pickle can run code);"
            f" an .npz has `train` (all steps, {NOTES}) and `train_lengths`, and so on for"
            " `valid` and `test`"
        )
    if not path.is_file():
        raise DataError(f"no file {path}")
    rolls = readers[path.suffix](path)
    for split, found in rolls.items():
        _check(found, f"{path}: {split}")
    return rolls


def _check(rolls: Rolls, where: str) -> None:
    if rolls.notes.ndim != 2 or rolls.notes.shape[1] != NOTES:
        raise DataError(f"{where} has shape {rolls.notes.shape}, not (steps, {NOTES})")
    if rolls.lengths.ndim != 1 or (rolls.lengths < 1).any():
        raise DataError(f"{where}: every sequence has at least one step")
    if rolls.lengths.sum() != len(rolls.notes):
        raise DataError(
            f"{where}: the lengths add up to {rolls.lengths.sum()}, but there are"
            f" {len(rolls.notes)} steps"
        )


def _binary(values: NDArray[Any], where: str) -> NDArray[np.uint8]:
    if not ((values == 0) | (values == 1)).all():
        raise DataError(f"{where} has values other than 0 and 1")
    return values.astype(np.uint8)


def _read_mat(path: Path) -> dict[str, Rolls]:
    """`traindata`, `validdata`, `testdata`: cells (1, n) of (steps, 88)."""
    io = need("scipy.io", ".mat files")
    try:
        content = io.loadmat(path, variable_names=[f"{split}data" for split in SPLITS])
    except Exception as error:  # scipy raises whatever it stumbles over
        raise DataError(f"cannot read {path}: {error}") from None
    found = {}
    for split in SPLITS:
        cells = content.get(f"{split}data")
        if cells is None or cells.dtype != object:
            raise DataError(f"{path} has no cells `{split}data`")
        for i, cell in enumerate(cells.ravel()):
            if cell.ndim != 2 or cell.shape[1] != NOTES:
                raise DataError(
                    f"{path}: {split}data{{{i + 1}}} has shape {cell.shape}, not (steps, {NOTES})"
                )
        where = f"{path}: {split}"
        found[split] = join([_binary(cell, where) for cell in cells.ravel()])
    return found


def _read_npz(path: Path) -> dict[str, Rolls]:
    """`train` (all steps, 88) and `train_lengths` (sequences,), and so on."""
    found = {}
    try:
        with np.load(path, allow_pickle=False) as content:
            for split in SPLITS:
                notes, lengths = content[split], content[f"{split}_lengths"]
                notes = _binary(notes, f"{path}: {split}")
                found[split] = Rolls(notes, lengths.astype(np.int64))
    except KeyError as error:
        names = ", ".join(f"{split}, {split}_lengths" for split in SPLITS)
        raise DataError(f"{path}: {error.args[0]}; piano rolls need {names}") from None
    except DataError:
        raise
    except Exception as error:  # numpy and zipfile raise whatever they stumble over
        raise DataError(f"cannot read {path}: {say_pickle(error)}") from None
    return found


def say_pickle(error: Exception) -> str:
    """numpy's complaint in our words, where it is about pickles."""
    if any(word in str(error).lower() for word in ("pickle", "python object")):
        return "it holds Python objects (a pickle), which can run code and are never read"
    return str(error)
