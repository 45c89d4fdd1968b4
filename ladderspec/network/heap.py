"""Memory that is freed stays with the process, for the next step of training.

A step frees hundreds of megabytes, and glibc may give much of that back to the system, which has to
clear every page of it again in the next step: up to an eighth of the time of large batches
(benchmarks/RESULTS.md). Whether that happens depends on what lies at the top of the heap.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # their numbers in malloc.h
KEPT = 2**31 - 1  # free bytes at the top of the heap from which on they are given back
APART = 32 << 20  # bytes of a block that is given back by itself: the most that every glibc takes


@functools.cache
def keep_freed_memory() -> bool:
    """Tell glibc so, once; False where there is none, or where the user has told it otherwise."""
    told = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if told or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_THRESHOLD, APART) and mallopt(TRIM_THRESHOLD, KEPT))
