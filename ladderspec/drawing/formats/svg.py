"""Scene -> SVG, with the standard library alone; without ids and styles, so many fit on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ladderspec.drawing.formats import Format, SceneWriter, number, register
from ladderspec.drawing.scene import Box, Ink, Point, Rect, Rule, Scene, Segment, Text, Wire
from ladderspec.drawing.typesetting import SCRIPT_SHIFT, SCRIPT_SIZE
from ladderspec.escaping import escape_xml

if TYPE_CHECKING:
    from ladderspec.drawing.compose import Drawing

_SANS = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_SERIF = "'Times New Roman', Times, 'Liberation Serif', serif"
_FACES = {
    "sans": "",
    "bold": ' font-weight="bold"',
    "italic": f' font-family="{_SERIF}" font-style="italic"',
    "serif": f' font-family="{_SERIF}"',
}


@register
class Svg(Format):
    suffixes = ("svg",)
    dot_layout = True

    def write(self, drawing: Drawing) -> str:
        if drawing.layout != "dot":
            return to_svg(drawing.scene)
        from ladderspec.drawing.formats.graphviz import Gv, run_graphviz

        return run_graphviz(Gv().write(drawing), "svg").decode()


def to_svg(scene: Scene) -> str:
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterator[str]:
    width, height = number(scene.width), number(scene.height)
    paper = number(scene.width * scene.scale), number(scene.height * scene.scale)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{paper[0]}pt" height="{paper[1]}pt"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{escape_xml(scene.title)}"'
        f' font-family="{_SANS}">'
    )
    yield f"<title>{escape_xml(scene.title)}</title>"
    yield f"<desc>{escape_xml(scene.description)}</desc>"
    yield f'<rect width="100%" height="100%" fill="{scene.background}"/>'
    yield from _SvgWriter().items(scene)
    yield "</svg>"


class _SvgWriter(SceneWriter):
    def rect(self, rect: Rect, radius: float, fill: str | None, ink: Ink | None) -> str:
        corner = f' rx="{number(min(radius, rect.height / 2))}"' if radius else ""
        stroke = " " + _stroke(ink) if ink else ""
        return (
            f'<rect x="{number(rect.x)}" y="{number(rect.y)}" width="{number(rect.width)}"'
            f' height="{number(rect.height)}"{corner} fill="{fill or "none"}"{stroke}/>'
        )

    def line(self, start: Point, segments: Sequence[Segment], ink: Ink) -> str:
        return f'<path d="{_path(start, segments)}" fill="none" {_stroke(ink)}/>'

    def polygon(self, corners: Sequence[Point], fill: str) -> str:
        return f'<path d="{_path(corners[0], corners[1:])}Z" fill="{fill}"/>'

    def rule(self, rule: Rule) -> Iterator[str]:
        yield f'<path d="{_path(rule.start, (rule.end,))}" {_stroke(rule.ink)}/>'

    def wire(self, wire: Wire) -> Iterator[str]:
        attributes = ""
        if wire.role:
            attributes = (
                f' class="wire" data-role="{wire.role.value}"'
                f' data-source="{escape_xml(wire.source)}"'
                f' data-target="{escape_xml(wire.target)}" data-delay="{wire.delay}"'
                f' data-iteration="{wire.iteration}"'
            )
        yield f"<g{attributes}>"
        yield from super().wire(wire)
        yield "</g>"

    def box(self, box: Box) -> Iterator[str]:
        node = escape_xml(box.node)
        yield f'<g class="node" data-node="{node}" data-iteration="{box.iteration}">'
        yield from super().box(box)
        yield "</g>"

    def text(self, text: Text) -> Iterator[str]:
        """Words in one face have a fixed width, even if another font replaces theirs."""
        anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
        struck = ' text-decoration="line-through"' if text.struck else ""
        position = f'x="{number(text.x)}" y="{number(text.y)}" font-size="{number(text.size)}"'
        begin = f'<text {position} fill="{text.colour}"{anchor}{struck}'
        run = text.runs[0] if len(text.runs) == 1 else None
        if run is not None and run.face in ("sans", "bold") and not run.shift:
            length = f' textLength="{number(text.width)}" lengthAdjust="spacingAndGlyphs"'
            yield f"{begin}{_FACES[run.face]}{length}>{escape_xml(run.text)}</text>"
        else:
            yield f'{begin} xml:space="preserve">{"".join(_spans(text))}</text>'


def _stroke(ink: Ink) -> str:
    dash = f' stroke-dasharray="{" ".join(map(number, ink.dash))}"' if ink.dash else ""
    return f'stroke="{ink.colour}" stroke-width="{number(ink.width)}"{dash}'


def _path(start: Point, segments: Sequence[Segment]) -> str:
    commands = ["M" + _points(start)]
    commands += [("L" if len(each) == 2 else "C") + _points(each) for each in segments]
    return "".join(commands)


def _points(numbers: tuple[float, ...]) -> str:
    return " ".join(map(number, numbers))


def _spans(text: Text) -> Iterator[str]:
    height = 0
    for run in text.runs:
        move = (height - run.shift) * SCRIPT_SHIFT * text.size
        shift = f' dy="{number(move)}"' if move else ""
        size = f' font-size="{number(text.size * SCRIPT_SIZE)}"' if run.shift else ""
        yield f"<tspan{_FACES[run.face]}{shift}{size}>{escape_xml(run.text)}</tspan>"
        height = run.shift
