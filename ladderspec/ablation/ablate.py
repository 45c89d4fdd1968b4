"""An experiment -> its runs, trained -> what they measured."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from ladderspec.ablation.jobs import Engine, Job, Outcome, waves
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
    done, failed = len(runs) - len(left), list[Outcome]()
    if done:
        _say(order, f"{done} of {len(runs)} runs are finished already")
    with _obedient():
        for wave in waves(left):
            jobs = [_job(experiment, run, order) for run in wave]
            with closing(engine(jobs)) as outcomes:
                for outcome in outcomes:
                    done += not outcome.error
                    failed += [outcome] if outcome.error else []
                    what = f"failed: {outcome.error}" if outcome.error else "finished"
                    _say(order, f"{outcome.job.id} {what} ({done} of {len(runs)} runs)")
    return failed


def _job(experiment: Experiment, run: Run, order: Order) -> Job:
    threads = {} if run.machine.threads is None else {"threads": run.machine.threads}
    return Job(
        experiment=experiment.path,
        row=run.row,
        column=run.column,
        seed=run.seed,
        folder=order.output / run.id,
        data=order.data,
        machine={**threads, **order.machine},
        plugins=order.plugins,
        quiet=order.quiet,
    )


def _say(order: Order, line: str) -> None:
    if not order.quiet:
        print(line, file=sys.stderr, flush=True)


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
