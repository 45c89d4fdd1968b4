"""Where a network begins: weights of another run, offsets from data, what is not to learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ladderspec.corridor import graph
from ladderspec.data import DataError, DataSet, Split
from ladderspec.errors import UsageError
from ladderspec.experiments.frozen import prefixes
from ladderspec.experiments.runs import Run
from ladderspec.learn import checkpoint
from ladderspec.learn.journal import read_result, reported
from ladderspec.learn.trouble import not_finite
from ladderspec.network.engine import INPUT
from ladderspec.network.net import Net
from ladderspec.nn import Arrow
from ladderspec.tasks import Denoising, Prediction

ITEMS = 1000  # whose mean is taken


def begin_with(net: Net, run: Run, data: DataSet, folder: Path) -> str:
    """Offsets at the mean of the data; then the weights of another run, where one is named.

    What that run has not, or not in the same shape, is said: it begins as in any other run.
    """
    for name, task in net.tasks.items():
        if isinstance(task, Prediction | Denoising):
            net.set_offset(_mean(data, task.field or data.words.input), name)
    place = place_of(run, folder)
    if place is None:
        return ""
    adopted = net.adopt(weights_of(place))
    if not adopted.kept:
        raise UsageError(f"nothing of {place} fits this network; it cannot start from there")
    new = [*adopted.missing, *adopted.reshaped]
    return f"starts from {place.name}, but for {_few(new)}" if new else ""


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _mean(data: DataSet, field: str) -> torch.Tensor:
    mean = torch.from_numpy(data.mean(field, ITEMS))
    if not bool(mean.isfinite().all()):
        items = np.arange(min(ITEMS, data.size(Split.TRAIN)))
        values = data.batch(Split.TRAIN, 0, items, [field])[field]
        wrong = ~np.isfinite(values.reshape(len(items), -1)).all(1)
        raise DataError(not_finite(field, int(np.argmax(wrong))))
    return mean


def place_of(run: Run, folder: Path) -> Path | None:
    """The folder of the run that this one starts from: beside its own, or as named."""
    if run.origin is None:
        return None if run.start is None else Path(run.start)
    place = folder.parent / run.origin.id
    if read_result(place, run.origin.facts()) is None:
        raise UsageError(f"{place} does not hold {run.origin.id}, finished; train that run first")
    return place


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """The weights that a run reports, or has so far."""
    folder, name = reported(folder)
    if not (folder / f"{name}.json").exists():
        raise UsageError(f"{folder} holds no checkpoint to start from; train that run first")
    return checkpoint.read(folder, name).under("net.")


def leave_out(net: Net, share: float) -> None:
    """Dropout where weights take in what another cell has made.

    CHOICE: not of a cell's own past, which it would forget (Zaremba et al. 2014). Cells of users
    see to themselves.
    """
    names = {
        f"{head}.{key}"
        for tail, head, key in net.graph.edges(keys=True)
        if tail not in (INPUT, head)
    }
    arrows = [
        part
        for name, part in net.named_modules()
        if name in names and isinstance(part, Arrow) and part.kind != "none"
    ]
    if not arrows:
        raise UsageError(
            "`drop` leaves nothing out: no weights between two cells; leave out `drop`"
        )
    for arrow in arrows:
        arrow.drop = share


def freeze(net: Net, run: Run) -> None:
    """What the selectors name does not learn."""
    if not run.freeze:
        return
    wired = graph(run.spec)
    frozen = tuple(prefix for text in run.freeze for prefix in prefixes(wired, text))
    for name, parameter in net.named_parameters():
        if name.startswith(frozen):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise UsageError(f"row `{run.row}` freezes all that could learn; freeze less")
