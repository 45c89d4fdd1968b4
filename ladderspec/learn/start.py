"""Where a network begins: weights of another run, what does not learn, offsets from data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ladderspec.corridor import graph
from ladderspec.data import DataError, DataSet, Split
from ladderspec.errors import UsageError
from ladderspec.experiments.runs import Run
from ladderspec.learn import checkpoint
from ladderspec.learn.trouble import not_finite
from ladderspec.network.net import Net
from ladderspec.tasks import Denoising, Prediction
from ladderspec.text.notation import parse_selector
from ladderspec.wiring.selection import select

ITEMS = 1000  # whose mean is taken


def begin_with(net: Net, run: Run, data: DataSet, folder: Path) -> None:
    """Offsets at the mean of the data; then the weights of another run, where one is named."""
    for name, task in net.tasks.items():
        if isinstance(task, Prediction | Denoising):
            net.set_offset(_mean(data, task.field or data.words.input), name)
    if run.start is not None:
        net.adopt(weights_of(place_of(run, folder)))


def _mean(data: DataSet, field: str) -> torch.Tensor:
    mean = torch.from_numpy(data.mean(field, ITEMS))
    if not bool(mean.isfinite().all()):
        items = np.arange(min(ITEMS, data.size(Split.TRAIN)))
        values = data.batch(Split.TRAIN, 0, items, [field])[field]
        wrong = ~np.isfinite(values.reshape(len(items), -1)).all(1)
        raise DataError(not_finite(field, int(np.argmax(wrong))))
    return mean


def place_of(run: Run, folder: Path) -> Path:
    """The folder of the run that this one starts from: beside its own, or as named."""
    named = Path(str(run.start))
    return named if named.is_absolute() else folder.parent / named


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a finished run: of the retrained one, else the best, else the last."""
    if (folder / "retrain").is_dir():
        folder = folder / "retrain"
    for name in ("best", "last"):
        if (folder / f"{name}.json").exists():
            return checkpoint.read(folder, name).under("net.")
    raise UsageError(f"{folder} holds no checkpoint to start from; train that run first")


def freeze(net: Net, run: Run) -> None:
    """What the selectors name does not learn."""
    if not run.freeze:
        return
    wired = graph(run.spec)
    prefixes: list[str] = []
    for text in run.freeze:
        selector = parse_selector(text)
        if selector.kind == "level":
            prefixes += [
                f"{side}.{selector.pattern}." for side in ("encoder", "decoder", "lateral")
            ]
        elif selector.kind == "task":
            prefixes.append(f"task.{selector.pattern}.")
        else:
            nodes, edges = select(wired, selector)
            prefixes += [f"{node}." for node in nodes]
            prefixes += [f"{target}.{key}." for _, target, key in edges]
    for name, parameter in net.named_parameters():
        if name.startswith(tuple(prefixes)):
            parameter.requires_grad_(False)
