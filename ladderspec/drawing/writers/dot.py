"""Scene -> Graphviz: nodes pinned and splines given, so every Graphviz draws the same picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.drawing.dashes import pieces
from ladderspec.drawing.paths import end_of, growth_of
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
)
from ladderspec.drawing.sizes import PILL_HEIGHT
from ladderspec.drawing.writers.gv import (
    SANS,
    attributes,
    html_line,
    line_words,
    quoted,
    styles,
)
from ladderspec.drawing.writers.words import number

_HEAD = 0.55  # its heads, to look as ours; they grow with the line
_WHOLE_HEAD = 0.8
_THICK = 1.9


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
            f' bgcolor="{scene.background}", charset="UTF-8"];'
        )
        yield f'  node [fontname="{SANS}", label="", fixedsize=shape, penwidth=0];'
        yield f"  edge [arrowhead=vee, arrowsize={_HEAD}];"
        yield from self._corners()
        for panel in scene.panels:
            yield from self._panel(panel)
        for box in scene.boxes:
            yield from self._box(box)
        for rule in scene.rules:
            yield from self._rule(rule)
        for wire in scene.wires:
            yield from self._wire(wire)
        for sample in scene.samples:
            yield from self._sample(sample)
        for text in scene.texts:
            yield self._text(text)
        yield "}"

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
        html = "<br/>".join(map(html_line, box.texts))
        html += "".join(f'<br/><font point-size="{PILL_HEIGHT:g}"> </font>' for _ in box.pills)
        facts = {"color": box.ink.colour, "fillcolor": box.fill, "penwidth": number(box.ink.width)}
        name = self._name(box.node, box.iteration)
        yield self._node(name, box.rect, html=html, shape="box", style=style, **facts)
        for pill in box.pills:
            yield from self._pill(pill)

    def _pill(self, pill: Pill) -> Iterator[str]:
        style = self._rounded(1, "filled", *styles(pill.ink))
        facts = {
            "color": pill.ink.colour,
            "fillcolor": pill.fill,
            "penwidth": number(pill.ink.width),
        }
        html = html_line(pill.text)
        yield self._node(self._new("task"), pill.rect, html=html, shape="box", style=style, **facts)

    def _panel(self, panel: Panel) -> Iterator[str]:
        style = self._rounded(panel.radius, *(["filled"] if panel.fill else []))
        facts = {"shape": "box", "style": style, "fillcolor": panel.fill or "none"}
        if panel.ink:
            facts |= {"color": panel.ink.colour, "penwidth": number(panel.ink.width)}
        yield self._node(self._new("panel"), panel.rect, **facts)
        if panel.label:
            yield self._text(panel.label)

    def _mark(self, mark: Mark) -> str:
        x, y = mark.centre
        rect = Rect(x - mark.side / 2, y - mark.side / 2, mark.side, mark.side)
        words = {"shape": "box", "style": "filled", "fillcolor": mark.colour}
        return self._node(self._new("delay"), rect, **words)

    def _text(self, text: Text) -> str:
        return self._node(self._new("text"), text.rect, html=html_line(text), shape="plaintext")

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
        facts = {"pos": pos, "arrowhead": "none", **line_words(rule.ink)}
        yield from (first, second, f"  {quoted(one)} -> {quoted(two)} [{attributes(facts)}];")

    def _wire(self, wire: Wire) -> Iterator[str]:
        before = wire.iteration - (0 if wire.mark else wire.delay)
        source, target = self._name(wire.source, before), self._name(wire.target, wire.iteration)
        if wire.from_outside or not wire.source:
            ends = list(self._ends(wire.start, wire.tip))
            yield from (line for _, line in ends)
            source = ends[0][0]
            target = target if wire.source else ends[1][0]
        thick = wire.ink.width > _THICK
        facts = {"pos": self._with_head(wire), **line_words(wire.ink)}
        if thick:  # Graphviz would spoil the head: it stands on a line of its own
            lines = self._line(wire.start, wire.segments, wire.ink.dash)
            facts |= {"pos": ";".join(lines), "arrowhead": "none"}
        if wire.role:
            facts["class"] = wire.role.value
        yield f"  {quoted(source)} -> {quoted(target)} [{attributes(facts)}];"
        if thick:
            yield from self._head(wire)
        if wire.mark:
            yield self._mark(wire.mark)
        if wire.label:
            yield self._text(wire.label)

    def _head(self, wire: Wire) -> Iterator[str]:
        foot = end_of(wire.segments[-1])
        (one, first), (two, second) = self._ends(foot, wire.tip)
        spline = self._spline(foot, [_between(foot, wire.tip, 0.1)])
        facts = {
            "pos": f"e,{self._pair(*wire.tip)} {spline}",
            **line_words(Ink(wire.ink.colour, 1.0)),
            "arrowhead": "normal",
            "arrowsize": number(_WHOLE_HEAD * growth_of(wire.ink.width)),
        }
        yield from (first, second, f"  {quoted(one)} -> {quoted(two)} [{attributes(facts)}];")

    def _with_head(self, wire: Wire) -> str:
        lines = self._line(wire.start, wire.segments, wire.ink.dash)
        if wire.ink.dash:  # the head needs a line of its own to stand on
            foot = end_of(wire.segments[-1])
            lines.append(self._spline(foot, [_between(foot, wire.tip, 0.1)]))
        lines[-1] = f"e,{self._pair(*wire.tip)} {lines[-1]}"
        return ";".join(lines)

    def _sample(self, sample: Wire | Panel | Pill | Mark) -> Iterator[str]:
        if isinstance(sample, Wire):
            yield from self._wire(sample)
        elif isinstance(sample, Panel):
            yield from self._panel(sample)
        elif isinstance(sample, Pill):
            yield from self._pill(sample)
        else:
            yield self._mark(sample)


def _paper(scene: Scene) -> str:
    """The size on paper, in inches, where it is another one."""
    if scene.scale == 1:
        return ""
    size = (number(length * scene.scale / 72, 4) for length in (scene.width, scene.height))
    return f' size="{",".join(size)}!",'


def _between(a: Point, b: Point, share: float) -> Point:
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share)
