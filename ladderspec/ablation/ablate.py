"""Train the runs of an experiment that are not finished: jobs, and the loop over their outcomes."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ladderspec.errors import LadderspecError, UsageError, memory_missing
from ladderspec.experiments.identity import unnoticed
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.training import MachineConfig
from ladderspec.learn.progress import Callback, Display
from ladderspec.learn.run_folder import changed_inputs, check, read_result
from ladderspec.learn.status import read_status, show_measures, without_nll

OPTIONS = ("threads", "workers", "device")  # of the command line, about the machine
TRIES = 4  # how often a run is started if its process is killed


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
    output = options.output
    finished = {run.id for run in runs if read_result(output / run.id, run) is not None}
    unfinished = [run for run in runs if run.id not in finished]
    for run in runs if unfinished else ():  # before anything is trained
        if run.id not in finished:
            check(output / run.id, run, options.resume, options.data)
        elif what := changed_inputs(output / run.id, run, options.data):
            raise UsageError(
                f"{output / run.id} was trained with other {what} than those that are there now,"
                " which the other runs would use; restore them, or train all runs in another folder"
            )
    display = options.display or Display()
    display.total, display.done = len(runs), len(runs) - len(unfinished)
    failed = list[Outcome]()
    if display.done:
        display.say(f"{display.done} of {len(runs)} runs are finished already")
        if message := unnoticed(run for run in runs if run.id in finished):
            display.say(message)
    with _interrupts(display):
        for ready in rounds(unfinished):
            jobs = [_job(experiment, run, options, display) for run in ready]
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


def rounds(runs: Iterable[Run]) -> list[list[Run]]:
    """Groups of runs in the order of training: a run comes after the one that it starts from."""
    left = list(runs)
    found: list[list[Run]] = []
    while left:
        waiting = {run.id for run in left}
        ready = [run for run in left if run.origin is None or run.origin.id not in waiting]
        found.append(ready)
        left = [run for run in left if run not in ready]
    return found


def _line(outcome: Outcome) -> str:
    if outcome.error:
        return f"{outcome.job.id} failed: {outcome.error}"
    metrics = (read_result(outcome.job.folder) or {"metrics": {}})["metrics"]
    shown = metrics.get("test") or metrics.get("valid") or {}
    return f"{outcome.job.id} finished: {show_measures(without_nll(shown))}".removesuffix(": ")


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
def _interrupts(display: Display) -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that no process is left behind; the display shows both."""
    if threading.current_thread() is not threading.main_thread():  # it gets no signals
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        display.stop()
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- jobs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One run of an experiment file, and its folder."""

    experiment: Path
    row: str
    column: str
    seed: int
    folder: Path
    data: Path | None = None
    machine: dict[str, Any] = field(default_factory=dict)  # overrides the section of the file
    plugins: tuple[Path, ...] = ()
    changes: tuple[str, ...] = ()  # PATH=VALUE
    # In this process alone:
    run: Run | None = field(default=None, repr=False, compare=False)
    display: Display | None = field(default=None, repr=False, compare=False)
    on_update: Callback | None = field(default=None, repr=False, compare=False)
    on_evaluation: Callback | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens the run itself."""
        here = ("run", "display", "on_update", "on_evaluation")
        return {**self.__dict__, **dict.fromkeys(here)}

    @property
    def id(self) -> str:
        return self.folder.name

    def on(self, **machine: Any) -> Job:
        """The job with other settings of the machine."""
        return replace(self, machine={**self.machine, **machine})

    @property
    def settings(self) -> MachineConfig:
        """The machine section of its file with the changes of this job."""
        machine = MachineConfig() if self.run is None else self.run.machine
        return machine.changed(self.machine)

    def arguments(self) -> list[str]:
        """The job as arguments of the command line."""
        found = ["train", str(self.experiment), "--row", self.row, "--seed", str(self.seed)]
        found += ["--column", self.column] if self.column else []
        found += ["-o", str(self.folder.parent), "--resume"]
        found += ["--data", str(self.data)] if self.data is not None else []
        for plugin in self.plugins:
            found += ["--plugin", str(plugin)]
        for change in self.changes:
            found += ["--set", change]
        for name, value in self.machine.items():
            option = [f"--{name}", str(value)] if name in OPTIONS else None
            found += option or ["--set", f"machine.{name}={json.dumps(value)}"]
        return found


@dataclass(frozen=True)
class Resources:
    """What one run asks of a cluster."""

    threads: int
    cpus: int
    gpus: int
    memory: float | None  # gigabytes
    hours: float

    @classmethod
    def of(cls, job: Job) -> Resources:
        machine, asked = job.settings, job.settings.cluster
        threads = machine.threads or 1
        gpus = asked.gpus if asked.gpus is not None else int(machine.device.startswith("cuda"))
        cpus = asked.cpus or threads + machine.workers
        return cls(threads, cpus, gpus, asked.memory, asked.hours)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: finished, or an error."""

    job: Job
    error: str = ""


# An engine trains jobs and yields their outcomes. Closing the generator stops what it has started.
Engine = Callable[[Sequence[Job]], Generator[Outcome, None, None]]


def perform(job: Job) -> Outcome:
    """Train the run of a job in this process, or resume it."""
    from ladderspec.learn.train import train
    from ladderspec.plugins import load_plugin

    run = job.run
    if run is None:
        for plugin in job.plugins:
            load_plugin(plugin)
        rows, columns = [job.row], [job.column] if job.column else []
        experiment = open_experiment(
            job.experiment, changes=job.changes, rows=rows, columns=columns
        )
        (run,) = experiment.select(rows, columns, [job.seed])
    try:
        machine = run.machine.changed(job.machine)
        train(replace(run, machine=machine), job.folder, resume=True, data=job.data,
              display=job.display, on_update=job.on_update,
              on_evaluation=job.on_evaluation)  # fmt: skip
    except LadderspecError as error:
        return Outcome(job, str(error))
    except (MemoryError, RuntimeError) as error:  # the next run may need less
        if not (missing := memory_missing(error)):
            raise
        return Outcome(job, missing)
    return Outcome(job)


def run_here(jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
    """The engine of this process: one job after another."""
    for job in jobs:
        yield perform(job)
