"""A data set at a glance: which picture shows it best."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import _glyphs, sheet
from ladderspec.data._contract import DataError, DataSet
from ladderspec.data._moving import Moving
from ladderspec.data._picture import Picture
from ladderspec.data._pieces import Pieces
from ladderspec.data._still import Still
from ladderspec.data._types import Batch


def preview(data: DataSet, split: str = "test", first: int = 0, count: int = 4) -> Picture:
    """A contact sheet of some items."""
    size = data.size(split)
    if not 0 <= first < size:
        raise DataError(f"{data.words.set} has {size} items in {split}; none is number {first}")
    indices = np.arange(first, min(first + count, size))
    name = data.words.name if isinstance(data, Pieces) and data.words.name else data.words.set
    title = f"{name}: {split} from {first}, seed {data.seed}"
    if isinstance(data, Moving):
        return _moving(data, title, data.batch(split, 0, indices))
    if isinstance(data, Pieces):
        pieces = [(f"{split} {i}", data.rolls(split)[int(i)]) for i in indices]
        return sheet.rolls(title, pieces)
    if isinstance(data, Still):
        return _still(data, split, first, count, title)
    return _any(data, title, data.batch(split, 0, indices), first)


def _moving(data: Moving, title: str, batch: Batch) -> Picture:
    """The rows of [f:ommnist]."""
    times = range(batch["frames"].shape[1])
    groups = []
    for i, label in enumerate(batch["label"]):
        frames, clean, seen = (
            [batch[field][i, t, 0] for t in times]
            for field in ("frames", "clean", "reconstruction")
        )
        rows = [
            sheet.Strip("observed frames", frames),
            sheet.Strip("with occlusion", [sheet.behind_bars(c, data.stage.mask) for c in clean]),
            sheet.Strip("optimal reconstruction", seen),
        ]
        groups.append((f"digit {label}", rows))
    return sheet.strips(title, [f"t = {t + 1}" for t in times], groups)


def _still(data: Still, split: str, first: int, count: int, title: str) -> Picture:
    """A column for each class."""
    everything = data.batch(split, 0, np.arange(first, data.size(split)))
    classes = range(_glyphs.CLASSES)
    found = [np.flatnonzero(everything["label"] == digit)[:count] for digit in classes]
    if not all(map(len, found)):
        raise DataError(f"from item {first} on, {split} has no item of some classes")
    rows = [
        sheet.Strip("", [_image(everything["image"][items[i]]) for items in found])
        for i in range(min(map(len, found)))
    ]
    return sheet.strips(title, [str(digit) for digit in classes], [("", rows)])


def _any(data: DataSet, title: str, batch: Batch, first: int) -> Picture:
    """The input of each item as one row, with its label where there is one."""
    name = data.words.input
    timed = data.forms[name].time
    shown = min(12, batch[name].shape[1]) if timed else 1
    rows = []
    for i, values in enumerate(batch[name]):
        frames = [_image(frame) for frame in values[:shown]] if timed else [_image(values)]
        label = f"label {batch['label'][i]}" if "label" in batch else f"item {first + i}"
        rows.append(sheet.Strip(label, frames))
    columns = [f"t = {t + 1}" for t in range(shown)] if timed else [""]
    return sheet.strips(title, columns, [("", rows)])


def _image(frame: NDArray[Any]) -> NDArray[Any]:
    """(C,), (C, H, W) -> what can be drawn; three channels are colours."""
    if frame.ndim == 1:
        side = int(np.sqrt(len(frame)))
        return frame.reshape(side if side * side == len(frame) else 1, -1)
    if frame.shape[0] == 3:
        colours = np.clip(frame.transpose(1, 2, 0), 0, 1) * 255
        return np.asarray(np.rint(colours), np.uint8)
    return np.asarray(frame.mean(0))
