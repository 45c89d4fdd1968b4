"""Atomic writing: files appear whole or not at all. Bounded reading of JSON from anywhere."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from errno import EISDIR
from pathlib import Path
from stat import S_ISREG
from typing import Any

from ladderspec.errors import UsageError

TEMPORARY = ".ladderspec"  # the suffix of temporary files
MAX_JSON = 256 * 2**20  # bytes
MAX_DEPTH = 40  # of lists and mappings inside each other


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file, which may come from anywhere.

    Raises:
        FileNotFoundError: if there is no such file.
        UsageError: if it cannot be read, is too large, or is nested too deep.
    """
    try:
        if path.stat().st_size > MAX_JSON:
            raise UsageError(f"{path} is too large: it has more than {MAX_JSON:,} bytes")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None


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


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def write_atomic(path: str | Path, content: str | bytes) -> Path:
    """Write to a temporary name beside `path`, then rename."""
    return write_all([(Path(path), content)])[0]


def write_all(files: Sequence[tuple[Path, str | bytes]]) -> list[Path]:
    """Write several files: all of them, or none if one of them cannot be written."""
    waiting: list[tuple[str, Path]] = []
    here = Path()
    try:
        for here, content in files:
            waiting.append((_beside(here), here))
            _fill(waiting[-1][0], content.encode() if isinstance(content, str) else content)
        for temporary, here in waiting:
            os.replace(temporary, here)
        for folder in {path.parent for _, path in waiting}:
            sync(folder)
    except OSError as error:
        for temporary, _ in waiting:
            Path(temporary).unlink(missing_ok=True)
        raise UsageError(f"cannot write {here}: {(error.strerror or str(error)).lower()}") from None
    return [path for _, path in waiting]


def _beside(path: Path) -> str:
    """A temporary file in the folder of `path`."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    handle, temporary = tempfile.mkstemp(TEMPORARY, f".{path.name}.", path.parent)
    os.close(handle)
    return temporary


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
            if S_ISREG(found.st_mode) and time.time() - found.st_mtime >= seconds:
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
        if not path.is_dir():  # some file systems sync no folders
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write {path}: {reason}") from None
    finally:
        os.close(handle)


def make_folder(path: str | Path) -> Path:
    """Make a folder and its parents, if they are missing."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
