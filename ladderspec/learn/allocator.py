"""Keep freed memory with the process, for the next step of training (glibc only).

A training step frees hundreds of megabytes. glibc may return much of that to the system, which then
clears every page of it again in the next step: up to an eighth of the time with large batches
(benchmarks/NOTES.md). It depends on the layout of the heap whether that happens.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
TRIM_BYTES = 2**31 - 1  # free memory at the top of the heap before any of it is returned
MMAP_BYTES = 32 << 20  # smallest block that is mapped by itself: the maximum of every glibc


@functools.cache
def keep_freed_memory() -> bool:
    """Set the thresholds of malloc for the rest of this process, once.

    Returns:
        Whether they are set. Not if the C library is not glibc, nor if the environment sets
        `MALLOC_...` or `GLIBC_TUNABLES`.
    """
    set_by_user = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if set_by_user or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_THRESHOLD, MMAP_BYTES) and mallopt(TRIM_THRESHOLD, TRIM_BYTES))
