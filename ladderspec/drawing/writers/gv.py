"""Words of the Graphviz language: quotes, attributes, lines, fonts."""

from __future__ import annotations

from collections.abc import Mapping

from ladderspec.drawing.metrics import Face
from ladderspec.drawing.scene import Ink
from ladderspec.drawing.writers.words import number

# In place of Helvetica, Graphviz may take a wider font.
FONTS: dict[Face, str] = {
    "sans": "Arial", "bold": "Arial Bold", "italic": "Times Italic", "serif": "Times",
}  # fmt: skip


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
