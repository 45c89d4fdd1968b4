"""Jobs on a SLURM cluster through submitit (extra `slurm`), one SLURM job for each run.

A run that SLURM takes off its node, for time or for somebody else, is queued again and goes on. All
nodes must see the same folders.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladderspec.ablation.jobs import TRIES, Job, Outcome, perform
from ladderspec.errors import UsageError


class Resumable:
    """What submitit calls: trains a job; at its last minute, asks to be queued again."""

    def __call__(self, job: Job) -> Outcome:
        return perform(job)

    def checkpoint(self, job: Job) -> Any:
        return _submitit().helpers.DelayedSubmission(self, job)


@dataclass(frozen=True)
class OnSlurm:
    """Logs go to `folder`; `options` are submitit's: timeout_min, slurm_partition, ..."""

    folder: Path
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = "slurm"  # `local`: processes of this machine, for tests
    pause: float = 10.0  # seconds between two looks at the queue

    def __call__(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        submitit = _submitit()
        executor = self._executor(submitit)
        tries = dict.fromkeys(jobs_by_id := {job.id: job for job in jobs}, 0)
        left = {executor.submit(Resumable(), self._on(job)): job.id for job in jobs}
        try:
            while left:
                done = next(iter(submitit.helpers.as_completed(list(left), None, self.pause)))
                job = jobs_by_id[left.pop(done)]
                tries[job.id] += 1
                outcome = _outcome(submitit, done, job)
                if outcome is None and tries[job.id] < TRIES:
                    left[executor.submit(Resumable(), self._on(job))] = job.id
                else:
                    yield outcome or Outcome(job, f"killed {TRIES} times; see {done.paths.stderr}")
        finally:
            for waiting in left:
                waiting.cancel(check=False)

    def _on(self, job: Job) -> Job:
        return job.on(threads=self.threads)

    def _executor(self, submitit: Any) -> Any:
        try:
            executor = submitit.AutoExecutor(self.folder, cluster=self.cluster)
            words = {"cpus_per_task": self.threads, **self.options}
            executor.update_parameters(**words)
        except (RuntimeError, NameError, TypeError, ValueError, AssertionError) as error:
            raise UsageError(f"--engine slurm: {str(error).splitlines()[0]}") from None
        return executor


def _outcome(submitit: Any, done: Any, job: Job) -> Outcome | None:
    """None where its process is gone without a word."""
    try:
        found: Outcome = done.result()
    except submitit.core.utils.FailedJobError as error:
        return Outcome(job, str(error).strip().splitlines()[-1])
    except submitit.core.utils.UncompletedJobError:
        return None
    return found


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError:
        hint = "`pip install 'ladderspec[slurm]'` brings it"
        raise UsageError(f"--engine slurm: submitit is not installed; {hint}") from None
