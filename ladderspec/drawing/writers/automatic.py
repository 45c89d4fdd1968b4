"""Picture -> Graphviz text that leaves the places to `dot`: for graphs that are no ladder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.drawing import labels
from ladderspec.drawing.compose import outline
from ladderspec.drawing.fold import fold
from ladderspec.drawing.legend import ROLES
from ladderspec.drawing.maths import Run, formula, plain
from ladderspec.drawing.parts import Arrow, Change, Part, Picture
from ladderspec.drawing.scene import Ink
from ladderspec.drawing.themes import Theme, theme_of
from ladderspec.drawing.view import View, check
from ladderspec.drawing.worth import ink_of
from ladderspec.drawing.writers.gv import FONTS, attributes, line_words, quoted, styles
from ladderspec.drawing.writers.words import escaped
from ladderspec.errors import UsageError
from ladderspec.names import Role, Side, split_node

_SERIF = "Times,serif"  # some Times have no accents that combine
_SMALL = 9  # points
_AIR = "&#160;&#160;"


def to_automatic(picture: Picture, view: View) -> str:
    check(view)
    _refuse(picture, view)
    theme = theme_of(view.theme)
    picture = fold(picture) if view.fold else picture
    return "\n".join(_lines(picture, view, theme)) + "\n"


def _refuse(picture: Picture, view: View) -> None:
    """What only our own places can show."""
    wanted = {
        "iterations": view.iterations is not None,
        "view mini": view.mini,
        "start": view.start,
        "plates": bool(view.plates),
        "levels": view.levels != "names",
        "width": view.width is not None,
        "plan": any(part.phase for part in picture.parts.values()),
    }
    found = [f"`{name}`" for name, is_wanted in wanted.items() if is_wanted]
    if found:
        raise UsageError(f"layout `dot` cannot show {', '.join(found)}: use layout `ladder`")


def _lines(picture: Picture, view: View, theme: Theme) -> Iterator[str]:
    title = view.title if view.title is not None else picture.title if picture.compares else ""
    yield f"digraph {quoted(title or picture.title)} {{"
    yield (
        f'  graph [layout=dot, rankdir=BT, bgcolor="{theme.background}", charset="UTF-8",'
        f" nodesep=0.55, ranksep=0.5, {_label(_legend(picture, view, theme), theme.faint)}];"
    )
    yield f"  node [shape=box, style=filled, fontname={FONTS['sans']}, fontsize=10];"
    yield f"  edge [arrowhead=normal, arrowsize=0.7, fontname={FONTS['sans']}, fontsize={_SMALL}];"
    words = f"<b>{escaped(title)}</b>" if title else ""
    yield "  subgraph cluster {"
    yield f"    graph [penwidth=0, labelloc=b, {_label(words, theme.text, 13)}];"  # from below: top
    for part in picture.parts.values():
        yield f"    {quoted(part.name)} [{_node(part, view, theme)}];"
    for level in picture.levels:
        here = [quoted(part.name) for part in picture.parts.values() if part.level == level.name]
        yield f"    {{ rank=same; {'; '.join(here)} }}"
    yield "  }"
    for arrow in picture.arrows:
        yield _edge(arrow, theme, picture.heaviest)
    yield "}"


def _label(html: str, colour: str, size: int = _SMALL) -> str:
    font = {"fontname": FONTS["sans"], "fontsize": str(size), "fontcolor": colour}
    return f"{attributes(font)}, label=<{html}>" if html else 'label=""'


def _node(part: Part, view: View, theme: Theme) -> str:
    gone = part.change is Change.REMOVED
    ink = outline(part, theme)
    lines = [labels.heading(part, view.labels), labels.facts(part, view.labels)]
    html = [_line(line) for line in lines if line]
    html += [f"<i>{escaped(reading.text)}</i>" for reading in part.readings if view.labels]
    facts = {
        **line_words(ink),
        "fillcolor": theme.background if gone else theme.coats[part.side].fill,
        "fontcolor": theme.removed.colour if gone else theme.text,
        "style": ",".join(["rounded", "filled", *styles(ink)]),
    }
    return f"{attributes(facts)}, label=<{'<br/>'.join(html) or ' '}>"


def _html(runs: Sequence[Run]) -> str:
    return "".join(map(_run, runs))


def _line(runs: Sequence[Run]) -> str:
    """With room below where letters reach down: Graphviz leaves none."""
    low = any(run.shift < 0 for run in runs)
    return _html(runs) + ('<br/><font point-size="3"> </font>' if low else "")


def _run(run: Run) -> str:
    inner = escaped(run.text)
    if run.face in ("italic", "serif"):
        inner = f'<font face="{_SERIF}">{inner}</font>'
    tag = {"bold": "b", "italic": "i"}.get(run.face)
    inner = f"<{tag}>{inner}</{tag}>" if tag else inner
    return f"<sub>{inner}</sub>" if run.shift < 0 else f"<sup>{inner}</sup>" if run.shift else inner


def _edge(arrow: Arrow, theme: Theme, heaviest: float | None) -> str:
    ink = ink_of(arrow, theme, heaviest)
    facts = line_words(ink) | {"style": ",".join(styles(ink))}
    if arrow.delay or arrow.role in (Role.LATERAL, Role.DECODER):
        facts["constraint"] = "false"
    if arrow.source == arrow.target and split_node(arrow.source)[0] is Side.LATERAL:
        facts |= {"tailport": "s", "headport": "s"}  # away from the arrows that cross
    runs = formula(arrow.label) if arrow.label else ()
    if arrow.delay:
        runs += (*plain(", " if runs else ""), *formula(f"t-{arrow.delay}"))
    label = ""
    if runs:  # with air around it, so that no line touches it
        facts["fontcolor"] = ink.colour
        label = f", label=<{_AIR}{_html(runs)}{_AIR}>"
    return f"  {quoted(arrow.source)} -> {quoted(arrow.target)} [{attributes(facts)}{label}];"


def _legend(picture: Picture, view: View, theme: Theme) -> str:
    """The kinds of arrows, each with its line."""
    if view.legend is False:
        return ""
    arrows = [arrow for arrow in picture.arrows if arrow.change is not Change.REMOVED]
    found = [(role.value.replace("_", " "), theme.inks[role]) for role in ROLES
             if any(arrow.role is role for arrow in arrows)]  # fmt: skip
    if len(arrows) < len(picture.arrows):
        found.append(("removed", theme.removed))
    return "&#160;&#160; ".join(f"{_sample(ink)} {name}" for name, ink in found)


def _sample(ink: Ink) -> str:
    dots = "\u00b7\u00b7\u00b7" if styles(ink) == ["dotted"] else "- -"
    line = dots if ink.dash else "\u2014\u2014"
    return f'<font color="{ink.colour}">{line}\u25b8</font>'
