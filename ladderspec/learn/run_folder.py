"""The folder of a run: which run it holds, its result, its metrics, and a lock.

run.json        identity and settings of the run
graph.json      its network
metrics.jsonl   a row for every so many updates and for every evaluation, without times
times.jsonl     speed
last.json, best.json and their .safetensors
pictures/
result.json     written last: the run is finished
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ladderspec.data import DataConfig, DataError
from ladderspec.errors import UsageError, reason
from ladderspec.experiments.runs import Run
from ladderspec.files import (
    checksum,
    make_folder,
    read_json,
    read_sealed,
    sealed,
    sweep,
    write_atomic,
)
from ladderspec.wiring import graph_json
from ladderspec.wording import first_of

try:
    import fcntl
except ImportError:  # Windows: folders are not locked
    fcntl = None  # type: ignore[assignment]

CONTENT = "content"  # key of run.json: a digest of the user's own data
START = "start_weights"  # key of run.json: a checksum of the checkpoint that it starts from
GRAPH_CHECKSUM = "graph_checksum"  # key of run.json
BEGUN_AS = "begun_as"  # key of run.json: the digest that its checkpoints name
ABANDONED = 3600.0  # seconds after which a temporary file is no longer being written


def read_result(folder: Path, run: Run | None = None) -> dict[str, Any] | None:
    """The result of a finished run; None if it is not finished, or if it is not `run`."""
    try:
        found = read_sealed(folder / "result.json")
        ResultRecord.model_validate(found)
    except (FileNotFoundError, UsageError, ValidationError):
        return None
    found.pop("checksum", None)
    return found if run is None or run.is_recorded_as(found.get("digest")) else None


def damaged_result(folder: Path) -> bool:
    """Whether there is a `result.json` that cannot be used."""
    return os.path.exists(folder / "result.json") and read_result(folder) is None


class ResultRecord(BaseModel):
    """The part of `result.json` that is read again."""

    model_config = ConfigDict(strict=True)

    digest: str
    updates: int
    metrics: dict[str, dict[str, float]]
    by_time: dict[str, dict[str, list[float]]] = {}
    units: dict[str, str]
    higher_is_better: list[str] = []
    parameters: int
    reported: Literal["best", "last"] = "last"


def begun(folder: Path) -> bool:
    """Whether a training has written a checkpoint into a folder."""
    return any(os.path.exists(folder / name) for name in ("last.json", "last.before.json"))


def reported(folder: Path) -> tuple[Path, str]:
    """The weights that the result of a run is about: their folder, and `best` or `last`."""
    retrained = folder / "retrain"
    place = retrained if begun(retrained) else folder
    found = read_result(folder) or read_result(place)
    if found is None and (damaged_result(folder) or damaged_result(place)):
        raise UsageError(
            f"{folder / 'result.json'} is damaged: it does not say which weights the run reports;"
            f" `train --resume` writes it again, and {place / 'last.json'} names the last weights"
        )
    return place, str((found or {}).get("reported", "last"))


def check(folder: Path, run: Run, resume: bool, data: Path | None = None) -> None:
    """Refuse a folder that holds another run, or that would be overwritten.

    Args:
        folder: the folder.
        run: the run that is to be trained there.
        resume: whether it may have been begun.
        data: the data folder.
    """
    place = folder / "run.json"
    try:
        before = read_json(place)
    except FileNotFoundError:
        before = None
    except UsageError as error:
        raise UsageError(f"{error}; remove the folder to start again") from None
    if before is not None:
        keys = [*run.identity, *(["plugins"] if "plugins" in before else [])]
        recorded = {key: before[key] for key in keys if key in before}
        if recorded not in run.identities:
            raise UsageError(f"{folder} holds another run: {difference(recorded, run.identity)}")
        if begun(folder) and (what := changed_inputs(folder, run, data)):
            raise UsageError(
                f"the {what} of {folder} have changed since it was begun; restore them, or train"
                " in another folder"
            )
        if begun(folder) and not resume:
            raise UsageError(f"{folder} holds this run already; --resume continues it")


def changed_inputs(folder: Path, run: Run, data: Path | None) -> str:
    """The inputs of a run that differ from those it began with; empty if none does.

    Args:
        folder: the folder.
        run: the run that it holds.
        data: the data folder.
    """
    before, start = _record(folder), start_weights(run, folder)
    changed = {
        "data": content_changed(before.get(CONTENT), run.data, data),
        "initial weights": start is not None and before.get(START) not in (None, start),
    }
    return " and ".join(name for name in changed if changed[name])


def content_changed(recorded: str | None, data: DataConfig, root: Path | None) -> bool:
    """Whether the user's own data have another content than was recorded.

    Not if the data are gone, or if a run of an earlier version recorded nothing.
    """
    try:
        now = None if recorded is None else data.content(root)
    except DataError:
        return False
    return now is not None and now != recorded


def start_folder(run: Run, folder: Path) -> Path | None:
    """The folder of the run that this one starts from: beside its own, or a given one."""
    if run.origin is not None:
        return folder.parent / run.origin.id
    return None if run.start is None else Path(run.start)


def start_weights(run: Run, folder: Path) -> str | None:
    """The checksum of the checkpoint that a run starts from; None if there is none, or no more."""
    place = start_folder(run, folder)
    if place is None or (run.origin is not None and read_result(place, run.origin) is None):
        return None
    try:
        place, name = reported(place)
        return str(read_json(place / f"{name}.json")["checksum"])
    except (FileNotFoundError, UsageError, KeyError):
        return None


def owner(folder: Path) -> str | None:
    """The identity of the run that checkpoints of a folder name; another training has another.

    None if the folder holds no run, or one of an earlier version.
    """
    retrains = folder.name == "retrain"
    digest = _record(folder.parent if retrains else folder).get(BEGUN_AS)
    return f"{digest} retrain" if digest and retrains else digest


def _record(folder: Path) -> dict[str, Any]:
    """The content of `run.json`; empty if it is missing or damaged."""
    try:
        return read_json(folder / "run.json")
    except (FileNotFoundError, UsageError):
        return {}


def claim(folder: Path, run: Run, resume: bool, data: Path | None = None) -> None:
    """Check a folder and write the identity and the graph of the run into it."""
    content = run.data.content(data)
    check(folder, run, resume, data)
    before = _record(folder) if begun(folder) else None
    for place in (folder, folder / "retrain", folder / "pictures", folder / "retrain" / "pictures"):
        sweep(place, 0 if fcntl else ABANDONED)  # only we may write here, if folders can be locked
    graph = graph_json.dumps(run.graph) + "\n"
    write_atomic(folder / "graph.json", graph)
    record = {**run.dump(), CONTENT: content, GRAPH_CHECKSUM: checksum(graph.encode())}
    record[START] = start_weights(run, folder) if before is None else before.get(START)
    # The same run can be recorded in several forms.
    record[BEGUN_AS] = (before or {}).get(BEGUN_AS) or run.digest
    write_atomic(folder / "run.json", json.dumps(sealed(record), indent=1) + "\n")


def difference(before: Any, now: Any) -> str:
    """The first few places where two trees of JSON differ.

    >>> difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}})
    'a.b is 1, not 3'
    >>> difference({"a": {}}, {"a": {"b": 3}})
    'a.b is absent, not 3'
    """
    return first_of(_differences(before, now, ""), between="; ")


def _differences(before: Any, now: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        missing = {key: _UNRECORDED.get(key, _ABSENT) for key in keys}
        pairs = [(k, before.get(k, missing[k]), now.get(k, missing[k])) for k in keys]
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
    """The name of a node, the ends of an arrow, or a place in a list."""
    if isinstance(item, dict) and "source" in item:
        return f"{item['source']} -> {item['target']}"
    return str(item.get("id", index)) if isinstance(item, dict) else str(index)


_ABSENT = object()
_UNRECORDED = {"revision": 1, "initial_gain": 1.0}  # the meaning of an identity without these


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


# --- lock -----------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. The system unlocks it if this process dies.

    Two processes would overwrite each other's checkpoints.
    """
    make_folder(folder)
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {reason(error)}") from None
    try:
        # Some file systems have no locks; there is no protection then.
        with contextlib.suppress(OSError):
            if fcntl is not None and not _try_lock(handle):
                raise UsageError(f"another process is training {folder}")
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
