"""The rows of the table, as the constructor writes them: repeated rows in a loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from ladderspec.cells import Cell
from ladderspec.cells.fields import Config, NormChoice
from ladderspec.export.source import WIDTH, fit
from ladderspec.names import Side, node_name
from ladderspec.wiring.graph import Graph, table_rows

FEW = 5  # names that are listed; more of them are counted
_NUMBER = re.compile(r"\b\d+\b")


@dataclass(frozen=True)
class ExportRow:
    """One row: the level it makes from the one below it, and the decoder that inverts it."""

    below: str
    level: str
    fields: str  # what the spec says
    encoder: str  # the expressions that make its modules; empty if it has none
    decoder: str

    def lines(self, below: str = "", level: str = "") -> list[str]:
        """Its assignments; under the variables `below` and `level`, if they are given."""
        found = []
        if self.encoder:
            found.append(f"encoder[{level or quoted(self.level)}] = {self.encoder}")
        if self.decoder:
            found.append(f"decoder[{below or quoted(self.below)}] = {self.decoder}")
        return found

    @property
    def form(self) -> tuple[str, str]:
        """Its expressions but for the numbers."""
        return _NUMBER.sub("0", self.encoder), _NUMBER.sub("0", self.decoder)

    @property
    def numbers(self) -> list[str]:
        return _NUMBER.findall(f"{self.encoder} {self.decoder}")


def quoted(name: str) -> str:
    return f'"{name}"'


def rows_of(graph: Graph, modules: Mapping[str, str]) -> list[ExportRow]:
    """The rows that are left of the spec's, in its order; `modules` are expressions by node."""
    found = []
    for level, below in table_rows(graph):
        nodes = node_name(Side.ENCODER, level), node_name(Side.DECODER, below)
        cells = [fields_of(graph.nodes[node]["cell"]) for node in nodes if node in graph]
        if cells:
            encoder, decoder = (modules.get(node, "") for node in nodes)
            found.append(ExportRow(below, level, " | ".join(cells), encoder, decoder))
    return found


def write(rows: Sequence[ExportRow]) -> Iterator[str]:
    """All rows, each under what the spec says of it."""
    rest = list(rows)
    while rest:
        run = _repeats(rest)
        looped = _loop(run) if len(run) > 1 else []
        run = run if looped else run[:1]
        names = run[0].level if len(run) == 1 else f"{run[0].level} ... {run[-1].level}"
        yield ""
        yield from comment(names, run[0].fields)
        yield from looped or run[0].lines()
        del rest[: len(run)]


def comment(name: str, fields: str) -> list[str]:
    """What the spec says of a row; what it says of the decoder goes below, if need be."""
    line = f"# {name}: {fields}"
    if len(line) <= WIDTH - 8:
        return [line]
    first, *others = fields.split(" | ")
    found = wrap(f"{name}: {first}", WIDTH - 8, initial_indent="# ", subsequent_indent="#     ")
    for other in others:
        found += wrap(other, WIDTH - 8, initial_indent="#   | ", subsequent_indent="#     ")
    return found


def _repeats(rows: Sequence[ExportRow]) -> list[ExportRow]:
    """The first row, and those after it that repeat it: conv_1, conv_2, ..."""
    stem, _, number = rows[0].level.rpartition("_")
    first = int(number) if number.isdecimal() else 0
    found = [rows[0]]
    for k, row in enumerate(rows[1:], start=first + 1):
        if not first or row.level != f"{stem}_{k}" or row.fields != rows[0].fields:
            break
        found.append(row)
    return found


def _loop(rows: Sequence[ExportRow]) -> list[str]:
    """One loop for several rows; none if they differ too much, or if two are as short."""
    columns = list(zip(*(row.numbers for row in rows), strict=False))
    varying = {column for column in columns if len(set(column)) > 1}
    if len({row.form for row in rows}) > 1 or len(varying) > 1:
        return []
    if varying and len(rows) > FEW:
        return []  # it is the first that differs: the others make a loop of their own
    widths = next(iter(varying), ())
    at = iter([column == widths for column in columns])
    body = replace(
        rows[0],
        encoder=_NUMBER.sub(lambda n: "ch" if next(at) else n[0], rows[0].encoder),
        decoder=_NUMBER.sub(lambda n: "ch" if next(at) else n[0], rows[0].decoder),
    )
    looped = [_head(rows, widths), *(f"    {line}" for line in body.lines("below", "level"))]
    plain = [line for row in rows for line in row.lines()]
    return looped if len(rows) > 2 or _length(looped) < _length(plain) else []


def _head(rows: Sequence[ExportRow], widths: Sequence[str]) -> str:
    """`for below, level in ...:`"""
    levels, belows = [row.level for row in rows], [row.below for row in rows]
    variables = ["below"] * bool(rows[0].decoder) + ["level"] * bool(rows[0].encoder)
    if not widths:
        if len(variables) == 2:
            return f"for below, level in pairwise({_list([belows[0], *levels])}):"
        return f"for {variables[0]} in {_list(levels if rows[0].encoder else belows)}:"
    names = [names for names, used in ((belows, "below"), (levels, "level")) if used in variables]
    values = zip(*([quoted(n) for n in column] for column in names), widths, strict=True)
    tuples = ", ".join(f"({', '.join(each)})" for each in values)
    return f"for {', '.join([*variables, 'ch'])} in ({tuples}):"


def _list(names: Sequence[str]) -> str:
    """
    >>> _list(["pool", "conv_1"])
    '["pool", "conv_1"]'
    >>> _list(["pool", *(f"conv_{k}" for k in range(1, 20))])
    '["pool", *(f"conv_{k}" for k in range(1, 20))]'
    """
    if len(names) <= FEW:
        return f"[{', '.join(map(quoted, names))}]"
    stem, _, last = names[-1].rpartition("_")
    first = int(last) - len(names) + 1
    if names[0] == f"{stem}_{first}":
        return f'[f"{stem}_{{k}}" for k in range({first}, {int(last) + 1})]'
    return f'["{names[0]}", *(f"{stem}_{{k}}" for k in range({first + 1}, {int(last) + 1}))]'


def _length(lines: Sequence[str]) -> int:
    return sum(len(fit(" " * 8 + line)) for line in lines)


# --- what the spec says ---------------------------------------------------------------------------


def fields_of(cell: Cell) -> str:
    """
    >>> from ladderspec.cells.feedforward import Conv
    >>> fields_of(Conv(channels=32, filter=3, norm="joint"))
    'Conv, channels: 32, filter: 3, norm: joint'
    """
    own = [name for name in type(cell).model_fields if name not in Cell.model_fields]
    fields = [name for name in (*own, "initial", "share") if name in cell.model_fields_set]
    return ", ".join([cell.cell, *(f"{name}: {_word(getattr(cell, name))}" for name in fields)])


def _word(value: Any) -> str:
    if isinstance(value, NormChoice):
        kind = [value.kind] if value.kind else []
        return " ".join([*kind, value.terms] if value.terms == "joint" or not kind else kind)
    if isinstance(value, Config):
        words = [f"{name}: {_word(getattr(value, name))}" for name in type(value).model_fields]
        return f"{{{', '.join(words)}}}"
    if isinstance(value, tuple):
        return str(value[0]) if len(value) == 2 and value[0] == value[1] else str(list(value))
    return str(value)
