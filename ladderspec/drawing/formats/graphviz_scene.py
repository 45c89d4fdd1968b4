"""Scene -> Graphviz with fixed positions and splines, so that all versions draw the same picture.

Panels and arrowheads are part of the background, in the xdot language: there Graphviz draws them
exactly as given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ladderspec.drawing.formats import SceneWriter, head_of, number
from ladderspec.drawing.formats.graphviz import FONTS, attribute_list, dash_styles, stroke, to_html
from ladderspec.drawing.paths import between, dashes, end_of
from ladderspec.drawing.scene import (
    Backdrop,
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
from ladderspec.drawing.style import OTHER_FONTS
from ladderspec.drawing.typesetting import (
    ACCENTS,
    SCRIPT_SHIFT,
    SCRIPT_SIZE,
    TextRun,
    width_of,
)
from ladderspec.escaping import escape_xml, quote_dot

# Distance from the middle of a text to its base line in Graphviz: per size, and constant; and how
# much higher HTML labels stand.
_BASE_PER_SIZE, _BASE, _BASE_OF_HTML = 0.25, 0.4, 1.0
_JUSTIFIED = {"start": "\\l", "end": "\\r"}  # the line endings of labels


def to_dot(scene: Scene) -> str:
    return "\n".join(_DotWriter(scene).lines()) + "\n"


class _DotWriter(SceneWriter):
    order = ("panels", "boxes", "rules", "wires", "samples", "texts")

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.count = 0
        self.last = max((box.iteration for box in scene.boxes), default=0)

    def lines(self) -> Iterator[str]:
        scene = self.scene
        size = f"0,0,{number(scene.width)},{number(scene.height)}"
        yield f"digraph {quote_dot(scene.title)} {{"
        yield (
            f'  graph [layout=nop2, bb="{size}",{_paper(scene)} outputorder=nodesfirst, pad=0,'
            f' margin=0, bgcolor="{scene.background}", charset="UTF-8",'
            f' _background="{" ".join(self._background())}"];'
        )
        yield '  node [label="", fixedsize=shape, penwidth=0, margin=0];'
        yield "  edge [arrowhead=none];"
        # Graphviz computes the size of the sheet: two invisible nodes define its corners.
        for x, y in ((0.0, 0.0), (scene.width, scene.height)):
            yield self._node(self._new("corner"), Rect(x, y, 0, 0), style="invis")
        yield from self.items(scene)
        yield "}"

    def _background(self) -> Iterator[str]:
        """Panels and arrowheads; Graphviz's own heads differ from one version to another."""
        scene = self.scene
        for item in (*scene.panels, *scene.wires, *scene.samples):
            if isinstance(item, Backdrop):
                yield self.rect(item.rect, item.radius, item.fill, item.ink)
            elif isinstance(item, Wire):
                yield self.polygon(head_of(item), item.ink.colour)

    def _new(self, stem: str) -> str:
        self.count += 1
        return f"_{stem}{self.count}"

    def _name(self, node: str, iteration: int) -> str:
        back = self.last - iteration
        return f"{node}(t-{back})" if back else node

    def _pair(self, x: float, y: float) -> str:
        return f"{number(x)},{number(self.scene.height - y)}"

    # --- background -------------------------------------------------------------------------------

    def rect(self, rect: Rect, radius: float, fill: str | None, ink: Ink | None) -> str:
        operations = [_xdot_colour("c", ink.colour if ink else "transparent")]
        if ink:
            width = f"setlinewidth({number(ink.width)})"
            operations.append(f"S {len(width)} -{width}")
        if fill:
            operations.append(_xdot_colour("C", fill))
        upwards = rect._replace(y=self.scene.height - rect.bottom)
        outline = list(_rounded_rect(upwards, min(radius, rect.height / 2)))
        return " ".join([*operations, "b" if fill else "B", _xdot_points(outline)])

    def polygon(self, corners: Sequence[Point], fill: str) -> str:
        upwards = [(x, self.scene.height - y) for x, y in corners]
        colours = f"{_xdot_colour('c', 'transparent')} {_xdot_colour('C', fill)}"
        return f"{colours} P {_xdot_points(upwards)}"

    def panel(self, panel: Backdrop) -> Iterator[str]:
        """Its label alone: its rectangle is in the background."""
        if panel.label:
            yield from self.text(panel.label)

    # --- nodes ------------------------------------------------------------------------------------

    def _node(self, name: str, rect: Rect, *, label: str = "", **attributes: str) -> str:
        attributes = {
            "pos": self._pair(*rect.centre) + "!",
            "width": number(rect.width / 72, 4),
            "height": number(rect.height / 72, 4),
            **attributes,
        }
        shown = f", label={label}" if label else ""
        return f"  {quote_dot(name)} [{attribute_list(attributes)}{shown}];"

    def _filled(self, name: str, item: Box | Pill) -> str:
        style = ",".join(["filled", *dash_styles(item.ink), "rounded"])
        line = stroke(item.ink)
        colours = {"color": line["color"], "fillcolor": item.fill, "penwidth": line["penwidth"]}
        return self._node(name, item.rect, shape="box", style=style, **colours)

    def box_outline(self, box: Box) -> str:
        return self._filled(self._name(box.node, box.iteration), box)

    def pill_outline(self, pill: Pill) -> str:
        return self._filled(self._new("task"), pill)

    def square(self, mark: Mark) -> str:
        attributes = {"shape": "box", "style": "filled", "fillcolor": mark.colour}
        return self._node(self._new("delay"), mark.rect, **attributes)

    def text(self, text: Text) -> Iterator[str]:
        for glyphs in _glyphs_of(text):
            first, *others = glyphs.runs
            mixed = bool(others) or text.struck
            font = {
                "shape": "plaintext",
                "fontname": FONTS["sans" if mixed else first.face],
                "fontsize": number(glyphs.size),
                "fontcolor": text.colour,
            }
            base = glyphs.y - _BASE_PER_SIZE * glyphs.size - _BASE
            middle = Rect(glyphs.x, base, 0, 0)
            label = quote_dot(escape_xml(first.text))
            if mixed:
                html = to_html(glyphs.runs)
                label = f"<<s>{html}</s>>" if text.struck else f"<{html}>"
                middle = middle._replace(y=base + _BASE_OF_HTML)
            elif len(text.runs) == 1 and text.anchor in _JUSTIFIED:
                # In the room that wider fonts have, so that the text begins or ends at its anchor.
                width = text.width * OTHER_FONTS
                left = text.x - (width if text.anchor == "end" else 0)
                middle = Rect(left, base, width, 0)
                label = f'{label[:-1]}{_JUSTIFIED[text.anchor]}"'
            yield self._node(self._new("text"), middle, label=label, **font)

    # --- edges ------------------------------------------------------------------------------------

    def line(self, start: Point, segments: Sequence[Segment], ink: Ink) -> str:
        """The splines of a line: one per dash, because Graphviz knows few dash patterns."""
        if not ink.dash:
            return self._spline(start, segments)
        found = dashes(start, segments, ink.dash)
        return ";".join(self._spline(dash[0], dash[1:]) for dash in found)

    def _spline(self, start: Point, segments: Sequence[Segment]) -> str:
        points, here = [start], start
        for segment in segments:
            end = end_of(segment)
            if len(segment) == 2:
                points += [between(here, end, 1 / 3), between(here, end, 2 / 3), end]
            else:
                points += [(segment[0], segment[1]), (segment[2], segment[3]), end]
            here = end
        return " ".join(self._pair(*point) for point in points)

    def _ends(self, start: Point, tip: Point) -> Iterator[tuple[str, str]]:
        """Invisible nodes for the ends of lines that connect no boxes."""
        for x, y in (start, tip):
            name = self._new("end")
            yield name, self._node(name, Rect(x, y, 0, 0), shape="point", style="invis")

    def _edge(self, source: str, target: str, line: str, ink: Ink, **attributes: str) -> str:
        attributes = {"pos": line, **stroke(ink), **attributes}
        return f"  {quote_dot(source)} -> {quote_dot(target)} [{attribute_list(attributes)}];"

    def rule(self, rule: Rule) -> Iterator[str]:
        (source, first), (target, second) = self._ends(rule.start, rule.end)
        line = self.line(rule.start, [rule.end], rule.ink)
        yield from (first, second, self._edge(source, target, line, rule.ink))

    def arrow(self, wire: Wire) -> Iterator[str]:
        source = self._name(wire.source, wire.source_iteration)
        target = self._name(wire.target, wire.iteration)
        if wire.from_outside or not wire.source:
            ends = list(self._ends(wire.start, wire.tip))
            yield from (node for _, node in ends)
            source = ends[0][0]
            target = target if wire.source else ends[1][0]
        line = self.line(wire.start, wire.segments, wire.ink)
        role = {"class": wire.role.value} if wire.role else {}
        yield self._edge(source, target, line, wire.ink, **role)


def _paper(scene: Scene) -> str:
    """The size on paper in inches, if the drawing is scaled."""
    if scene.scale == 1:
        return ""
    size = (number(length * scene.scale / 72, 4) for length in (scene.width, scene.height))
    return f' size="{",".join(size)}!",'


# --- xdot -----------------------------------------------------------------------------------------

_CORNER = 0.4477  # distance of Bezier control points from a rounded corner, per radius


def _xdot_colour(operation: str, colour: str) -> str:
    return f"{operation} {len(colour)} -{colour}"


def _xdot_points(points: Sequence[Point]) -> str:
    return f"{len(points)} " + " ".join(f"{number(x)} {number(y)}" for x, y in points)


def _rounded_rect(rect: Rect, radius: float) -> Iterator[Point]:
    """A rectangle with rounded corners as cubic curves."""
    control = radius * _CORNER
    corners = [
        (rect.x, rect.y, 1, 0), (rect.right, rect.y, 0, 1),
        (rect.right, rect.bottom, -1, 0), (rect.x, rect.bottom, 0, -1),
    ]  # fmt: skip
    yield (rect.x, rect.y + radius)
    for index, (x, y, dx, dy) in enumerate(corners):
        # Into the corner along (dy, -dx), out of it along (dx, dy), straight to the next one.
        yield (x - dy * control, y + dx * control)
        yield (x + dx * control, y + dy * control)
        out = (x + dx * radius, y + dy * radius)
        yield out
        end_x, end_y, _, _ = corners[(index + 1) % 4]
        into = (end_x - dx * radius, end_y - dy * radius)
        yield from (out, into, into)


# --- glyphs: Graphviz places scripts and accents differently, so each has its own position --------

# Spacing accents, which all fonts have: character, relative size, relative height.
_SPACING_ACCENTS = {
    ACCENTS["hat"]: ("\u02c6", 1.0, 0.0),
    ACCENTS["tilde"]: ("\u02dc", 1.0, 0.0),
    ACCENTS["bar"]: ("\u00af", 1.0, 0.0),
    ACCENTS["dot"]: ("\u02d9", 1.0, 0.0),
    ACCENTS["vec"]: ("\u2192", 0.7, 0.34),
}
_LOW_LETTERS = set(
    "acegmnopqrsuvwxyz\u03b1\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c0\u03c1"
    "\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9"
)
_RAISE, _SLANT = 0.21, 0.07  # of an accent on a tall letter, and on an italic one


class _Glyphs(NamedTuple):
    """Runs of one height, centred at `x` on the base line `y`.

    Graphviz sets them side by side, so that they never overlap in a font that replaces Helvetica.
    """

    runs: Sequence[TextRun]
    x: float
    y: float
    size: float


def _glyphs_of(text: Text) -> Iterator[_Glyphs]:
    left = text.left
    for (shift, _), group in groupby(text.runs, key=lambda run: (run.shift, _has_accent(run))):
        size = text.size * (SCRIPT_SIZE if shift else 1)
        base = text.y - shift * SCRIPT_SHIFT * text.size
        runs = list(group)
        bare = [TextRun(_without_accents(run.text), run.face) for run in runs]
        # Graphviz drops surrounding spaces.
        first = bare[0]
        bare[0] = first._replace(text=first.text.lstrip())
        at = left + width_of(first.text, size, first.face)
        at -= width_of(bare[0].text, size, first.face)
        bare[-1] = bare[-1]._replace(text=bare[-1].text.rstrip())
        if found := [run for run in bare if run.text]:
            width = sum(width_of(run.text, size, run.face) for run in found)
            yield _Glyphs(found, at + width / 2, base, size)
        for run in runs:
            yield from _accents(run, left, base, size)
            left += run.width(text.size)


def _has_accent(run: TextRun) -> bool:
    return _without_accents(run.text) != run.text


def _without_accents(text: str) -> str:
    return "".join(each for each in text if each not in _SPACING_ACCENTS)


def _accents(run: TextRun, left: float, base: float, size: float) -> Iterator[_Glyphs]:
    before = ""
    for character in run.text:
        if character not in _SPACING_ACCENTS:
            before += character
            continue
        accent, scale, height = _SPACING_ACCENTS[character]
        letter = before[-1:]
        x = left + width_of(before, size, run.face) - width_of(letter, size, run.face) / 2
        x += _SLANT * size if run.face == "italic" else 0.0
        height += 0.0 if letter in _LOW_LETTERS else _RAISE
        runs = [TextRun(accent, "serif")]
        yield _Glyphs(runs, x, base - height * size, size * scale)
