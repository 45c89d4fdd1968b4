"""A run is trained by one process at a time: two would overwrite each other's checkpoints."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ladderspec.errors import UsageError
from ladderspec.files import make_folder

try:
    import fcntl
except ImportError:  # Windows: nobody is kept out
    fcntl = None  # type: ignore[assignment]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; the system lets go of it when this one dies."""
    make_folder(folder)
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write {folder}: {reason}") from None
    try:
        # Some file systems know no locks; there nobody is kept out either.
        with contextlib.suppress(OSError):
            if fcntl is not None and not _locked(handle):
                raise UsageError(f"another process is training {folder}")
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
