"""Engines of clusters: Ray, and SLURM through submitit. All nodes must see the same folders."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladderspec.ablation.ablate import TRIES, Job, Outcome, Resources, perform
from ladderspec.errors import UsageError

MEMORY = 16.0  # gigabytes of a job of SLURM, unless the experiment says otherwise

# --- Ray ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnRay:
    """The engine of Ray (extra `ray`), which schedules jobs and replaces dead workers.

    `RAY_ADDRESS` names a cluster; without it, a Ray of this machine is started and stopped. It
    reserves what `machine.cluster` of the experiment says.
    """

    def __call__(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        with _ray() as ray:
            task = ray.remote(perform)
            left = {
                task.options(**ray_options(needs)).remote(job.on(threads=needs.threads)): job
                for job, needs in ((job, Resources.of(job)) for job in jobs)
            }
            try:
                while left:
                    (ready,), _ = ray.wait(list(left))
                    job = left.pop(ready)
                    yield _ray_outcome(ray, ready, job)
            finally:
                for reference in left:
                    ray.cancel(reference)  # like Ctrl-C: the update is finished and saved


def ray_options(needs: Resources) -> dict[str, Any]:
    """The options of a task of Ray."""
    memory = {} if needs.memory is None else {"memory": int(needs.memory * 2**30)}
    return {
        "num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_retries": TRIES - 1, **memory
    }  # fmt: skip


def _ray_outcome(ray: Any, reference: Any, job: Job) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        return Outcome(job, f"killed {TRIES} times")
    except ray.exceptions.RayError as error:
        return Outcome(job, str(error).strip().splitlines()[-1])
    return outcome


@contextmanager
def _ray() -> Iterator[Any]:
    """A connection to Ray; a Ray that was started here is stopped."""
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        hint = "`pip install 'ladderspec[ray]'` brings it"
        raise UsageError(f"--engine ray: Ray is not installed; {hint}") from None
    own = not ray.is_initialized()
    if own:
        try:
            ray.init(os.environ.get("RAY_ADDRESS"), log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise UsageError(f"--engine ray: {error}") from None
    try:
        yield ray
    finally:
        if own:
            ray.shutdown()


# --- SLURM ----------------------------------------------------------------------------------------


class Resumable:
    """The function that submitit calls: trains a job, and queues it again at a timeout."""

    def __call__(self, job: Job) -> Outcome:
        return perform(job)

    def checkpoint(self, job: Job) -> Any:
        return _submitit().helpers.DelayedSubmission(self, job)


@dataclass(frozen=True)
class OnSlurm:
    """The engine of SLURM through submitit (extra `slurm`), one SLURM job for each run.

    A run that is preempted or times out is queued again and resumed. Time, GPUs, CPUs and memory
    are those of `machine.cluster` of the experiment.

    Attributes:
        folder: for logs.
        options: of submitit, instead of the experiment's: timeout_min, slurm_partition, ...
        cluster: `slurm`, or `local` for processes of this machine, in tests.
        pause: seconds between two looks at the queue.
    """

    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = "slurm"
    pause: float = 10.0

    def __call__(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        submitit = _submitit()
        executor = self._executor(submitit, Resources.of(jobs[0]))  # of one file: all are equal
        left = {executor.submit(Resumable(), _threaded(job)): (job, 1) for job in jobs}
        try:
            while left:
                done = next(iter(submitit.helpers.as_completed(list(left), None, self.pause)))
                job, tries = left.pop(done)
                outcome = _slurm_outcome(submitit, done, job)
                if outcome is None and tries < TRIES:
                    left[executor.submit(Resumable(), _threaded(job))] = job, tries + 1
                else:
                    yield outcome or Outcome(job, f"killed {TRIES} times; see {done.paths.stderr}")
        finally:
            for waiting in left:
                waiting.cancel(check=False)

    def _executor(self, submitit: Any, needs: Resources) -> Any:
        try:
            executor = submitit.AutoExecutor(self.folder, cluster=self.cluster)
            executor.update_parameters(**{**slurm_options(needs), **self.options})
        except (RuntimeError, NameError, TypeError, ValueError, AssertionError) as error:
            raise UsageError(f"--engine slurm: {str(error).splitlines()[0]}") from None
        return executor


def slurm_options(needs: Resources) -> dict[str, Any]:
    """The options of submitit. Its own time limit would be 5 minutes."""
    gpus = {"gpus_per_node": needs.gpus} if needs.gpus else {}
    return {
        "timeout_min": math.ceil(60 * needs.hours),
        "cpus_per_task": needs.cpus,
        "mem_gb": needs.memory or MEMORY,
        **gpus,
    }


def _threaded(job: Job) -> Job:
    return job.on(threads=Resources.of(job).threads)


def _slurm_outcome(submitit: Any, done: Any, job: Job) -> Outcome | None:
    """None if its process has disappeared."""
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
