"""Download files from mirrors: resumable, verified, and atomic.

A partial download is stored as `NAME.part`; the next attempt requests the rest.
"""

from __future__ import annotations

import http.client
import io
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ladderspec.data import sources
from ladderspec.data.dataset import DataError
from ladderspec.data.sources import File, State, check, how_to_get, locate, sha256_of
from ladderspec.errors import reason, tick
from ladderspec.version import __version__

VARIABLE = "LADDERSPEC_MIRRORS"
TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 4  # per mirror, without getting further than before
REQUESTS = 40  # per mirror, in all
SLOWEST = 1000  # bytes per second, over a period
PERIOD = 30.0  # seconds
PAUSE = 0.5  # seconds before the second attempt, doubled each time
CHUNK = 1 << 16

Progress = Callable[[File, int], None]


class _Refused(Exception):
    """A mirror that should not be tried again."""


class _Watch(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Refuses a mirror that sends too little of a file over a period, whatever else it sends.

    `http.client` reads headers, sizes of chunks and trailers without an end, if they are slow.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received = 0  # bytes of the file in this period
        self.since = time.monotonic()

    def check(self) -> None:
        """Called before each read from the connection."""
        passed = time.monotonic() - self.since
        if passed >= PERIOD:
            if self.received < SLOWEST * passed:
                raise _Refused(f"sends less than {SLOWEST:,} bytes per second")
            self.received, self.since = 0, time.monotonic()

    def do_open(self, http_class: Any, req: Any, **options: Any) -> Any:
        def connect(*args: Any, **named: Any) -> Any:
            connection = http_class(*args, **named)
            connection.response_class = partial(_Response, self)
            return connection

        return super().do_open(connect, req, **options)


class _Response(http.client.HTTPResponse):
    def __init__(self, watch: _Watch, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fp = io.BufferedReader(_Watched(watch, self.fp.detach()))


class _Watched(io.RawIOBase):
    """A stream of the bytes that arrive on a connection."""

    def __init__(self, watch: _Watch, arriving: io.RawIOBase) -> None:
        self.watch, self.arriving = watch, arriving

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self.watch.check()
        return self.arriving.readinto(buffer)

    def close(self) -> None:
        self.arriving.close()
        super().close()


def download(
    files: Sequence[File],
    root: Path,
    mirrors: Sequence[str] = (),
    progress: Progress = lambda file, done: None,
    pause: float = PAUSE,
) -> list[Path]:
    """Download the files that are missing or damaged in `root`.

    Args:
        mirrors: Addresses, also with `{name}` or `{path}`. Default: LADDERSPEC_MIRRORS, then the
            publishers.
        progress: Called with the file and the number of bytes received.
        pause: Seconds before the second attempt.

    Returns:
        The places of all files.
    """
    return [_fetch(file, root, _mirrors(file, mirrors), progress, pause) for file in files]


def _mirrors(file: File, given: Sequence[str]) -> list[str]:
    """Addresses of a file: given mirrors, else those of the variable, else the publishers."""
    chosen = list(given) or os.environ.get(VARIABLE, "").replace(",", " ").split()
    addresses = []
    for mirror in chosen or sources.MIRRORS[file.group]:
        if urlsplit(mirror).scheme not in ("http", "https", "file"):
            raise DataError(f"{mirror} is not a mirror: use http, https or file addresses")
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
    with _lock(part):
        if os.path.isfile(place) and check(file, place) is State.RIGHT:
            return place  # another process has downloaded it
        for address in addresses:
            try:
                _fill(address, file, part, progress, pause)
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
    raise DataError(f"could not download {file.path}\n{tried}\n{how_to_get([file], root)}")


def _fill(address: str, file: File, part: Path, progress: Progress, pause: float) -> None:
    """Fill `part` from one address; resume if the connection breaks off."""
    attempt, resumed, furthest = 0, _size(part) > 0, _size(part)
    reason = ""
    for _ in range(REQUESTS):
        try:
            _request(address, file, part, progress)
            if _size(part) == file.bytes:
                if sha256_of(part) == file.sha256:
                    return
                os.truncate(part, 0)
                if not resumed:
                    raise _Refused("sends other bytes (the checksum differs)")
                resumed, furthest = False, 0  # the old part may be of another file: start again
                continue
            reason = f"broke off at {_size(part):,} of {file.bytes:,} bytes"
        except urllib.error.HTTPError as error:
            reason = f"answers {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # the part is longer than the file
                os.truncate(part, 0)
            elif error.code < 500 and error.code not in (408, 425, 429):
                raise _Refused(reason) from None
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", None) or error or type(error).__name__)
        except ValueError as error:
            raise _Refused(f"answers with headers that cannot be read: {error}") from None
        resumed = resumed or _size(part) > 0
        attempt = 0 if _size(part) > furthest else attempt + 1
        furthest = max(furthest, _size(part))
        if attempt >= ATTEMPTS:
            raise _Refused(reason)
        time.sleep(pause * 2**attempt)
    raise _Refused(f"{reason}, after {REQUESTS} requests")


def _request(address: str, file: File, part: Path, progress: Progress) -> None:
    """One request for the bytes that are missing."""
    have = _size(part)
    if have == file.bytes:
        return
    headers = {"User-Agent": f"ladderspec/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(address, headers=headers)
    watch = _Watch()
    with urllib.request.build_opener(watch).open(request, timeout=TIMEOUT) as response:
        resumes = _resumes(response, have)
        have = have if resumes else 0
        length = response.headers.get("Content-Length")
        if length is not None and not re.fullmatch(r"[0-9]{1,18}", length.strip()):
            raise _Refused(f"answers with a Content-Length of {tick(length)}")
        if length is not None and have + int(length) != file.bytes:
            raise _Refused(f"offers {have + int(length):,} bytes instead of {file.bytes:,}")
        with _disk(part):
            handle = part.open("ab" if resumes else "wb", buffering=0)
        with handle:
            while have < file.bytes and (data := response.read1(min(CHUNK, file.bytes - have))):
                with _disk(part):
                    _write(handle, data)
                have += len(data)
                watch.received += len(data)
                progress(file, have)


def _resumes(response: Any, have: int) -> bool:
    """Whether the response is the rest of the file, not all of it."""
    start = (response.headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
    return bool(have) and response.status == 206 and start.strip() == str(have)


def _write(handle: Any, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[handle.write(rest) :]


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Report errors of the disk, which are not errors of the network."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {path}: {reason(error)}") from None


@contextmanager
def _lock(part: Path) -> Iterator[None]:
    """Lock a part, so that one process at a time fills it."""
    try:
        import fcntl
    except ImportError:  # Windows: two downloads cost time, but the checksum protects the file
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
