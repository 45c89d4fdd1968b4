"""Scene -> Graphviz: nodes pinned and splines given, so every Graphviz draws the same picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.drawing.dashes import pieces
from ladderspec.drawing.paths import end_of, head
from ladderspec.drawing.scene import (
    Box,
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
)
from ladderspec.drawing.writers import xdot
from ladderspec.drawing.writers.gv import FONTS, attributes, line_words, quoted, styles
from ladderspec.drawing.writers.letters import letters_of
from ladderspec.drawing.writers.words import escaped, number

# The base line of a text in Graphviz: so far below its middle, per size and always.
_BASE, _BELOW = 0.25, 0.4


def to_dot(scene: Scene) -> str:
    return "\n".join(_Writer(scene).lines()) + "\n"


class _Writer:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.count = 0
        self.last = max((box.iteration for box in scene.boxes), default=0)

    def lines(self) -> Iterator[str]:
        scene = self.scene
        size = f"0,0,{number(scene.width)},{number(scene.height)}"
        yield f"digraph {quoted(scene.title)} {{"
        paper = _paper(scene)
        yield (
            f'  graph [layout=nop2, bb="{size}",{paper} outputorder=nodesfirst, pad=0, margin=0,'
            f' bgcolor="{scene.background}", charset="UTF-8",'
            f' _background="{" ".join(self._behind())}"];'
        )
        yield '  node [label="", fixedsize=shape, penwidth=0];'
        yield "  edge [arrowhead=none];"
        yield from self._corners()
        for panel in scene.panels:
            yield from self._text(panel.label)
        for box in scene.boxes:
            yield from self._box(box)
        for rule in scene.rules:
            yield from self._rule(rule)
        for wire in scene.wires:
            yield from self._wire(wire)
        for sample in scene.samples:
            yield from self._sample(sample)
        for text in scene.texts:
            yield from self._text(text)
        yield "}"

    def _behind(self) -> Iterator[str]:
        """Panels, and the heads of arrows: those of Graphviz differ from one version to another."""
        scene = self.scene
        for thing in (*scene.panels, *scene.wires, *scene.samples):
            if isinstance(thing, Panel):
                rect = thing.rect._replace(y=scene.height - thing.rect.bottom)
                yield xdot.panel(thing, rect)
            elif isinstance(thing, Wire):
                corners = head(end_of(thing.segments[-1]), thing.tip, thing.ink.width)
                up = [(x, scene.height - y) for x, y in corners]
                yield xdot.polygon(up, thing.ink.colour)

    def _corners(self) -> Iterator[str]:
        """Graphviz measures the sheet itself: two invisible nodes hold it open."""
        for x, y in ((0.0, 0.0), (self.scene.width, self.scene.height)):
            yield self._node(self._new("corner"), Rect(x, y, 0, 0), style="invis")

    def _new(self, stem: str) -> str:
        self.count += 1
        return f"_{stem}{self.count}"

    def _name(self, node: str, iteration: int) -> str:
        back = self.last - iteration
        return f"{node}(t-{back})" if back else node

    def _pair(self, x: float, y: float) -> str:
        return f"{number(x)},{number(self.scene.height - y)}"

    # --- nodes ------------------------------------------------------------------------------------

    def _node(self, name: str, rect: Rect, *, html: str = "", **words: str) -> str:
        facts = {
            "pos": self._pair(*rect.centre) + "!",
            "width": number(rect.width / 72, 4),
            "height": number(rect.height / 72, 4),
            **words,
        }
        label = f", label=<{html}>" if html else ""
        return f"  {quoted(name)} [{attributes(facts)}{label}];"

    def _rounded(self, radius: float, *styles: str) -> str:
        return ",".join([*styles, "rounded"] if radius else styles)

    def _box(self, box: Box) -> Iterator[str]:
        style = self._rounded(box.radius, "filled", *styles(box.ink))
        facts = {"color": box.ink.colour, "fillcolor": box.fill, "penwidth": number(box.ink.width)}
        name = self._name(box.node, box.iteration)
        yield self._node(name, box.rect, shape="box", style=style, **facts)
        for text in box.texts:
            yield from self._text(text)
        for pill in box.pills:
            yield from self._pill(pill)

    def _pill(self, pill: Pill) -> Iterator[str]:
        style = self._rounded(1, "filled", *styles(pill.ink))
        facts = {
            "color": pill.ink.colour,
            "fillcolor": pill.fill,
            "penwidth": number(pill.ink.width),
        }
        yield self._node(self._new("task"), pill.rect, shape="box", style=style, **facts)
        yield from self._text(pill.text)

    def _mark(self, mark: Mark) -> str:
        x, y = mark.centre
        rect = Rect(x - mark.side / 2, y - mark.side / 2, mark.side, mark.side)
        words = {"shape": "box", "style": "filled", "fillcolor": mark.colour}
        return self._node(self._new("delay"), rect, **words)

    def _text(self, text: Text | None) -> Iterator[str]:
        for each in letters_of(text) if text else ():
            facts = {
                "shape": "plaintext",
                "fontname": FONTS[each.face],
                "fontsize": number(each.size),
                "fontcolor": text.colour if text else "",
            }
            words = escaped(each.text)
            label = {"html": f"<s>{words}</s>"} if text and text.struck else {"label": words}
            middle = Rect(each.x, each.y - _BASE * each.size - _BELOW, 0, 0)
            yield self._node(self._new("text"), middle, **facts, **label)

    # --- edges ------------------------------------------------------------------------------------

    def _spline(self, start: Point, segments: Sequence[Segment]) -> str:
        points, here = [start], start
        for segment in segments:
            end = end_of(segment)
            if len(segment) == 2:
                points += [_between(here, end, 1 / 3), _between(here, end, 2 / 3), end]
            else:
                points += [(segment[0], segment[1]), (segment[2], segment[3]), end]
            here = end
        return " ".join(self._pair(*point) for point in points)

    def _ends(self, start: Point, tip: Point) -> Iterator[tuple[str, str]]:
        """Points that stand for the ends of lines which join no nodes."""
        for x, y in (start, tip):
            name = self._new("end")
            yield name, self._node(name, Rect(x, y, 0, 0), shape="point", style="invis")

    def _line(self, start: Point, segments: Sequence[Segment], dash: Sequence[float]) -> list[str]:
        """The splines of a line; Graphviz knows few dashes, so each dash is a spline."""
        if not dash:
            return [self._spline(start, segments)]
        return [self._spline(piece[0], piece[1:]) for piece in pieces(start, segments, dash)]

    def _rule(self, rule: Rule) -> Iterator[str]:
        (one, first), (two, second) = self._ends(rule.start, rule.end)
        pos = ";".join(self._line(rule.start, [rule.end], rule.ink.dash))
        facts = {"pos": pos, **line_words(rule.ink)}
        yield from (first, second, f"  {quoted(one)} -> {quoted(two)} [{attributes(facts)}];")

    def _wire(self, wire: Wire) -> Iterator[str]:
        before = wire.iteration - (0 if wire.mark else wire.delay)
        source, target = self._name(wire.source, before), self._name(wire.target, wire.iteration)
        if wire.from_outside or not wire.source:
            ends = list(self._ends(wire.start, wire.tip))
            yield from (line for _, line in ends)
            source = ends[0][0]
            target = target if wire.source else ends[1][0]
        lines = self._line(wire.start, wire.segments, wire.ink.dash)
        facts = {"pos": ";".join(lines), **line_words(wire.ink)}
        if wire.role:
            facts["class"] = wire.role.value
        yield f"  {quoted(source)} -> {quoted(target)} [{attributes(facts)}];"
        if wire.mark:
            yield self._mark(wire.mark)
        yield from self._text(wire.label)

    def _sample(self, sample: Wire | Panel | Pill | Mark) -> Iterator[str]:
        if isinstance(sample, Wire):
            yield from self._wire(sample)
        elif isinstance(sample, Pill):
            yield from self._pill(sample)
        elif isinstance(sample, Mark):
            yield self._mark(sample)


def _paper(scene: Scene) -> str:
    """The size on paper, in inches, where it is another one."""
    if scene.scale == 1:
        return ""
    size = (number(length * scene.scale / 72, 4) for length in (scene.width, scene.height))
    return f' size="{",".join(size)}!",'


def _between(a: Point, b: Point, share: float) -> Point:
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share)
