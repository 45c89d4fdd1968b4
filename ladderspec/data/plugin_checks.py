"""Data sets of plug-ins: what they return is checked when they are opened, and each batch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ladderspec.errors import UsageError

if TYPE_CHECKING:
    from ladderspec.data.batching import Indices
    from ladderspec.data.dataset import DataSet

ITEMS = 3  # of the batch that is taken to see whether it is right
MOST = 10**9  # items of a split: their order is held in memory


def checking(open: Callable[..., Any]) -> Callable[..., Any]:
    """`open` of a config, which refuses a data set with mistakes."""

    @functools.wraps(open)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        data = open(self, *given, **named)
        for method, problem in _problems(data):
            raise UsageError(f"data set `{self.set}`: {method} {problem}")
        if not isinstance(data.batch, _CheckedBatch):  # `open` may return the same one twice
            data.batch = _CheckedBatch(data, data.batch)
        if count := min(ITEMS, operator.index(data.size("train"))):
            data.batch("train", 0, range(count), list(data.forms))
        return data

    return checked


@dataclass(frozen=True)
class _CheckedBatch:
    """`batch` of a data set, which refuses what does not fit `forms`."""

    data: DataSet
    unchecked: Callable[..., Any]

    def __call__(
        self, split: str, epoch: int, indices: Any, fields: Sequence[str] | None = None
    ) -> dict[str, Any]:
        import numpy as np

        indices = np.asarray(indices)
        found = self.unchecked(split, epoch, indices, fields)
        for problem in _problems_of_batch(self.data, found, split, indices, fields):
            raise UsageError(f"data set `{self.data.config.set}`: `batch` {problem}")
        return dict(found)


def _problems(data: Any) -> Iterator[tuple[str, str]]:
    """Yield each problem with its method or attribute; later checks may raise errors."""
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


def _problems_of_batch(
    data: DataSet, batch: Any, split: str, indices: Indices, fields: Sequence[str] | None
) -> Iterator[str]:
    """Yield the problems of a batch of these items; only numbers of the input must be finite."""
    import numpy as np

    if not isinstance(batch, dict):
        yield f"returned {_shown(batch)}, not a dict of arrays"
    for field in data.forms if fields is None else fields:
        form = data.forms[field]
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
        if len(values) != len(indices):
            yield f"returned `{field}` of length {len(values)} for {len(indices)} indices"
        if form.time and data.steps is not None and values.shape[1] < data.steps:
            yield f"returned {values.shape[1]} frames of `{field}`; `steps` says {data.steps}"
        if field == data.config.input and not np.isfinite(values).all():
            wrong = ~np.isfinite(values).reshape(len(values), -1).all(1)
            item = indices[np.argmax(wrong)] % data.size(split)
            yield f"returned `{field}` that is not finite, for item {item} of {split}"


def _shown(value: object) -> str:
    """A number, None or {} as it is; otherwise its type."""
    plain = value is None or isinstance(value, int | float) or (type(value) is dict and not value)
    return repr(value) if plain else f"a {type(value).__name__}"
