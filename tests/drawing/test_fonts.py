"""Other fonts: in programs that replace Helvetica, no text leaves its box, its task or the sheet.

Drawings are rendered with their texts alone: those of boxes red, those of tasks green, all others
blue. librsvg ignores `textLength`, so wide fonts are wide there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from drawing.pictures import GROUPED, SPECS
from ladderspec.api import load, loads
from ladderspec.drawing import svg

SPACE = "{http://www.w3.org/2000/svg}"
FAMILIES = [("DejaVu Sans", "DejaVu Serif"), ("Nimbus Sans", "Nimbus Roman")]
ZOOM = 2
RLADDER, LADDER = SPECS / "ommnist/rladder.yaml", SPECS / "related/ladder_tiny.yaml"
COLUMN = {"view": "rolled", "group": True, "width": "8.5cm"}
RED, GREEN, BLUE = "#ff0000", "#00ff00", "#0000ff"


class Sheet(NamedTuple):
    """A drawing without lines and fills, and where its texts belong."""

    text: str
    size: tuple[float, float]
    boxes: list[tuple[float, ...]]  # x, y, width, height
    tasks: list[tuple[float, ...]]


def drawings() -> dict[str, str]:
    variant = load(LADDER, "plain")
    return {
        "rladder": svg(load(RLADDER), iterations=1),
        "column": svg(load(RLADDER), **COLUMN),
        "changes": svg(variant, base=load(LADDER), view="rolled"),
        "groups": svg(loads(GROUPED), start=True),
        "mini": svg(loads(GROUPED), view="mini"),
    }


def sheet_of(text: str, sans: str, serif: str) -> Sheet:
    text = re.sub(r"font-family=\"'[^\"]*\"", f'font-family="{serif}"', text)
    text = re.sub(r'font-family="Helvetica[^"]*"', f'font-family="{sans}"', text)
    root = ElementTree.fromstring(text)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    root.set("width", str(width * ZOOM))
    root.set("height", str(height * ZOOM))
    found: dict[str, list[tuple[float, ...]]] = {RED: [], GREEN: [], BLUE: []}
    for group in [*root.iter(f"{SPACE}g"), root]:
        colour = BLUE
        for item in list(group):
            if item.tag == f"{SPACE}rect" and group.get("class") == "node":
                colour = GREEN if colour == RED else RED if colour == BLUE else GREEN
                place = tuple(float(item.attrib[key]) for key in ("x", "y", "width", "height"))
                found[colour].append(place)
            if item.tag in (f"{SPACE}rect", f"{SPACE}path"):
                group.remove(item)
            elif item.tag == f"{SPACE}text":
                item.set("fill", colour)
                item.attrib.pop("text-decoration", None)
    ElementTree.register_namespace("", SPACE[1:-1])
    shown = ElementTree.tostring(root, encoding="unicode")
    return Sheet(shown, (width, height), found[RED], found[GREEN])


def overflow(image: NDArray[Any], sheet: Sheet) -> list[str]:
    """What is outside its place: `image` is (H, W, 3), from 0 to 1."""
    ink = {name: 1 - np.delete(image, i, 2).max(2) > 0.25 for i, name in enumerate("rgb")}
    assert all(ink[name].any() for name, places in zip("rg", sheet[2:], strict=True) if places)
    assert ink["b"].any()
    boxes, tasks = (mask(image.shape[:2], places) for places in (sheet.boxes, sheet.tasks))
    border = np.ones(image.shape[:2], bool)
    border[1:-1, 1:-1] = False
    problems = {
        "the text of a box leaves it": ink["r"] & ~boxes,
        "the text of a task leaves it": ink["g"] & ~tasks,
        "a label is on a box": ink["b"] & boxes,
        "a label leaves the sheet": ink["b"] & border,
    }
    return [
        f"{name}: {np.argwhere(where)[0] / ZOOM}" for name, where in problems.items() if where.any()
    ]


def mask(shape: tuple[int, ...], places: list[tuple[float, ...]]) -> NDArray[np.bool_]:
    found = np.zeros(shape, bool)
    for place in places:
        x, y, width, height = (round(value * ZOOM) for value in place)
        found[y : y + height, x : x + width] = True
    return found


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return drawings()


@pytest.mark.skipif(not shutil.which("rsvg-convert"), reason="not checked: no `rsvg-convert` here")
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_librsvg(texts: dict[str, str], family: tuple[str, str], tmp_path: Path) -> None:
    for name, text in texts.items():
        sheet = sheet_of(text, *family)
        (tmp_path / "a.svg").write_text(sheet.text, encoding="utf-8")
        command = ["rsvg-convert", "-b", "white", "-o", "a.png", "a.svg"]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert overflow(imread(tmp_path / "a.png")[..., :3], sheet) == [], name


@pytest.mark.skipif(not shutil.which("chromium"), reason="not checked: no `chromium` here")
def test_chromium(texts: dict[str, str], tmp_path: Path) -> None:
    """All drawings below each other in one page."""
    sheets = [(n, f, sheet_of(t, *f)) for n, t in texts.items() for f in FAMILIES]
    tall = [round(sheet.size[1] * ZOOM) + 1 for *_, sheet in sheets]
    wide = max(round(sheet.size[0] * ZOOM) for *_, sheet in sheets)
    tops = np.cumsum([0, *tall])
    body = "".join(
        f'<div style="position:absolute;left:0;top:{top}px">{sheet.text}</div>'
        for (*_, sheet), top in zip(sheets, tops[:-1], strict=True)
    )
    page = f'<!doctype html><meta charset="utf-8"><style>body{{margin:0}}</style>{body}'
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--disable-lcd-text", f"--window-size={wide},{tops[-1]}", "--screenshot=a.png",
               f"file://{tmp_path}/a.html"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    image = imread(tmp_path / "a.png")[..., :3]
    for (name, family, sheet), top in zip(sheets, tops[:-1], strict=True):
        width, height = (round(side * ZOOM) for side in sheet.size)
        assert overflow(image[top : top + height, :width], sheet) == [], (name, family)
