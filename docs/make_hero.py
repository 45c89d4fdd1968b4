"""Write the README's pictures.

docs/hero.svg: eight lines of YAML, their ladder, and the ladder without one line.
docs/spec_and_code.svg: two rows of YAML and the loop that they stand for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from textwrap import dedent

from ladderspec.api import loads
from ladderspec.drawing import svg
from ladderspec.export import to_python

FOLDER = Path(__file__).parent
PAGE, CODE_PAGE = FOLDER / "hero.svg", FOLDER / "spec_and_code.svg"
LINE, SIZE, EDGE, GAP = 16, 12.5, 8, 24  # of code, its letters, around, between the drawings
CHARACTER = 0.61 * SIZE  # width in the widest of the fonts
KEY = re.compile(r"([a-z_]+)(:)(?= |$)")


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    CODE_PAGE.write_text(code_page(), encoding="utf-8")


def page() -> str:
    """The code above, the two drawings below: as wide as a page shows it without shrinking it."""
    lines = spec_lines()
    whole, without = (drawing(text) for text in ("\n".join(lines[:-1]), "\n".join(lines)))
    width = 2 * EDGE + whole[0] + GAP + without[0]
    captions = EDGE + block_height(lines) + 22
    top = captions + 4
    first, second = EDGE, EDGE + whole[0] + GAP
    removed = EDGE + 22 + LINE * (len(lines) - 1)
    shade = (
        f'<rect x="14" y="{removed - 12:.0f}" width="{width - 28:.0f}" height="{LINE}"'
        ' rx="4" fill="#fde7e9"/>'
    )
    return document(
        (width, top + max(whole[1], without[1])),
        "Eight lines of YAML, the ladder that they make, and the same without its"
        " decoder-to-encoder arrow",
        [
            *block(map(yaml, lines), EDGE, width, shade),
            caption("the first seven lines", first + whole[0] / 2, captions),
            caption("with the eighth", second + without[0] / 2, captions),
            placed(whole, first, top),
            placed(without, second, top),
        ],
    )


def code_page() -> str:
    """The rows of the hero above, the loop of its exported network below."""
    lines = spec_lines()
    rows = dedent("\n".join(lines[3:5])).splitlines()
    exported = to_python(loads("\n".join(lines[:-1])))
    found = re.search(r"^ +for t, .*?(?=^ +outputs\[)", exported, re.DOTALL | re.MULTILINE)
    assert found is not None
    lines_of_loop = dedent(found[0]).splitlines()
    loop = [line for line in lines_of_loop if line and not line.lstrip().startswith("#")]
    width = 2 * EDGE + 24 + CHARACTER * max(map(len, [*rows, *loop]))
    between = EDGE + block_height(rows) + 22
    count = round(len(exported.splitlines()), -1)
    stand_for = f"stand for this loop, and for the rest of about {count} lines of PyTorch"
    top = between + 12
    return document(
        (width, top + block_height(loop) + EDGE),
        "Two rows of YAML, and the loop over t of the PyTorch module that they stand for",
        [
            *block(map(yaml, rows), EDGE, width),
            caption(stand_for, width / 2, between),
            *block(map(escape, loop), top, width),
        ],
    )


def spec_lines() -> list[str]:
    return (FOLDER / "hero.yaml").read_text(encoding="utf-8").splitlines()


def document(size: tuple[float, float], label: str, items: Sequence[str]) -> str:
    width, height = size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{label}">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *items,
            "</svg>",
            "",
        ]
    )


def block_height(lines: Sequence[str]) -> int:
    return LINE * len(lines) + 16


def block(lines: Iterable[str], y: float, width: float, shade: str = "") -> list[str]:
    """Coloured lines of code on their panel."""
    texts = [
        f'<text x="20" y="{y + 22 + LINE * i:.0f}" xml:space="preserve">{line}</text>'
        for i, line in enumerate(lines)
    ]
    return [
        f'<rect x="{EDGE}" y="{y:.0f}" width="{width - 2 * EDGE:.0f}"'
        f' height="{block_height(texts)}" rx="8" fill="#f6f8fa"/>',
        *([shade] if shade else []),
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
        f' font-size="{SIZE}" fill="#1f2328">',
        *texts,
        "</g>",
    ]


def drawing(text: str) -> tuple[float, float, str]:
    """Width, height and text of the rolled picture of a spec."""
    drawn = svg(loads(text), view="rolled", legend=False, levels="none")
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
    assert size is not None
    return float(size[1]), float(size[2]), drawn[drawn.index("<svg") :]


def placed(picture: tuple[float, float, str], x: float, y: float) -> str:
    width, height, text = picture
    bare = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    where = f'<svg x="{x:.0f}" y="{y:.0f}" width="{width}" height="{height}"'
    return bare.replace("<svg", where, 1)


def yaml(line: str) -> str:
    return KEY.sub(r'<tspan fill="#0550ae">\1</tspan>\2', escape(line))


def caption(text: str, x: float, y: float) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="14" fill="#59636e"'
        f' font-family="Helvetica, Arial, sans-serif">{text}</text>'
    )


if __name__ == "__main__":
    sys.exit(main())
