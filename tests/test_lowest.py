"""The lower bounds of pyproject.toml are the versions that `make check-lowest` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
