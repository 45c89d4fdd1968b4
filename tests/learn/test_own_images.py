"""The page on grouping of one's own images: what it says works, in a few updates."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from ladderspec.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "grouping.md"


def prepare(folder: Path) -> None:
    """Make the files of the page in the current folder."""
    page = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    changes, study = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (folder / "make_images.py").write_text(program)
    (folder / "mine_study.yaml").write_text(study)
    runpy.run_path("make_images.py")
    assert main(["new", "mine.yaml", "--template", "grouping"]) == 0
    lines = (folder / "mine.yaml").read_text().splitlines()
    for change in changes.splitlines():
        (place,) = (i for i, line in enumerate(lines) if line.split(":")[0] == change.split(":")[0])
        lines[place] = change
    (folder / "mine.yaml").write_text("\n".join(lines) + "\n")


def shorten(folder: Path) -> None:
    study = yaml.safe_load((folder / "mine_study.yaml").read_text())
    study["training"]["updates"] = 3
    study["evaluation"] = {"every": 3, "items": 8, "statistics": 1}
    (folder / "mine_study.yaml").write_text(yaml.safe_dump(study))


@pytest.mark.parametrize("truth", [True, False])
def test_own_images_are_grouped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    shorten(tmp_path)
    if not truth:
        spec = tmp_path / "mine.yaml"
        spec.write_text(spec.read_text().replace(", truth: groups", ""))
    assert main(["train", "mine_study.yaml", "-o", "out"]) == 0
    result = json.loads((tmp_path / "out/rtagger.seed0/result.json").read_text())
    assert list(result["metrics"]["test"]) == ["segment.ami" if truth else "segment.residual"]
    (picture,) = (tmp_path / "out/rtagger.seed0/pictures").iterdir()
    assert picture.stat().st_size > 10_000
