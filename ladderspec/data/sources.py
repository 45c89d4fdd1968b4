"""The published files: checksums, mirrors, and their places in the data folder.

A data folder has a folder for each group of files, like `mnist/`; files directly inside it are
found too.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ladderspec.data.dataset import DataError, import_built_in
from ladderspec.errors import LadderspecError, reason
from ladderspec.files import write_atomic
from ladderspec.wording import did_you_mean, one_of

VARIABLE = "LADDERSPEC_DATA"


@dataclass(frozen=True)
class File:
    """A published file, identified by its checksum."""

    path: str  # in a data folder, and on a mirror
    bytes: int
    sha256: str

    @property
    def group(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


FILES: dict[str, File] = {}  # by path
MIRRORS: dict[str, tuple[str, ...]] = {}  # by group; `{name}` and `{path}` are those of a file


def publish(group: str, mirrors: Sequence[str], table: str) -> tuple[str, ...]:
    """Add the files of a data set to the table.

    Args:
        group: Their folder in the data folder.
        mirrors: Addresses, with `{name}` or `{path}` for those of a file. They need not be trusted:
            every file is verified by its checksum.
        table: A line for each file: its name, its size in bytes and its SHA-256.

    Returns:
        Their paths.
    """
    rows = [line.split() for line in table.strip().splitlines()]
    files = [File(f"{group}/{name}", int(size), sha256) for name, size, sha256 in rows]
    MIRRORS[group] = tuple(mirrors)
    FILES.update({file.path: file for file in files})
    return tuple(file.path for file in files)


def select(names: list[str]) -> list[File]:
    """The files with these groups (`mnist`), paths or file names; no name: all files."""
    import_built_in()  # the data sets publish their files
    if not names:
        return list(FILES.values())
    found: list[File] = []
    for name in names:
        chosen = [f for f in FILES.values() if name in (f.group, f.path, f.name, Path(f.name).stem)]
        if not chosen:
            there = f"there are {one_of(MIRRORS, 'and')}, and the files in them"
            hint = did_you_mean(name, [*MIRRORS, *FILES]) or there
            raise DataError(f"no files `{name}`; {hint}")
        found += [file for file in chosen if file not in found]
    return found


# --- places ---------------------------------------------------------------------------------------


def folder(given: Path | str | None = None) -> Path:
    """The data folder: the given one, else `LADDERSPEC_DATA`, else `data` in the user's cache."""
    chosen = given or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"


def cache_folder() -> Path:
    """The user's cache folder on this platform."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library/Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ladderspec"


def locate(file: File, root: Path) -> Path | None:
    """The place of a file in a folder: in its group, directly, or as torchvision stores it."""
    places = [root / file.path, root / file.name, root / file.group.upper() / "raw" / file.name]
    return next((place for place in places if os.path.isfile(place)), None)


def obtain(paths: Sequence[str], given: Path | str | None = None) -> list[Path]:
    """The places of files of the table; DataError with all files that are missing or damaged."""
    root, places = folder(given), []
    wrong: dict[File, str] = {}
    for file in (FILES[path] for path in paths):
        place = locate(file, root)
        state = State.MISSING if place is None else check(file, place)
        if place is not None and state is State.RIGHT:
            places.append(place)
        else:
            wrong[file] = f"{place or root / file.path} is {state}"
    if wrong:
        raise DataError("\n".join([*wrong.values(), how_to_get(list(wrong), root)]))
    return places


def how_to_get(files: list[File], root: Path) -> str:
    """How to get the files, with and without a network connection."""
    names = " ".join(dict.fromkeys(file.group for file in files))
    them = "it" if len(files) == 1 else "them"
    lines = [
        f"`ladderspec data download {names}` fetches {them}; without a network, copy into {root}:",
        *(f"  {file.path}  {file.bytes:,} bytes  sha256 {file.sha256}" for file in files),
        f"or point --data or {VARIABLE} to a folder that has {them};"
        " `ladderspec data verify` checks",
    ]
    return "\n".join(lines)


# --- verification ---------------------------------------------------------------------------------


class State(StrEnum):
    RIGHT = "verified"
    SHORT = "of the wrong size"
    WRONG = "not the published file (its checksum differs)"
    MISSING = "missing"


def check(file: File, place: Path, fresh: bool = False) -> State:
    """Compare a file with the table; `fresh`: hash it again even if it has not changed."""
    if place.stat().st_size != file.bytes:
        return State.SHORT
    return State.RIGHT if _sha256(place, fresh) == file.sha256 else State.WRONG


def digest_of_files(files: Mapping[str, Path]) -> str:
    """A digest of names and contents."""
    together = hashlib.sha256()
    for name, place in sorted(files.items()):
        together.update(f"{name}\0{_sha256(place)}\n".encode())
    return together.hexdigest()


def _sha256(place: Path, fresh: bool = False) -> str:
    """The digest of a file, from the user's cache if its size and time have not changed."""
    cache = cache_folder() / "digests.json"
    try:
        stat = place.stat()
    except OSError as error:
        raise DataError(f"cannot read {place}: {reason(error)}") from None
    stamp, key = [stat.st_size, stat.st_mtime_ns], str(place.resolve())
    try:
        table = json.loads(cache.read_text())
        before = table.get(key, [])
        if not fresh and before[:2] == stamp:
            return str(before[2])
    except (OSError, ValueError, RecursionError, AttributeError, TypeError, LookupError):
        table = {}  # missing or damaged
    digest = sha256_of(place)
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(cache, json.dumps({**table, key: [*stamp, digest]}, indent=1))
    except (OSError, LadderspecError):
        pass  # the file will be hashed again next time
    return digest


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}") from None
