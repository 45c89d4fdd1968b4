"""Ctrl-C: the update is finished and saved first."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Training was interrupted, and saved."""


class Patience:
    """Notes SIGINT and SIGTERM while a loop runs; a second SIGINT is obeyed at once."""

    def __init__(self) -> None:
        self.over = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Patience:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *args: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.over and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.over = True
