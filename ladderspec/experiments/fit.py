"""Do the data of a run fit its network? Fields, shapes, frames, classes and values of some items.

Nothing here imports torch, so that `validate` can check data that are made without files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ladderspec.data import DataError, DataSet, Split
from ladderspec.data.batching import first_items
from ladderspec.names import BOTTOM, Shape, equal_but_for_ones, show_shape
from ladderspec.tasks import Task
from ladderspec.wiring.graph import Graph, InputForm, TaskAttributes, forms_of, groups_of

if TYPE_CHECKING:
    pass

ITEMS = 32  # training items whose values are looked at


def target_field(task: Task, input: str) -> str | None:
    """The field of the data that is the target of a task. None: the target is not in the data."""
    if task.taught or task.clean or not task.compares:
        return None
    return task.field or input


def check_fit(graph: Graph, data: DataSet, frames: int | str | None) -> None:
    """Raise DataError with all `misfits`."""
    if found := list(misfits(graph, data, frames)):
        raise DataError("\n  ".join(found))


def misfits(graph: Graph, data: DataSet, frames: int | str | None) -> Iterator[str]:
    """Why a network cannot be trained on data: for each input and task, the first reason.

    Args:
        graph: the graph of the network.
        data: the data set.
        frames: `time.frames` of the spec.

    Yields:
        The input or the task, the field, and what would fit.
    """
    unfit = list(_refusals(data.check_input, graph.nodes[BOTTOM]["shape"], frames))
    yield from unfit
    for form in forms_of(graph)[1:]:
        yield from _refusals(_check_input, data, form)
    tasks: dict[str, TaskAttributes] = graph.graph["tasks"]
    for name, entry in tasks.items():
        if unfit and target_field(entry["task"], data.config.input) == data.config.input:
            continue  # reported already
        for problem in _refusals(_check_task, graph, data, entry):
            yield f"task `{name}`: {problem}"


def _refusals(check: Callable[..., None], *given: Any) -> Iterator[str]:
    try:
        check(*given)
    except DataError as error:
        yield str(error)


def _check_input(data: DataSet, form: InputForm) -> None:
    """Refuse a field that a further input cannot read."""
    try:
        there = data.form(str(form.field))
    except DataError as error:
        raise DataError(f"input `{form.name}`: {error}; `field` names another one") from None
    if there.shape != form.shape and (there.shape, form.shape) != ((), (1,)):
        raise DataError(
            f"input `{form.name}` is {show_shape(form.shape)}, but `{form.field}` of"
            f" {data.config.set} is {there}"
        )
    if there.time != form.timed:
        has, per = ("has a", "frame") if there.time else ("has no", "sequence")
        raise DataError(
            f"input `{form.name}`: `{form.field}` of {data.config.set} {has} time axis;"
            f" write `per: {per}` in the spec, or choose another `field`"
        )


def _check_task(graph: Graph, data: DataSet, entry: TaskAttributes) -> None:
    task, input = entry["task"], data.config.input
    target, further = target_field(task, input), task.further_fields
    for each in (target or input, *further.values()):
        data.form(each)
    for node in entry["at"]:
        shape: Shape = graph.nodes[node]["shape"]
        if head := task.head_parameters(shape):
            shape = (head["weight"][0], *shape[1:])
        groups = groups_of(graph)
        seen = (groups.count, *shape) if groups is not None and task.explains else shape
        reader = f"the head at {node}" if head else node
        if target is not None:
            wanted = task.target_shape(seen)
            comparable = groups is None or task.explains or task.classes(shape) is not None
            if comparable and not equal_but_for_ones(data.forms[target].shape, wanted):
                raise DataError(
                    f"{reader} is {show_shape(shape)}: its target is {_shown(wanted)}, but"
                    f" `{target}` of {data.config.set} is {_shown(data.forms[target].shape)}"
                )
            if (classes := task.classes(shape)) is not None:
                _check_classes(data, target, classes, reader)
        for field in further.values():
            if problem := task.check_further(data.forms[field].shape, seen):
                raise DataError(f"`{field}` of {data.config.set}: {problem}")
    _check_values(graph, data, task)


def _check_classes(data: DataSet, target: str, classes: int, reader: str) -> None:
    """Refuse labels beyond the classes of the network: all of `label`, or those of some items."""
    if target == "label":
        low, high = 0, (data.classes or 0) - 1
    else:
        labels = first_items(data, [target], ITEMS)[target]
        if labels.dtype.kind not in "iub":
            raise DataError(f"`{target}` has {labels.dtype} values, but labels are whole numbers")
        low, high = (int(labels.min()), int(labels.max())) if labels.size else (0, 0)
    if high >= classes:
        raise DataError(f"`{target}` goes up to {high}, but {reader} has {classes} classes")
    if low < -1:
        raise DataError(f"`{target}` has {low}, but labels are from 0 on, or -1 if missing")


def _check_values(graph: Graph, data: DataSet, task: Task) -> None:
    """Look at the values of some training items."""
    import numpy as np

    groups = groups_of(graph)
    target = target_field(task, data.config.input)
    if target == "label" and not task.further_fields:
        return
    bernoulli = groups is not None and groups.likelihood == "bernoulli" and task.explains
    shares = target if target is not None and (task.logits or bernoulli) else None
    fields = [*filter(None, [shares]), *task.further_fields.values()]
    if not fields or not data.size(Split.TRAIN):
        return
    batch = first_items(data, fields, ITEMS)
    # NaN is neither below 0 nor above 1: it is reported when training starts.
    if shares is not None and ((batch[shares] < 0) | (batch[shares] > 1)).any():
        low, high = np.nanmin(batch[shares]), np.nanmax(batch[shares])
        what = "a Bernoulli likelihood" if bernoulli else "`cost: bce`"
        raise DataError(
            f"{what} needs values between 0 and 1, but `{shares}` goes from {low:g}"
            f" to {high:g}; scale the data, or choose another cost or likelihood"
        )
    for field in task.further_fields.values():
        if problem := task.check_values(batch[field]):
            raise DataError(f"`{field}` {problem}")


def _shown(shape: Shape) -> str:
    return show_shape(shape) if shape else "one number"
