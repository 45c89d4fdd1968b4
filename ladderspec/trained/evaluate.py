"""Evaluate a trained network, whole or lesioned: metrics, samples, activations of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ladderspec.data import Split, sheet
from ladderspec.data.batching import Indices
from ladderspec.data.sheet import ImageSheet
from ladderspec.errors import UsageError
from ladderspec.learn.batches import Collator, TensorBatch
from ladderspec.learn.evaluation import recalibrated, report_on, split_batches
from ladderspec.learn.metrics import Report
from ladderspec.learn.pictures import draw_samples
from ladderspec.network.net import Net
from ladderspec.trained.run import TrainedRun


def evaluate(
    opened: TrainedRun,
    split: str = "test",
    without: Sequence[str] = (),
    statistics: int | None = None,
    noise: bool | None = None,
) -> Report:
    """Measure a trained network, and its Mean Teacher if it has one.

    Args:
        opened: the run.
        split: the data to measure.
        without: selectors of what is removed from both networks.
        statistics: training batches to recalibrate batch norm on. Default: as in the run.
        noise: whether all tasks are measured on noisy input, or all on clean input. Default: as
            in the run.
    """
    _check_items(opened, split)
    found = _measured(opened, opened.net(without), split, statistics, noise)
    if opened.has_teacher:
        teacher = opened.net(without, teacher=True)
        found = found.with_teacher(_measured(opened, teacher, split, statistics, noise))
    return found


def _check_items(opened: TrainedRun, split: str) -> None:
    if not opened.data.size(split):
        sizes = [f"{name} has {opened.data.size(name)}" for name in ("train", "valid", "test")]
        raise UsageError(f"there are no {split} items to evaluate: {', '.join(sizes)}")


def _measured(
    opened: TrainedRun, net: Net, split: str, statistics: int | None, noise: bool | None
) -> Report:
    size = opened.evaluation.batch or opened.training.batch
    return report_on(
        net,
        opened.collator(net),
        opened.noise(noise),
        lambda collator: split_batches(collator, split, size),
        lambda collator: opened.training_batches(collator, statistics),
    )


def samples(
    opened: TrainedRun,
    split: str = "test",
    without: Sequence[str] = (),
    count: int = 4,
    statistics: int | None = None,
    noise: bool | None = None,
) -> ImageSheet | None:
    """A picture of frames, predictions and probes of the first items."""
    net = opened.net(without)
    collator = opened.shown(net, noise)
    lesions = f", without {', '.join(without)}" if without else ""
    title = f"{opened.record['title']}: {Split(split).phrase}{lesions}"
    with recalibrated(net, opened.training_batches(collator, statistics)):
        return draw_samples(net, collator, split, count, title)


# --- activations ----------------------------------------------------------------------------------


@torch.no_grad()
def activations(
    opened: TrainedRun,
    nodes: Sequence[str],
    split: str = "test",
    without: Sequence[str] = (),
    count: int = 16,
    statistics: int | None = None,
    noise: bool | None = None,
) -> dict[str, NDArray[Any]]:
    """The values of nodes over time, (items, T, ...), and their input.

    `items` are the indices of the items; `lengths` their number of frames, if that varies.
    """
    net = opened.net(without)
    collator = opened.shown(net, noise)
    batch, items = first_items(collator, split, count)
    with recalibrated(net, opened.training_batches(collator, statistics)):
        try:
            found = net.values(batch.given, *nodes, lengths=batch.lengths)
        except ValueError as error:
            raise UsageError(str(error)) from None
    values = {nodes[0]: found} if isinstance(found, torch.Tensor) else found
    arrays = {collator.input: batch.frames, **values}
    if batch.lengths is not None:
        arrays["lengths"] = torch.tensor(batch.lengths)
    order = np.argsort(items)
    ordered = {name: value.cpu().numpy()[order] for name, value in arrays.items()}
    return {**ordered, "items": items[order]}


def first_items(
    collator: Collator, split: str, count: int, first: int = 0
) -> tuple[TensorBatch, Indices]:
    """Some items of a split, from `first` on."""
    size = collator.data.size(split)
    if not 0 <= first < size:
        raise UsageError(f"there are {size} items in {split}; none is number {first}")
    return collator.first(split, count, first)


def activation_sheet(
    arrays: dict[str, NDArray[Any]], title: str, timed: bool = True, items: int = 2, most: int = 12
) -> ImageSheet:
    """Nodes as rows, iterations as columns; each node from its smallest to its largest value.

    Several maps are shown as the mean of their absolute values, vectors as a column of channels.
    `timed`: the input runs over time too.
    """
    (name, frames), *nodes = ((k, v) for k, v in arrays.items() if k not in ("lengths", "items"))
    steps = min(most, max(values.shape[1] for _, values in nodes))
    ends = np.minimum(steps, arrays.get("lengths", np.full(len(frames), steps)))
    groups = []
    for i in np.flatnonzero(ends)[:items]:
        seen = frames[i] if timed else [frames[i]] * steps
        shape = sheet.as_image(seen[0]).shape[:2]
        rows = [sheet.Strip(name, [np.clip(sheet.as_image(seen[t]), 0, 1) for t in range(ends[i])])]
        for node, values in nodes:
            flat = [_flat(values[i, t]) for t in range(ends[i])]
            low, high = min(f.min() for f in flat), max(f.max() for f in flat)
            scaled = [(f - low) / max(high - low, 1e-12) for f in flat]
            maps = values.ndim > 3
            rows.append(sheet.Strip(node, [_fitted(f, shape) for f in scaled] if maps else scaled))
        groups.append((f"item {arrays['items'][i]}", rows))
    return sheet.strips(title, [f"t = {t + 1}" for t in range(steps)], groups)


def _flat(value: NDArray[Any]) -> NDArray[Any]:
    """One map: the mean of the absolute values of many, or a vector as a column."""
    if value.ndim == 3:
        return np.asarray(value[0] if len(value) == 1 else np.abs(value).mean(0))
    return value[:, None]


def _fitted(image: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An image at another size, by the nearest pixels."""
    rows = np.arange(shape[0]) * image.shape[0] // shape[0]
    columns = np.arange(shape[1]) * image.shape[1] // shape[1]
    return np.asarray(image[rows][:, columns])
