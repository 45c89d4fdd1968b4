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
LINE, TEXT_WIDTH, TOP, GAP = 20, 550, 44, 4
KEY = re.compile(r"([a-z_]+)(:)(?= |$)")


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    lines = (FOLDER / "hero.yaml").read_text(encoding="utf-8").splitlines()
    whole, without = (drawing(text) for text in ("\n".join(lines[:-1]), "\n".join(lines)))
    width = TEXT_WIDTH + whole[0] + GAP + without[0]
    height = TOP + max(whole[1], without[1]) + 8
    first, second = TEXT_WIDTH, TEXT_WIDTH + whole[0] + GAP
    top = (height - LINE * len(lines)) / 2 + LINE / 2
    code = [
        f'<text x="20" y="{top + LINE * i:.0f}" xml:space="preserve">{coloured(line)}</text>'
        for i, line in enumerate(lines)
    ]
    removed = top + LINE * (len(lines) - 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
            ' aria-label="Eight lines of YAML, the ladder that they make, and the same without'
            ' its decoder-to-encoder arrow">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<rect x="8" y="{top - 30:.0f}" width="{TEXT_WIDTH - 16}"'
            f' height="{LINE * len(lines) + 28}" rx="8" fill="#f6f8fa"/>',
            f'<rect x="14" y="{removed - 14:.0f}" width="{TEXT_WIDTH - 28}" height="{LINE}"'
            ' rx="4" fill="#fde7e9"/>',
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
            ' font-size="11.5" fill="#1f2328">',
            *code,
            "</g>",
            caption("seven lines", first + whole[0] / 2),
            caption("with the eighth", second + without[0] / 2),
            placed(whole, first, TOP),
            placed(without, second, TOP),
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


def caption(text: str, x: float) -> str:
    return (
        f'<text x="{x:.0f}" y="26" text-anchor="middle" font-size="14" fill="#59636e"'
        f' font-family="Helvetica, Arial, sans-serif">{text}</text>'
    )


if __name__ == "__main__":
    sys.exit(main())
