"""Results -> tables: our numbers, the difference from the base row, the paper's numbers.

An experiment with one column has one table, with a group of columns for each metric. An experiment
with several columns has a table for each metric, with a group for each column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from ladderspec.ablation.results import Measure, Results, TableCell
from ladderspec.ablation.statistics import PairedDifference, Spread, difference, spread
from ladderspec.experiments.config import Quoted

NOTHING = "-"
OURS, CHANGE, PAPER = "ours", "difference", "paper"
BETTER, WORSE, UNCLEAR = "better than", "worse than", "not clearly different from"
ONE_SEED = "One seed does not show how much is due to chance; --seeds 3 adds intervals."
_DATA = {
    ("test",): "Test data",
    ("valid",): "Validation data",
    ("test", "valid"): "Test data (validation data if there are none)",
}


@dataclass(frozen=True)
class TableEntry:
    """One number of a table, what it is compared with, and its number of decimals."""

    cell: TableCell
    measure: Measure
    ours: Spread | None
    change: PairedDifference | None  # to the base row
    decimals: int
    t: int | None = None  # the iteration; None: the metric over all that count

    @property
    def quoted(self) -> Quoted | None:
        """The paper's number."""
        return self.cell.quoted(self.measure, self.t)

    @property
    def paper(self) -> str:
        return "" if self.quoted is None else str(self.quoted)

    @property
    def due(self) -> bool:
        """Whether there is a number, ours or the paper's, or one may still be measured."""
        unfinished = self.cell.parameters is None and not self.cell.baseline
        return self.ours is not None or bool(self.paper) or unfinished

    def shown(self) -> str:
        """`3.21 ± 0.40`."""
        if self.ours is None:
            return NOTHING
        mean = f"{self.ours.mean:.{self.decimals}f}"
        if self.ours.deviation is None:
            return mean
        return f"{mean} ± {self.ours.deviation:.{self.decimals}f}"

    def changed(self) -> str:
        """`+1.20 [0.31, 2.09]`, with the 95 % confidence interval."""
        if self.change is None:
            return ""
        mean = f"{self.change.mean:+.{self.decimals}f}"
        if self.change.low is None or self.change.high is None:
            return mean
        low, high = (f"{end:.{self.decimals}f}" for end in (self.change.low, self.change.high))
        return f"{mean} [{low}, {high}]"


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of text under one heading."""

    heading: str
    entries: tuple[TableEntry, ...]  # one for each row

    def columns(self) -> list[tuple[str, list[str]]]:
        """The columns that are not empty."""
        found = [
            (OURS, [entry.shown() for entry in self.entries]),
            (CHANGE, [entry.changed() for entry in self.entries]),
            (PAPER, [entry.paper for entry in self.entries]),
        ]
        return [(name, texts) for name, texts in found if name == OURS or any(texts)]

    def verdict(self, base: str) -> str:
        """What the intervals of the differences say, as a sentence; empty if there are none."""
        found: dict[str, list[str]] = {BETTER: [], WORSE: [], UNCLEAR: []}
        for entry in self.entries:
            if entry.change is not None and entry.change.low is not None:
                better = (entry.change.mean > 0) != entry.measure.higher
                side = (BETTER if better else WORSE) if entry.change.clear else UNCLEAR
                found[side].append(quoted(entry.cell.title))
        parts = [f"{side} {listed(titles)}" for side, titles in found.items() if titles]
        if unclear := found[UNCLEAR]:
            why = "its interval contains 0" if len(unclear) == 1 else "their intervals contain 0"
            parts[-1] += f" ({why})"
        if not parts:
            return ""
        text = ", and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
        return self._sentence(f"{quoted(base)} is {text}")

    def best(self, base: str) -> str:
        """Which of the trained networks is best, as a sentence; empty without differences."""
        means = {
            entry.cell.title: entry.ours.mean
            for entry in self.entries
            if entry.ours is not None and not entry.cell.baseline
        }
        shown = {entry.cell.title: entry.shown() for entry in self.entries}
        if base not in means or all(entry.change is None for entry in self.entries):
            return ""
        best = (max if self.entries[0].measure.higher else min)(means, key=lambda each: means[each])
        beside = "" if best == base else f"; {quoted(base)} has {shown[base]}"
        return self._sentence(f"{quoted(best)} is best ({shown[best]}){beside}")

    def _sentence(self, text: str) -> str:
        return f"{self.heading[:1].upper()}{self.heading[1:]}: {text}."


@dataclass(frozen=True)
class Table:
    """A table: rows of the experiment, and groups of columns."""

    title: str
    rows: tuple[str, ...]
    base: str  # title of the row that others are compared with
    parameters: tuple[tuple[int, ...], ...]  # of each row; several if its columns differ
    groups: tuple[ColumnGroup, ...]
    about_data: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The numbers of seeds of all entries, without repetition."""
        entries = [entry for group in self.groups for entry in group.entries]
        return tuple(sorted({entry.ours.count for entry in entries if entry.ours is not None}))

    @property
    def verdicts(self) -> str:
        """Which rows are better and worse by their intervals; or the best one of one seed."""
        one = self.seeds == (1,)
        texts = [g.best(self.base) if one else g.verdict(self.base) for g in self.groups]
        return " ".join(filter(None, [*texts, ONE_SEED if one and any(texts) else ""]))

    @property
    def note(self) -> str:
        """A note about data, seeds and differences."""
        if not self.seeds:
            return "No run is finished yet."
        count = " to ".join(str(n) for n in dict.fromkeys((self.seeds[0], self.seeds[-1])))
        entries = [entry for group in self.groups for entry in group.entries]
        splits = {entry.cell.split for entry in entries if entry.ours is not None}
        seeds = f"mean ± standard deviation over {count} seeds"
        found = f"{_DATA[tuple(sorted(splits))]}, {'one seed' if self.seeds == (1,) else seeds}."
        changes = [entry.change for entry in entries if entry.change is not None]
        if changes:
            paired = "" if self.seeds == (1,) else ", paired by seed"
            sure = any(change.low is not None for change in changes)
            paired += ", with 95 % confidence intervals (Student's t)" if sure else ""
            found += f" Differences are from {quoted(self.base)}{paired}."
        references = [entry.cell for entry in self.groups[0].entries if entry.cell.baseline]
        if references:
            lines = "line is a" if len(references) == 1 else f"{len(references)} lines are"
            method = "reference method" + ("" if len(references) == 1 else "s")
            items = max(cell.baseline for cell in references)
            found += f" The last {lines} {method} without training"
            found += f", measured on the first {items:,} items."
        return f"{found} {self.about_data}".rstrip()


def quoted(title: str) -> str:
    """A title in a sentence: in quotation marks if it has several words."""
    return f'"{title}"' if " " in title else title


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def tables(results: Results) -> list[Table]:
    """The tables of an experiment."""
    if len(results.columns) == 1:
        groups = [
            group(results, results.columns[0], measure, label(measure))
            for measure in results.measures
        ]
        return [_table(results, results.title, groups)]
    return [
        _due(_table(results, f"{results.title}: {label(measure)}", groups_of(results, measure)))
        for measure in results.measures
    ]


def tables_by_time(results: Results) -> list[Table]:
    """A table for each metric and column, with a group of columns for each t; or none."""
    found = []
    for measure in results.measures if results.times else ():
        for column in results.columns:
            cells = [results.cell(row, column) for row in results.rows]
            if not any(cell.by_time.get(measure.name) for cell in cells):
                continue
            what = f"{label(measure)} by {unit_of_time(cells)}"
            title = ": ".join(filter(None, [results.title, cells[0].heading, what]))
            groups = [group(results, column, measure, f"t = {t}", t) for t in results.times]
            found.append(_due(_table(results, title, groups)))
    return found


def unit_of_time(cells: Sequence[TableCell]) -> str:
    """What t counts."""
    return "iteration" if any(cell.time.iterations for cell in cells) else "frame"


def _due(table: Table) -> Table:
    """Without rows and groups that cannot have such a number."""
    groups = [group for group in table.groups if any(entry.due for entry in group.entries)]
    due = [any(group.entries[i].due for group in groups) for i in range(len(table.rows))]
    return replace(
        table,
        rows=tuple(compress(table.rows, due)),
        parameters=tuple(compress(table.parameters, due)),
        groups=tuple(ColumnGroup(g.heading, tuple(compress(g.entries, due))) for g in groups),
    )


def groups_of(results: Results, measure: Measure) -> list[ColumnGroup]:
    """A metric in all columns of the experiment."""
    first = results.rows[0]
    return [
        group(results, column, measure, results.cell(first, column).heading)
        for column in results.columns
    ]


def label(measure: Measure) -> str:
    """
    >>> label(Measure("next_frame.error", "x 1e-5"))
    'next frame error (x 1e-5)'
    >>> label(Measure("segment.ami", ""))
    'segment AMI'
    """
    name = re.sub(r"[._]", " ", measure.name)
    name = re.sub(r"\bami\b", "AMI", name)
    return f"{name} ({measure.unit})" if measure.unit else name


def _table(results: Results, title: str, groups: Sequence[ColumnGroup]) -> Table:
    cells = [results.cell(row, results.columns[0]) for row in results.rows]
    rows = tuple(cell.title for cell in cells)
    base = results.cell(results.base, results.columns[0]).title
    counts = [
        {cell.parameters: None for cell in results.cells if cell.row == row} for row in results.rows
    ]
    parameters = tuple(tuple(n for n in count if n is not None) for count in counts)
    return Table(title, rows, base, parameters, tuple(groups), results.about_data)


def group(
    results: Results, column: str, measure: Measure, heading: str, t: int | None = None
) -> ColumnGroup:
    """A metric in one column of the experiment, row by row; with `t`, at the t-th iteration."""
    cells = [results.cell(row, column) for row in results.rows]
    spreads = [spread(cell.by_seed(measure).values()) for cell in cells]
    decimals = _decimals([found.mean for found in spreads if found is not None])
    entries = (entry_of(results, cell, measure, t, decimals) for cell in cells)
    return ColumnGroup(heading, tuple(entries))


def entry_of(
    results: Results, cell: TableCell, measure: Measure, t: int | None = None, decimals: int = 0
) -> TableEntry:
    """A metric of a cell, and its difference from the base row; none at single iterations."""
    base, values = results.cell(results.base, cell.column), cell.by_seed(measure, t)
    compared = t is None and cell is not base
    change = difference(values, base.by_seed(measure)) if compared else None
    return TableEntry(cell, measure, spread(values.values()), change, decimals, t)


def _decimals(means: Sequence[float]) -> int:
    """The number of decimals, as in the paper: 0.74, 150.1.

    >>> _decimals([0.74, 2.02]), _decimals([150.1]), _decimals([0.0123])
    (2, 1, 4)
    """
    largest = max((abs(mean) for mean in means), default=1.0)
    return next((digits for bound, digits in ((0.1, 4), (100, 2), (1e4, 1)) if largest < bound), 0)
