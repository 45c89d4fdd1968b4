"""The rows of the table, as the constructor writes them: equal rows in a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple

from ladderspec.cells import Cell
from ladderspec.cells.fields import STARTS
from ladderspec.export.source import WIDTH, block
from ladderspec.names import Side, node_name
from ladderspec.wiring.graph import Graph, table_rows


class ExportRow(NamedTuple):
    """One row: the level it makes from the one below it, and the decoder that inverts it."""

    below: str
    level: str
    fields: str  # what the spec says
    encoder: str  # the expressions that make its modules; empty if it has none
    decoder: str

    def lines(self, below: str, level: str) -> list[str]:
        """Its assignments, at these keys."""
        found = [f"encoder[{level}] = {self.encoder}"] if self.encoder else []
        return found + ([f"decoder[{below}] = {self.decoder}"] if self.decoder else [])

    @property
    def kind(self) -> tuple[str, ...]:
        """What rows of one loop have in common; `repeat` gives them one stem."""
        return (self.level.rpartition("_")[0], *self[2:])


def quoted(name: str) -> str:
    return f'"{name}"'


def table_lines(graph: Graph, modules: Mapping[str, str]) -> Iterator[str]:
    """The rows that are left of the spec's, each under what the spec says of it.

    Args:
        graph: The graph.
        modules: The expressions that make the modules, by node.
    """
    for _, group in groupby(_rows(graph, modules), key=lambda row: row.kind):
        first, *others = group
        last = f" ... {others[-1].level}" if others else ""
        yield from ["", *comment(first.level + last, first.fields)]
        if others:
            yield block(_head([first, *others]), first.lines("below", "level"))
        else:
            yield from first.lines(quoted(first.below), quoted(first.level))


def _rows(graph: Graph, modules: Mapping[str, str]) -> Iterator[ExportRow]:
    for level, below in table_rows(graph):
        nodes = node_name(Side.ENCODER, level), node_name(Side.DECODER, below)
        cells = [fields_of(graph.nodes[node]["cell"]) for node in nodes if node in graph]
        if cells:
            encoder, decoder = (modules.get(node, "") for node in nodes)
            yield ExportRow(below, level, " | ".join(cells), encoder, decoder)


def _head(rows: list[ExportRow]) -> str:
    """`for below, level in ...:`"""
    belows, levels = [row.below for row in rows], [row.level for row in rows]
    if not rows[0].decoder:
        return f"for level in [{', '.join(map(quoted, levels))}]:"
    if not rows[0].encoder:
        return f"for below in [{', '.join(map(quoted, belows))}]:"
    return f"for below, level in pairwise([{', '.join(map(quoted, [belows[0], *levels]))}]):"


def comment(name: str, fields: str) -> list[str]:
    """What the spec says of a row; what it says of the decoder goes below, if need be."""
    fields = " ".join(fields.split())  # a user's text may have several lines
    line = f"# {name}: {fields}"
    if len(line) <= WIDTH - 8:
        return [line]
    first, *others = fields.split(" | ")
    found = wrap(f"{name}: {first}", WIDTH - 8, initial_indent="# ", subsequent_indent="#     ")
    for other in others:
        found += wrap(other, WIDTH - 8, initial_indent="#   | ", subsequent_indent="#     ")
    return found


# --- what the spec says ---------------------------------------------------------------------------


def fields_of(cell: Cell) -> str:
    """
    >>> from ladderspec.cells.feedforward import Conv
    >>> fields_of(Conv(channels=32, filter=3, norm="joint"))
    'Conv, channels: 32, filter: 3, norm: joint'
    """
    said = cell.model_dump(exclude_unset=True)
    own = [name for name in said if name not in Cell.model_fields]
    fields = [name for name in (*own, "initial", "share") if name in said]
    return ", ".join([cell.cell, *(f"{name}: {_word(said[name])}" for name in fields)])


def _word(value: Any) -> str:
    if isinstance(value, dict):
        if value.keys() <= {"kind", "terms"}:  # of a norm
            return " ".join(value.values())
        return f"{{{', '.join(f'{name}: {_word(each)}' for name, each in value.items())}}}"
    if value in STARTS.values():
        return next(name for name, start in STARTS.items() if start == value)
    if isinstance(value, tuple):
        return str(value[0]) if len(value) == 2 and value[0] == value[1] else str(list(value))
    return str(value)
