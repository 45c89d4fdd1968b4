"""What a spec says of a cell, in its own words."""

from __future__ import annotations

from typing import Any

from ladderspec.cells import Cell
from ladderspec.cells._contract import Norm


def said(cell: Cell) -> str:
    """
    >>> from ladderspec.cells.conv import Conv
    >>> said(Conv(channels=32, filter=3, norm="joint"))
    'Conv, channels: 32, filter: 3, norm: joint'
    """
    own = [name for name in type(cell).model_fields if name not in Cell.model_fields]
    fields = [name for name in (*own, "initial") if name in cell.model_fields_set]
    return ", ".join([cell.cell, *(f"{name}: {_word(getattr(cell, name))}" for name in fields)])


def _word(value: Any) -> str:
    if isinstance(value, Norm):
        said = [value.kind] if value.kind else []
        return " ".join([*said, value.terms] if value.terms == "joint" or not said else said)
    if isinstance(value, tuple):
        return str(value[0]) if len(value) == 2 and value[0] == value[1] else str(list(value))
    return str(value)
