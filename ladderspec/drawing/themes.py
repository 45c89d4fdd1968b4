"""Colours and line styles: of the paper, for print in black, for colour-blind readers, on dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ladderspec.drawing.scene import Ink
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.names import Role, Side

if TYPE_CHECKING:
    from collections.abc import Mapping


class Coat(NamedTuple):
    """The outline and the inside of a box."""

    line: str
    fill: str


class Theme(NamedTuple):
    """Every colour of a picture."""

    background: str
    text: str
    faint: str  # facts, levels, legend
    rule: str  # lines between iterations, plates
    removed: Ink
    coats: Mapping[Side, Coat]
    inks: Mapping[Role, Ink]
    task: Coat
    phases: Mapping[str, str]
    phase_edge: str | None = None  # phases have an outline where their tints are hard to tell


_SOLID = 1.25
_DASHED, _DOTTED, _DASH_DOT = (5.0, 2.5), (1.2, 2.2), (6.0, 2.0, 1.2, 2.0)
_SHORT, _DASH_DOT_DOT = (4.5, 2.0), (6.0, 2.0, 1.2, 2.0, 1.2, 2.0)
_GONE = (3.5, 2.5)

PAPER = Theme(
    background="#ffffff",
    text="#1a1a1a",
    faint="#5f6368",
    rule="#9aa0a6",
    removed=Ink("#a9aeb4", 1.1, _GONE),
    coats={
        Side.ENCODER: Coat("#c62828", "#fdeceb"),
        Side.LATERAL: Coat("#3c4043", "#f3f4f5"),
        Side.DECODER: Coat("#1450b0", "#e8f0fb"),
    },
    inks={
        Role.ENCODER: Ink("#c62828", _SOLID),
        Role.STATE: Ink("#202124", _SOLID),
        Role.LATERAL: Ink("#202124", _SOLID),
        Role.DECODER: Ink("#1450b0", _SOLID),
        Role.DECODER_TO_ENCODER: Ink("#0b7d3b", _SOLID),
        Role.UPWARD_DIAGONAL: Ink("#0b7d3b", _SOLID, _DASHED),
        Role.DOWNWARD_DIAGONAL: Ink("#1450b0", _SOLID, _DASHED),
        Role.RECURRENT_DECODER: Ink("#1450b0", _SOLID, _DOTTED),
        Role.SKIP: Ink("#8e24aa", _SOLID),
    },
    task=Coat("#b26a00", "#fff4dc"),
    phases={"once": "#f1f3f4", "loop": "#fdf0c8", "sequence": "#e2f1e6"},
)

# Okabe and Ito's colours; arrows that share a hue differ in their dashes.
SAFE = Theme(
    background="#ffffff",
    text="#1a1a1a",
    faint="#55585c",
    rule="#8f959b",
    removed=Ink("#a9aeb4", 1.1, _GONE),
    coats={
        Side.ENCODER: Coat("#d55e00", "#fcefe5"),
        Side.LATERAL: Coat("#3c4043", "#f3f4f5"),
        Side.DECODER: Coat("#0072b2", "#e5f1f8"),
    },
    inks={
        Role.ENCODER: Ink("#d55e00", _SOLID),
        Role.STATE: Ink("#000000", _SOLID),
        Role.LATERAL: Ink("#5f6368", _SOLID),
        Role.DECODER: Ink("#0072b2", _SOLID),
        Role.DECODER_TO_ENCODER: Ink("#009e73", 1.5, _SHORT),
        Role.UPWARD_DIAGONAL: Ink("#cc79a7", 1.4, _DASHED),
        Role.DOWNWARD_DIAGONAL: Ink("#56b4e9", 1.4, _DASH_DOT),
        Role.RECURRENT_DECODER: Ink("#56b4e9", 1.4, _DOTTED),
        Role.SKIP: Ink("#e69f00", 1.5),
    },
    task=Coat("#8a6d00", "#fdf8cf"),
    phases={"once": "#f1f3f4", "loop": "#fbf3c1", "sequence": "#ddf0f8"},
    phase_edge="#8f959b",
)

# Nothing but black and greys: dashes and widths tell the arrows apart, also on a bad printer.
MONO = Theme(
    background="#ffffff",
    text="#000000",
    faint="#3d3d3d",
    rule="#7a7a7a",
    removed=Ink("#9e9e9e", 0.9, _GONE),
    coats={
        Side.ENCODER: Coat("#000000", "#ffffff"),
        Side.LATERAL: Coat("#000000", "#f7f7f7"),
        Side.DECODER: Coat("#000000", "#e9e9e9"),
    },
    inks={
        Role.ENCODER: Ink("#000000", 1.7),
        Role.STATE: Ink("#000000", 1.2, _DOTTED),
        Role.LATERAL: Ink("#000000", 0.8),
        Role.DECODER: Ink("#000000", 1.5, _SHORT),
        Role.DECODER_TO_ENCODER: Ink("#000000", 1.3, _DASH_DOT),
        Role.UPWARD_DIAGONAL: Ink("#000000", 1.3, _DASH_DOT_DOT),
        Role.DOWNWARD_DIAGONAL: Ink("#000000", 0.9, _DASH_DOT_DOT),
        Role.RECURRENT_DECODER: Ink("#000000", 0.8, _SHORT),
        Role.SKIP: Ink("#000000", 1.1, (2.0, 1.4)),
    },
    task=Coat("#000000", "#ffffff"),
    phases={"once": "#f4f4f4", "loop": "#dedede", "sequence": "#ebebeb"},
    phase_edge="#7a7a7a",
)

DARK = Theme(
    background="#16181d",
    text="#f1f3f4",
    faint="#b4bac2",
    rule="#6f7681",
    removed=Ink("#6f7681", 1.1, _GONE),
    coats={
        Side.ENCODER: Coat("#ff8a80", "#3a2224"),
        Side.LATERAL: Coat("#cfd4da", "#2a2d33"),
        Side.DECODER: Coat("#8ab4f8", "#1f2b40"),
    },
    inks={
        Role.ENCODER: Ink("#ff8a80", _SOLID),
        Role.STATE: Ink("#e8eaed", _SOLID),
        Role.LATERAL: Ink("#e8eaed", _SOLID),
        Role.DECODER: Ink("#8ab4f8", _SOLID),
        Role.DECODER_TO_ENCODER: Ink("#81c995", _SOLID),
        Role.UPWARD_DIAGONAL: Ink("#81c995", _SOLID, _DASHED),
        Role.DOWNWARD_DIAGONAL: Ink("#8ab4f8", _SOLID, _DASHED),
        Role.RECURRENT_DECODER: Ink("#8ab4f8", _SOLID, _DOTTED),
        Role.SKIP: Ink("#d7aefb", _SOLID),
    },
    task=Coat("#fdd663", "#3d3520"),
    phases={"once": "#22252b", "loop": "#3b3622", "sequence": "#21362b"},
)

THEMES = {"paper": PAPER, "mono": MONO, "safe": SAFE, "dark": DARK}


def theme_of(name: str) -> Theme:
    if name not in THEMES:
        hint = did_you_mean(name, THEMES) or f"there are {one_of(THEMES)}"
        raise UsageError(f"no theme `{name}`: {hint}")
    return THEMES[name]
