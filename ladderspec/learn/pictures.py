"""Sample pictures: frames, what the network predicts of them, what a probe reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladderspec.data import sheet
from ladderspec.data._picture import Picture
from ladderspec.data._types import Indices
from ladderspec.data.preview import _image
from ladderspec.learn.feed import Diet, Feed
from ladderspec.names import Shape
from ladderspec.network.net import Net
from ladderspec.tasks import Classification, Consistency, Probe, Task

MOST = 16  # frames in a row of a picture


@torch.no_grad()
def draw_samples(net: Net, diet: Diet, split: str, count: int, title: str) -> Picture | None:
    """A sheet of the first items of a split; None where there is nothing to look at."""
    if not count or not diet.data.size(split):
        return None
    feed, items = diet.first(split, count)
    outputs = net(feed.frames, feed.lengths)
    shown = {
        name: presented(task, outputs[name])
        for name, task in diet.tasks.items()
        if isinstance(outputs[name], Tensor) and not isinstance(task, Classification | Consistency)
    }
    shown = {name: seen for name, seen in shown.items() if tuple(seen.shape[2:]) == net.shape}
    if _is_roll(net.shape):
        return _rolls(diet, feed, shown, title, items)
    timed = feed.frames
    if not diet.data.forms[diet.input].time:  # the same input at every iteration
        timed = timed[:, None].expand(-1, net.graph.graph["iterations"], *net.shape)
    true = _probed(diet, feed, timed)
    ends = _ends(feed, timed)
    groups = [
        (
            _caption(diet, feed, outputs, i) or f"item {items[i]}",
            _strips(
                diet,
                {name: value[i, : ends[i]] for name, value in true.items()},
                {name: value[i, : ends[i]] for name, value in shown.items()},
            ),
        )
        for i in np.argsort(items)  # as they stand in the data
        if ends[i]
    ]
    columns = [f"t = {t + 1}" for t in range(min(MOST, timed.shape[1]))]
    return sheet.strips(title, columns, groups) if groups else None


def presented(task: Task, seen: Tensor) -> Tensor:
    """What is seen in the units of the data, (B, T, ...)."""
    return task.present(seen.flatten(0, 1)).view_as(seen)


def _is_roll(shape: Shape) -> bool:
    return len(shape) == 3 and shape[1] == 1 and shape[2] > 1


def _caption(diet: Diet, feed: Feed, outputs: Any, item: int) -> str:
    """`3, taken for 5` at its end; nothing where no class is read."""
    parts = []
    for name, task in diet.tasks.items():
        if isinstance(task, Classification) and outputs[name].dim() == 3:
            last = _ends(feed, outputs[name])[item] - 1
            taken = int(outputs[name][item, last].argmax())
            target = feed.target(name, diet.field(task))[item]
            known = target.dim() == 0 and int(target) >= 0
            true = f"{int(target)}, " if known else ""
            parts.append(f"{true}taken for {taken}")
    return "; ".join(parts)


def _ends(feed: Feed, values: Tensor) -> Sequence[int]:
    """How many t of the values, (B, T, ...), each item has."""
    return feed.lengths or (values.shape[1],) * len(values)


def _probed(diet: Diet, feed: Feed, frames: Tensor) -> dict[str, Tensor]:
    """The frames, and above them what probes are asked for [f:prediction]."""
    asked = {
        str(field): feed.target(name, field)
        for name, task in diet.tasks.items()
        if isinstance(task, Probe) and (field := diet.field(task))
    }
    return {
        **{name: value for name, value in asked.items() if value.shape == frames.shape},
        "frames": frames,
    }


def _strips(diet: Diet, true: dict[str, Tensor], shown: dict[str, Tensor]) -> list[sheet.Strip]:
    """The frames, and below each of them what was said of it."""
    steps = min(MOST, len(true["frames"]))
    rows = [sheet.Strip(name, images(frames[:steps])) for name, frames in true.items()]
    for name, seen in shown.items():
        ahead = diet.ahead(diet.tasks[name])
        blank = seen[:1].new_zeros(ahead, *seen.shape[1:])
        said = torch.cat([blank, seen])[:steps]
        rows.append(sheet.Strip(name, images(said)))
    return rows


def images(frames: Tensor) -> list[NDArray[Any]]:
    """(T, C, H, W) or (T, C) as what a sheet draws."""
    found = []
    for frame in frames.float().clamp(0, 1).cpu().numpy():
        found.append(_image(frame))
    return found


def _rolls(diet: Diet, feed: Feed, shown: dict[str, Tensor], title: str, items: Indices) -> Picture:
    pieces: list[tuple[str, NDArray[Any]]] = []
    ends = _ends(feed, feed.frames)
    for i in np.argsort(items):
        end = ends[i]
        pieces.append((f"item {items[i]}", feed.frames[i, :end, 0, 0].cpu().numpy()))
        for name, seen in shown.items():
            ahead = diet.ahead(diet.tasks[name])
            said = (seen[i, :end, 0, 0] > 0.5).float()
            said = torch.cat([said.new_zeros(ahead, said.shape[1]), said])[:end]
            pieces.append((f"{name}: more likely than not", said.cpu().numpy()))
    return sheet.rolls(title, pieces)
