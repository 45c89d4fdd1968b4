"""What is seen of runs that are trained elsewhere: one line on a terminal that keeps moving."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from ladderspec.ablation.jobs import Job

PAUSE = 1.0  # seconds
TAIL = 4096  # bytes at the end of the metrics that hold the last row


@dataclass
class Watch:
    """Says what is finished, and on a terminal how far the others are."""

    total: int
    done: int = 0
    quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stderr)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, line: str) -> None:
        """A line that stays."""
        if not self.quiet:
            clear = "\r\033[K" if self.out.isatty() else ""
            with self.lock:
                print(f"{clear}{line}", file=self.out, flush=True)

    @contextmanager
    def following(self, jobs: Mapping[str, Job]) -> Iterator[None]:
        """Follow jobs that leave the mapping as they end."""
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
            far = [(job.id, update(job)) for job in list(jobs.values())]
            parts = [f"{name} at update {reached}" for name, reached in far if reached]
            line = f"{self.done} of {self.total} runs finished; " + ", ".join(parts)
            width = shutil.get_terminal_size().columns - 1
            with self.lock:
                self.out.write(f"\r\033[K{line[:width]}")
                self.out.flush()
        with self.lock:
            self.out.write("\r\033[K")
            self.out.flush()


def update(job: Job) -> int:
    """How far a run is: the update of its last row of metrics; 0 where there is none."""
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
