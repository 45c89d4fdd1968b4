"""Train the runs of an experiment that are not finished, and show their progress."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from ladderspec.ablation.jobs import Engine, Job, Outcome, run_here, waves
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.learn.run_folder import check, read_result

PAUSE = 1.0  # seconds between two looks
TAIL = 4096  # bytes at the end of the metrics that hold the last row


@dataclass(frozen=True)
class AblationOptions:
    """How the runs of an ablation are trained."""

    output: Path
    resume: bool = False
    data: Path | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    plugins: tuple[Path, ...] = ()
    quiet: bool = False


def ablate(
    experiment: Experiment, runs: Sequence[Run], options: AblationOptions, engine: Engine
) -> list[Outcome]:
    """Train the runs that are not finished. Returns the failed ones, with their errors."""
    unfinished = [run for run in runs if read_result(options.output / run.id, run) is None]
    for run in unfinished:  # before anything is trained
        check(options.output / run.id, run, options.resume)
    watch, failed = Watch(len(runs), len(runs) - len(unfinished), options.quiet), list[Outcome]()
    if watch.done:
        watch.say(f"{watch.done} of {len(runs)} runs are finished already")
    with _sigterm_as_interrupt():
        for wave in waves(unfinished):
            jobs = {run.id: _job(experiment, run, options) for run in wave}
            following = watch.following(jobs) if engine is not run_here else nullcontext()
            with following, closing(engine(list(jobs.values()))) as outcomes:
                for outcome in outcomes:
                    del jobs[outcome.job.id]
                    watch.done += not outcome.error
                    failed += [outcome] if outcome.error else []
                    watch.say(f"{_line(outcome)} ({watch.done} of {len(runs)} runs)")
    return failed


def _line(outcome: Outcome) -> str:
    return f"{outcome.job.id} " + (f"failed: {outcome.error}" if outcome.error else "finished")


def _job(experiment: Experiment, run: Run, options: AblationOptions) -> Job:
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
        quiet=options.quiet,
        changes=experiment.changes,
        run=run,
    )


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that no process is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- progress -------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Shows which runs are finished, and on a terminal the progress of the others."""

    total: int
    done: int = 0
    quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stderr)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, line: str) -> None:
        """Print a line."""
        if not self.quiet:
            clear = "\r\033[K" if self.out.isatty() else ""
            with self.lock:
                print(f"{clear}{line}", file=self.out, flush=True)

    @contextmanager
    def following(self, jobs: Mapping[str, Job]) -> Iterator[None]:
        """Show the progress of jobs, which are removed from the mapping when they end."""
        over = threading.Event()
        thread = threading.Thread(target=self._follow, args=(jobs, over), daemon=True)
        if not self.quiet and self.out.isatty():
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.is_alive():
                thread.join()

    def _follow(self, jobs: Mapping[str, Job], over: threading.Event) -> None:
        while not over.wait(PAUSE):
            updates = [(job.id, last_update(job)) for job in list(jobs.values())]
            parts = [f"{name} at update {update}" for name, update in updates if update]
            line = f"{self.done} of {self.total} runs finished; " + ", ".join(parts)
            width = shutil.get_terminal_size().columns - 1
            with self.lock:
                self.out.write(f"\r\033[K{line[:width]}")
                self.out.flush()
        with self.lock:
            self.out.write("\r\033[K")
            self.out.flush()


def last_update(job: Job) -> int:
    """The update of the last row of metrics of a run, or 0."""
    try:
        with (job.folder / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["update"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0
