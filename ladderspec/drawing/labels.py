"""What a box says: cell and filter, name, shape, parameters; a label of the spec wins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ladderspec.drawing.maths import Run, formula, plain
from ladderspec.drawing.metrics import DOT, TIMES
from ladderspec.drawing.parts import Change, Part
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.names import Shape

KNOWN = ("cell", "shape", "params", "name", "none")
USUAL = frozenset({"cell", "shape", "params"})

Runs = tuple[Run, ...]


def labels_of(words: str | Iterable[str]) -> frozenset[str]:
    """
    >>> sorted(labels_of("cell,shape"))
    ['cell', 'shape']
    """
    chosen = frozenset(words.replace(",", " ").split() if isinstance(words, str) else words)
    for word in sorted(chosen):
        if word not in KNOWN:
            hint = did_you_mean(word, KNOWN) or f"there are {one_of(KNOWN)}"
            raise UsageError(f"no label `{word}`: {hint}")
    if "none" in chosen and len(chosen) > 1:
        raise UsageError("labels: `none` stands alone")
    return chosen - {"none"}


def heading(part: Part, labels: frozenset[str]) -> Runs:
    """The first line, in bold."""
    times = f"{part.copies} {TIMES} " if part.copies > 1 else ""
    if "cell" in labels:
        if part.cell.label:
            return (*plain(times, "bold"), *formula(part.cell.label, "bold"))
        return plain(times + cell_text(part.cell), "bold")
    return plain(times + part.name, "bold") if "name" in labels else ()


def facts(part: Part, labels: frozenset[str]) -> Runs:
    """The second line."""
    found = []
    if "name" in labels and "cell" in labels:
        found.append(part.name)
    if "shape" in labels and part.shape is not None:
        found.append(shape_text(part.shape))
    if part.cell.cell == "Input" and part.cell.noise and "cell" in labels:
        noise = part.cell.noise
        amount = noise.gaussian if noise.gaussian is not None else noise.flip
        found += [f"noise {amount:g}"] if amount else []
    if "params" in labels and part.parameters:
        found.append(count_text(part.parameters))
    return plain(f" {DOT} ".join(found))


def changes(part: Part, labels: frozenset[str]) -> Runs:
    """The third line of a changed part: what it was."""
    if part.change is not Change.CHANGED or part.before is None or not labels:
        return ()
    before = part.before
    was = [cell_text(before.cell)] if cell_text(before.cell) != cell_text(part.cell) else []
    if before.shape != part.shape and before.shape is not None:
        was.append(shape_text(before.shape))
    return plain("was " + f" {DOT} ".join(was or [_other_words(before.cell, part.cell)]))


def _other_words(old: Any, new: Any) -> str:
    """The fields in which two cells of one name differ."""
    before, after = old.model_dump(), new.model_dump()
    others = [key for key in before if before[key] != after.get(key)]
    return ", ".join(
        f"{key} {before[key]}" if before[key] is not None else f"no {key}" for key in others
    )


def cell_text(cell: Any) -> str:
    """The cell with its filter and stride, as the paper's tables name them."""
    word = str(cell.cell)
    if word == "Pool":
        word = {"max": "MaxPool", "average": "AvgPool"}[cell.mode]
    window, stride = getattr(cell, "filter", None), getattr(cell, "stride", None)
    if window == "global":
        return f"global {word}"
    if cell.cell == "Pool":
        stride = stride or window
    return word + _filter_text(window) + _stride_text(stride)


def _filter_text(window: Any) -> str:
    """A user's cell may mean anything by its filter and its stride."""
    return f" {window[0]}{TIMES}{window[1]}" if _is_pair(window) else ""


def _is_pair(field: Any) -> bool:
    return isinstance(field, tuple) and [type(each) for each in field] == [int, int]


def _stride_text(stride: Any) -> str:
    if not _is_pair(stride) or stride == (1, 1):
        return ""
    return f" /{stride[0]}" if stride[0] == stride[1] else f" /{stride[0]}{TIMES}{stride[1]}"


def shape_text(shape: Shape) -> str:
    return TIMES.join(map(str, shape))


def count_text(count: int) -> str:
    """
    >>> [count_text(n) for n in (180, 9280, 75392, 999_960, 1_071_104, 21_953_436)]
    ['180', '9.3k', '75.4k', '1.0M', '1.1M', '22.0M']
    """
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1e3:.1f}k"
    return f"{count / 1e6:.1f}M" if count < 999_950_000 else f"{count / 1e9:.1f}G"
