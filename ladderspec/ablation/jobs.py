"""A run as a job: everything that another process, here or elsewhere, needs to train it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ladderspec.errors import LadderspecError
from ladderspec.experiments.open import open_experiment
from ladderspec.experiments.runs import Run

TRIES = 4  # how often a run is begun whose process is killed


@dataclass(frozen=True)
class Job:
    """One run of an experiment file, and the folder it is trained in."""

    experiment: Path
    row: str
    column: str
    seed: int
    folder: Path
    data: Path | None = None
    machine: dict[str, Any] = field(default_factory=dict)  # instead of the file's
    plugins: tuple[Path, ...] = ()
    quiet: bool = False

    @property
    def id(self) -> str:
        return self.folder.name

    def on(self, **machine: Any) -> Job:
        """The job on another machine."""
        return replace(self, machine={**self.machine, **machine})

    def words(self) -> list[str]:
        """The job as words of the command line."""
        found = ["train", str(self.experiment), "--row", self.row, "--seed", str(self.seed)]
        found += ["--column", self.column] if self.column else []
        found += ["-o", str(self.folder.parent), "--resume"]
        found += ["--data", str(self.data)] if self.data is not None else []
        for word, value in self.machine.items():
            found += [f"--{word}", str(value)]
        for plugin in self.plugins:
            found += ["--plugin", str(plugin)]
        return found


@dataclass(frozen=True)
class Outcome:
    """What became of a job: `error` is empty where it is finished."""

    job: Job
    error: str = ""


# Closing the generator ends what it has started.
Engine = Callable[[Sequence[Job]], Generator[Outcome, None, None]]


def perform(job: Job) -> Outcome:
    """Train the run of a job in this process, going on where it was left."""
    from ladderspec.learn.train import train
    from ladderspec.plugins import load_plugin

    for plugin in job.plugins:
        load_plugin(plugin)
    (run,) = open_experiment(job.experiment).select(
        [job.row], [job.column] if job.column else [], [job.seed]
    )
    machine = run.machine.model_copy(update=job.machine)
    try:
        train(replace(run, machine=machine), job.folder, resume=True, data=job.data,
              quiet=job.quiet)  # fmt: skip
    except LadderspecError as error:
        return Outcome(job, str(error))
    return Outcome(job)


def waves(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs in the order in which they can be trained: after those that they start from."""
    left = list(runs)
    found: list[list[Run]] = []
    while left:
        waiting = {run.id for run in left}
        ready = [run for run in left if run.origin is None or run.origin.id not in waiting]
        found.append(ready)
        left = [run for run in left if run not in ready]
    return found
