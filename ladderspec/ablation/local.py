"""Jobs in processes of this machine, each a `ladderspec train` of its own.

A process that is killed takes nothing with it: its run goes on in a new one. What the processes
say is in `log.txt` beside their metrics.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from ladderspec.ablation.jobs import TRIES, Job, Outcome
from ladderspec.files import make_folder

PATIENCE = 600  # seconds that an interrupted process has to finish its update and save


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class Local:
    """So many processes at once; cores are shared out among them."""

    workers: int
    stopped: bool = False
    running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

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
        """The job with its share of the cores, or fewer where it asks for fewer."""
        share = max(1, cores() // self.workers)
        return job.on(threads=min(share, job.machine.get("threads", share)))

    def perform(self, job: Job) -> Outcome:
        """Train in a process; again where it is killed."""
        code, error = 0, ""
        for _ in range(TRIES):
            process = self._start(job)
            if process is None:
                return Outcome(job, "interrupted")
            code = process.wait()
            with self.lock:
                self.running.discard(process)
            if code == 0:
                return Outcome(job)
            error = last_line(job)
            if 0 < code < 128:
                return Outcome(job, error)
        return Outcome(job, "interrupted" if self.stopped else f"killed {TRIES} times: {code}")

    def _start(self, job: Job) -> subprocess.Popen[bytes] | None:
        words = [sys.executable, "-m", "ladderspec", *job.words()]
        place = make_folder(job.folder) / "log.txt"
        with place.open("ab") as log, self.lock:
            if self.stopped:
                return None
            # A session of its own: Ctrl-C reaches it through us, once.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)  # fmt: skip
            self.running.add(process)
        return process

    def stop(self) -> None:
        """Let every process finish its update and save; impatience ends them at once."""
        with self.lock:
            self.stopped = True
            running = list(self.running)
        for process in running:
            process.terminate()
        try:
            for process in running:
                process.wait(PATIENCE)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            for process in running:
                process.kill()


def last_line(job: Job) -> str:
    """The last thing that a process has said."""
    lines = (job.folder / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("ladderspec: ") if lines else "said nothing"
