"""The files of metrics and results that training writes, and how metrics are read again."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ladderspec.errors import UsageError, reason
from ladderspec.files import checksum, not_waiting, read_regular, sealed, write_atomic

METRICS = "metrics.jsonl"
CHECKSUM = "metrics_checksum"  # key of result.json and of checkpoints


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
        self._write(METRICS, line)
        return written + len(line)

    def time(self, row: Mapping[str, Any]) -> None:
        """Add a row about speed."""
        self._write("times.jsonl", json.dumps(row) + "\n")

    def _write(self, name: str, line: str) -> None:
        if self.silent:
            return
        try:
            with open(self.folder / name, "a", encoding="utf-8", opener=not_waiting) as file:
                file.write(line)
        except OSError as error:
            raise UsageError(f"cannot write {self.folder / name}: {reason(error)}") from None

    @property
    def has_rows(self) -> bool:
        """Whether there are metrics of an earlier training."""
        place = self.folder / METRICS
        return not self.silent and os.path.exists(place) and place.stat().st_size > 0

    def truncate(self, written: int) -> int:
        """Remove rows after the first `written` bytes: they are written again.

        Rows that a power failure left incomplete or padded with NUL bytes are removed too.

        Returns:
            The number of bytes that are left.
        """
        place = self.folder / METRICS
        if self.silent or not os.path.exists(place):
            return 0
        try:
            with place.open("r+b") as file:
                whole = file.read(written).partition(b"\0")[0]
                end = whole.rfind(b"\n") + 1
                file.truncate(end)
        except OSError as error:
            raise UsageError(f"cannot write {place}: {reason(error)}") from None
        return end

    def write_result(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write the result of the run, which is then finished; returns it with a checksum."""
        if self.silent:
            return result
        result = {**result, CHECKSUM: metrics_checksum(self.folder)}
        write_atomic(self.folder / "result.json", json.dumps(sealed(result), indent=1) + "\n")
        return result


def metrics_checksum(folder: Path) -> str:
    """The checksum of all rows of metrics; that of no rows if they cannot be read."""
    try:
        return checksum(read_regular(folder / METRICS))
    except (FileNotFoundError, UsageError):
        return checksum(b"")


def read_rows(folder: Path, result: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The rows of metrics of a run, up to an incomplete line or the NULs of a power failure.

    Args:
        folder: the folder of the run.
        result: its result, if it is finished. Those of earlier versions have no checksum.

    Raises:
        UsageError: if the rows have changed since the result was written.
    """
    if (result or {}).get(CHECKSUM) not in (None, metrics_checksum(folder)):
        raise UsageError(f"{folder / METRICS} is damaged or was changed: its checksum is another")
    rows = []
    try:
        text = read_regular(folder / METRICS).decode(errors="replace")
    except (FileNotFoundError, UsageError):
        return []
    for line in text.split("\n"):
        try:
            rows.append(MetricsRow.model_validate_json(line).model_dump(exclude_unset=True))
        except ValidationError:
            break
    return rows


Count = Annotated[int, Field(ge=0, lt=2**53)]


class MetricsRow(BaseModel):
    """A row of `metrics.jsonl`, with its metrics by name."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, float]

    update: Count
    epoch: Count = 0
    split: str


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
