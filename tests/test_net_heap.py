"""Freed memory that stays with the process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from ladderspec.network.heap import keep_freed_memory
print(keep_freed_memory())
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.set_num_threads(1)
    blocks = [torch.ones(1 << 18) for _ in range(200)]  # a megabyte each
    blocks.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")


def told_and_faults(**variables: str) -> tuple[str, int]:
    """What the call says, and how many pages the third round of 200 MB had to be given."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=ours | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    told, faults = run.stdout.split()
    return told, int(faults)


@glibc
def test_freed_memory_is_used_again():
    told, faults = told_and_faults()
    assert told == "True"
    assert faults < 2_000  # of 51,200 pages


@glibc
def test_whoever_has_told_the_allocator_is_obeyed():
    told, faults = told_and_faults(MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072")
    assert told == "False"
    assert faults > 40_000


def test_other_allocators_are_left_alone(monkeypatch):
    from ladderspec.network import heap

    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    assert heap.keep_freed_memory.__wrapped__() is False
