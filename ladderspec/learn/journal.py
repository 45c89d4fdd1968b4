"""The folder of a run: what it is, its metrics row by row, its result.

run.json        everything that its numbers depend on
graph.json      its network
metrics.jsonl   a row for every so many updates and for every evaluation; no clock in it
times.jsonl     how long that took
last.json, best.json and their .safetensors
pictures/
result.json     written last: the run is finished
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladderspec.corridor import graph
from ladderspec.errors import UsageError
from ladderspec.experiments.runs import Run, digest
from ladderspec.files import write_atomic
from ladderspec.wiring import graph_json


@dataclass
class Journal:
    """Writes into the folder of a run; `silent` in all processes but the first."""

    folder: Path
    silent: bool = False
    track: Any = field(default=None, repr=False)  # a TensorBoard writer

    def append(self, row: Mapping[str, Any], written: int) -> int:
        """Add a row of metrics behind the first `written` bytes; how many there are then."""
        line = json.dumps(row) + "\n"
        if self.track is not None and not self.silent:
            for name, value in row.items():
                if isinstance(value, float):
                    self.track.add_scalar(f"{row['split']}/{name}", value, row["update"])
        self._write("metrics.jsonl", line)
        return written + len(line)

    def time(self, row: Mapping[str, Any]) -> None:
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

    def cut(self, written: int) -> None:
        """Forget rows behind the first `written` bytes: they are written again."""
        place = self.folder / "metrics.jsonl"
        if not self.silent and place.exists():
            with place.open("r+b") as file:
                file.truncate(written)

    def conclude(self, result: Mapping[str, Any]) -> None:
        if not self.silent:
            write_atomic(self.folder / "result.json", json.dumps(result, indent=1) + "\n")


def tracker(folder: Path, wanted: bool) -> Any:
    """A writer for TensorBoard, where one is asked for."""
    if not wanted:
        return None
    try:
        board = importlib.import_module("torch.utils.tensorboard")
    except ImportError:
        hint = "`pip install 'ladderspec[track]'` brings it"
        raise UsageError(f"`track: true` needs TensorBoard; {hint}") from None
    return board.SummaryWriter(str(folder / "tensorboard"))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run; a last line that was cut off is left out."""
    rows = []
    try:
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    except OSError:
        return []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def read_result(folder: Path, facts: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The result of a finished run; None where it is not, or is another run's."""
    try:
        found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if facts is None or found.get("digest") == digest(dict(facts)) else None


def reported(folder: Path) -> tuple[Path, str]:
    """The weights that the result of a run speaks of: where they are, and `best` or `last`."""
    again = folder / "retrain"
    place = again if (again / "last.json").exists() else folder
    return place, str((read_result(place) or {}).get("reported", "last"))


def check(folder: Path, run: Run, resume: bool) -> None:
    """Refuse a folder that is another run's, or that would be overwritten."""
    place, facts = folder / "run.json", run.facts()
    try:
        before = json.loads(place.read_text(encoding="utf-8")) if place.exists() else None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {place}: {reason}") from None
    except ValueError:
        raise UsageError(f"{place} is damaged; remove the folder to start anew") from None
    if before is not None:
        differs = difference({key: before.get(key) for key in facts}, facts)
        if differs:
            raise UsageError(f"{folder} holds another run: {differs}")
        if (folder / "last.json").exists() and not resume:
            raise UsageError(f"{folder} holds this run already; --resume goes on with it")


def claim(folder: Path, run: Run, resume: bool) -> None:
    """Make a folder this run's."""
    check(folder, run, resume)
    write_atomic(folder / "graph.json", graph_json.dumps(graph(run.spec)) + "\n")
    write_atomic(folder / "run.json", json.dumps(run.dump(), indent=1) + "\n")


def difference(before: Any, now: Any, path: str = "") -> str:
    """The first few places where two trees of JSON differ.

    >>> difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}})
    'a.b is 1, not 3'
    >>> difference({"a": {}}, {"a": {"b": 3}})
    'a.b is absent, not 3'
    """
    found = _differences(before, now, path)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _differences(before: Any, now: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        pairs = [(k, before.get(k, _ABSENT), now.get(k, _ABSENT)) for k in keys]
        inner = [_differences(a, b, f"{path}.{k}".lstrip(".")) for k, a, b in pairs]
        return [each for part in inner for each in part]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        inner = [
            _differences(a, b, f"{path}[{_label(a, i)}]")
            for i, (a, b) in enumerate(zip(before, now, strict=True))
        ]
        return [each for part in inner for each in part]
    if before == now:
        return []
    return [f"{path} is {_short(before)}, not {_short(now)}"]


def _label(item: Any, index: int) -> str:
    return str(item.get("id", index)) if isinstance(item, dict) else str(index)


_ABSENT = object()


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
