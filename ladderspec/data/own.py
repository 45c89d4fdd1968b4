"""Data sets of plug-ins: what they return is checked when they are opened."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ladderspec.errors import UsageError

if TYPE_CHECKING:
    from ladderspec.data.dataset import DataSet

ITEMS = 3  # of the batch that is looked at
MOST = 10**9  # items of a split: their order is held in memory


def checking(open: Callable[..., Any]) -> Callable[..., Any]:
    """`open` of a config, which refuses a data set with mistakes."""

    @functools.wraps(open)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        data = open(self, *given, **named)
        for method, problem in _problems(data):
            raise UsageError(f"data set `{self.set}`: {method} {problem}")
        return data

    return checked


def _problems(data: Any) -> Iterator[tuple[str, str]]:
    """What is wrong, with the method or attribute; what comes after it may fail with errors."""
    from ladderspec.data.dataset import DataSet, Form, Split

    if not isinstance(data, DataSet):
        yield "`open`", f"returned {_shown(data)}, not a DataSet"
    if not hasattr(data, "config"):
        yield "`__init__`", "does not call `super().__init__(config, seed, folder)`"
    forms: Any = getattr(data, "forms", None)
    if not isinstance(forms, Mapping) or not forms:
        yield "`forms`", f"is {_shown(forms)}, not a dict of the Form of each field"
    for field, form in forms.items():
        if not isinstance(form, Form):
            yield "`forms`", f"has {_shown(form)} for `{field}`, not a Form"
    for split in (Split.TRAIN, Split.VALID, Split.TEST):
        size = data.size(split)
        if isinstance(size, bool) or not hasattr(size, "__index__") or not 0 <= size <= MOST:
            yield "`size`", f"returned {_shown(size)} for {split}, not a number from 0 to {MOST:,}"
    lengths = data.lengths(Split.TRAIN)
    if lengths is not None and "mask" not in forms:
        yield "`forms`", "has no `mask`, (B, T), which sequences of different `lengths` need"
    if count := min(ITEMS, operator.index(data.size(Split.TRAIN))):
        yield from (("`batch`", problem) for problem in _problems_of_batch(data, count))


def _problems_of_batch(data: DataSet, count: int) -> Iterator[str]:
    """What is wrong with the first training items, requested with all fields."""
    import numpy as np

    batch: Any = data.batch("train", 0, np.arange(count), list(data.forms))
    if not isinstance(batch, dict):
        yield f"returned {_shown(batch)}, not a dict of arrays"
    for field, form in data.forms.items():
        if field not in batch:
            yield f"returned no `{field}`, which `forms` names"
        values = batch[field]
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
            kind = f"{values.dtype} array" if isinstance(values, np.ndarray) else _shown(values)
            yield f"returned {kind} for `{field}`, not a numpy array of numbers"
        wanted = ["B", *(["T"] if form.time else []), *map(str, form.shape)]
        if values.ndim != len(wanted) or values.shape[1 + form.time :] != form.shape:
            shape = f"({', '.join(wanted)})"
            yield f"returned `{field}` of shape {values.shape}; `forms` says {shape}"
        if len(values) != count:
            yield f"returned `{field}` of length {len(values)} for {count} indices"
        if form.time and data.steps is not None and values.shape[1] < data.steps:
            yield f"returned {values.shape[1]} frames of `{field}`; `steps` says {data.steps}"


def _shown(value: object) -> str:
    """A number, None or {} as it is; otherwise its type."""
    plain = value is None or isinstance(value, int | float) or (type(value) is dict and not value)
    return repr(value) if plain else f"a {type(value).__name__}"
