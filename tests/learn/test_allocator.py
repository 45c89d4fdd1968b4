"""Freed memory stays with the process if an experiment asks for it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ladderspec.learn import allocator
from ladderspec.learn import train as train_module
from ladderspec.learn.train import train
from tests.training import EXPERIMENT, one_run

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

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has it")


def setting_and_faults(**variables: str) -> tuple[str, int]:
    """What the call returns, and the page faults of the third round of 200 MB."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, allocator.__file__],
        env=ours | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    found, faults = run.stdout.split()
    return found, int(faults)


@glibc
def test_freed_memory_is_used_again() -> None:
    found, faults = setting_and_faults()
    assert found == "True"
    assert faults < 2_000  # of 51,200 pages


@glibc
@pytest.mark.parametrize("variable", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_settings_in_the_environment_win(variable: str) -> None:
    found, faults = setting_and_faults(**{variable: "131072"})
    assert found == "False"
    assert faults > 40_000


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    assert allocator.keep_freed_memory.__wrapped__() is False


@pytest.mark.parametrize("keep", [False, True])
def test_training_asks_for_it_only_if_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    calls = []
    monkeypatch.setattr(train_module, "keep_freed_memory", lambda: calls.append(1))
    text = EXPERIMENT.replace("pictures: 0", f"pictures: 0, keep_freed_memory: {str(keep).lower()}")
    run = one_run(tmp_path, text, updates=1)
    train(run, tmp_path / "run", quiet=True)
    assert len(calls) == keep
    assert run.digest == one_run(tmp_path, updates=1).digest
