"""What a training writes: rows of metrics in its folder, progress on the terminal."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ladderspec.errors import UsageError
from ladderspec.files import write_atomic

BAR = 20  # characters


@dataclass
class MetricsLog:
    """Writes the metrics of a run. `silent` in all processes but the first."""

    folder: Path
    silent: bool = False
    track: Any = field(default=None, repr=False)  # a TensorBoard writer

    def append(self, row: Mapping[str, Any], written: int) -> int:
        """Add a row after the first `written` bytes of metrics. Returns the new number of bytes."""
        line = json.dumps(row) + "\n"
        if self.track is not None and not self.silent:
            for name, value in row.items():
                if isinstance(value, float):
                    self.track.add_scalar(f"{row['split']}/{name}", value, row["update"])
        self._write("metrics.jsonl", line)
        return written + len(line)

    def time(self, row: Mapping[str, Any]) -> None:
        """Add a row about speed."""
        self._write("times.jsonl", json.dumps(row) + "\n")

    def _write(self, name: str, line: str) -> None:
        if self.silent:
            return
        try:
            with (self.folder / name).open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write {self.folder / name}: {reason}") from None

    @property
    def has_rows(self) -> bool:
        """Whether there are metrics of an earlier training."""
        place = self.folder / "metrics.jsonl"
        return not self.silent and place.exists() and place.stat().st_size > 0

    def truncate(self, written: int) -> int:
        """Remove rows after the first `written` bytes: they are written again.

        Rows that a power failure left incomplete or padded with NUL bytes are removed too.

        Returns:
            The number of bytes that are left.
        """
        place = self.folder / "metrics.jsonl"
        if self.silent or not place.exists():
            return 0
        with place.open("r+b") as file:
            whole = file.read(written).partition(b"\0")[0]
            kept = whole.rfind(b"\n") + 1
            file.truncate(kept)
        return kept

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write the result of the run, which is then finished."""
        if not self.silent:
            write_atomic(self.folder / "result.json", json.dumps(result, indent=1) + "\n")


def tensorboard(folder: Path, wanted: bool) -> Any:
    """A TensorBoard writer if `wanted`."""
    if not wanted:
        return None
    try:
        board = importlib.import_module("torch.utils.tensorboard")
    except ImportError:
        hint = "`pip install 'ladderspec[track]'` brings it"
        raise UsageError(f"`track: true` needs TensorBoard; {hint}") from None
    return board.SummaryWriter(str(folder / "tensorboard"))


# --- terminal -------------------------------------------------------------------------------------


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
    """The progress of a run: a bar on a terminal, lines elsewhere, nothing if `quiet`."""

    title: str
    total: int
    quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stderr)
    started: float = field(default_factory=time.monotonic)
    first: int = 0  # update at which this process started
    shown: float = 0.0

    @property
    def live(self) -> bool:
        return not self.quiet and self.out.isatty()

    def start(self, update: int) -> None:
        self.first, self.started = update, time.monotonic()

    def speed(self, update: int) -> float:
        """Updates per second."""
        return (update - self.first) / max(1e-9, time.monotonic() - self.started)

    def step(self, update: int, costs: Mapping[str, float]) -> None:
        """Move the bar after an update."""
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
        """A bar as long as there is room; numbers have priority."""
        length = min(BAR, room)
        if length < BAR // 4:
            return ""
        return " [" + ("#" * int(update / self.total * length)).ljust(length, ".") + "]"

    def _pace(self, update: int) -> str:
        speed = self.speed(update)
        left = clock((self.total - update) / speed) if speed else "?"
        return f"{speed:.3g} updates/s, {left} left"

    def row(self, update: int, values: Mapping[str, float]) -> None:
        """Show a row of metrics as a line, if there is no bar."""
        if not self.live:
            self.say(f"{update}/{self.total}  {self._pace(update)}  {numbers(values)}")

    def say(self, line: str) -> None:
        """Print a line."""
        if not self.quiet:
            clear = "\r\033[K" if self.live else ""
            self._write(f"{clear}{self.title}: {line}\n")

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
