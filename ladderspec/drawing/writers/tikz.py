"""Scene -> TikZ, to be read into a paper or run by itself; needs no TikZ library."""

from __future__ import annotations

from collections.abc import Iterator

from ladderspec.drawing.paths import end_of, head
from ladderspec.drawing.scene import (
    Box,
    Ink,
    Mark,
    Panel,
    Pill,
    Point,
    Rect,
    Scene,
    Segment,
    Text,
    Wire,
)
from ladderspec.drawing.writers.tex import run_text
from ladderspec.drawing.writers.words import number

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
_MATHS = 8.0  # TeX's letters of mathematics are wider, and have so much room
_ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}


def to_tikz(scene: Scene) -> str:
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterator[str]:
    title = scene.title.encode("ascii", "replace").decode()
    scaled = scene.scale != 1
    yield _START.format(
        title=title,
        width=number(scene.width),
        height=number(scene.height),
        paper_width=number(scene.width * scene.scale),
        paper_height=number(scene.height * scene.scale),
        scale=rf"\scalebox{{{number(scene.scale, 4)}}}{{%" + "\n" if scaled else "",
    )
    if scene.background != "#ffffff":
        sheet = Rect(0, 0, scene.width, scene.height)
        yield rf"\fill[{_fill(scene.background)}] {_rect(sheet)};"
    for panel in scene.panels:
        yield from _panel(panel)
    for rule in scene.rules:
        yield rf"\draw[{_ink(rule.ink)}] {_pair(rule.start)} -- {_pair(rule.end)};"
    for wire in scene.wires:
        yield from _wire(wire)
    for box in scene.boxes:
        yield from _box(box)
    for sample in scene.samples:
        yield from _sample(sample)
    for text in scene.texts:
        yield from _text(text)
    yield r"\end{tikzpicture}" + ("}%" if scaled else "%")
    yield r"\ladderend"


# --- shapes ---------------------------------------------------------------------------------------


def _pair(point: Point) -> str:
    return f"({number(point[0])},{number(point[1])})"


def _rect(rect: Rect) -> str:
    return f"{_pair((rect.x, rect.y))} rectangle {_pair((rect.right, rect.bottom))}"


def _colour(colour: str) -> str:
    """A colour as TikZ takes it without a definition.

    >>> _colour("#c62828")
    '{rgb,255:red,198;green,40;blue,40}'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _fill(colour: str) -> str:
    return f"fill={_colour(colour)}"


def _ink(ink: Ink) -> str:
    words = [f"draw={_colour(ink.colour)}", f"line width={number(ink.width)}bp"]
    if ink.dash:
        pairs = zip(ink.dash[::2], ink.dash[1::2], strict=True)
        dashes = " ".join(f"on {number(on)}bp off {number(off)}bp" for on, off in pairs)
        words.append(f"dash pattern={dashes}")
    return ", ".join(words)


def _rounded(radius: float) -> str:
    return f", rounded corners={number(radius)}bp" if radius else ""


def _panel(panel: Panel) -> Iterator[str]:
    words = [_fill(panel.fill)] if panel.fill else []
    words += [_ink(panel.ink)] if panel.ink else []
    yield rf"\path[{', '.join(words)}{_rounded(panel.radius)}] {_rect(panel.rect)};"
    if panel.label:
        yield from _text(panel.label)


def _path(start: Point, segments: tuple[Segment, ...]) -> str:
    words = [_pair(start)]
    for segment in segments:
        end = _pair(end_of(segment))
        if len(segment) == 2:
            words.append(f"-- {end}")
        else:
            one, two = (segment[0], segment[1]), (segment[2], segment[3])
            words.append(f".. controls {_pair(one)} and {_pair(two)} .. {end}")
    return " ".join(words)


def _wire(wire: Wire) -> Iterator[str]:
    yield rf"\draw[{_ink(wire.ink)}] {_path(wire.start, wire.segments)};"
    corners = " -- ".join(map(_pair, head(end_of(wire.segments[-1]), wire.tip, wire.ink.width)))
    yield rf"\fill[{_fill(wire.ink.colour)}] {corners} -- cycle;"
    if wire.mark:
        yield _mark(wire.mark)
    if wire.label:
        yield from _text(wire.label)


def _mark(mark: Mark) -> str:
    x, y = mark.centre
    rect = Rect(x - mark.side / 2, y - mark.side / 2, mark.side, mark.side)
    return rf"\fill[{_fill(mark.colour)}] {_rect(rect)};"


def _box(box: Box) -> Iterator[str]:
    yield rf"\path[{_fill(box.fill)}, {_ink(box.ink)}{_rounded(box.radius)}] {_rect(box.rect)};"
    for text in box.texts:
        yield from _text(text)
    for pill in box.pills:
        yield from _pill(pill)


def _pill(pill: Pill) -> Iterator[str]:
    corner = _rounded(pill.rect.height / 2)
    yield rf"\path[{_fill(pill.fill)}, {_ink(pill.ink)}{corner}] {_rect(pill.rect)};"
    yield from _text(pill.text)


def _sample(sample: Wire | Panel | Pill | Mark) -> Iterator[str]:
    if isinstance(sample, Wire):
        yield from _wire(sample)
    elif isinstance(sample, Panel):
        yield from _panel(sample)
    elif isinstance(sample, Pill):
        yield from _pill(sample)
    else:
        yield _mark(sample)


# --- texts ----------------------------------------------------------------------------------------


def _text(text: Text) -> Iterator[str]:
    size = f"{number(text.size)}bp"
    words = (
        f"anchor={_ANCHORS[text.anchor]}, text={_colour(text.colour)},"
        rf" font=\fontsize{{{size}}}{{{size}}}\selectfont"
    )
    inner = "".join(map(run_text, text.runs))
    room = text.width + (0 if text.runs[0].face in ("sans", "bold") else _MATHS)
    inner = rf"\ladderfit{{{number(room)}bp}}{{{inner}}}"
    yield rf"\node[{words}] at {_pair((text.x, text.y))} {{{inner}}};"
    if text.struck:
        y = text.y - text.size * 0.3
        line = f"{_pair((text.left, y))} -- {_pair((text.left + text.width, y))}"
        yield rf"\draw[{_ink(Ink(text.colour, 0.6))}] {line};"
