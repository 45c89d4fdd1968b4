"""Write docs/hero.svg: eight lines of YAML, their ladder, and the ladder without one line."""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

from ladderspec.api import loads
from ladderspec.drawing import svg

FOLDER = Path(__file__).parent
PAGE = FOLDER / "hero.svg"
LINE, SIZE, EDGE, GAP = 18, 12.5, 8, 24  # of code, its letters, around, between the drawings
KEY = re.compile(r"([a-z_]+)(:)(?= |$)")


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The code above, the two drawings below: as wide as a page shows it without shrinking it."""
    lines = (FOLDER / "hero.yaml").read_text(encoding="utf-8").splitlines()
    whole, without = (drawing(text) for text in ("\n".join(lines[:-1]), "\n".join(lines)))
    width = 2 * EDGE + whole[0] + GAP + without[0]
    code_height = LINE * len(lines) + 16
    captions = EDGE + code_height + 22
    top = captions + 4
    height = top + max(whole[1], without[1])
    first, second = EDGE, EDGE + whole[0] + GAP
    baseline = EDGE + 22
    code = [
        f'<text x="20" y="{baseline + LINE * i:.0f}" xml:space="preserve">{coloured(line)}</text>'
        for i, line in enumerate(lines)
    ]
    removed = baseline + LINE * (len(lines) - 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
            ' aria-label="Eight lines of YAML, the ladder that they make, and the same without'
            ' its decoder-to-encoder arrow">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<rect x="{EDGE}" y="{EDGE}" width="{width - 2 * EDGE:.0f}" height="{code_height}"'
            ' rx="8" fill="#f6f8fa"/>',
            f'<rect x="14" y="{removed - 13:.0f}" width="{width - 28:.0f}" height="{LINE}"'
            ' rx="4" fill="#fde7e9"/>',
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
            f' font-size="{SIZE}" fill="#1f2328">',
            *code,
            "</g>",
            caption("the first seven lines", first + whole[0] / 2, captions),
            caption("with the eighth", second + without[0] / 2, captions),
            placed(whole, first, top),
            placed(without, second, top),
            "</svg>",
            "",
        ]
    )


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


def coloured(line: str) -> str:
    return KEY.sub(r'<tspan fill="#0550ae">\1</tspan>\2', escape(line))


def caption(text: str, x: float, y: float) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="14" fill="#59636e"'
        f' font-family="Helvetica, Arial, sans-serif">{text}</text>'
    )


if __name__ == "__main__":
    sys.exit(main())
