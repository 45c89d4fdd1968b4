"""On which grid the values of a node lie: how rows stride between any two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ladderspec.names import INPUT, Shape, Side

if TYPE_CHECKING:
    from ladderspec.wiring.graph import Graph

Pair = tuple[int, int]


class Grid(NamedTuple):
    """One place stands for `rows` x `columns` places of the finest grid of its part.

    A row of unknown stride (a dense one, or a user's own cell) begins a new part.
    """

    part: int = 0
    rows: int = 1
    columns: int = 1


def level_grids(strides: Iterable[tuple[str, Pair | None]]) -> Mapping[str, Grid]:
    """The grids of all levels, from the strides of the rows that make them."""
    grid = Grid()
    found = {INPUT: grid}
    for level, stride in strides:
        grid = found[level] = _strided(grid, stride)
    return found


def grid_of(graph: Graph, node: str) -> Grid | None:
    """An encoder lies on the grid of its level, an estimate too, a copy on that of its source."""
    facts = graph.nodes[node]
    level: Grid = graph.graph["grids"][facts["level"]]
    if facts["side"] is Side.LATERAL:
        return _strided(level, facts["cell"].row_stride)
    estimated: Shape | None = graph.graph["level_shapes"].get(facts["level"])
    if facts["side"] is Side.ENCODER or estimated is None:
        return level
    shape: Shape = facts["shape"]
    if shape[1:] == estimated[1:]:
        return level
    sources = [graph.nodes[source] for source in graph.predecessors(node)]
    return next((s.get("grid") for s in sources if s.get("shape") == shape), None)


def stride_between(source: Grid | None, target: Grid | None) -> Pair | None:
    """Of an arrow between two grids; below 0 where it leads to a finer one, None if unknown.

    >>> stride_between(Grid(0, 1, 2), Grid(0, 4, 2)), stride_between(Grid(0, 4, 4), Grid())
    ((4, 1), (-4, -4))
    """
    if source is None or target is None or source.part != target.part:
        return None
    rows, columns = _ratio(source.rows, target.rows), _ratio(source.columns, target.columns)
    return None if rows is None or columns is None else (rows, columns)


def _strided(grid: Grid, stride: Pair | None) -> Grid:
    if stride is None:
        return Grid(grid.part + 1)
    return Grid(grid.part, grid.rows * stride[0], grid.columns * stride[1])


def _ratio(source: int, target: int) -> int | None:
    if target % source == 0:
        return target // source
    return -(source // target) if source % target == 0 else None
