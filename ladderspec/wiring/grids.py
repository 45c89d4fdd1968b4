"""Sampling grids of levels: how rows stride between any two nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ladderspec.cells.fields import Pair
from ladderspec.names import INPUT


class SamplingGrid(NamedTuple):
    """The sampling grid of a map: one place covers `rows` x `columns` places of the finest grid.

    A row of unknown stride (a dense one, or a user's own cell) begins a new part.
    """

    part: int = 0
    rows: int = 1
    columns: int = 1


def level_grids(strides: Iterable[tuple[str, Pair | None]]) -> Mapping[str, SamplingGrid]:
    """The grids of all levels, from the strides of the rows that make them."""
    grid = SamplingGrid()
    found = {INPUT: grid}
    for level, stride in strides:
        grid = found[level] = strided(grid, stride)
    return found


def stride_between(source: SamplingGrid | None, target: SamplingGrid | None) -> Pair | None:
    """The stride of an edge between two grids; negative if it leads to a finer one.

    None if it is unknown.

    >>> finer, coarser = SamplingGrid(0, 1, 2), SamplingGrid(0, 4, 2)
    >>> stride_between(finer, coarser), stride_between(SamplingGrid(0, 4, 4), SamplingGrid())
    ((4, 1), (-4, -4))
    """
    if source is None or target is None or source.part != target.part:
        return None
    rows, columns = _ratio(source.rows, target.rows), _ratio(source.columns, target.columns)
    return None if rows is None or columns is None else (rows, columns)


def strided(grid: SamplingGrid, stride: Pair | None) -> SamplingGrid:
    if stride is None:
        return SamplingGrid(grid.part + 1)
    return SamplingGrid(grid.part, grid.rows * stride[0], grid.columns * stride[1])


def _ratio(source: int, target: int) -> int | None:
    if target % source == 0:
        return target // source
    return -(source // target) if source % target == 0 else None
