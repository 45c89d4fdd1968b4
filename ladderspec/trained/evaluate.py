"""A trained network looked at: what it achieves, by t and by class, whole and with arrows removed;
what its nodes do; how it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ladderspec.data import sheet
from ladderspec.data._picture import Picture
from ladderspec.data._types import Indices
from ladderspec.data.preview import _image
from ladderspec.errors import UsageError
from ladderspec.learn.evaluation import report_on, split_feeds
from ladderspec.learn.feed import Diet, Feed
from ladderspec.learn.measure import Report
from ladderspec.learn.pictures import draw_samples
from ladderspec.learn.statistics import settled
from ladderspec.network.net import Net
from ladderspec.trained.opened import Opened


def evaluate(
    opened: Opened,
    split: str = "test",
    without: Sequence[str] = (),
    statistics: int | None = None,
    noise: bool | None = None,
) -> Report:
    """Measure a trained network, and its teacher where it has one.

    Args:
        opened: the run.
        split: the data to measure.
        without: selectors of what is taken out of both networks.
        statistics: training batches that batch norms are measured on; default: as in the run.
        noise: whether all tasks are measured on noisy input, or all on clean input; default: as
            in the run.
    """
    _check_items(opened, split)
    found = _measured(opened, opened.net(without), split, statistics, noise)
    if opened.has_teacher:
        taught = opened.net(without, teacher=True)
        found = found.beside(_measured(opened, taught, split, statistics, noise))
    return found


def _check_items(opened: Opened, split: str) -> None:
    if not opened.data.size(split):
        sizes = [f"{name} has {opened.data.size(name)}" for name in ("train", "valid", "test")]
        raise UsageError(f"there are no {split} items to evaluate: {', '.join(sizes)}")


def _measured(
    opened: Opened, net: Net, split: str, statistics: int | None, noise: bool | None
) -> Report:
    size = opened.evaluation.batch or opened.training.batch
    return report_on(
        net,
        opened.diet(net),
        opened.noise(noise),
        lambda fed: split_feeds(fed, split, size),
        lambda fed: opened.settling(fed, statistics),
    )


@contextmanager
def _ready(opened: Opened, net: Net, diet: Diet, statistics: int | None = None) -> Iterator[None]:
    """In evaluation, with batch norms measured on training data."""
    with settled(net, opened.settling(diet, statistics)):
        yield


def samples(
    opened: Opened,
    split: str = "test",
    without: Sequence[str] = (),
    count: int = 4,
    statistics: int | None = None,
    noise: bool | None = None,
) -> Picture | None:
    """Frames, predictions and probes of the first items."""
    net = opened.net(without)
    diet = opened.seen(net, noise)
    lesions = f", without {', '.join(without)}" if without else ""
    title = f"{opened.facts['title']}: {split}{lesions}"
    with _ready(opened, net, diet, statistics):
        return draw_samples(net, diet, split, count, title)


# --- what the nodes do ----------------------------------------------------------------------------


@torch.no_grad()
def activations(
    opened: Opened,
    nodes: Sequence[str],
    split: str = "test",
    without: Sequence[str] = (),
    count: int = 16,
    statistics: int | None = None,
    noise: bool | None = None,
) -> dict[str, NDArray[Any]]:
    """The values of nodes over time, (items, T, ...), and the input that they saw.

    `items` says which items these are, in their order; `lengths` where each ends, if not at T.
    """
    net = opened.net(without)
    diet = opened.seen(net, noise)
    feed, items = _first(diet, split, count)
    with _ready(opened, net, diet, statistics):
        try:
            found = net.values(feed.frames, *nodes, lengths=feed.lengths)
        except ValueError as error:
            raise UsageError(str(error)) from None
    values = {nodes[0]: found} if isinstance(found, torch.Tensor) else found
    arrays = {diet.input: feed.frames, **values}
    if feed.lengths is not None:
        arrays["lengths"] = torch.tensor(feed.lengths)
    order = np.argsort(items)
    ordered = {name: value.cpu().numpy()[order] for name, value in arrays.items()}
    return {**ordered, "items": items[order]}


def _first(diet: Diet, split: str, count: int, first: int = 0) -> tuple[Feed, Indices]:
    size = diet.data.size(split)
    if not 0 <= first < size:
        raise UsageError(f"there are {size} items in {split}; none is number {first}")
    return diet.first(split, count, first)


def activation_sheet(
    arrays: dict[str, NDArray[Any]], title: str, timed: bool = True, items: int = 2, most: int = 12
) -> Picture:
    """Nodes as rows, t as columns; each node from its smallest to its largest value.

    Of several maps the mean of the absolute values is shown; of a vector every channel, one below
    the other; nothing beyond the end of an item. `timed`: the input runs over time too.
    """
    (name, frames), *nodes = ((k, v) for k, v in arrays.items() if k not in ("lengths", "items"))
    steps = min(most, max(values.shape[1] for _, values in nodes))
    ends = np.minimum(steps, arrays.get("lengths", np.full(len(frames), steps)))
    groups = []
    for i in np.flatnonzero(ends)[:items]:
        seen = frames[i] if timed else [frames[i]] * steps
        shape = _image(seen[0]).shape[:2]
        rows = [sheet.Strip(name, [np.clip(_image(seen[t]), 0, 1) for t in range(ends[i])])]
        for node, values in nodes:
            flat = [_flat(values[i, t]) for t in range(ends[i])]
            low, high = min(f.min() for f in flat), max(f.max() for f in flat)
            scaled = [(f - low) / max(high - low, 1e-12) for f in flat]
            maps = values.ndim > 3
            rows.append(sheet.Strip(node, [_fitted(f, shape) for f in scaled] if maps else scaled))
        groups.append((f"item {arrays['items'][i]}", rows))
    return sheet.strips(title, [f"t = {t + 1}" for t in range(steps)], groups)


def _flat(value: NDArray[Any]) -> NDArray[Any]:
    """One map: of many, the mean of the absolute values; a vector upright."""
    if value.ndim == 3:
        return np.asarray(value[0] if len(value) == 1 else np.abs(value).mean(0))
    return value[:, None]


def _fitted(image: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The nearest pixels, at another size."""
    rows = np.arange(shape[0]) * image.shape[0] // shape[0]
    columns = np.arange(shape[1]) * image.shape[1] // shape[1]
    return np.asarray(image[rows][:, columns])


# --- going on by itself ---------------------------------------------------------------------------


@torch.no_grad()
def generate(
    opened: Opened,
    frames: int,
    split: str = "test",
    first: int = 0,
    count: int = 4,
    given: int | None = None,
    sample: bool = False,
    seed: int = 0,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What was given, (items, T, ...), and how the network goes on, (items, frames, ...).

    The items come in their order, from `first` on.
    """
    net = opened.net()
    diet = opened.diet(net)
    feed, items = _first(diet, split, count, first)
    if feed.frames.dim() != len(net.shape) + 2:
        raise UsageError("the network looks at one input: there is nothing to go on with")
    longest = min(feed.lengths or (feed.frames.shape[1],))
    shown = longest if given is None else given
    if not 1 <= shown <= longest:
        raise UsageError(f"between 1 and {longest} frames can be given here, not {shown}")
    if frames < 1:
        raise UsageError(f"the network has to go on for at least 1 frame, not {frames}")
    start = feed.frames[np.argsort(items), :shown]
    with _ready(opened, net, diet), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            later = net.generate(start, frames, sample=sample)
        except ValueError as error:
            raise UsageError(str(error)) from None
    return start.cpu().numpy(), later.cpu().numpy()


def continuation_sheet(
    given: NDArray[Any], later: NDArray[Any], title: str, first: int = 0
) -> Picture:
    """What was given and how it goes on, one row for each item; rolls one below the other."""
    if given.ndim == 5 and given.shape[3] == 1:
        whole = np.concatenate([given, later], 1)[:, :, 0, 0] > 0.5
        pieces = [(f"item {i}", w) for i, w in enumerate(whole, first)]
        return sheet.rolls(title, pieces, given=given.shape[1])
    columns = [f"t = {t + 1}" for t in range(given.shape[1])]
    columns += [f"+{t + 1}" for t in range(later.shape[1])]
    rows = [
        sheet.Strip(f"item {i}", [np.clip(_image(f), 0, 1) for f in (*before, *after)])
        for i, (before, after) in enumerate(zip(given, later, strict=True), first)
    ]
    return sheet.strips(title, columns, [("", rows)])
