"""Progress of trainings: a live line per run on a terminal, plain lines elsewhere.

A training reports its `Status`. A `Display` shows the lines of all runs that it follows, also of
those in other processes, which write their status into their folders.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from ladderspec.escaping import escape_terminal
from ladderspec.learn.status import (
    Status,
    costs_to_show,
    show_measures,
    show_time,
    without_nll,
    write_status,
)

FRAMES = 0.2  # seconds between two pictures of the display
WRITES = 0.5  # seconds between two writes of a status
LINES = 30.0  # seconds between two plain lines about runs in other processes
BAR, LEAST = 24, 8  # characters of a bar: at most, and at least
SPINNER = "|/-\\"


# --- one training ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """What the callbacks of a training receive.

    Attributes:
        run: The name of the run.
        update: The updates that are done.
        total: All updates.
        split: `train` for the costs of an update; `valid` or `test` for an evaluation.
        values: The costs or metrics by name.
    """

    run: str
    update: int
    total: int
    split: str
    values: Mapping[str, float]


Callback = Callable[[Event], object]


@dataclass
class Progress:
    """The progress of one training: its status, the messages about it, and the user's callbacks."""

    title: str
    folder: Path | None = None
    display: Display = field(default_factory=lambda: Display(quiet=True))
    status: Status = field(default_factory=Status)
    on_update: Callback | None = None
    on_evaluation: Callback | None = None
    started: float = field(default_factory=time.monotonic)
    first: int = 0  # update at which this process started
    written: float = 0.0

    def start(self, update: int, total: int) -> None:
        """Start to count time at an update."""
        self.first, self.started = update, time.monotonic()
        self._set(replace(self.status, update=update, total=total, note=""), now=True)

    def rate(self, update: int) -> float:
        """Updates per second."""
        return (update - self.first) / max(1e-9, time.monotonic() - self.started)

    def step(self, update: int, costs: Mapping[str, float]) -> None:
        """Report an update."""
        measures = self.status.measures
        if not measures or any(name.endswith("cost") for name in measures):
            measures = costs_to_show(costs)
        rate = self.rate(update)
        self._set(Status(update, self.status.total, rate, "", measures))
        if self.on_update is not None:
            self.on_update(Event(self.title, update, self.status.total, "train", dict(costs)))

    def note(self, text: str) -> None:
        """Report what is done between updates."""
        self._set(replace(self.status, note=text, since=time.time()), now=True)

    def measured(self, split: str, metrics: Mapping[str, float]) -> None:
        """Report the metrics of an evaluation."""
        shown = without_nll(metrics)
        self._set(replace(self.status, note="", measures=shown, since=time.time()), now=True)
        if self.on_evaluation is not None:
            update, total = self.status.update, self.status.total
            self.on_evaluation(Event(self.title, update, total, split, dict(metrics)))

    def row(self, update: int, values: Mapping[str, float]) -> None:
        """Print a row of metrics, if there is no live line."""
        if not self.display.live:
            shown = costs_to_show(values) | {n: v for n, v in values.items() if "cost" not in n}
            self.say(f"{replace(self.status, update=update).pace}  {show_measures(shown)}")

    def say(self, line: str) -> None:
        """Print a line."""
        self.display.say(f"{self.title}: {line}")

    def _set(self, status: Status, now: bool = False) -> None:
        self.status = status
        if self.folder is not None and (now or time.monotonic() - self.written >= WRITES):
            self.written = time.monotonic()
            write_status(self.folder, status)


# --- the terminal ---------------------------------------------------------------------------------

Source = Callable[[], Status | None]  # None: the run waits
Bar = Callable[[float, int], str]  # a share, and the length of the bar


@dataclass
class Display:
    """Shows the runs that it follows: a live line each on a terminal, plain lines elsewhere.

    Args:
        quiet: Show nothing.
        total: The number of runs, of which `done` are finished; with several, a last line says so.
        out: Where to write. Default: standard error.
    """

    quiet: bool = False
    total: int = 1
    done: int = 0
    out: TextIO = field(default_factory=lambda: sys.stderr)
    runs: dict[str, Source] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    before: dict[str, Status | None] = field(default_factory=dict)
    stopped: float | None = None  # when it was asked to stop
    height: int = 0  # lines that are shown now
    frame: int = 0

    @property
    def live(self) -> bool:
        return not self.quiet and self.out.isatty() and os.environ.get("TERM") != "dumb"

    def say(self, line: str) -> None:
        """Print a line above the live ones."""
        if not self.quiet:
            with self.lock:
                self._write(f"{escape_terminal(line)}\n")

    @contextmanager
    def following(self, runs: Mapping[str, Source]) -> Iterator[None]:
        """Show the status of runs until the block ends; `forget` ends the line of one of them."""
        with self.lock:
            before = dict(self.runs)
            self.runs.update(runs)
        over = threading.Event()
        thread = threading.Thread(target=self._follow, args=(over,), daemon=True)
        if not self.quiet and not before:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.is_alive():
                thread.join()
            with self.lock:
                self.runs = before
                if self.live:
                    self._write("")

    def working(self, name: str, note: str) -> AbstractContextManager[None]:
        """Show work that has no updates."""
        status = Status(note=note)
        return self.following({name: lambda: status})

    def forget(self, name: str) -> None:
        """End the line of a run."""
        with self.lock:
            self.runs.pop(name, None)

    def stop(self) -> None:
        """Show that all runs stop at their next update."""
        self.stopped = self.stopped or time.time()

    def _follow(self, over: threading.Event) -> None:
        report, pause = (self.show, FRAMES) if self.live else (self._say_all, LINES)
        if self.live:
            report()
        while not over.wait(pause):
            report()

    def _say_all(self) -> None:
        """Plain lines about runs in other processes; those in this one print rows themselves."""
        for name, source in list(self.runs.items()):
            status = None if isinstance(source, Here) else source()
            if status is not None and status.total:
                self.say(f"{name}: {status.pace}  {show_measures(status.measures)}")

    def show(self) -> None:
        """Draw the live lines again."""
        with self.lock:
            self.frame += 1
            self._write("")

    def _write(self, text: str) -> None:
        """Write a text above the live lines, in one piece, so that nothing flickers."""
        if not self.live:
            self.out.write(text)
        else:
            back = f"\033[{self.height}F" if self.height else ""
            found = self._lines()
            self.height = len(found)
            whole = text.replace("\n", "\033[K\n") + "".join(f"{line}\033[K\n" for line in found)
            self.out.write(f"{back}{whole}\033[J")
        self.out.flush()

    def _lines(self) -> list[str]:
        if not self.runs:
            return []
        columns, rows = shutil.get_terminal_size()
        found = lines(self._statuses(), columns - 1, rows - 2, self.frame, self._bar())
        if self.total > 1:
            found.append(f"{self.done} of {self.total} runs finished"[: columns - 1])
        return found

    def _statuses(self) -> list[tuple[str, Status | None]]:
        """The status of every run; the one before if a file is just being written."""
        now = {name: source() or self.before.get(name) for name, source in self.runs.items()}
        self.before = now
        if self.stopped is None:
            return list(now.items())
        return [
            (name, replace(status, note="stopping", since=self.stopped))
            for name, status in now.items()
            if status is not None
        ]

    def _bar(self) -> Bar:
        encoding = (getattr(self.out, "encoding", "") or "").lower()
        signs = ("━", "─") if encoding.startswith("utf") else ("#", ".")
        return partial(bar_of, signs=signs, colour=not os.environ.get("NO_COLOR"))


@dataclass(frozen=True)
class Here:
    """The status of a training in this process."""

    progress: Progress

    def __call__(self) -> Status | None:
        return self.progress.status


def bar_of(
    share: float, length: int, signs: tuple[str, str] = ("#", "."), colour: bool = False
) -> str:
    """
    >>> bar_of(0.3, 10)
    '###.......'
    """
    done = min(length, int(share * length))
    full, empty = signs[0] * done, signs[1] * (length - done)
    return f"\033[36m{full}\033[2m{empty}\033[0m" if colour else full + empty


def lines(
    runs: Sequence[tuple[str, Status | None]], width: int, most: int, frame: int = 0,
    bar_of: Bar = bar_of,
) -> list[str]:  # fmt: skip
    """The lines of runs in columns, each line at most `width` characters wide.

    If there is little room, names and measures are shortened, and then bars.

    >>> now = Status(120, 400, 2.0, "", {"segment.ami": 0.4567}, since=time.time() + 100)
    >>> print(*lines([("rtagger.seed0", now), ("tagger.seed0", None)], 79, 9), sep="\\n")
    rtagger.seed0  ####.........  120/400  2/s  2:20 left  segment.ami 0.4567
    tagger.seed0   waiting
    """
    shown = sorted(runs, key=lambda run: run[1] is None)[: max(1, most - 1)]
    moving = {name: status for name, status in shown if status is not None and status.total}
    counts = {name: f"{s.update}/{s.total}" for name, s in moving.items()}
    count = max(map(len, counts.values()), default=0)
    paces = {name: f"{counts[name]:>{count}}  {_pace(s, frame)}" for name, s in moving.items()}
    pace = max(map(len, paces.values()), default=0)
    limit = min(width * 36 // 100, width - pace - LEAST - 18)  # 12 for a measure, 6 between
    names = min(max((len(name) for name, _ in shown), default=0), max(14, limit))
    room = width - names - pace - 4  # for the bar and the measures
    widest = max((len(show_measures(s.measures)) for s in moving.values()), default=0)
    bar = min(BAR, max(LEAST, room - 2 - widest))
    bar = bar if room >= bar else 0
    found = []
    for name, status in shown:
        title = _cut(name, names).ljust(names)
        if name not in moving:
            text = f"{title}  {'waiting' if status is None else _spin(status, frame, 'starting')}"
            found.append(text[:width])
            continue
        done = moving[name].update / moving[name].total
        middle = f"  {bar_of(done, bar)}" if bar else ""
        rest = f"  {paces[name]:<{pace}}  {_measures(moving[name], room - bar - 2)}".rstrip()
        free = width - names - (bar + 2 if bar else 0)
        found.append(title + middle + rest[: max(0, free)])
    hidden = len(runs) - len(shown)
    return [*found, *([f"and {hidden} more"[:width]] if hidden else [])]


def _pace(status: Status, frame: int) -> str:
    if status.note:
        return _spin(status, frame, status.note)
    return f"{status.rate:.2g}/s  {status.left} left"


def _spin(status: Status, frame: int, note: str) -> str:
    return f"{SPINNER[frame % 4]} {status.note or note} {show_time(time.time() - status.since)}"


def _measures(status: Status, room: int) -> str:
    """As many measures as there is room for; by their short names if there is little."""
    if len(show_measures(status.measures)) <= room:
        return show_measures(status.measures)
    parts = [f"{name.split('.')[-1]} {v:.4g}" for name, v in status.measures.items()]
    while parts and len("  ".join(parts)) > room:
        parts.pop()
    return "  ".join(parts)


def _cut(name: str, width: int) -> str:
    """
    >>> _cut("no_decoder_to_encoder.seed0", 16)
    'no_decod...seed0'
    """
    return name if len(name) <= width else f"{name[: max(0, width - 8)]}...{name[-5:]}"[:width]
