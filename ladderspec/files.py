"""Atomic writing: files appear whole or not at all. Bounded reading of JSON from anywhere."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from errno import EISDIR, ELOOP
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from ladderspec.errors import UsageError, reason

TEMPORARY = ".ladderspec"  # the suffix of temporary files
MAX_JSON = 256 * 2**20  # bytes
MAX_DEPTH = 40  # of lists and mappings inside each other


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file, which may come from anywhere.

    Raises:
        FileNotFoundError: if there is no such file.
        UsageError: if it cannot be read, is too large, or is nested too deep.
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None


def read_text(path: Path) -> str:
    """The text of a file that may come from anywhere; it raises what `read_json` does."""
    try:
        return read_regular(path, MAX_JSON).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is damaged: {error}") from None


def read_regular(path: Path, most: float = math.inf) -> bytes:
    """The content of a regular file: a named pipe would wait, a device may never end.

    Args:
        path: The file.
        most: The number of bytes that it may have.

    Raises:
        FileNotFoundError: if there is no such file.
        UsageError: if it cannot be read or is too large.
    """
    try:
        found = path.stat()
        if found.st_size > most:
            raise UsageError(f"{path} is too large: it has more than {most:,} bytes")
        if not S_ISREG(found.st_mode) and not S_ISDIR(found.st_mode):
            raise UsageError(f"cannot read {path}: it is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {reason(error)}") from None


def parse_json(text: str) -> dict[str, Any]:
    """The mapping in a JSON text; ValueError if it is anything else or nested too deep.

    >>> parse_json("[" * 100000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested more than 40 deep
    """
    too_deep = ValueError(f"it is nested more than {MAX_DEPTH} deep")
    try:
        found = json.loads(text)
    except RecursionError:
        raise too_deep from None
    layer = [found]
    for _ in range(MAX_DEPTH):
        layer = [inner for value in layer for inner in _inside(value)]
    if layer:
        raise too_deep
    if not isinstance(found, dict):
        raise ValueError("a mapping is expected")
    return found


def checksum(data: bytes) -> str:
    """A checksum against accidents; it is no signature."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def sealed(record: Mapping[str, Any], key: str = "checksum") -> dict[str, Any]:
    """A record with a checksum of all else that it says.

    >>> intact(sealed({"a": 1})), intact({**sealed({"a": 1}), "a": 2}), intact({"a": 1})
    (True, False, True)
    """
    content = {name: value for name, value in record.items() if name != key}
    return {**content, key: checksum(json.dumps(content, sort_keys=True).encode())}


def intact(record: Mapping[str, Any], key: str = "checksum") -> bool:
    """Whether a record is as it was sealed. Those of earlier versions have no checksum."""
    return key not in record or sealed(record, key)[key] == record[key]


def read_sealed(path: Path) -> dict[str, Any]:
    """A sealed record; it raises what `read_json` does, and UsageError if it was changed."""
    found = read_json(path)
    if not intact(found):
        raise UsageError(
            f"{path} is damaged or was changed: its checksum is another; if the change is meant,"
            " remove `checksum` from it"
        )
    return found


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def write_atomic(path: str | Path, content: str | bytes) -> Path:
    """Write to a temporary name beside `path`, then rename."""
    return write_all([(Path(path), content)])[0]


def write_all(files: Sequence[tuple[Path, str | bytes]]) -> list[Path]:
    """Write several files: all of them, or none if one of them cannot be written.

    Symbolic links stay, and so do pipes and devices, which are written to directly.
    """
    waiting: list[tuple[str, Path]] = []
    here = Path()
    try:
        for here, content in files:
            data = content.encode() if isinstance(content, str) else content
            target = _target(here)
            if os.path.exists(target) and not os.path.isfile(target):
                _write_special(target, data)
                continue
            waiting.append((_beside(target), target))
            _fill(waiting[-1][0], data)
        for temporary, here in waiting:
            os.replace(temporary, here)
        for folder in {path.parent for _, path in waiting}:
            sync(folder)
    except (OSError, ValueError) as error:
        for temporary, _ in waiting:
            Path(temporary).unlink(missing_ok=True)
        raise UsageError(f"cannot write {here}: {reason(error)}") from None
    return [path for path, _ in files]


def _target(path: Path) -> Path:
    """The file that a path leads to, if it is no folder."""
    target = Path(os.path.realpath(path))
    for wrong, code in ((target.is_symlink(), ELOOP), (os.path.isdir(target), EISDIR)):
        if wrong:
            raise OSError(code, os.strerror(code))
    return target


def _beside(path: Path) -> str:
    """A temporary file in the folder of `path`."""
    handle, temporary = tempfile.mkstemp(TEMPORARY, f".{path.name[:50]}.", path.parent)
    os.close(handle)
    return temporary


def _write_special(path: Path, data: bytes) -> None:
    """Write to a pipe or a device."""
    with open(path, "wb", opener=not_waiting) as file:
        os.set_blocking(file.fileno(), True)
        file.write(data)


def not_waiting(path: str, flags: int) -> int:
    """An `opener` for writing: a pipe that nobody reads is an error, and no reason to wait."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def sweep(folder: Path, seconds: float) -> list[Path]:
    """Remove the temporary files that killed processes have left in a folder.

    Args:
        folder: The folder; what is deeper inside it stays.
        seconds: The age from which on a file is left behind; 0 if no other process can write here.

    Returns:
        The removed files.
    """
    removed = []
    for path in folder.glob(f".*{TEMPORARY}"):
        try:
            found = path.lstat()
            age = abs(time.time() - found.st_mtime)  # negative if the clock has jumped back
            if S_ISREG(found.st_mode) and age >= seconds:
                path.unlink()
                removed.append(path)
        except OSError:  # another process was faster
            continue
    return removed


def _fill(temporary: str, data: bytes) -> None:
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, 0o666 & ~_umask())


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk. A missing file is ignored."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # missing; Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if not os.path.isdir(path):  # some file systems sync no folders
            raise UsageError(f"cannot write {path}: {reason(error)}") from None
    finally:
        os.close(handle)


def make_folder(path: str | Path) -> Path:
    """Make a folder and its parents, if they are missing."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {reason(error)}") from None
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
