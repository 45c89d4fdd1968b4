"""Engines: where the jobs of an ablation are trained, and the one that the options ask for.

They are this process, processes of this machine, Ray, and SLURM through submitit. All nodes of a
cluster must see the same folders.
"""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ladderspec.ablation.ablate import TRIES, Engine, Job, Outcome, Resources, perform, run_here
from ladderspec.errors import LadderspecError, UsageError
from ladderspec.files import make_folder, not_waiting
from ladderspec.learn.status import Status, write_status

MAX_PROCESSES = 1000
GRACE = 600  # seconds for an interrupted process to finish its update and save
MEMORY = 16.0  # gigabytes of a job of SLURM, unless the experiment says otherwise


def choose(
    name: str | None, processes: int | None, output: Path, slurm: Sequence[str] = ()
) -> Engine:
    """The engine that is asked for. Options that do not fit it are refused.

    Args:
        name: `processes`, `ray` or `slurm`. Default: this process, or processes if given.
        processes: the number of runs at once.
        output: the folder of the runs.
        slurm: options of submitit, OPTION=VALUE.
    """
    if processes is not None and not 1 <= processes <= MAX_PROCESSES:
        raise UsageError(f"--processes {processes}: from 1 to {MAX_PROCESSES:,}")
    if processes is not None and name in ("ray", "slurm"):
        raise UsageError(f"--processes: {name} decides how many runs there are at once")
    if slurm and name != "slurm":
        raise UsageError("--slurm needs --engine slurm")
    if name is None and processes is None:
        return run_here
    if name in (None, "processes"):
        return Processes(processes or cores())
    if name == "ray":
        return run_on_ray
    return OnSlurm(output / "slurm", dict(_option(text) for text in slurm))


def _option(text: str) -> tuple[str, Any]:
    """
    >>> _option("timeout_min=600"), _option("slurm_partition=gpu")
    (('timeout_min', 600), ('slurm_partition', 'gpu'))
    """
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise UsageError(f"--slurm {text}: OPTION=VALUE, like timeout_min=600")
    return name, int(value) if value.isdecimal() else value


# --- processes of this machine --------------------------------------------------------------------


def cores() -> int:
    """The number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return named[:count] if named else [str(i) for i in range(count)]


@dataclass
class Processes:
    """The engine of this machine: some processes at once, each with its share of the cores.

    Each is a `ladderspec train`, whose output is in `log.txt` beside its metrics. If its device is
    `cuda` or `auto`, it has a GPU of its own, or shares one if there are fewer than workers. A run
    whose process is killed is resumed in a new one.
    """

    workers: int
    stopped: bool = False
    running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    gpus: list[str] = field(default_factory=visible_gpus)
    free: SimpleQueue[int] = field(default_factory=SimpleQueue)  # numbers of idle workers

    def __post_init__(self) -> None:
        for worker in range(self.workers):
            self.free.put(worker)

    def __call__(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        pool = ThreadPoolExecutor(self.workers)
        try:
            for future in as_completed([pool.submit(self.perform, self._share(j)) for j in jobs]):
                yield future.result()
        except BaseException:
            self.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _share(self, job: Job) -> Job:
        """The job with its share of the cores, or with fewer if it asks for fewer."""
        share = max(1, cores() // self.workers)
        return job.on(threads=min(share, job.machine.get("threads", share)))

    def perform(self, job: Job) -> Outcome:
        """Train in a process, and again if it is killed."""
        worker = self.free.get()
        try:
            return self._perform(job, self._environment(job, worker))
        except (OSError, LadderspecError) as error:  # of this run alone: the others go on
            return Outcome(job, str(error))
        finally:
            self.free.put(worker)

    def _environment(self, job: Job, worker: int) -> dict[str, str]:
        if not self.gpus or job.settings.device not in ("auto", "cuda"):
            return dict(os.environ)
        return {**os.environ, "CUDA_VISIBLE_DEVICES": self.gpus[worker % len(self.gpus)]}

    def _perform(self, job: Job, environment: dict[str, str]) -> Outcome:
        code = 0
        for _ in range(TRIES):
            process = self._start(job, environment)
            if process is None:
                return Outcome(job, "interrupted")
            code = process.wait()
            with self.lock:
                self.running.discard(process)
            if code == 0:
                return Outcome(job)
            if 0 < code < 128:
                error = last_line(job) or f"ended with {code} and no output; is the disk full?"
                return Outcome(job, error)
        return Outcome(job, "interrupted" if self.stopped else f"killed {TRIES} times: {code}")

    def _start(self, job: Job, environment: dict[str, str]) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-m", "ladderspec", *job.arguments()]
        place = make_folder(job.folder) / "log.txt"
        write_status(job.folder, Status(note="starting"))
        with open(place, "ab", opener=not_waiting) as log, self.lock:
            if self.stopped:
                return None
            # A new session: Ctrl-C reaches it through this process, once.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=environment, start_new_session=True)  # fmt: skip
            self.running.add(process)
        return process

    def stop(self) -> None:
        """Let every process finish its update and save; a second Ctrl-C kills them."""
        with self.lock:
            self.stopped = True
            running = list(self.running)
        for process in running:
            process.terminate()
        try:
            for process in running:
                process.wait(GRACE)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            for process in running:
                process.kill()


def last_line(job: Job) -> str:
    """The last line of the output of a job; empty if there is none."""
    place = job.folder / "log.txt"
    if not os.path.exists(place):
        return f"{job.folder} was removed during training"
    lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("ladderspec: ") if lines else ""


# --- Ray ------------------------------------------------------------------------------------------


def run_on_ray(jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
    """The engine of Ray (extra `ray`), which schedules jobs and replaces dead workers.

    `RAY_ADDRESS` names a cluster; without it, a Ray of this machine is started and stopped. It
    reserves what `machine.cluster` of the experiment says.
    """
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
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(os.environ.get("RAY_ADDRESS"), log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise UsageError(f"--engine ray: {error}") from None
    try:
        yield ray
    finally:
        if started:
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
