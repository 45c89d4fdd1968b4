"""Jobs on a cluster through Ray (extra `ray`), which schedules them and replaces dead workers.

`RAY_ADDRESS` names a cluster; without it a Ray of this machine is started for the while. All nodes
must see the same folders.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ladderspec.ablation.jobs import TRIES, Job, Outcome, perform
from ladderspec.errors import UsageError


@dataclass(frozen=True)
class OnRay:
    """So many cores and accelerators for each run."""

    threads: int = 1
    accelerators: int = 0

    def __call__(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        with _started() as ray:
            task = ray.remote(perform).options(
                num_cpus=self.threads, num_gpus=self.accelerators, max_retries=TRIES - 1
            )
            left = {task.remote(job.on(threads=self.threads)): job for job in jobs}
            try:
                while left:
                    (ready,), _ = ray.wait(list(left))
                    job = left.pop(ready)
                    yield _outcome(ray, ready, job)
            finally:
                for reference in left:
                    ray.cancel(reference)  # as Ctrl-C: the update is finished and saved


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        return Outcome(job, f"killed {TRIES} times")
    except ray.exceptions.RayError as error:
        return Outcome(job, str(error).strip().splitlines()[-1])
    return outcome


@contextmanager
def _started() -> Iterator[Any]:
    """Ray, connected; what was started here ends here."""
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
