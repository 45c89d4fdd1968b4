"""The shipped specs and experiments, by name: `ladderspec:ommnist/rladder`."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ladderspec.errors import Finding, SpecError, did_you_mean, one_of, tick

PREFIX = "ladderspec:"


@cache
def folder() -> Path:
    """Inside the installed package, or beside the package in the repository."""
    package = Path(__file__).resolve().parent
    inside = package / "specs"
    return inside if os.path.isdir(inside) else package.parent / "specs"


@cache
def shipped() -> dict[str, Path]:
    """The files by name, without the prefix: `ommnist/rladder`."""
    files = sorted(folder().rglob("*.yaml"))
    return {path.relative_to(folder()).with_suffix("").as_posix(): path for path in files}


def located(path: str | Path) -> Path:
    """The path of a file, also of a shipped one by its name.

    Raises:
        SpecError: if no shipped file has the name.
    """
    text = str(path)
    if not text.startswith(PREFIX):
        return Path(path)
    name = text.removeprefix(PREFIX).removesuffix(".yaml")
    if name not in shipped():
        hint = suggestion(name) or "`ladderspec specs` lists them"
        raise SpecError([Finding("F001", f"no shipped spec {tick(name)}", hint=hint)])
    return shipped()[name]


def suggestion(name: str, close: bool = True) -> str:
    """Shipped files that may have been meant: those of the same name, or else a similar one."""
    last = name.rpartition("/")[2]
    same = [known for known in shipped() if last == known.rpartition("/")[2]]
    same = [known for known in same if known == name.removeprefix("specs/")] or same
    if same:
        return f"did you mean {one_of(PREFIX + known for known in same)}?"
    return did_you_mean(name, shipped()).replace("`", f"`{PREFIX}", 1) if close else ""
