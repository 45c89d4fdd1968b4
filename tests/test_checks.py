"""Claims about what was checked: lower bounds, Pythons, and gaps of `make check-all`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_bounds_are_those_that_are_run() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    text = (ROOT / "constraints-lowest.txt").read_text()
    pins = dict(re.findall(r"^([\w-]+)==([\d.]+)", text, re.M))
    run = ("data", "plot", "completion", "track", "export", "ray", "slurm")
    for requirement in [*project["dependencies"], *(each for name in run for each in extras[name])]:
        name, bound = requirement.split(">=")
        digits = pins[name].split(".")
        assert digits[: len(bound.split("."))] == bound.split("."), requirement
        assert set(digits[len(bound.split(".")) :]) <= {"0", "1"}, requirement


def test_torch_is_the_one_that_is_run() -> None:
    """There is no older version in any environment of ours."""
    pinned = (ROOT / "constraints.txt").read_text().strip()
    assert pinned in (ROOT / "constraints-lowest.txt").read_text()
    assert pinned.replace("==", ">=").removesuffix(".0") in (ROOT / "pyproject.toml").read_text()


def test_classifiers_name_the_pythons_on_which_the_suite_ran() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (\d+\.\d+)", "\n".join(project["classifiers"]))
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    (ran,) = re.findall(r"^The suite was run on Python ([\d., and]+)\.$", page, re.M)
    assert named == re.findall(r"\d+\.\d+", ran)
    assert project["requires-python"] == f">={named[0]}"


PROGRAMS = {
    "python": """case "$*" in
        *"-m long"*) echo "SKIPPED [1] tests/b.py:2: no queue"; exit 1 ;;
        *"-m pytest"*) echo "SKIPPED [2] tests/a.py:1: no browser" ;;
        *"import ray"*) exit 1 ;;
    esac""",
    "make": 'echo "made $1"',
    "apt-get": "exit 1",
}


@pytest.mark.skipif(sys.platform == "win32", reason="no bash")
def test_check_all_runs_every_part_and_prints_what_it_could_not_check(tmp_path: Path) -> None:
    """With programs that only say that they were called; one part fails."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "VENV": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / ".ci" / "check-all"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    for made in ("docs-site", "examples", "check-lowest"):
        assert f"made {made}" in done.stdout
    _, _, end = done.stdout.partition("\nParts:\n")
    parts, _, unchecked = end.partition("\nCould not be checked:\n")
    outcomes = [line.split()[:2] for line in parts.splitlines() if line]
    names = ["install", "site", "notebooks", "tests", "long", "lowest"]
    assert outcomes == [[name, "FAILED" if name == "long" else "passed"] for name in names]
    assert "  no ray\n" in unchecked
    assert "  no submitit\n" not in unchecked
    assert "  SKIPPED [1] tests/b.py:2: no queue\n" in unchecked
    assert "  SKIPPED [2] tests/a.py:1: no browser\n" in unchecked
