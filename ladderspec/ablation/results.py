"""The results of an experiment: rows by columns, each metric over seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ladderspec.ablation.baselines import Scores, read_baselines
from ladderspec.errors import UsageError
from ladderspec.experiments.config import Quoted, base_row
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.training import TEACHER, EvaluationNoise, noise_of, tasks_of
from ladderspec.learn.log import read_rows
from ladderspec.learn.run_folder import changed_inputs, check, damaged_result, read_result
from ladderspec.wiring.graph import steps_of

Result = dict[str, Any]  # content of result.json
Curves = dict[tuple[str, str, int], list[dict[str, Any]]]  # rows of metrics by row, column and seed


@dataclass(frozen=True)
class Measure:
    """A metric and its unit: `digit.error`, in %."""

    name: str
    unit: str
    higher: bool = False  # whether higher is better

    @property
    def task(self) -> str:
        """The task: `digit`, or `teacher.digit` of a Mean Teacher."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class TimeAxis:
    """How time runs in a network, and which metrics count at its last iteration alone."""

    iterations: bool  # on one input, not over frames
    steps: int | None  # None: any number of frames
    last: frozenset[str]


@dataclass(frozen=True)
class TableCell:
    """A cell of the table: the finished runs of a row and column, or a reference method."""

    row: str
    column: str
    title: str  # of the row
    heading: str  # title of the column
    values: dict[str, dict[int, float]]  # metric -> seed -> value
    by_time: dict[str, dict[int, list[float]]]  # metric -> seed -> value at t = 1, 2, ...
    paper: dict[str, Quoted]
    parameters: int | None
    split: str  # the data that were measured; empty if no run is finished
    time: TimeAxis
    baseline: int = 0  # number of items that a reference method was measured on; 0: a network

    def quoted(self, measure: Measure, t: int | None = None) -> Quoted | None:
        """The paper's number, by metric or by task; with `t`, that of the t-th iteration."""
        found = self.paper.get(measure.name) or self.paper.get(measure.task)
        if found is None or t is None:
            return found
        if found.by_time:
            return found.by_time[t - 1] if t <= len(found.by_time) else None
        return found if t == self.time.steps and measure.name in self.time.last else None

    def by_seed(self, measure: Measure, t: int | None = None) -> dict[int, float]:
        """The metric by seed; with `t`, at the t-th iteration."""
        if t is None:
            return self.values.get(measure.name, {})
        found = self.by_time.get(measure.name, {})
        return {seed: values[t - 1] for seed, values in found.items() if t <= len(values)}


@dataclass(frozen=True)
class Results:
    """All results of an experiment."""

    title: str
    base: str  # the row that others are compared with
    all_measures: tuple[Measure, ...]
    cells: tuple[TableCell, ...]
    curves: Curves = field(repr=False)
    left_out: tuple[str, ...] = ()  # messages about folders that hold other runs
    changed: Mapping[str, list[str]] = field(default_factory=dict)  # inputs, and runs of others
    show_times: bool = False  # metrics at every t, also if time runs over frames
    about_data: str = ""  # what a reader must know of the data

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The main metric of each task, and of its teacher."""
        first = {measure.task: measure for measure in reversed(self.all_measures)}
        return tuple(measure for measure in self.all_measures if measure in first.values())

    @property
    def times(self) -> range:
        """The t at which metrics are shown one by one; empty if they are not."""
        several = any(cell.time.iterations and (cell.time.steps or 0) > 1 for cell in self.cells)
        shown = [measure.name for measure in self.measures] if self.show_times or several else []
        lengths = [
            len(values)
            for cell in self.cells
            for name in shown
            for values in cell.by_time.get(name, {}).values()
        ]
        return range(1, max(lengths, default=0) + 1)

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def networks(self) -> list[str]:
        """The rows without reference methods."""
        return list(dict.fromkeys(c.row for c in self.cells if not c.baseline))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.column for cell in self.cells))

    def cell(self, row: str, column: str) -> TableCell:
        return next(c for c in self.cells if (c.row, c.column) == (row, column))


def collect(
    experiment: Experiment,
    runs: Sequence[Run],
    folder: Path,
    show_times: bool = False,
    data: Path | None = None,
) -> Results:
    """Collect the results of all finished runs from their folders.

    Args:
        experiment: the experiment.
        runs: its runs, with the seeds that count.
        folder: the folder of the folders of the runs.
        show_times: show metrics at every t, also if time runs over frames.
        data: the data folder.
    """
    headings = {column.name: column.title or column.name for column in experiment.config.columns}
    found, curves, left_out = _found(runs, folder, data)
    cells = []
    for row, column in dict.fromkeys((run.row, run.column) for run in runs):
        same = [run for run in runs if (run.row, run.column) == (row, column)]
        finished = {run.seed: found[run.id] for run in same if run.id in found}
        cells.append(_cell(same[0], headings.get(column, ""), finished))
    measures = _measures((run, found[run.id]) for run in runs if run.id in found)
    stored = read_baselines(experiment, runs, folder, data)
    changed: dict[str, list[str]] = {}
    for run in runs:
        if run.id in found and (what := changed_inputs(folder / run.id, run, data)):
            changed.setdefault(what, []).append(run.id)
    return Results(
        title=experiment.config.title or experiment.name,
        base=base_row(experiment.config),
        all_measures=measures,
        cells=(*cells, *_baselines(stored, cells, measures, {run.seed for run in runs})),
        curves=curves,
        left_out=tuple(left_out),
        changed=changed,
        show_times=show_times,
        about_data=" ".join(filter(None, dict.fromkeys(run.data.note for run in runs))),
    )


def _found(
    runs: Sequence[Run], folder: Path, data: Path | None
) -> tuple[dict[str, Result], Curves, list[str]]:
    """The results of finished runs by id, their curves, and messages about what is left out."""
    found, curves, left_out = dict[str, Result](), Curves(), list[str]()
    for run in runs:
        result = read_result(folder / run.id, run)
        if result is not None:
            found[run.id] = result
            try:
                rows = read_rows(folder / run.id, result)
            except UsageError as error:  # the result has a checksum of its own
                rows = []
                left_out.append(f"the learning curve of {run.id}: {error}")
            curves[run.row, run.column, run.seed] = rows
            continue
        if damaged_result(folder / run.id):
            left_out.append(
                f"{folder / run.id / 'result.json'} is damaged; --resume writes it again"
            )
        try:
            check(folder / run.id, run, resume=True, data=data)
        except UsageError as error:
            left_out.append(str(error))
    return found, curves, left_out


def _cell(run: Run, heading: str, results: Mapping[int, Result]) -> TableCell:
    values, parameters, split = dict[str, dict[int, float]](), None, ""
    by_time, time = dict[str, dict[int, list[float]]](), _time(run)
    for seed, result in results.items():
        parameters = result["parameters"]
        split, metrics = _tested(run, result)
        times = result.get("by_time", {}).get(split, {})
        for name, value in metrics.items():
            if times.get(name):
                by_time.setdefault(name, {})[seed] = times[name]
                # Early runs recorded the mean of all iterations instead.
                value = times[name][-1] if name in time.last else value
            values.setdefault(name, {})[seed] = value
    names = run.row, run.column, run.title, heading
    return TableCell(*names, values, by_time, run.paper, parameters, split, time)


def _baselines(
    stored: Sequence[Scores],
    cells: Sequence[TableCell],
    measures: Sequence[Measure],
    seeds: Collection[int],
) -> Iterator[TableCell]:
    """Reference methods, row by row, with their scores of the seeds that count."""
    for title in dict.fromkeys(scores.title for scores in stored):
        for column, heading in dict.fromkeys((cell.column, cell.heading) for cell in cells):
            time = TimeAxis(False, None, frozenset())  # at no t
            cell = TableCell(title, column, title, heading, {}, {}, {}, None, "", time, baseline=1)
            for scores in stored:
                if (scores.title, scores.column) == (title, column):
                    wanted = {seed: x for seed, x in scores.values.items() if seed in seeds}
                    names = [m.name for m in measures if scores.belong_to(m.name, m.unit)]
                    values = dict.fromkeys(names, wanted)
                    cell = replace(cell, values=values, split=scores.split, baseline=scores.items)
            yield cell


def _time(run: Run) -> TimeAxis:
    still = run.graph.graph["frames"] is None
    noise, tasks = EvaluationNoise(run.evaluation.noise, noise_of(run.graph)), tasks_of(run.graph)
    last = frozenset(
        f"{name}.{prefix}{metric}"
        for name, task in tasks.items()
        for prefix in noise.inputs(task)
        for metric, each in task.metrics.items()
        if task.when == "last" or (each.last and still)
    )
    return TimeAxis(still, steps_of(run.graph), last)


def _tested(run: Run, result: Result) -> tuple[str, dict[str, float]]:
    """The split of `evaluation` and its metrics, or `valid` if there are no test data."""
    metrics: dict[str, dict[str, float]] = result["metrics"]
    splits = (run.evaluation.split, "valid")
    return next(((split, metrics[split]) for split in splits if split in metrics), ("", {}))


def _measures(results: Iterable[tuple[Run, Result]]) -> tuple[Measure, ...]:
    """All metrics of any run."""
    found = dict[str, Measure]()
    for run, result in results:
        _, metrics = _tested(run, result)
        for name in metrics:
            plain = name.removeprefix(TEACHER)
            higher = plain in result.get("higher_is_better", ())
            found.setdefault(name, Measure(name, result["units"].get(plain, ""), higher))
    return tuple(found.values())
