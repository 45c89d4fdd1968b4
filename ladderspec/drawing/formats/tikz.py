"""Scene -> TikZ, to be included in a paper or compiled by itself; needs no TikZ library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from unicodedata import combining, name, normalize

from ladderspec.drawing.formats import Format, SceneWriter, number, register
from ladderspec.drawing.paths import end_of
from ladderspec.drawing.scene import Ink, Mark, Point, Rect, Scene, Segment, Text
from ladderspec.drawing.typesetting import ACCENTS, DASH, DOT, MINUS, PRIME, TIMES, TextRun
from ladderspec.escaping import TEX, one_line, tex_comment

if TYPE_CHECKING:
    from ladderspec.drawing.compose import Drawing

_START = r"""% {title}
% In a paper: \usepackage{{tikz}}, then \input this file. By itself: pdflatex this file.
\ifdefined\tikzpicture
  \let\ladderbegin\relax \let\ladderend\relax
\else
  \documentclass{{article}}
  \usepackage{{tikz}}
  \def\ladderbegin{{\begin{{document}}\pdfhorigin=0bp \pdfvorigin=0bp
    \pdfpagewidth={paper_width}bp \pdfpageheight={paper_height}bp \setbox0\hbox\bgroup}}
  \def\ladderend{{\egroup\shipout\box0 \end{{document}}}}
\fi
\ladderbegin
{scale}\begin{{tikzpicture}}[x=1bp, y=-1bp, inner sep=0, outer sep=0]
\path[use as bounding box] (0,0) rectangle ({width},{height});
\def\ladderfit#1#2{{\setbox2\hbox{{#2}}\ifdim\wd2>#1\relax
  \resizebox{{#1}}{{\height}}{{\box2}}\else\box2 \fi}}% other fonts may be wider"""
_MATH_ROOM = 8.0  # additional room, because TeX's mathematical letters are wider
_ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}


@register
class TikZ(Format):
    suffixes = ("tex",)

    def write(self, drawing: Drawing) -> str:
        return to_tikz(drawing.scene)


def to_tikz(scene: Scene) -> str:
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterator[str]:
    scaled = scene.scale != 1
    yield _START.format(
        title=tex_comment(scene.title),
        width=number(scene.width),
        height=number(scene.height),
        paper_width=number(scene.width * scene.scale),
        paper_height=number(scene.height * scene.scale),
        scale=rf"\scalebox{{{number(scene.scale, 4)}}}{{%" + "\n" if scaled else "",
    )
    if scene.background != "#ffffff":
        sheet = Rect(0, 0, scene.width, scene.height)
        yield rf"\fill[{_fill(scene.background)}] {_rectangle(sheet)};"
    yield from _TikZWriter().items(scene)
    yield r"\end{tikzpicture}" + ("}%" if scaled else "%")
    yield r"\ladderend"


class _TikZWriter(SceneWriter):
    def rect(self, rect: Rect, radius: float, fill: str | None, ink: Ink | None) -> str:
        options = [_fill(fill)] if fill else []
        options += [_stroke(ink)] if ink else []
        options += [f"rounded corners={number(radius)}bp"] if radius else []
        return rf"\path[{', '.join(options)}] {_rectangle(rect)};"

    def line(self, start: Point, segments: Sequence[Segment], ink: Ink) -> str:
        return rf"\draw[{_stroke(ink)}] {_path(start, segments)};"

    def polygon(self, corners: Sequence[Point], fill: str) -> str:
        return rf"\fill[{_fill(fill)}] {' -- '.join(map(_pair, corners))} -- cycle;"

    def mark(self, mark: Mark) -> Iterator[str]:
        yield rf"\fill[{_fill(mark.colour)}] {_rectangle(mark.rect)};"

    def text(self, text: Text) -> Iterator[str]:
        size = f"{number(text.size)}bp"
        options = (
            f"anchor={_ANCHORS[text.anchor]}, text={_colour(text.colour)},"
            rf" font=\fontsize{{{size}}}{{{size}}}\selectfont"
        )
        inner = "".join(map(_run, text.runs))
        room = text.width + (0 if text.runs[0].face in _FACES else _MATH_ROOM)
        inner = rf"\ladderfit{{{number(room)}bp}}{{{inner}}}"
        yield rf"\node[{options}] at {_pair((text.x, text.y))} {{{inner}}};"
        if text.struck:
            y = text.y - text.size * 0.3
            yield self.line((text.left, y), [(text.left + text.width, y)], Ink(text.colour, 0.6))


def _pair(point: Point) -> str:
    return f"({number(point[0])},{number(point[1])})"


def _rectangle(rect: Rect) -> str:
    return f"{_pair((rect.x, rect.y))} rectangle {_pair((rect.right, rect.bottom))}"


def _colour(colour: str) -> str:
    """A colour that TikZ accepts without a definition.

    >>> _colour("#c62828")
    '{rgb,255:red,198;green,40;blue,40}'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _fill(colour: str) -> str:
    return f"fill={_colour(colour)}"


def _stroke(ink: Ink) -> str:
    options = [f"draw={_colour(ink.colour)}", f"line width={number(ink.width)}bp"]
    if ink.dash:
        pairs = zip(ink.dash[::2], ink.dash[1::2], strict=True)
        dashes = " ".join(f"on {number(on)}bp off {number(off)}bp" for on, off in pairs)
        options.append(f"dash pattern={dashes}")
    return ", ".join(options)


def _path(start: Point, segments: Sequence[Segment]) -> str:
    found = [_pair(start)]
    for segment in segments:
        end = _pair(end_of(segment))
        if len(segment) == 2:
            found.append(f"-- {end}")
        else:
            one, two = (segment[0], segment[1]), (segment[2], segment[3])
            found.append(f".. controls {_pair(one)} and {_pair(two)} .. {end}")
    return " ".join(found)


# --- TeX ------------------------------------------------------------------------------------------

_FACES = {"sans": r"\sffamily", "bold": r"\sffamily\bfseries"}
_SPECIAL = {**TEX, '"': "''", "\u2014": "---", DASH: "--"}
_MATH_SPECIAL = {
    **{character: "\\" + character for character in "&%$#_{}"},
    " ": r"\ ", "~": r"\sim ", "^": r"\wedge ", "\\": r"\backslash ", '"': "''",
}  # fmt: skip
_SYMBOLS = {
    TIMES: r"\times ", DOT: r"\cdot ", MINUS: "-", PRIME: "'", "\u2192": r"\to ",
    "\u2026": r"\ldots ", "\u221e": r"\infty ", "\u2264": r"\leq ", "\u2265": r"\geq ",
    "\u2248": r"\approx ", "\u2211": r"\sum ", "\u00b2": "^2", "\u00b3": "^3",
}  # fmt: skip
_ACCENT_COMMANDS = {accent: command for command, accent in ACCENTS.items()}


def _run(run: TextRun) -> str:
    if run.face in _FACES and not run.shift:
        return f"{{{_FACES[run.face]} {typeset_tex(run.text)}}}"
    inner = "".join(map(_math, _characters(run.text)))
    if run.face != "serif":
        inner = rf"\{'mathit' if run.face == 'italic' else 'mathsf'}{{{inner}}}"
    return f"$_{{{inner}}}$" if run.shift < 0 else f"$^{{{inner}}}$" if run.shift else f"${inner}$"


def typeset_tex(text: str) -> str:
    r"""A text in TeX, with Greek letters, symbols and accents in math mode.

    >>> typeset_tex("50% of a_b")
    '50\\% of a\\_b'
    """
    return "".join(map(_upright, _characters(text)))


def _upright(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character.isascii() or _is_accented(character):
        return character
    return f"${_symbol(character)}$"


def _math(character: str) -> str:
    if character in _MATH_SPECIAL:
        return _MATH_SPECIAL[character]
    return character if character.isascii() else _symbol(character)


def _is_accented(character: str) -> bool:
    """Whether this is a Latin letter with an accent, which TeX reads in UTF-8."""
    letters = normalize("NFD", character)
    return len(character) == 1 and letters != character and letters[0].isascii()


def _characters(text: str) -> list[str]:
    """Characters, each with the combining accents that follow it."""
    found: list[str] = []
    for character in one_line(text):
        if combining(character) and found:
            found[-1] += character
        else:
            found.append(character)
    return found


def _symbol(character: str) -> str:
    """A character in math mode; a question mark if TeX does not know it."""
    if len(character) > 1:
        inner, accent = _symbol(character[:-1]), _ACCENT_COMMANDS.get(character[-1])
        return rf"\{accent}{{{inner}}}" if accent else inner
    if character.isascii():
        return _MATH_SPECIAL.get(character, character)
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    parts = name(character, "").split()
    if parts[:1] == ["GREEK"] and parts[2:3] == ["LETTER"] and len(parts) == 4:
        greek = parts[3].replace("LAMDA", "LAMBDA")
        return rf"\{greek.lower() if parts[1] == 'SMALL' else greek.capitalize()} "
    return "?"
