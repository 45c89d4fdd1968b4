"""Train the runs of an experiment that are not finished, and show their progress."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ladderspec.ablation.jobs import Engine, Job, Outcome, run_here, waves
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.learn.progress import Callback, Display, numbers, read_status, without_nll
from ladderspec.learn.run_folder import check, read_result


@dataclass(frozen=True)
class AblationOptions:
    """How the runs of an ablation are trained."""

    output: Path
    resume: bool = False
    data: Path | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    plugins: tuple[Path, ...] = ()
    display: Display | None = None
    on_update: Callback | None = None  # for runs in this process
    on_evaluation: Callback | None = None


def ablate(
    experiment: Experiment, runs: Sequence[Run], options: AblationOptions, engine: Engine
) -> list[Outcome]:
    """Train the runs that are not finished. Returns the failed ones, with their errors."""
    unfinished = [run for run in runs if read_result(options.output / run.id, run) is None]
    for run in unfinished:  # before anything is trained
        check(options.output / run.id, run, options.resume)
    display = options.display or Display()
    display.total, display.done = len(runs), len(runs) - len(unfinished)
    failed = list[Outcome]()
    if display.done:
        display.say(f"{display.done} of {len(runs)} runs are finished already")
    with _sigterm_as_interrupt():
        for wave in waves(unfinished):
            jobs = [_job(experiment, run, options, display) for run in wave]
            statuses = {job.id: partial(read_status, job.folder, time.time()) for job in jobs}
            try:
                with display.following(statuses), closing(engine(jobs)) as outcomes:
                    for outcome in outcomes:
                        display.forget(outcome.job.id)
                        display.done += not outcome.error
                        failed += [outcome] if outcome.error else []
                        display.say(f"{_line(outcome)} ({display.done} of {len(runs)} runs)")
            except KeyboardInterrupt:
                if engine is not run_here:  # which reports it itself
                    display.say("interrupted; --resume continues")
                raise
    return failed


def _line(outcome: Outcome) -> str:
    if outcome.error:
        return f"{outcome.job.id} failed: {outcome.error}"
    metrics = (read_result(outcome.job.folder) or {"metrics": {}})["metrics"]
    shown = metrics.get("test") or metrics.get("valid") or {}
    return f"{outcome.job.id} finished: {numbers(without_nll(shown))}".removesuffix(": ")


def _job(experiment: Experiment, run: Run, options: AblationOptions, display: Display) -> Job:
    threads = {} if run.machine.threads is None else {"threads": run.machine.threads}
    return Job(
        experiment=experiment.path.resolve(),  # other processes have other working folders
        row=run.row,
        column=run.column,
        seed=run.seed,
        folder=options.output.resolve() / run.id,
        data=None if options.data is None else options.data.resolve(),
        machine={**threads, **options.machine},
        plugins=tuple(plugin.resolve() for plugin in options.plugins),
        changes=experiment.changes,
        run=run,
        display=display,
        on_update=options.on_update,
        on_evaluation=options.on_evaluation,
    )


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that no process is left behind."""
    if threading.current_thread() is not threading.main_thread():  # it gets no signals
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
