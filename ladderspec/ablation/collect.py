"""The results of runs, gathered: rows by columns, each measure over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladderspec.errors import UsageError
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.words import Quoted
from ladderspec.learn.journal import check, read_result, read_rows
from ladderspec.learn.words import TEACHER

Result = dict[str, Any]  # what result.json says


@dataclass(frozen=True)
class Measure:
    """What is measured: `digit.error`, in %."""

    name: str
    unit: str

    @property
    def task(self) -> str:
        """`digit`; `teacher.digit` of a Mean Teacher."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Place:
    """Where a cell stands: the names of its row and column, and what tables call them."""

    row: str
    column: str
    title: str
    heading: str


@dataclass(frozen=True)
class Cell:
    """The finished runs of a row and column."""

    place: Place
    values: dict[str, dict[int, float]]  # measure -> seed -> value
    paper: dict[str, Quoted]
    parameters: int | None
    split: str  # the data that the values are of; empty where no run is finished

    def quoted(self, measure: Measure) -> Quoted | None:
        """What the paper reports: by measure, or by task."""
        return self.paper.get(measure.name) or self.paper.get(measure.task)


@dataclass(frozen=True)
class Results:
    """An experiment and what came out of it."""

    title: str
    base: str  # the row that differences are to
    all_measures: tuple[Measure, ...]
    cells: tuple[Cell, ...]
    curves: dict[tuple[str, str, int], list[dict[str, Any]]] = field(repr=False)
    left_out: tuple[str, ...] = ()  # folders that hold other runs, and how those differ

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The first, most telling measure of each task, and of its teacher."""
        first = {measure.task: measure for measure in reversed(self.all_measures)}
        return tuple(measure for measure in self.all_measures if measure in first.values())

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.place.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.place.column for cell in self.cells))

    def cell(self, row: str, column: str) -> Cell:
        return next(c for c in self.cells if (c.place.row, c.place.column) == (row, column))


def collect(experiment: Experiment, runs: Sequence[Run], folder: Path) -> Results:
    """What the finished runs have measured in the end, from the JSON in their folders."""
    headings = {column.name: column.title or column.name for column in experiment.words.columns}
    found, left_out = _found(runs, folder)
    cells = []
    for row, column in dict.fromkeys((run.row, run.column) for run in runs):
        own = [run for run in runs if (run.row, run.column) == (row, column)]
        place = Place(row, column, own[0].title, headings.get(column, ""))
        cells.append(
            _cell(place, own[0].paper, {r.seed: found[r.id] for r in own if r.id in found})
        )
    return Results(
        title=experiment.words.title or experiment.name,
        base=experiment.words.base or experiment.words.rows[0].name,
        all_measures=_measures(found.values()),
        cells=tuple(cells),
        curves={
            (run.row, run.column, run.seed): read_rows(folder / run.id)
            for run in runs
            if run.id in found
        },
        left_out=left_out,
    )


def _found(runs: Sequence[Run], folder: Path) -> tuple[dict[str, Result], tuple[str, ...]]:
    """The results of finished runs by id; and what is wrong with other folders."""
    found, left_out = dict[str, Result](), list[str]()
    for run in runs:
        result = read_result(folder / run.id, run.facts())
        if result is not None:
            found[run.id] = result
            continue
        try:
            check(folder / run.id, run, resume=True)
        except UsageError as error:
            left_out.append(str(error))
    return found, tuple(left_out)


def _cell(place: Place, paper: dict[str, Quoted], results: Mapping[int, Result]) -> Cell:
    values, parameters, split = dict[str, dict[int, float]](), None, ""
    for seed, result in results.items():
        parameters = result["parameters"]
        split, metrics = _tested(result)
        for name, value in metrics.items():
            values.setdefault(name, {})[seed] = value
    return Cell(place, values, paper, parameters, split)


def _tested(result: Result) -> tuple[str, dict[str, float]]:
    """`test` and its measures; those of validation, where there are no test data."""
    metrics: dict[str, dict[str, float]] = result["metrics"]
    return next(
        ((split, metrics[split]) for split in ("test", "valid") if split in metrics), ("", {})
    )


def _measures(results: Iterable[Result]) -> tuple[Measure, ...]:
    """All that any run has measured."""
    units = dict[str, str]()
    for result in results:
        _, metrics = _tested(result)
        for name in metrics:
            units.setdefault(name, result["units"].get(name.removeprefix(TEACHER), ""))
    return tuple(Measure(name, unit) for name, unit in units.items())
