"""Before the first update: checks of data and network, initial weights, freezing, dropout."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from ladderspec.api import build
from ladderspec.data import DataError, DataSet, Split
from ladderspec.data.batching import first_items
from ladderspec.errors import UsageError
from ladderspec.experiments.checks import frozen_prefixes
from ladderspec.experiments.runs import Run
from ladderspec.learn import checkpoint
from ladderspec.learn.batches import Collator, Sampler
from ladderspec.learn.optimiser import check_optimiser
from ladderspec.learn.processes import device_of
from ladderspec.learn.run_folder import owner, read_result, reported, start_folder
from ladderspec.learn.update import not_finite_message
from ladderspec.names import is_input
from ladderspec.network.net import Net
from ladderspec.nn import Edge
from ladderspec.wording import first_of

ITEMS = 1000  # training items of the mean that offsets start at


def check_runs(runs: Iterable[Run], output: Path, data: Path | None) -> None:
    """Refuse runs that cannot be trained on their data, before any of them is trained.

    Only one seed of each row and column is checked, and no finished runs.
    """
    opened: dict[str, DataSet] = {}
    seen = set[tuple[str, str]]()
    problems: dict[str, DataError | UsageError] = {}  # by message: of the first such run
    for run in runs:
        cell = run.row, run.column
        if cell in seen or read_result(output / run.id, run) is not None:
            continue
        seen.add(cell)
        device = device_of(run.machine.device)
        if device.type == "mps" and run.training.precision == "float64":
            hint = "`precision: float32`, or `device: cpu`"
            raise UsageError(f"{run.id}: MPS has no float64; {hint}")
        key = run.data.model_dump_json()
        try:
            check_optimiser(run.training.optimiser, run.training.updates or 1, device)
            if key not in opened:
                opened[key] = run.data.open(run.seed, data)
            _check(run, opened[key])
        except (DataError, UsageError) as error:
            problems.setdefault(str(error), type(error)(f"{run.id}: {error}"))
    if problems:
        first, *_ = problems.values()
        raise type(first)("\n  ".join(map(str, problems.values())))


def _check(run: Run, data: DataSet) -> None:
    net, config = build(run.spec, run.seed), run.training
    collator = Collator(data, net.tasks, config.steps, inputs=net.inputs.forms[1:])
    collator.check(net, run.spec.config.time.frames)
    Sampler(collator, Split.TRAIN, config.batch).epoch(0)


def initialise(net: Net, run: Run, data: DataSet, folder: Path) -> str:
    """Set offsets and scales of outputs from the data, then load the weights of `start`, if any.

    Returns:
        A message about parameters that the other run lacks, or has in another shape. These keep
        their random initial values.
    """
    for name, task in net.tasks.items():
        if task.starts_at_mean:
            net.set_offset(_mean(data, task.field or data.config.input), name)
    if net.groups is not None:
        field = data.config.input
        values = first_items(data, [field], ITEMS)[field]
        net.set_data_statistics(float(values.mean()), float(values.std()))
    place = start_folder(run, folder)
    if place is None:
        return ""
    if run.origin is not None and read_result(place, run.origin) is None:
        raise UsageError(f"{place} does not hold {run.origin.id}, finished; train that run first")
    adopted = net.adopt(weights_of(place))
    if not adopted.kept:
        raise UsageError(f"nothing of {place} fits this network; it cannot start from there")
    new = [*adopted.missing, *adopted.reshaped]
    return f"starts from {place.name}, but for {first_of(new)}" if new else ""


def _mean(data: DataSet, field: str) -> torch.Tensor:
    mean = torch.from_numpy(data.mean(field, ITEMS))
    if not bool(mean.isfinite().all()):
        values = first_items(data, [field], ITEMS)[field]
        wrong = ~np.isfinite(values.reshape(len(values), -1)).all(1)
        raise DataError(not_finite_message(field, int(np.argmax(wrong))))
    return mean


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """The weights that a run reports, or its last ones if it is not finished."""
    folder, name = reported(folder)
    if not os.path.exists(folder / f"{name}.json"):
        raise UsageError(f"{folder} holds no checkpoint to start from; train that run first")
    return checkpoint.read(folder, name, owner(folder)).under("net.")


def set_dropout(net: Net, probability: float) -> None:
    """Dropout on every arrow with weights between two cells.

    CHOICE: not on the state of a cell, which it would forget (Zaremba et al. 2014). Cells of users
    implement their own.
    """
    names = {
        f"{head}.{key}"
        for tail, head, key in net.graph.edges(keys=True)
        if tail != head and not is_input(tail)
    }
    edges = [
        part
        for name, part in net.named_modules()
        if name in names and isinstance(part, Edge) and part.projection.has_weight
    ]
    if not edges:
        raise UsageError("`drop` has no effect: there are no weights between two cells; remove it")
    for edge in edges:
        edge.drop = probability


def freeze(net: Net, run: Run) -> None:
    """Exclude the parameters that `freeze` selects from training."""
    if not run.freeze:
        return
    frozen = tuple(prefix for text in run.freeze for prefix in frozen_prefixes(run.graph, text))
    for name, parameter in net.named_parameters():
        if name.startswith(frozen):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise UsageError(f"row `{run.row}` freezes all that could learn; freeze less")
