"""The results of runs, gathered: rows by columns, each measure over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.words import Quoted
from ladderspec.learn.journal import read_result
from ladderspec.learn.words import TEACHER

SPLIT = "test"


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

    def quoted(self, measure: Measure) -> Quoted | None:
        """What the paper reports: by measure, or by task."""
        return self.paper.get(measure.name) or self.paper.get(measure.task)


@dataclass(frozen=True)
class Results:
    """An experiment and what came out of it."""

    title: str
    measures: tuple[Measure, ...]  # the first of each task
    cells: tuple[Cell, ...]

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.place.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.place.column for cell in self.cells))

    def cell(self, row: str, column: str) -> Cell:
        return next(c for c in self.cells if (c.place.row, c.place.column) == (row, column))


def collect(experiment: Experiment, runs: Sequence[Run], folder: Path) -> Results:
    """What the finished runs have measured on test data."""
    headings = {column.name: column.title or column.name for column in experiment.words.columns}
    cells, units = list[Cell](), dict[str, str]()
    for row, column in dict.fromkeys((run.row, run.column) for run in runs):
        own = [run for run in runs if (run.row, run.column) == (row, column)]
        place = Place(row, column, own[0].title, headings.get(column, ""))
        cell, found = _cell(own, folder, place)
        cells.append(cell)
        units |= {name: unit for name, unit in found.items() if name not in units}
    title = experiment.words.title or experiment.name
    return Results(title, tuple(_measures(units)), tuple(cells))


def _cell(runs: Iterable[Run], folder: Path, place: Place) -> tuple[Cell, dict[str, str]]:
    values, units = dict[str, dict[int, float]](), dict[str, str]()
    paper, parameters = dict[str, Quoted](), None
    for run in runs:
        paper = run.paper
        result = read_result(folder / run.id, run.facts())
        if result is None:
            continue
        parameters = result["parameters"]
        split = SPLIT if SPLIT in result["metrics"] else next(iter(result["metrics"]), "")
        for name, value in result["metrics"].get(split, {}).items():
            values.setdefault(name, {})[run.seed] = value
            units[name] = result["units"].get(name.removeprefix(TEACHER), "")
    return Cell(place, values, paper, parameters), units


def _measures(units: dict[str, str]) -> Iterable[Measure]:
    """The first, most telling measure of each task, and of its teacher."""
    seen = set[str]()
    for name, unit in units.items():
        measure = Measure(name, unit)
        if measure.task not in seen:
            seen.add(measure.task)
            yield measure
