"""The gallery shows every shipped spec once; drawing it is cheap."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from drawing.pictures import SPECS
from ladderspec.cli import whole_parser

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = DOCS / "make_gallery.py"


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_gallery", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_gallery"] = module
    spec.loader.exec_module(module)
    return module


def test_every_spec_is_in_the_gallery(gallery: ModuleType, tmp_path: Path) -> None:
    gallery.main(["--docs", str(tmp_path)])
    page = (tmp_path / "gallery.md").read_text(encoding="utf-8")
    for path in SPECS.rglob("*.yaml"):
        if "experiments" in path.parts:
            continue
        name = path.relative_to(SPECS)
        own, listed = f"### {name}\n", f"\n- [{name}](../specs/{name}): "
        assert page.count(own) + page.count(listed) == 1
        assert (listed in page) == bool(gallery.SIZES.search(path.stem)), name
    headings = re.findall("^##+ (.*)$", page, re.MULTILINE)
    contents = re.findall(r"^ *- \[(.*)\]\(#", page, re.MULTILINE)
    assert contents == headings
    drawn = {path.name for path in (tmp_path / "gallery").iterdir()}
    assert {
        line.partition("](gallery/")[2][:-1] for line in page.splitlines() if "](g" in line
    } == drawn
    assert page == (DOCS / "gallery.md").read_text(encoding="utf-8"), "run `make gallery`"
    for name in drawn:
        files = tmp_path / "gallery" / name, DOCS / "gallery" / name
        assert files[0].read_bytes() == files[1].read_bytes(), f"{name}: run `make gallery`"


def test_the_commands_of_the_gallery_are_commands(gallery: ModuleType) -> None:
    from ladderspec.cli import COMMANDS

    if "draw" not in COMMANDS:
        pytest.skip("not checked: `draw` is no command yet")
    parser = whole_parser(arguments=True)
    for shot in gallery.SHOWN:
        parser.parse_args(shlex.split(shot.command())[1:])
