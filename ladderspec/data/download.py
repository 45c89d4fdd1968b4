"""Fetch files from mirrors: resumable, checked, whole or not at all.

What has arrived is kept as `NAME.part`; the next attempt asks for the rest.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ladderspec.data._contract import DataError
from ladderspec.data.sources import MIRRORS, File, State, check, how_to_get, locate, sha256_of
from ladderspec.version import __version__

VARIABLE = "LADDERSPEC_MIRRORS"
TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 4  # per mirror, counted anew whenever something arrives
PAUSE = 0.5  # seconds before the second attempt; then twice as long each time
CHUNK = 1 << 16

Progress = Callable[[File, int], None]


class _Refused(Exception):
    """A mirror that need not be asked again."""


def download(
    files: Sequence[File],
    root: Path,
    mirrors: Sequence[str] = (),
    progress: Progress = lambda file, done: None,
    pause: float = PAUSE,
) -> list[Path]:
    """Fetch what is missing or damaged in `root`; the places of all files."""
    return [_fetch(file, root, _mirrors(file, mirrors), progress, pause) for file in files]


def _mirrors(file: File, given: Sequence[str]) -> list[str]:
    """Addresses of a file: of the mirrors given, else of the variable, else of the table."""
    chosen = list(given) or os.environ.get(VARIABLE, "").replace(",", " ").split()
    addresses = []
    for mirror in chosen or MIRRORS[file.group]:
        if urlsplit(mirror).scheme not in ("http", "https", "file"):
            raise DataError(f"{mirror} is no mirror; http, https and file addresses are")
        form = mirror if "{" in mirror else mirror.rstrip("/") + "/{path}"
        addresses.append(form.replace("{name}", file.name).replace("{path}", file.path))
    return addresses


def _fetch(file: File, root: Path, addresses: list[str], progress: Progress, pause: float) -> Path:
    place = locate(file, root)
    if place is not None and check(file, place) is State.RIGHT:
        return place
    place = root / file.path
    part = place.with_name(place.name + ".part")
    with _disk(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    reasons: list[str] = []
    with _alone(part):
        if place.is_file() and check(file, place) is State.RIGHT:
            return place  # another process has just fetched it
        for address in addresses:
            try:
                _from(address, file, part, progress, pause)
            except _Refused as reason:
                reasons.append(f"  {address}: {reason}")
                continue
            with _disk(place):
                os.replace(part, place)
            check(file, place, fresh=True)
            return place
        if not _size(part):
            part.unlink(missing_ok=True)
    tried = "\n".join(reasons)
    raise DataError(f"could not fetch {file.path}\n{tried}\n{how_to_get([file], root)}")


def _from(address: str, file: File, part: Path, progress: Progress, pause: float) -> None:
    """Fill `part` from one address, going on where it breaks off."""
    attempt, pieces = 0, _size(part) > 0
    while True:
        before = _size(part)
        try:
            _more(address, file, part, progress)
            if _size(part) == file.bytes:
                if sha256_of(part) == file.sha256:
                    return
                os.truncate(part, 0)
                if not pieces:
                    raise _Refused("sends other bytes (its checksum differs)")
                pieces = False  # perhaps they did not belong together: once more from the start
                continue
            reason = f"broke off at {_size(part):,} of {file.bytes:,} bytes"
        except urllib.error.HTTPError as error:
            reason = f"answers {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # what we have is longer than its file
                os.truncate(part, 0)
            elif error.code < 500 and error.code not in (408, 425, 429):
                raise _Refused(reason) from None
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", None) or error or type(error).__name__)
        pieces = pieces or _size(part) > 0
        attempt = 0 if _size(part) > before else attempt + 1
        if attempt >= ATTEMPTS:
            raise _Refused(reason)
        time.sleep(pause * 2**attempt)


def _more(address: str, file: File, part: Path, progress: Progress) -> None:
    """One request for what is missing."""
    have = _size(part)
    if have == file.bytes:
        return
    headers = {"User-Agent": f"ladderspec/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        goes_on = _continues(response, have)
        have = have if goes_on else 0
        said = response.headers.get("Content-Length")
        if said is not None and have + int(said) != file.bytes:
            raise _Refused(f"offers {have + int(said):,} bytes instead of {file.bytes:,}")
        with _disk(part):
            handle = part.open("ab" if goes_on else "wb", buffering=0)
        with handle:
            while have < file.bytes and (data := response.read1(min(CHUNK, file.bytes - have))):
                with _disk(part):
                    _write(handle, data)
                have += len(data)
                progress(file, have)


def _continues(response: Any, have: int) -> bool:
    """Whether the answer is the rest, and not the whole again."""
    start = (response.headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
    return bool(have) and response.status == 206 and start.strip() == str(have)


def _write(handle: Any, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[handle.write(rest) :]


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """What fails in here is our disk, not their network."""
    try:
        yield
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise DataError(f"cannot write {path}: {said}") from None


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """One process at a time fills a part; the others wait."""
    try:
        import fcntl
    except ImportError:  # Windows: two at once cost time; the checksum keeps the file right
        yield
        return
    with _disk(part):
        handle = part.open("ab")
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
