"""Pictures of samples: frames, the predictions of the network, the read-outs of probes, groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladderspec.data import sheet
from ladderspec.data.batching import Indices
from ladderspec.data.sheet import Colour, ImageSheet
from ladderspec.learn.batches import Collator, TensorBatch
from ladderspec.learn.metrics import combined, decides_classes, over_time
from ladderspec.names import Shape
from ladderspec.network.net import Net
from ladderspec.tasks import Panel, Task

MOST_FRAMES = 16  # of an item of a picture


@torch.no_grad()
def draw_samples(
    net: Net, collator: Collator, split: str, count: int, title: str
) -> ImageSheet | None:
    """A sheet of the first items of a split. None if there is nothing to draw.

    If time runs over frames, it goes to the right and every caption has a row. If it runs over
    iterations on one input, it goes down and every caption has a column.
    """
    if not count or not collator.data.size(split):
        return None
    batch, items = collator.first(split, count)
    outputs = {
        name: combined(net, net.tasks[name], seen)
        for name, seen in net(batch.given, batch.lengths).items()
        if isinstance(seen, Tensor)
    }
    predicted: dict[str, dict[str, Shown]] = {}
    for name, seen in outputs.items():
        task = collator.tasks[name]
        predicted[name] = shown_by(task, task.pictures, name, seen, net.shape)
    if _is_roll(net.shape):
        return _rolls(batch, predicted, title, items)
    still = not collator.data.forms[collator.input].time
    steps = (net.plan.length or 1) if still else batch.frames.shape[1]
    shown = _beside_truth(collator, batch, steps, predicted)
    ends = batch.lengths or (steps,) * len(batch)
    times = [f"t = {t + 1}" for t in range(min(MOST_FRAMES, steps))]
    groups = []
    for i in np.argsort(items):  # in the order of the data
        if end := min(ends[i], MOST_FRAMES):
            caption = _caption(collator, batch, outputs, i) or f"item {items[i]}"
            strips = strips_of(shown, i, end, collator.data.photographs)
            if still:
                labels = [time + _taken(collator, outputs, i, t) for t, time in enumerate(times)]
                strips = _transposed(strips, labels)
            groups.append((caption, strips))
    columns = list(shown) if still else times
    return sheet.strips(title, columns, groups, caption_colours(shown)) if groups else None


# --- frames ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """Frames under one caption, (B, T, ...), each drawn under the frame `horizon` later.

    Whole numbers are groups, -1 where there is none.
    """

    panel: Panel
    horizon: int = 0

    def of(self, item: int, end: int) -> Tensor:
        """The first `end` frames of one item, blank before the first one."""
        frames = self.panel.frames[item]
        blank = 0 if frames.is_floating_point() else -1
        before = frames.new_full((self.horizon, *frames.shape[1:]), blank)
        return torch.cat([before, frames])[:end]

    def reordered(self, items: Indices, end: int) -> Shown:
        """Some items in another order, until the column `end`."""
        frames = self.panel.frames[items, : end - self.horizon]
        return Shown(self.panel._replace(frames=frames), self.horizon)

    @property
    def is_value(self) -> bool:
        """Whether the frames are values like those of the input, not maps of groups."""
        return self.panel.frames.is_floating_point() and not self.panel.shares

    def fits(self, shape: Shape) -> bool:
        """Whether the frames have the size of the input."""
        found, size = tuple(self.panel.frames.shape[2:]), shape[1:] if len(shape) == 3 else shape
        return found[1:] == size if self.panel.shares else found == shape


def shown_by(
    task: Task,
    pictures: Callable[[str, Tensor], Mapping[str, Tensor | Panel]],
    name: str,
    seen: Tensor,
    shape: Shape,
) -> dict[str, Shown]:
    """The pictures of a task that have the size of the input, by caption.

    Args:
        task: the task.
        pictures: its method that makes them.
        name: the name of the task.
        seen: what it sees, (B, T, ...).
        shape: of the input.
    """
    found = {}
    for caption, each in pictures(name, seen.flatten(0, 1)).items():
        panel = each if isinstance(each, Panel) else Panel(each)
        timed = panel.frames.view(*seen.shape[:2], *panel.frames.shape[1:])
        shown = Shown(panel._replace(frames=timed), task.horizon)
        if shown.fits(shape):
            found[caption] = shown
    return found


def _beside_truth(
    collator: Collator, batch: TensorBatch, steps: int, predicted: Mapping[str, dict[str, Shown]]
) -> dict[str, Shown]:
    """The input, then each target with the predictions of it behind it [f:prediction].

    Args:
        collator: of the data.
        batch: the items.
        steps: the number of iterations.
        predicted: predictions by task and caption.
    """
    given, name = _timed(collator, collator.input, batch.frames, steps), collator.input
    clean = batch.targets.get(name)
    found = {}
    if collator.noise is not None and clean is not None and clean.shape == batch.frames.shape:
        found[f"{name}, noisy"] = Shown(Panel(given))
        given = _timed(collator, name, clean, steps)
    targets = {
        task: collator.field(collator.tasks[task]) for task, shown in predicted.items() if shown
    }
    fields = {name: given}
    for task, field in targets.items():
        if field and field not in fields:
            fields[field] = _timed(collator, field, batch.target(task, field), steps)
    for field, values in fields.items():
        tasks = [task for task, target in targets.items() if target == field]
        if values.shape == given.shape:
            found[f"{field} (truth)" if tasks else field] = Shown(Panel(values))
        found |= true_groups(collator, batch, steps) if field == name else {}
        for task in tasks:
            found |= predicted[task]
    for shown in predicted.values():
        found |= shown  # without a target in the data
    return found


def true_groups(collator: Collator, batch: TensorBatch, steps: int) -> dict[str, Shown]:
    """The further fields of tasks that are maps of whole numbers of the input's size."""
    found, forms = {}, collator.data.forms
    shape = forms[collator.input].shape
    for name, task in collator.tasks.items():
        for argument, field in task.further_fields.items():
            values, form = batch.further[name][argument], forms[field]
            by_pixel = (1, *shape[1:]), shape[1:]  # the channels of a pixel belong together
            fits = form.shape == shape or (len(shape) == 3 and form.shape in by_pixel)
            if fits and not values.is_floating_point():
                panel = Panel(_timed(collator, field, values, steps))
                found[f"{field} ({argument})"] = Shown(panel, task.horizon if form.time else 0)
    return found


def _timed(collator: Collator, field: str, values: Tensor, steps: int) -> Tensor:
    """(B, T, ...); a field without time is the same at every iteration."""
    if collator.data.forms[field].time:
        return values
    return values[:, None].expand(-1, steps, *values.shape[1:])


# --- sheets ---------------------------------------------------------------------------------------


def strips_of(
    shown: Mapping[str, Shown], item: int, end: int, photographs: bool
) -> list[sheet.Strip]:
    """One strip for each caption: the first `end` frames of an item."""
    return [
        sheet.Strip(caption, _images(each, each.of(item, end), photographs))
        for caption, each in shown.items()
    ]


def _transposed(strips: Sequence[sheet.Strip], labels: Iterable[str]) -> list[sheet.Strip]:
    columns = zip(*(strip.images for strip in strips), strict=True)
    return [sheet.Strip(label, each) for label, each in zip(labels, columns, strict=True)]


def caption_colours(shown: Mapping[str, Shown]) -> dict[str, Colour]:
    """The captions of frames that belong to a group have its colour."""
    return {
        caption: sheet.group_colour(each.panel.group)
        for caption, each in shown.items()
        if each.panel.group is not None
    }


def _images(shown: Shown, frames: Tensor, photographs: bool) -> list[NDArray[Any]]:
    """Frames (T, C, H, W) or (T, C) as images of a sheet."""
    if not frames.is_floating_point():
        maps = frames.cpu().numpy()
        return [sheet.group_colours(each[0] if each.ndim == 3 else each) for each in maps]
    arrays = frames.float().cpu().numpy()
    if shown.panel.shares:
        return [sheet.mixed_colours(each, photographs) for each in arrays]
    return [sheet.as_image(each, photographs) for each in np.clip(arrays, 0, 1)]


def _is_roll(shape: Shape) -> bool:
    return len(shape) == 3 and shape[1] == 1 and shape[2] > 1


def _rolls(
    batch: TensorBatch, predicted: Mapping[str, dict[str, Shown]], title: str, items: Indices
) -> ImageSheet:
    pieces: list[tuple[str, NDArray[Any]]] = []
    ends = batch.lengths or (batch.frames.shape[1],) * len(batch)
    values = [
        (n, each) for shown in predicted.values() for n, each in shown.items() if each.is_value
    ]
    for i in np.argsort(items):
        end, name = ends[i], f"item {items[i]}{' (truth)' if values else ''}"
        pieces.append((name, batch.frames[i, :end, 0, 0].cpu().numpy()))
        for name, each in values:
            notes = (each.of(i, end)[:, 0, 0] > 0.5).float()
            pieces.append((f"{name}: more likely than not", notes.cpu().numpy()))
    return sheet.rolls(title, pieces)


# --- classes --------------------------------------------------------------------------------------


def _caption(
    collator: Collator, batch: TensorBatch, outputs: Mapping[str, Tensor], item: int
) -> str:
    """`3, predicted 5` at the end of an item. Empty if there is no classification."""
    parts = []
    for name, taken in _decisions(collator, outputs, item).items():
        last = batch.lengths[item] if batch.lengths else len(taken)
        target = batch.target(name, collator.field(collator.tasks[name]))[item]
        known = target.dim() == 0 and int(target) >= 0
        true = f"{int(target)}, " if known else ""
        parts.append(f"{true}predicted {int(taken[last - 1])}")
    return "; ".join(parts)


def _taken(collator: Collator, outputs: Mapping[str, Tensor], item: int, t: int) -> str:
    """`, predicted 5` at one iteration."""
    decided = _decisions(collator, outputs, item).values()
    return "".join(f", predicted {int(taken[t])}" for taken in decided)


def _decisions(collator: Collator, outputs: Mapping[str, Tensor], item: int) -> dict[str, Tensor]:
    """The class of an item at every t, (T,), by task."""
    return {
        name: over_time(task.decide, outputs[name][item : item + 1])[0]
        for name, task in collator.tasks.items()
        if name in outputs and decides_classes(task, outputs[name].shape[2:])
    }
