"""Graphviz: the formats gv, png and pdf, the program `dot`, and drawings placed by Graphviz.

With `layout="dot"`, Graphviz places the boxes: useful for graphs that are not ladders.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ladderspec.drawing.boxes import headings, outline, small_lines
from ladderspec.drawing.formats import Format, GraphvizMissing, number, register
from ladderspec.drawing.options import DPI, View
from ladderspec.drawing.picture import (
    Arrow,
    Change,
    Level,
    Part,
    Picture,
)
from ladderspec.drawing.scene import Ink
from ladderspec.drawing.style import ROLES, Sizes, Theme, ink_of, theme_of
from ladderspec.drawing.transforms import merge_rows
from ladderspec.drawing.typesetting import Face, TextRun, formula, plain
from ladderspec.errors import UsageError
from ladderspec.escaping import escape_dot_html, quote_dot
from ladderspec.names import TABLE, Role, Side, split_node

if TYPE_CHECKING:
    from ladderspec.drawing.compose import Drawing

# --- formats --------------------------------------------------------------------------------------


@register
class Gv(Format):
    suffixes = ("gv", "dot")
    dot_layout = True

    def write(self, drawing: Drawing) -> str:
        from ladderspec.drawing.formats.graphviz_scene import to_dot

        if drawing.layout != "dot":
            return to_dot(drawing.scene)
        if drawing.beside:
            raise UsageError("layout `dot` cannot show `beside`: use layout `ladder`")
        return to_dot_layout(drawing.picture, drawing.view)


@register
class Pdf(Format):
    """An image that Graphviz makes of the gv file."""

    suffixes = ("pdf",)
    needs_graphviz = dot_layout = True

    def write(self, drawing: Drawing) -> bytes:
        return run_graphviz(Gv().write(drawing), self.suffixes[0], drawing.dpi)


@register
class Png(Pdf):
    suffixes = ("png",)

    def write(self, drawing: Drawing) -> bytes:
        return _with_resolution(super().write(drawing), drawing.dpi)


def _with_resolution(image: bytes, dpi: int) -> bytes:
    """A PNG image that states its size on paper, so that programs include it at that size."""
    if not image.startswith(b"\x89PNG"):
        return image
    per_metre = round(dpi / 0.0254)
    chunk = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    whole = struct.pack(">I", 9) + chunk + struct.pack(">I", zlib.crc32(chunk))
    head = 33  # signature and header
    return image[:head] + whole + image[head:]


# --- program --------------------------------------------------------------------------------------

HOW_TO_INSTALL = (
    "install Graphviz (apt install graphviz, brew install graphviz, or graphviz.org),"
    " or pip install 'ladderspec[draw]'"
)


def run_graphviz(text: str, form: str, dpi: int = DPI) -> bytes:
    """An image of a Graphviz text, made by the program `dot`, else by the package pygraphviz."""
    program = shutil.which("dot")
    return _run_program(program, text, form, dpi) if program else _run_pygraphviz(text, form, dpi)


def _run_program(program: str, text: str, form: str, dpi: int) -> bytes:
    import subprocess

    command = [program, f"-T{form}", *([f"-Gdpi={dpi}"] if form == "png" else [])]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    except OSError as error:
        raise GraphvizMissing(f"cannot run {program}: {error.strerror}") from None
    if done.returncode or not done.stdout:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        message = lines[-1] if lines else "it printed no error message"
        raise GraphvizMissing(f"{program} made no {form}: {message}")
    return done.stdout


def _run_pygraphviz(text: str, form: str, dpi: int) -> bytes:
    try:
        pygraphviz = import_module("pygraphviz")
    except ImportError:
        raise GraphvizMissing(f"{form} needs Graphviz: {HOW_TO_INSTALL}") from None
    graph = pygraphviz.AGraph(string=text)
    if form == "png":
        graph.graph_attr["dpi"] = str(dpi)
    try:
        image: bytes = graph.draw(format=form, prog=graph.graph_attr["layout"] or "dot")
    except (OSError, ValueError) as error:
        raise GraphvizMissing(f"pygraphviz made no {form}: {error}; {HOW_TO_INSTALL}") from None
    return image


# --- language -------------------------------------------------------------------------------------

# Graphviz may replace Helvetica by a wider font, but not Arial.
FONTS: dict[Face, str] = {
    "sans": "Arial", "bold": "Arial Bold", "italic": "Times Italic", "serif": "Times",
}  # fmt: skip


def attribute_list(attributes: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={quote_dot(value)}" for key, value in attributes.items())


def dash_styles(ink: Ink) -> list[str]:
    """Graphviz knows two dash patterns."""
    if not ink.dash:
        return []
    return ["dotted" if ink.dash[0] < 2 else "dashed"]


def stroke(ink: Ink) -> dict[str, str]:
    return {"color": ink.colour, "penwidth": number(ink.width)}


# --- layout by Graphviz ---------------------------------------------------------------------------

_SERIF = "Times,serif"  # some versions of Times lack combining accents
_SMALL = 9  # points
_SPACE = "&#160;&#160;"


def to_dot_layout(picture: Picture, view: View) -> str:
    """Picture -> Graphviz text without positions."""
    unsupported = {
        "iterations": view.iterations is not None,
        "view mini": view.mini,
        "start": view.start,
        "plates": bool(view.plates),
        "levels": view.levels != "names",
        "width": view.width is not None,
        "height": view.height is not None,
        "plan": any(part.phase for part in picture.parts.values()),
    }
    found = [f"`{name}`" for name, is_used in unsupported.items() if is_used]
    if found:
        raise UsageError(f"layout `dot` cannot show {', '.join(found)}: use layout `ladder`")
    theme = theme_of(view.theme)
    return "\n".join(_lines(merge_rows(picture, view), view, theme)) + "\n"


def _lines(picture: Picture, view: View, theme: Theme) -> Iterator[str]:
    default = picture.title if picture.is_comparison else ""
    title = view.title if view.title is not None else default
    yield f"digraph {quote_dot(title or picture.title)} {{"
    yield (
        f'  graph [layout=dot, rankdir=BT, bgcolor="{theme.background}", charset="UTF-8",'
        f" nodesep=0.55, ranksep=0.5, {_label(_legend(picture, view, theme), theme.faint)}];"
    )
    yield f"  node [shape=box, style=filled, fontname={FONTS['sans']}, fontsize=10];"
    yield f"  edge [arrowhead=normal, arrowsize=0.7, fontname={FONTS['sans']}, fontsize={_SMALL}];"
    heading_html = f"<b>{escape_dot_html(title)}</b>" if title else ""
    yield "  subgraph cluster {"
    # The ranks go from bottom to top, so label location `b` is the top.
    yield f"    graph [penwidth=0, labelloc=b, {_label(heading_html, theme.text, 13)}];"
    if picture.groups:
        yield from _levels(picture, view, theme, picture.levels[:1])
        yield from _plate(picture, view, theme)
    else:
        yield from _levels(picture, view, theme, picture.levels)
    yield "  }"
    for arrow in picture.arrows:
        yield _edge(arrow, theme, picture.largest_worth)
    yield "}"


def _levels(picture: Picture, view: View, theme: Theme, levels: Sequence[Level]) -> Iterator[str]:
    names = {level.name for level in levels}
    for part in picture.parts.values():
        if part.level in names:
            yield f"    {quote_dot(part.name)} [{_node(part, view, theme)}];"
    for level in levels:
        here = sorted((p for p in picture.parts.values() if p.level == level.name), key=_column)
        chain = " -> ".join(quote_dot(part.name) for part in here)
        # Invisible edges keep the encoder at the left.
        invisible = " [style=invis, weight=9]" if len(here) > 1 else ""
        yield f"    {{ rank=same; {chain}{invisible} }}"


def _column(part: Part) -> int:
    return list(Side).index(part.side)


def _plate(picture: Picture, view: View, theme: Theme) -> Iterator[str]:
    """The groups: all levels above the input."""
    for arrow in picture.arrows:  # decoders stand above each other, the last one below the plate
        if arrow.role is Role.DECODER:
            ends = f"{quote_dot(arrow.target)} -> {quote_dot(arrow.source)}"
            yield f"    {ends} [style=invis];"
    yield "    subgraph cluster_groups {"
    # The margin has room for loops. Label location `t` is the bottom.
    frame = {"penwidth": "0.9", "color": theme.text, "margin": "48"}
    label = _label(to_html(formula(picture.plate_label)), theme.text, 12)
    yield f"    graph [{attribute_list(frame)}, labelloc=t, labeljust=r, {label}];"
    yield from _levels(picture, view, theme, picture.levels[1:])
    yield "    }"


def _label(html: str, colour: str, size: int = _SMALL) -> str:
    font = {"fontname": FONTS["sans"], "fontsize": str(size), "fontcolor": colour}
    return f"{attribute_list(font)}, label=<{html}>" if html else 'label=""'


def _node(part: Part, view: View, theme: Theme) -> str:
    removed = part.change is Change.REMOVED
    ink = outline(part, theme)
    lines = [*headings(part, view.labels, Sizes()), *small_lines(part, view.labels)]
    html = [_line(line) for line in lines if line]
    html += [f"<i>{escape_dot_html(task.text)}</i>" for task in part.tasks if view.labels]
    attributes = {
        **stroke(ink),
        "fillcolor": theme.background if removed else theme.sides[part.side].fill,
        "fontcolor": theme.removed.colour if removed else theme.text,
        "style": ",".join(["rounded", "filled", *dash_styles(ink)]),
    }
    return f"{attribute_list(attributes)}, label=<{'<br/>'.join(html) or ' '}>"


def to_html(runs: Sequence[TextRun]) -> str:
    return "".join(map(_run, runs))


def _line(runs: Sequence[TextRun]) -> str:
    """With space below subscripts: Graphviz adds none."""
    low = any(run.shift < 0 for run in runs)
    return to_html(runs) + ('<br/><font point-size="3"> </font>' if low else "")


def _run(run: TextRun) -> str:
    inner = escape_dot_html(run.text)
    if run.face in ("italic", "serif"):
        inner = f'<font face="{_SERIF}">{inner}</font>'
    tag = {"bold": "b", "italic": "i"}.get(run.face)
    inner = f"<{tag}>{inner}</{tag}>" if tag else inner
    return f"<sub>{inner}</sub>" if run.shift < 0 else f"<sup>{inner}</sup>" if run.shift else inner


def _edge(arrow: Arrow, theme: Theme, largest_worth: float | None) -> str:
    ink = ink_of(arrow, theme, largest_worth)
    attributes = stroke(ink) | {"style": ",".join(dash_styles(ink))}
    if arrow.delay or arrow.role in (Role.LATERAL, Role.DECODER):
        attributes["constraint"] = "false"
    if arrow.source == arrow.target:  # away from the arrows that cross
        port = {Side.ENCODER: "w", Side.LATERAL: "s", Side.DECODER: "e"}[
            split_node(arrow.source)[0]
        ]
        attributes |= {"tailport": port, "headport": port}
    runs = formula(arrow.label) if arrow.label else ()
    if arrow.delay != _usual_delay(arrow.role):
        runs += (*plain(", " if runs else ""), *formula(f"t-{arrow.delay}"))
    label = ""
    if runs:  # with space around it, so that no line touches it
        attributes["fontcolor"] = ink.colour
        label = f", label=<{_SPACE}{to_html(runs)}{_SPACE}>"
    ends = f"{quote_dot(arrow.source)} -> {quote_dot(arrow.target)}"
    return f"  {ends} [{attribute_list(attributes)}{label}];"


def _usual_delay(role: Role) -> int:
    """The delay that the legend shows; arrows with another delay have it as a label."""
    return TABLE[role].delay if role in TABLE else 0


def _legend(picture: Picture, view: View, theme: Theme) -> str:
    """The roles of the arrows, each with a sample of its line and its usual delay."""
    if view.legend is False:
        return ""
    roles = {arrow.role for arrow in picture.arrows if arrow.change is not Change.REMOVED}
    found = []
    for role in ROLES:
        if role in roles:
            delay = f", {to_html(formula('t-1'))}" if _usual_delay(role) else ""
            found.append((role.value.replace("_", " ") + delay, theme.inks[role]))
    if any(arrow.change is Change.REMOVED for arrow in picture.arrows):
        found.append(("removed", theme.removed))
    return "&#160;&#160; ".join(f"{_sample(ink)} {name}" for name, ink in found)


def _sample(ink: Ink) -> str:
    dots = "\u00b7\u00b7\u00b7" if dash_styles(ink) == ["dotted"] else "- -"
    line = dots if ink.dash else "\u2014\u2014"
    return f'<font color="{ink.colour}">{line}\u25b8</font>'
