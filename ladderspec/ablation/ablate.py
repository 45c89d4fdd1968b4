"""An experiment -> its runs, trained -> what they measured."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from ladderspec.ablation import here
from ladderspec.ablation.jobs import Engine, Job, Outcome, waves
from ladderspec.ablation.watch import Watch
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.learn.journal import check, read_result


@dataclass(frozen=True)
class Order:
    """How the runs are to be made."""

    output: Path
    resume: bool = False
    data: Path | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    plugins: tuple[Path, ...] = ()
    quiet: bool = False


def ablate(
    experiment: Experiment, runs: Sequence[Run], order: Order, engine: Engine
) -> list[Outcome]:
    """Train what is not yet trained; those that failed, and why."""
    left = [run for run in runs if read_result(order.output / run.id, run.facts()) is None]
    for run in left:  # before anything is trained
        check(order.output / run.id, run, order.resume)
    watch, failed = Watch(len(runs), len(runs) - len(left), order.quiet), list[Outcome]()
    if watch.done:
        watch.say(f"{watch.done} of {len(runs)} runs are finished already")
    with _obedient():
        for wave in waves(left):
            jobs = {run.id: _job(experiment, run, order) for run in wave}
            elsewhere = watch.following(jobs) if engine is not here.run else nullcontext()
            with elsewhere, closing(engine(list(jobs.values()))) as outcomes:
                for outcome in outcomes:
                    del jobs[outcome.job.id]
                    watch.done += not outcome.error
                    failed += [outcome] if outcome.error else []
                    watch.say(f"{_what(outcome)} ({watch.done} of {len(runs)} runs)")
    return failed


def _what(outcome: Outcome) -> str:
    return f"{outcome.job.id} " + (f"failed: {outcome.error}" if outcome.error else "finished")


def _job(experiment: Experiment, run: Run, order: Order) -> Job:
    threads = {} if run.machine.threads is None else {"threads": run.machine.threads}
    return Job(
        experiment=experiment.path.resolve(),  # other processes stand elsewhere
        row=run.row,
        column=run.column,
        seed=run.seed,
        folder=order.output.resolve() / run.id,
        data=None if order.data is None else order.data.resolve(),
        machine={**threads, **order.machine},
        plugins=tuple(plugin.resolve() for plugin in order.plugins),
        quiet=order.quiet,
    )


@contextmanager
def _obedient() -> Iterator[None]:
    """SIGTERM as Ctrl-C: processes of ours are not left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
