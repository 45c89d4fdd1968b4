"""Picture -> Graphviz text that leaves the places to `dot`: for graphs that are no ladder."""

from __future__ import annotations

from collections.abc import Iterator

from ladderspec.drawing import labels
from ladderspec.drawing.fold import fold
from ladderspec.drawing.maths import Run, text_of
from ladderspec.drawing.parts import Arrow, Change, Part, Picture
from ladderspec.drawing.themes import Theme, theme_of
from ladderspec.drawing.view import View, check
from ladderspec.drawing.worth import ink_of
from ladderspec.drawing.writers.gv import attributes, line_words, quoted, styles
from ladderspec.drawing.writers.words import escaped
from ladderspec.names import Role


def to_automatic(picture: Picture, view: View) -> str:
    check(view)
    theme = theme_of(view.theme)
    picture = fold(picture) if view.fold else picture
    return "\n".join(_lines(picture, view, theme)) + "\n"


def _lines(picture: Picture, view: View, theme: Theme) -> Iterator[str]:
    yield f"digraph {quoted(picture.title)} {{"
    yield f'  graph [layout=dot, rankdir=BT, bgcolor="{theme.background}", charset="UTF-8"];'
    yield '  node [shape=box, style="rounded,filled", fontname=Arial, fontsize=10];'
    yield "  edge [arrowhead=vee, arrowsize=0.6, fontname=Arial, fontsize=9];"
    for part in picture.parts.values():
        yield f"  {quoted(part.name)} [{_node(part, view, theme)}];"
    for level in picture.levels:
        here = [quoted(part.name) for part in picture.parts.values() if part.level == level.name]
        yield f"  {{ rank=same; {'; '.join(here)} }}"
    for arrow in picture.arrows:
        yield _edge(arrow, theme, picture.heaviest)
    yield "}"


def _node(part: Part, view: View, theme: Theme) -> str:
    coat, gone = theme.coats[part.side], part.change is Change.REMOVED
    lines = [_html(labels.heading(part, view.labels)), _html(labels.facts(part, view.labels))]
    lines += [f"<i>{escaped(reading.text)}</i>" for reading in part.readings if view.labels]
    facts = {
        "color": theme.removed.colour if gone else coat.line,
        "fillcolor": theme.background if gone else coat.fill,
        "fontcolor": theme.removed.colour if gone else theme.text,
    }
    html = "<br/>".join(line for line in lines if line)
    return f"{attributes(facts)}, label=<{html or ' '}>"


def _html(runs: tuple[Run, ...]) -> str:
    text = escaped(text_of(runs))
    return f"<b>{text}</b>" if runs and runs[0].face == "bold" else text


def _edge(arrow: Arrow, theme: Theme, heaviest: float | None) -> str:
    ink = ink_of(arrow, theme, heaviest)
    facts = line_words(ink) | {"style": ",".join(styles(ink))}
    words = [arrow.label] if arrow.label else []
    words += [f"t-{arrow.delay}"] if arrow.delay else []
    if words:
        facts["label"] = ", ".join(words)
    if arrow.delay or arrow.role in (Role.LATERAL, Role.DECODER):
        facts["constraint"] = "false"
    return f"  {quoted(arrow.source)} -> {quoted(arrow.target)} [{attributes(facts)}];"
