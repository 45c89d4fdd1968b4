"""Scene -> SVG, with the standard library alone. No ids and no styles: many can share a page."""

from __future__ import annotations

from collections.abc import Iterator

from ladderspec.drawing.maths import RAISE, SMALL
from ladderspec.drawing.paths import end_of, head
from ladderspec.drawing.scene import (
    Box,
    Ink,
    Mark,
    Panel,
    Pill,
    Point,
    Rect,
    Rule,
    Scene,
    Segment,
    Text,
    Wire,
)  # fmt: skip
from ladderspec.drawing.writers.words import escaped, number

_SANS = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_SERIF = "'Times New Roman', Times, 'Liberation Serif', serif"
_FACES = {
    "sans": "",
    "bold": ' font-weight="bold"',
    "italic": f' font-family="{_SERIF}" font-style="italic"',
    "serif": f' font-family="{_SERIF}"',
}


def to_svg(scene: Scene) -> str:
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterator[str]:
    width, height = number(scene.width), number(scene.height)
    paper = number(scene.width * scene.scale), number(scene.height * scene.scale)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{paper[0]}pt" height="{paper[1]}pt"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(scene.title)}"'
        f' font-family="{_SANS}">'
    )
    yield f"<title>{escaped(scene.title)}</title>"
    yield f"<desc>{escaped(scene.description)}</desc>"
    yield f'<rect width="100%" height="100%" fill="{scene.background}"/>'
    for panel in scene.panels:
        yield from _panel(panel)
    for rule in scene.rules:
        yield _rule(rule)
    for wire in scene.wires:
        yield from _wire(wire)
    for box in scene.boxes:
        yield from _box(box)
    for sample in scene.samples:
        yield from _sample(sample)
    for text in scene.texts:
        yield _text(text)
    yield "</svg>"


def _ink(ink: Ink) -> str:
    dash = f' stroke-dasharray="{" ".join(map(number, ink.dash))}"' if ink.dash else ""
    return f'stroke="{ink.colour}" stroke-width="{number(ink.width)}"{dash}'


def _rect(rect: Rect, radius: float = 0.0) -> str:
    corner = f' rx="{number(min(radius, rect.height / 2))}"' if radius else ""
    return (
        f'x="{number(rect.x)}" y="{number(rect.y)}" width="{number(rect.width)}"'
        f' height="{number(rect.height)}"{corner}'
    )


def _panel(panel: Panel) -> Iterator[str]:
    ink = " " + _ink(panel.ink) if panel.ink else ""
    yield f'<rect {_rect(panel.rect, panel.radius)} fill="{panel.fill or "none"}"{ink}/>'
    if panel.label:
        yield _text(panel.label)


def _rule(rule: Rule) -> str:
    return f'<path d="{_path(rule.start, (rule.end,))}" {_ink(rule.ink)}/>'


def _path(start: Point, segments: tuple[Segment, ...]) -> str:
    words = ["M" + _points(start)]
    words += [("L" if len(each) == 2 else "C") + _points(each) for each in segments]
    return "".join(words)


def _points(numbers: tuple[float, ...]) -> str:
    return " ".join(map(number, numbers))


def _wire(wire: Wire) -> Iterator[str]:
    facts = ""
    if wire.role:
        facts = (
            f' class="wire" data-role="{wire.role.value}" data-source="{wire.source}"'
            f' data-target="{wire.target}" data-delay="{wire.delay}"'
            f' data-iteration="{wire.iteration}"'
        )
    yield f"<g{facts}>"
    yield f'<path d="{_path(wire.start, wire.segments)}" fill="none" {_ink(wire.ink)}/>'
    tip, *wings = head(end_of(wire.segments[-1]), wire.tip, wire.ink.width)
    yield f'<path d="{_path(tip, tuple(wings))}Z" fill="{wire.ink.colour}"/>'
    if wire.mark:
        yield _mark(wire.mark)
    if wire.label:
        yield _text(wire.label)
    yield "</g>"


def _mark(mark: Mark) -> str:
    x, y = mark.centre
    rect = Rect(x - mark.side / 2, y - mark.side / 2, mark.side, mark.side)
    return f'<rect {_rect(rect)} fill="{mark.colour}"/>'


def _box(box: Box) -> Iterator[str]:
    yield f'<g class="node" data-node="{box.node}" data-iteration="{box.iteration}">'
    yield f'<rect {_rect(box.rect, box.radius)} fill="{box.fill}" {_ink(box.ink)}/>'
    for text in box.texts:
        yield _text(text)
    for pill in box.pills:
        yield from _pill(pill)
    yield "</g>"


def _pill(pill: Pill) -> Iterator[str]:
    yield f'<rect {_rect(pill.rect, pill.rect.height / 2)} fill="{pill.fill}" {_ink(pill.ink)}/>'
    yield _text(pill.text)


def _sample(sample: Wire | Panel | Pill | Mark) -> Iterator[str]:
    if isinstance(sample, Wire):
        yield from _wire(sample)
    elif isinstance(sample, Panel):
        yield from _panel(sample)
    elif isinstance(sample, Mark):
        yield _mark(sample)
    else:
        yield from _pill(sample)


def _text(text: Text) -> str:
    """Texts of one face keep their width where another font has to stand in."""
    anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
    struck = ' text-decoration="line-through"' if text.struck else ""
    where = f'x="{number(text.x)}" y="{number(text.y)}" font-size="{number(text.size)}"'
    begin = f'<text {where} fill="{text.colour}"{anchor}{struck}'
    if len(text.runs) == 1 and not text.runs[0].shift:
        run = text.runs[0]
        length = f' textLength="{number(text.width)}" lengthAdjust="spacingAndGlyphs"'
        return f"{begin}{_FACES[run.face]}{length}>{escaped(run.text)}</text>"
    return f'{begin} xml:space="preserve">{"".join(_spans(text))}</text>'


def _spans(text: Text) -> Iterator[str]:
    height = 0
    for run in text.runs:
        move = (height - run.shift) * RAISE * text.size
        shift = f' dy="{number(move)}"' if move else ""
        size = f' font-size="{number(text.size * SMALL)}"' if run.shift else ""
        yield f"<tspan{_FACES[run.face]}{shift}{size}>{escaped(run.text)}</tspan>"
        height = run.shift
