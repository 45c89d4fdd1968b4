"""Experiments from Python: train, ablate and evaluate, with results that notebooks show."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ladderspec.ablation.ablate import AblationOptions
from ladderspec.ablation.ablate import ablate as train_all
from ladderspec.ablation.engines import choose
from ladderspec.ablation.report import AblationReport, report
from ladderspec.arguments import checked
from ladderspec.errors import UsageError
from ladderspec.escaping import html_table
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Experiment, Run, on_machine
from ladderspec.language.read import Request
from ladderspec.learn.metrics import Report
from ladderspec.learn.progress import Callback, Display
from ladderspec.learn.setup import check_runs
from ladderspec.learn.train import train as train_run
from ladderspec.trained.evaluate import evaluate as evaluate_run
from ladderspec.trained.run import open_run


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Attributes:
        id: Its name, like `rladder.seed0`.
        folder: The folder with its weights, metrics and pictures; `ladderspec.evaluate` opens it.
        result: The content of `result.json`.
    """

    id: str
    folder: Path
    result: dict[str, Any] = field(repr=False)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics by split and name: `metrics["test"]["digit.error"]`."""
        found: dict[str, dict[str, float]] = self.result["metrics"]
        return found


class FinishedRuns(tuple[FinishedRun, ...]):
    """Finished runs; a notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown = [(run, split) for run in self for split in run.metrics]
        names = list(dict.fromkeys(name for run, split in shown for name in run.metrics[split]))
        rows = [
            [run.id, split, f"{run.result['updates']:,}"]
            + [f"{run.metrics[split][n]:.4g}" if n in run.metrics[split] else "" for n in names]
            for run, split in shown
        ]
        return html_table(["run", "data", "updates", *names], rows)


@checked
def train(
    experiment: str | Path | Experiment,
    *,
    rows: str | Iterable[str] | None = None,
    columns: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
    set: Mapping[str, Any] | str | Sequence[str] = (),
    output: str | Path | None = None,
    resume: bool = True,
    data: str | Path | None = None,
    quiet: bool = False,
    on_update: Callback | None = None,
    on_evaluation: Callback | None = None,
    **machine: Any,
) -> FinishedRuns:
    """Train runs of an experiment, one after another. A finished run is not repeated.

        ls.train("experiment.yaml", rows="rladder", on_evaluation=lambda event: print(event.values))

    Args:
        experiment: The experiment file.
        rows: The rows to train. Default: all.
        columns: The columns to train. Default: all.
        seeds: The seeds to train. Default: those of the file.
        set: Fields to change in all runs: `{"training.updates": 300, "params.width": 8}`.
        output: The folder that gets one folder per run. Default: `out/NAME`.
        resume: Continue runs that were interrupted; otherwise their folders are refused.
        data: The data folder. Default: that of the environment.
        quiet: Show no progress.
        on_update: Called after every update with an `Event`: run, update, total, split, values.
        on_evaluation: Called after every evaluation with an `Event`.
        **machine: Fields of the section `machine` to change: `threads`, `workers`, `device`.

    Returns:
        The finished runs, as a tuple with a table for notebooks.
    """
    chosen = _seeds(seeds)
    _, runs, folder = _selected(experiment, rows, columns, chosen, set, output, machine)
    root = Path(data) if data is not None else None
    check_runs(runs, folder, root)
    display = Display(quiet=quiet, total=len(runs))
    found = []
    for run in runs:
        result = train_run(
            run, folder / run.id, resume=resume, data=root, display=display,
            on_update=on_update, on_evaluation=on_evaluation,
        )  # fmt: skip
        display.done += 1
        found.append(FinishedRun(run.id, folder / run.id, result))
    return FinishedRuns(found)


@checked
def ablate(
    experiment: str | Path | Experiment,
    *,
    rows: str | Iterable[str] | None = None,
    columns: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
    set: Mapping[str, Any] | str | Sequence[str] = (),
    output: str | Path | None = None,
    processes: int | None = None,
    resume: bool = True,
    data: str | Path | None = None,
    by_time: bool = False,
    quiet: bool = False,
    on_update: Callback | None = None,
    on_evaluation: Callback | None = None,
    **machine: Any,
) -> AblationReport:
    """Train all runs of an experiment, and compare them. Finished runs are not repeated.

        report = ls.ablate("experiment.yaml", seeds=range(3), processes=2)
        report                              # the tables, in a notebook
        pandas.DataFrame(report.records)    # all numbers

    Args:
        experiment: The experiment file.
        rows: The rows to train; the table has all that are finished. Default: all.
        columns: The columns to train. Default: all.
        seeds: The seeds to train. Default: those of the file.
        set: Fields to change in all runs: `{"training.updates": 300, "params.width": 8}`.
        output: The folder of runs, tables and figures. Default: `out/NAME`.
        processes: The number of processes at once, which share the cores. Default: this process.
        resume: Continue runs that were interrupted; otherwise their folders are refused.
        data: The data folder. Default: that of the environment.
        by_time: Add metrics at every t, also over frames.
        quiet: Show no progress.
        on_update: Called after every update with an `Event`; not with `processes`.
        on_evaluation: Called after every evaluation with an `Event`; not with `processes`.
        **machine: Fields of the section `machine` to change: `threads`, `device`.

    Returns:
        The tables, the files that were written, and the runs that failed.
    """
    if processes is not None and (on_update or on_evaluation):
        raise UsageError("callbacks are called in this process: leave `processes` out")
    chosen = _seeds(seeds)
    opened, runs, folder = _selected(experiment, rows, columns, chosen, set, output, machine)
    root = Path(data) if data is not None else None
    check_runs(runs, folder, root)
    options = AblationOptions(
        folder, resume, root, machine, display=Display(quiet=quiet),
        on_update=on_update, on_evaluation=on_evaluation,
    )  # fmt: skip
    failed = train_all(opened, runs, options, choose(None, processes, folder))
    of_all = opened.select(seeds=dict.fromkeys([*(run.seed for run in opened), *chosen]))
    found = report(opened, of_all, folder, root, by_time=by_time, display=Display(quiet=quiet))
    return replace(found, failed=tuple(failed))


@checked
def evaluate(
    run: str | Path,
    split: Literal["train", "valid", "test"] = "test",
    *,
    without: str | Sequence[str] = (),
    checkpoint: Literal["best", "last"] | None = None,
    statistics: int | None = None,
    noise: bool | None = None,
    data: str | Path | None = None,
) -> Report:
    """Measure a trained network, whole or with arrows removed.

        ls.evaluate("out/quickstart/both.seed0", without="decoder_to_encoder")

    Args:
        run: The folder of a run, or one of its checkpoints.
        split: The data to measure: `train`, `valid` or `test`.
        without: Selectors of what is removed from the trained network.
        checkpoint: `best` or `last`. Default: the one that the result of the run reports.
        statistics: The number of training batches to recalibrate batch norm on. Default: as in
            the run.
        noise: Whether all tasks are measured on noisy input, or all on clean input. Default: as
            in the run.
        data: The data folder. Default: that of the environment.

    Warns:
        UserWarning: if own data or a plug-in file have changed since the run was trained.

    Returns:
        The metrics: one number each, by iteration, and confusion matrices.
    """
    opened = open_run(run, checkpoint, Path(data) if data is not None else None)
    for note in opened.notes:
        warnings.warn(note, stacklevel=2)
    return evaluate_run(
        opened, split, (without,) if isinstance(without, str) else without, statistics, noise
    )


def _selected(
    experiment: str | Path | Experiment,
    rows: str | Iterable[str] | None,
    columns: str | Iterable[str] | None,
    seeds: tuple[int, ...],
    set: Mapping[str, Any] | str | Sequence[str],
    output: str | Path | None,
    machine: dict[str, Any],
) -> tuple[Experiment, tuple[Run, ...], Path]:
    some_rows, some_columns = _several("rows", rows), _several("columns", columns)
    changes = Request.of(set=set).set
    if not isinstance(experiment, Experiment):
        opened = open_experiment(experiment, changes=changes, rows=some_rows, columns=some_columns)
    elif changes:
        raise UsageError("`set` changes a file: give the path of the experiment")
    else:
        opened = experiment
    chosen = opened.select(some_rows, some_columns, seeds)
    runs = on_machine(chosen, machine)
    return opened, runs, Path(output) if output is not None else Path("out") / opened.name


def _several(name: str, given: Any) -> tuple[Any, ...]:
    """One or several of something as a tuple; empty if all are meant."""
    if given is None:
        return ()
    several = isinstance(given, Iterable) and not isinstance(given, str)
    found = tuple(given) if several else (given,)
    if not found:
        raise UsageError(f"`{name}` is empty; leave it out to choose all")
    return found


def _seeds(seeds: int | Iterable[int] | None) -> tuple[int, ...]:
    return tuple(int(s) if isinstance(s, np.integer) else s for s in _several("seeds", seeds))
