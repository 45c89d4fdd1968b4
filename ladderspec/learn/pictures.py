"""Pictures of samples: frames, the predictions of the network, the read-outs of probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladderspec.data import sheet
from ladderspec.data.batching import Indices
from ladderspec.data.picture import Picture
from ladderspec.learn.batches import Collator, TensorBatch
from ladderspec.learn.metrics import decides_classes
from ladderspec.names import Shape
from ladderspec.network.net import Net

MOST_FRAMES = 16  # in a row of a picture


@torch.no_grad()
def draw_samples(
    net: Net, collator: Collator, split: str, count: int, title: str
) -> Picture | None:
    """A sheet of the first items of a split. None if there is nothing to draw."""
    if not count or not collator.data.size(split):
        return None
    batch, items = collator.first(split, count)
    outputs = net(batch.frames, batch.lengths)
    shown = _shown(net, collator, outputs)
    if _is_roll(net.shape):
        return _rolls(batch, shown, title, items)
    timed = batch.frames
    if not collator.data.forms[collator.input].time:  # the same input at every iteration
        timed = timed[:, None].expand(-1, net.graph.graph["iterations"], *net.shape)
    true = _probed(collator, batch, timed)
    ends = _ends(batch, timed)
    groups = [
        (
            _caption(collator, batch, outputs, i) or f"item {items[i]}",
            _strips(
                {name: value[i, : ends[i]] for name, value in true.items()},
                {name: each.of(i, ends[i]) for name, each in shown.items()},
            ),
        )
        for i in np.argsort(items)  # in the order of the data
        if ends[i]
    ]
    columns = [f"t = {t + 1}" for t in range(min(MOST_FRAMES, timed.shape[1]))]
    return sheet.strips(title, columns, groups) if groups else None


@dataclass(frozen=True)
class Shown:
    """Frames that a task shows, (B, T, ...), each under the frame `horizon` later."""

    frames: Tensor
    horizon: int

    def of(self, item: int, end: int) -> Tensor:
        """The frames of one item, blank before the first one."""
        frames = self.frames[item, :end]
        return torch.cat([frames.new_zeros(self.horizon, *frames.shape[1:]), frames])


def _shown(net: Net, collator: Collator, outputs: Mapping[str, Any]) -> dict[str, Shown]:
    """What the tasks show, if it has the shape of the input, by caption."""
    found = {}
    for name, task in collator.tasks.items():
        seen = outputs[name]
        if isinstance(seen, Tensor):
            for caption, frames in task.pictures(name, seen.flatten(0, 1)).items():
                if tuple(frames.shape[1:]) == net.shape:
                    timed = frames.view(*seen.shape[:2], *net.shape)
                    found[caption] = Shown(timed, task.horizon)
    return found


def _is_roll(shape: Shape) -> bool:
    return len(shape) == 3 and shape[1] == 1 and shape[2] > 1


def _caption(collator: Collator, batch: TensorBatch, outputs: Any, item: int) -> str:
    """`3, taken for 5` at the end of an item. Empty if there is no classification."""
    parts = []
    for name, task in collator.tasks.items():
        if isinstance(outputs[name], Tensor) and decides_classes(task, outputs[name].shape[2:]):
            last = _ends(batch, outputs[name])[item] - 1
            taken = int(task.decide(outputs[name][item, last][None]))
            target = batch.target(name, collator.field(task))[item]
            known = target.dim() == 0 and int(target) >= 0
            true = f"{int(target)}, " if known else ""
            parts.append(f"{true}taken for {taken}")
    return "; ".join(parts)


def _ends(batch: TensorBatch, values: Tensor) -> Sequence[int]:
    """The number of iterations of each item in values (B, T, ...)."""
    return batch.lengths or (values.shape[1],) * len(values)


def _probed(collator: Collator, batch: TensorBatch, frames: Tensor) -> dict[str, Tensor]:
    """The frames, and above them the targets of probes [f:prediction]."""
    targets = {
        str(field): batch.target(name, field)
        for name, task in collator.tasks.items()
        if task.shows_target and (field := collator.field(task))
    }
    return {
        **{name: value for name, value in targets.items() if value.shape == frames.shape},
        "frames": frames,
    }


def _strips(true: dict[str, Tensor], shown: dict[str, Tensor]) -> list[sheet.Strip]:
    """The frames, and below each of them its prediction."""
    steps = min(MOST_FRAMES, len(true["frames"]))
    rows = [sheet.Strip(name, images(frames[:steps])) for name, frames in true.items()]
    rows += [sheet.Strip(name, images(frames[:steps])) for name, frames in shown.items()]
    return rows


def images(frames: Tensor) -> list[NDArray[Any]]:
    """Frames (T, C, H, W) or (T, C) as images of a sheet."""
    found = []
    for frame in frames.float().clamp(0, 1).cpu().numpy():
        found.append(sheet.as_image(frame))
    return found


def _rolls(batch: TensorBatch, shown: dict[str, Shown], title: str, items: Indices) -> Picture:
    pieces: list[tuple[str, NDArray[Any]]] = []
    ends = _ends(batch, batch.frames)
    for i in np.argsort(items):
        end = ends[i]
        pieces.append((f"item {items[i]}", batch.frames[i, :end, 0, 0].cpu().numpy()))
        for name, each in shown.items():
            notes = (each.of(i, end)[:end, 0, 0] > 0.5).float()
            pieces.append((f"{name}: more likely than not", notes.cpu().numpy()))
    return sheet.rolls(title, pieces)
