"""Where a training stands: its status, which it writes into its folder for other processes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ladderspec.errors import UsageError
from ladderspec.files import not_waiting, read_regular

FILE = "progress.json"  # in the folder of a run while it is trained


@dataclass(frozen=True)
class Status:
    """Where a training stands.

    Attributes:
        update: The updates that are done.
        total: All updates.
        rate: Updates per second.
        note: What it does, if that is not an update: `evaluating`.
        measures: The last measures of the validation data; before, the costs.
        since: The time of this status, in seconds since the epoch.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    update: int = 0
    total: int = 0
    rate: float = 0.0
    note: str = ""
    measures: Mapping[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.time)

    @property
    def left(self) -> str:
        """The remaining time, counted down between two statuses."""
        if not self.rate:
            return "?"
        passed = 0.0 if self.note else max(0.0, time.time() - self.since)
        return show_time((self.total - self.update) / self.rate - passed)

    @property
    def pace(self) -> str:
        return f"{self.update}/{self.total}  {self.rate:.4g} updates/s, {self.left} left"


def write_status(folder: Path, status: Status) -> None:
    """Write the status of a run for displays in other processes; a full disk is no error here."""
    with (
        contextlib.suppress(OSError),
        open(folder / FILE, "w", encoding="utf-8", opener=not_waiting) as file,
    ):
        file.write(json.dumps(asdict(status)))


def remove_status(folder: Path) -> None:
    """Remove the status of a run that is no longer trained."""
    with contextlib.suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def read_status(folder: Path, since: float = 0.0) -> Status | None:
    """The status that a run in another process has written at or after a time."""
    try:
        found = TypeAdapter(Status).validate_json(read_regular(folder / FILE))
    except (FileNotFoundError, UsageError, ValidationError):
        return None
    return found if found.since >= since else None


# --- texts ----------------------------------------------------------------------------------------


def show_time(seconds: float) -> str:
    """
    >>> show_time(42), show_time(3725)
    ('0:42', '1:02:05')
    """
    minutes, rest = divmod(int(max(0.0, seconds)), 60)  # negative if the clock has jumped back
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def show_measures(values: Mapping[str, float]) -> str:
    """
    >>> show_measures({"digit.error": 12.345678, "next_frame.error": 1500.25})
    'digit.error 12.35  next_frame.error 1500'
    """
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


def costs_to_show(costs: Mapping[str, float]) -> dict[str, float]:
    """The total cost, and the costs of tasks if there are several.

    >>> costs_to_show({"cost": 0.5, "digit.cost": 0.5, "gradient": 1.0})
    {'cost': 0.5}
    """
    found = {name: value for name, value in costs.items() if name.endswith("cost")}
    return {name: found[name] for name in found if name == "cost" or len(found) > 2}


def without_nll(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """The metrics to show: likelihoods only if there is nothing else."""
    return {n: v for n, v in metrics.items() if not n.endswith("nll")} or metrics
