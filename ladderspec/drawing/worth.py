"""Arrows as thick as their worth: numbers by selector -> picture, and the ink of every arrow."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from ladderspec.drawing.parts import Arrow, Change, Picture
from ladderspec.drawing.scene import Ink
from ladderspec.drawing.themes import Theme
from ladderspec.errors import UsageError
from ladderspec.names import Role
from ladderspec.text.notation import NotationProblem, Selector, parse_selector
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.selection import Edge, closest, select

WIDEST, THINNEST = 5.0, 0.6  # of the arrow that is worth most; of one that is worth nothing
_BOLD = 1.9  # how much wider an added arrow is


def weigh(picture: Picture, graph: Graph, worth: Mapping[str, float]) -> Picture:
    """Give every arrow that a selector means its number; of several, the last one counts."""
    found: dict[Edge, float] = {}
    for text, number in worth.items():
        if not isinstance(number, int | float) or not isfinite(number):
            raise UsageError(f"worth of `{text}`: {number!r} is no finite number")
        found |= dict.fromkeys(_edges(graph, text), float(number))
    arrows = (
        arrow._replace(worth=found.get((arrow.source, arrow.target, arrow.key)))
        for arrow in picture.arrows
    )
    return picture._replace(arrows=tuple(arrows))


def _edges(graph: Graph, text: str) -> set[Edge]:
    arrows = f"{text}@*" if text in set(Role) else text  # a role alone: nodes have no worth
    try:
        selector: Selector = parse_selector(arrows)
    except NotationProblem as problem:
        raise UsageError(": ".join(filter(None, (problem.message, problem.hint)))) from None
    if selector.kind not in ("role", "arrow"):
        raise UsageError(f"worth of `{text}`: that names no arrows, as `lateral@conv_*` does")
    _, edges = select(graph, selector)
    if not edges:
        hint = closest(graph, selector, text)
        raise UsageError(f"worth of `{text}`, which matches nothing{f': {hint}' if hint else ''}")
    return edges


def ink_of(arrow: Arrow, theme: Theme, heaviest: float | None) -> Ink:
    """By role and change; where arrows have a worth, by that. `heaviest` is the largest worth."""
    ink = theme.inks[arrow.role]
    if arrow.change is Change.REMOVED:
        return theme.removed
    if heaviest is None:
        wider = _BOLD if arrow.change is Change.ADDED else 1.0
        return ink._replace(width=ink.width * wider)
    if arrow.worth is None:
        return unweighed(theme)
    share = arrow.worth / heaviest if heaviest > 0 else 0.0
    return ink._replace(width=max(THINNEST, WIDEST * share))


def unweighed(theme: Theme) -> Ink:
    """An arrow whose worth nobody measured."""
    return Ink(theme.rule, 0.9)
