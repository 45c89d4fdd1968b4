"""Words of the Graphviz language: quotes, attributes, lines, HTML-like labels."""

from __future__ import annotations

from collections.abc import Mapping

from ladderspec.drawing.maths import Run
from ladderspec.drawing.scene import Ink, Text
from ladderspec.drawing.writers.words import escaped, number

SANS, SERIF = "Arial", "Times"  # in place of Helvetica, Graphviz may take a wider font


def quoted(text: str) -> str:
    """
    >>> quoted('a "b"')
    '"a \\\\"b\\\\""'
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def attributes(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={quoted(value)}" for key, value in facts.items())


def styles(ink: Ink) -> list[str]:
    """Graphviz knows two kinds of dashes."""
    if not ink.dash:
        return []
    return ["dotted" if ink.dash[0] < 2 else "dashed"]


def line_words(ink: Ink) -> dict[str, str]:
    return {"color": ink.colour, "penwidth": number(ink.width)}


def html_line(text: Text) -> str:
    """A text as an HTML-like label."""
    inner = "".join(map(_run, text.runs))
    if text.struck:
        inner = f"<s>{inner}</s>"
    return f'<font point-size="{number(text.size)}" color="{text.colour}">{inner}</font>'


def _run(run: Run) -> str:
    inner = escaped(run.text)
    if run.face in ("italic", "serif"):
        inner = f'<font face="{SERIF}">{inner}</font>'
    if run.face == "bold":
        inner = f"<b>{inner}</b>"
    if run.face == "italic":
        inner = f"<i>{inner}</i>"
    return f"<sub>{inner}</sub>" if run.shift < 0 else f"<sup>{inner}</sup>" if run.shift else inner
