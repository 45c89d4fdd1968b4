"""Everything that the README shows is run."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def steps() -> list[tuple[str, str]]:
    """Commands and the output shown under them."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


def test_the_tour(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    checker = doctest.OutputChecker()
    assert len(steps()) >= 7
    for command, shown in steps():
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        got = done.stdout + done.stderr
        assert checker.check_output(shown, got, doctest.ELLIPSIS), f"$ {command}\n{got}"


def test_the_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        scope: dict[str, object] = {}
        for line in block.splitlines():
            code, _, comment = line.partition("  # ")
            if re.fullmatch(r"\([\d, ]+\)", comment.strip()):  # a value shown beside its expression
                assert str(eval(code, scope)) == comment.strip()
            else:
                exec(line, scope)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", README):
        assert (ROOT / target).exists(), target
