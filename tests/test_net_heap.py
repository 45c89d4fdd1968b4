"""Freed memory that stays with the process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

import ladderspec as ls
from ladderspec.network import heap, net

# Without torch, which leaves something at the top of the heap, where it holds everything below.
SCRIPT = """
import resource, runpy, sys
print(runpy.run_path(sys.argv[1])["keep_freed_memory"]())
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [bytearray(b"1") * (1 << 20) for _ in range(200)]
    blocks.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")


def told_and_faults(**variables: str) -> tuple[str, int]:
    """What the call says, and how many pages the third round of 200 MB had to be given."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, heap.__file__],
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
@pytest.mark.parametrize("variable", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_whoever_has_told_the_allocator_is_obeyed(variable):
    told, faults = told_and_faults(**{variable: "131072"})
    assert told == "False"
    assert faults > 40_000


def test_other_allocators_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    assert heap.keep_freed_memory.__wrapped__() is False


def test_the_first_network_says_so(monkeypatch):
    calls = []
    monkeypatch.setattr(net, "keep_freed_memory", lambda: calls.append(1))
    ls.build("specs/ommnist/rladder_tiny.yaml")
    assert calls
