"""What is seen of a training while it runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

BAR = 20


def clock(seconds: float) -> str:
    """
    >>> clock(42), clock(3725)
    ('0:42', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def numbers(values: Mapping[str, float]) -> str:
    """
    >>> numbers({"digit.error": 12.345678, "next_frame.error": 1500.25})
    'digit.error 12.35  next_frame.error 1500'
    """
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


@dataclass
class Progress:
    """Speaks of one run. `quiet` says nothing: another process does."""

    title: str
    total: int
    quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stderr)
    started: float = field(default_factory=time.monotonic)
    first: int = 0  # the update that this process began with
    shown: float = 0.0

    @property
    def live(self) -> bool:
        return not self.quiet and self.out.isatty()

    def begin(self, update: int) -> None:
        self.first, self.started = update, time.monotonic()

    def speed(self, update: int) -> float:
        """Updates in a second."""
        return (update - self.first) / max(1e-9, time.monotonic() - self.started)

    def step(self, update: int, costs: Mapping[str, float]) -> None:
        """After an update: moves the bar."""
        now = time.monotonic()
        if not self.live or (now - self.shown < 0.2 and update < self.total):
            return
        self.shown = now
        width = shutil.get_terminal_size().columns - 1
        done = f"{update}/{self.total}  {self._pace(update)}"
        room = width - len(done) - 1
        bar = self._bar(update, room - len(self.title) - 3)
        shown = numbers({k: v for k, v in costs.items() if k.endswith("cost")})
        line = f"{self.title[: max(0, room)]}{bar} {done}  {shown}"
        self._write(f"\r\033[K{line[:width]}")

    def _bar(self, update: int, room: int) -> str:
        """As long as there is room for; the numbers come first."""
        length = min(BAR, room)
        if length < BAR // 4:
            return ""
        return " [" + ("#" * int(update / self.total * length)).ljust(length, ".") + "]"

    def _pace(self, update: int) -> str:
        speed = self.speed(update)
        left = clock((self.total - update) / speed) if speed else "?"
        return f"{speed:.3g} updates/s, {left} left"

    def row(self, update: int, values: Mapping[str, float]) -> None:
        """A row of metrics: a line in a log."""
        if not self.live:
            self.say(f"{update}/{self.total}  {self._pace(update)}  {numbers(values)}")

    def say(self, line: str) -> None:
        """A line that stays."""
        if not self.quiet:
            clear = "\r\033[K" if self.live else ""
            self._write(f"{clear}{self.title}: {line}\n")

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
