"""Scene -> TikZ, to be edited and included in a paper, or compiled by itself.

Boxes are named nodes, arrows between the middles of boxes connect them by name, and every look has
a style at the top. Lengths are in points; TikZ libraries are not needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from unicodedata import combining, name, normalize

from ladderspec.drawing.boxes import STATEFUL
from ladderspec.drawing.formats import Format, SceneWriter, register
from ladderspec.drawing.formats import number as plain_number
from ladderspec.drawing.paths import end_of
from ladderspec.drawing.scene import (
    Box,
    Ink,
    Mark,
    Pill,
    Point,
    Rect,
    Rule,
    Scene,
    Segment,
    Text,
    Wire,
)
from ladderspec.drawing.typesetting import ACCENTS, DASH, DOT, MINUS, PRIME, TIMES, TextRun
from ladderspec.escaping import TEX, one_line, tex_comment
from ladderspec.names import Role

if TYPE_CHECKING:
    from ladderspec.drawing.compose import Drawing

_START = r"""% {title}
% In a paper: \usepackage{{tikz}}, then \input this file. By itself: pdflatex this file.
\ifdefined\tikzpicture
  \let\ladderbegin\relax \let\ladderend\relax
\else
  \documentclass{{article}}
  \usepackage{{tikz}}
  \def\ladderbegin{{\begin{{document}}\pdfhorigin=0pt \pdfvorigin=0pt
    \pdfpagewidth={width}pt \pdfpageheight={height}pt \setbox0\hbox\bgroup}}
  \def\ladderend{{\egroup\shipout\box0 \end{{document}}}}
\fi
\ladderbegin%"""
_POINT = 72.27 / 72  # a TeX point is smaller than that of a scene
_FONT_SIZES = (5, 6, 7, 8, 9, 10, 10.95, 12, 14.4, 17.28, 20.74, 24.88)  # that all fonts have
_ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}


@register
class TikZ(Format):
    suffixes = ("tex",)

    def write(self, drawing: Drawing) -> str:
        return to_tikz(drawing.scene)


def to_tikz(scene: Scene) -> str:
    return "\n".join(_TikZWriter(scene).lines()) + "\n"


class _TikZWriter(SceneWriter):
    order = ("panels", "rules", "boxes", "wires", "samples", "texts")  # wires need their boxes

    def __init__(self, scene: Scene) -> None:
        self.scene, self.unit = scene, scene.scale * _POINT
        self.last = max((box.iteration for box in scene.boxes), default=0)
        self.boxes = {(box.node, box.iteration): box for box in scene.boxes}
        self.colours: dict[str, str] = {}
        self.fonts: dict[tuple[float, str], str] = {}
        self.styles: dict[str, str] = {}
        self.arrows = self._arrow_styles()

    def lines(self) -> Iterator[str]:
        body = list(self.items(self.scene))
        size = self.number(self.scene.width), self.number(self.scene.height)
        title = tex_comment(self.scene.title)
        yield _START.format(title=title, width=size[0], height=size[1])
        sheet = Rect(0, 0, self.scene.width, self.scene.height)
        if self.scene.background != "#ffffff":
            fill = self._fill(self.scene.background)
            body.insert(0, rf"\fill[{fill}] {self._rectangle(sheet)};")
        for colour, known in self.colours.items():
            yield rf"\definecolor{{{known}}}{{HTML}}{{{colour[1:].upper()}}}%"
        for (points, colour), font in self.fonts.items():
            size = f"{plain_number(points)}pt", f"{plain_number(points * 1.2)}pt"
            select = rf"\fontsize{{{size[0]}}}{{{size[1]}}}\selectfont"
            yield rf"\def{font}{{{select}\color{{{colour}}}}}%"
        yield r"\begin{tikzpicture}[x=1pt, y=-1pt, inner sep=0pt, outer sep=0pt, >=stealth,"
        for style, options in self.styles.items():
            yield f"  {style}/.style={{{options}}},"
        yield "]"
        yield rf"\path[use as bounding box] {self._rectangle(sheet)};"
        yield from body
        yield r"\end{tikzpicture}%"
        yield r"\ladderend"

    # --- numbers and looks ------------------------------------------------------------------------

    def number(self, length: float) -> str:
        return plain_number(length * self.unit)

    def _pair(self, point: Point) -> str:
        return f"({self.number(point[0])},{self.number(point[1])})"

    def _rectangle(self, rect: Rect) -> str:
        return f"{self._pair((rect.x, rect.y))} rectangle {self._pair((rect.right, rect.bottom))}"

    def _colour(self, colour: str) -> str:
        return self.colours.setdefault(colour, f"ladder-{colour[1:]}")

    def _fill(self, colour: str) -> str:
        return f"fill={self._colour(colour)}"

    def _stroke(self, ink: Ink) -> str:
        options = [f"draw={self._colour(ink.colour)}", f"line width={self.number(ink.width)}pt"]
        if ink.dash:
            pairs = zip(ink.dash[::2], ink.dash[1::2], strict=True)
            dashes = " ".join(
                f"on {self.number(on)}pt off {self.number(off)}pt" for on, off in pairs
            )
            options.append(f"dash pattern={dashes}")
        return ", ".join(options)

    def _font(self, text: Text) -> str:
        """A command that selects a size which all fonts have, and a colour."""
        wanted = text.size * self.unit + 0.05
        points = max((size for size in _FONT_SIZES if size <= wanted), default=_FONT_SIZES[0])
        key = (points, self._colour(text.colour))
        return self.fonts.setdefault(key, rf"\ladder{'abcdefghijklmnop'[len(self.fonts)]}")

    def _style(self, style: str, options: str) -> str:
        """The name of a style with these options: `style`, or `style 2` if that has others."""
        wanted, count = style, 1
        while self.styles.setdefault(wanted, options) != options:
            count += 1
            wanted = f"{style} {count}"
        return wanted

    def _arrow_styles(self) -> Mapping[tuple[Role | None, Ink], str]:
        """A style for each role; what several roles share is the look of removed arrows."""
        roles: dict[Ink, list[Role]] = {}
        for wire in self.scene.wires:
            if wire.role and wire.role not in roles.setdefault(wire.ink, []):
                roles[wire.ink].append(wire.role)
        found: dict[tuple[Role | None, Ink], str] = {}
        for ink, several in roles.items():
            words = several[0].value.replace("_", " ") if len(several) == 1 else "removed"
            style = self._style(f"{words} arrow", f"->, {self._stroke(ink)}")
            found |= dict.fromkeys([*((role, ink) for role in several), (None, ink)], style)
        return found

    # --- shapes -----------------------------------------------------------------------------------

    def rect(self, rect: Rect, radius: float, fill: str | None, ink: Ink | None) -> str:
        options = [self._fill(fill)] if fill else []
        options += [self._stroke(ink)] if ink else []
        options += [f"rounded corners={self.number(radius)}pt"] if radius else []
        return rf"\path[{', '.join(options)}] {self._rectangle(rect)};"

    def line(self, start: Point, segments: Sequence[Segment], ink: Ink) -> str:
        return rf"\draw[{self._stroke(ink)}] {self._path(start, segments)};"

    def polygon(self, corners: Sequence[Point], fill: str) -> str:
        return rf"\fill[{self._fill(fill)}] {' -- '.join(map(self._pair, corners))} -- cycle;"

    def rule(self, rule: Rule) -> Iterator[str]:
        style = self._style("rule", self._stroke(rule.ink))
        yield rf"\draw[{style}] {self._path(rule.start, (rule.end,))};"

    def square(self, mark: Mark) -> str:
        return rf"\fill[{self._fill(mark.colour)}] {self._rectangle(mark.rect)};"

    def _path(self, start: Point, segments: Sequence[Segment]) -> str:
        found = [self._pair(start)]
        for segment in segments:
            end = self._pair(end_of(segment))
            if len(segment) == 2:
                found.append(f"-- {end}")
            else:
                one, two = (segment[0], segment[1]), (segment[2], segment[3])
                found.append(f".. controls {self._pair(one)} and {self._pair(two)} .. {end}")
        return " ".join(found)

    # --- nodes and arrows -------------------------------------------------------------------------

    def _name(self, node: str, iteration: int) -> str:
        back = self.last - iteration
        bare = re.sub(r"[^A-Za-z0-9_-]", "-", node)
        return f"{bare}-t{back}" if back else bare

    def _node(self, style: str, item: Box | Pill, label: str, inner: str) -> str:
        size = [f"minimum {side}={self.number(length)}pt" for side, length in
                (("width", item.rect.width), ("height", item.rect.height))]  # fmt: skip
        options = ", ".join([style, *size])
        return rf"\node[{options}]{label} at {self._pair(item.rect.centre)} {{{inner}}};"

    def _shape(self, style: str, item: Box | Pill) -> str:
        look = f"{self._stroke(item.ink)}, {self._fill(item.fill)}, align=center"
        look += f", font={self._font(item.texts[0])}" if item.texts else ""
        return self._style(style, f"{look}, rounded corners={self.number(item.radius)}pt")

    def box(self, box: Box) -> Iterator[str]:
        side = box.node.rpartition(":")[2].partition(".")[0]
        state = " state" if box.ink.width == STATEFUL else ""
        style = self._shape(f"{side}{' removed' if box.ink.dash else state}", box)
        lines = r" \\ ".join(map(self._typeset, box.texts))
        label = f" ({self._name(box.node, box.iteration)})"
        yield self._node(style, box, label, "" if box.pills else lines)
        if box.pills and lines:
            first, last = box.texts[0].rect, box.texts[-1].rect
            at = (box.rect.centre[0], (first.y + last.bottom) / 2)
            font = self._font(box.texts[0])
            yield rf"\node[align=center, font={font}] at {self._pair(at)} {{{lines}}};"
        for pill in box.pills:
            inner = r" \\ ".join(map(self._typeset, pill.texts))
            yield self._node(self._shape("task", pill), pill, "", inner)
            for text in pill.texts:
                yield from self._strike(text)

    def arrow(self, wire: Wire) -> Iterator[str]:
        style = self.arrows.get((wire.role, wire.ink)) or self._style(
            "sample", f"->, {self._stroke(wire.ink)}"
        )
        yield rf"\draw[{style}] {self._between_nodes(wire) or self._route(wire)};"

    def _route(self, wire: Wire) -> str:
        """The line to the tip: the last straight piece becomes longer."""
        *segments, last = wire.segments
        pieces = [wire.tip] if len(last) == 2 else [last, wire.tip]
        return self._path(wire.start, [*segments, *pieces])

    def _between_nodes(self, wire: Wire) -> str:
        """The names of both boxes, if the arrow is straight and leads from middle to middle."""
        before = wire.source_iteration
        source = self.boxes.get((wire.source, before))
        target = self.boxes.get((wire.target, wire.iteration))
        if source is None or target is None or wire.from_outside or len(wire.segments) > 1:
            return ""
        for axis in (0, 1):
            at = source.rect.centre[axis]
            on_axis = (wire.start[axis], wire.tip[axis], target.rect.centre[axis])
            if len(wire.segments[0]) == 2 and all(abs(x - at) < 0.01 for x in on_axis):
                names = self._name(wire.source, before), self._name(wire.target, wire.iteration)
                return f"({names[0]}) -- ({names[1]})"
        return ""

    # --- text -------------------------------------------------------------------------------------

    def _typeset(self, text: Text) -> str:
        return f"{self._font(text)} {typeset_runs(text.runs)}"

    def text(self, text: Text) -> Iterator[str]:
        options = f"anchor={_ANCHORS[text.anchor]}"
        yield rf"\node[{options}] at {self._pair((text.x, text.y))} {{{self._typeset(text)}}};"
        yield from self._strike(text)

    def _strike(self, text: Text) -> Iterator[str]:
        if text.struck:
            y = text.y - text.size * 0.3
            yield self.line((text.left, y), [(text.left + text.width, y)], Ink(text.colour, 0.6))


# --- TeX ------------------------------------------------------------------------------------------

_FACES = {"sans": r"\sffamily", "bold": r"\sffamily\bfseries"}
_OPERATORS = ("+", "-", MINUS, "=", ",", "<", ">", ":", ";")
_SPECIAL = {**TEX, '"': "''", "\u2014": "---", DASH: "--"}
_MATH_SPECIAL = {
    **{character: "\\" + character for character in "&%$#_{}"},
    " ": r"\ ", "~": r"\sim ", "^": r"\wedge ", "\\": r"\backslash ", '"': "''",
}  # fmt: skip
_SYMBOLS = {
    TIMES: r"\times ", DOT: r"\cdot ", MINUS: "-", PRIME: "'", "\u2192": r"\to ",
    "\u2026": r"\ldots ", "\u221e": r"\infty ", "\u2264": r"\leq ", "\u2265": r"\geq ",
    "\u22ee": r"\vdots ", "\u2248": r"\approx ", "\u2211": r"\sum ",
    "\u00b2": "{}^2{}", "\u00b3": "{}^3{}",
}  # fmt: skip
_ACCENT_COMMANDS = {accent: command for command, accent in ACCENTS.items()}


def typeset_runs(runs: Iterable[TextRun]) -> str:
    r"""Words in their face; neighbouring runs of mathematics are one formula.

    >>> runs = TextRun("x", "italic"), TextRun("t", "italic", -1), TextRun("-1", "serif", -1)
    >>> print(typeset_runs([*runs, TextRun(" of it")]))
    $x_{t-1}${\sffamily{} of it}
    >>> print(typeset_runs([TextRun("l", "italic"), TextRun("+1", "serif")]))
    $l{+}1$
    """
    found = list[str]()
    for words, group in groupby(runs, lambda run: run.face in _FACES and not run.shift):
        if words:
            found += map(_in_words, group)
            continue
        formula, ended = "", ""
        for shift, part in groupby(group, lambda run: run.shift):
            inner = "".join(map(_in_formula, part))
            formula += ended + (f"{'_' if shift < 0 else '^'}{{{inner}}}" if shift else inner)
            ended = "{}" if shift else ""  # what follows belongs to no script
        found.append(f"${formula}$")
    return "".join(found)


def _in_words(run: TextRun) -> str:
    """The braces after the name of a font keep a space that follows it."""
    text = typeset_tex(run.text)
    return f"{{{_FACES[run.face]}{'{}' if text.startswith(' ') else ' '}{text}}}"


def _in_formula(run: TextRun) -> str:
    """Outside of scripts, operators are in braces, or TeX would add space around them."""
    characters = _characters(run.text)
    inner = "".join(
        f"{{{_math(each)}}}" if each in _OPERATORS and not run.shift else _math(each)
        for each in characters
    )
    if run.face == "serif" or (run.face == "italic" and len(characters) == 1):
        return inner
    return rf"\{'mathit' if run.face == 'italic' else 'mathsf'}{{{inner}}}"


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
