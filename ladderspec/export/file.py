"""Spec -> the text of a file: every part once, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ladderspec.corridor import graph as graph_of
from ladderspec.export.cells import cell_use
from ladderspec.export.code import WIDTH, fit
from ladderspec.export.constructor import constructor
from ladderspec.export.definitions import ARROWS, Definition, Key, define, expression
from ladderspec.export.forward import Forward
from ladderspec.export.heading import about, check_name, class_name, docstring
from ladderspec.export.readouts import readouts_of
from ladderspec.export.text import (
    IMPORTED,
    before_arrows,
    before_cells,
    before_network,
    imports,
    needed,
    text_of,
)
from ladderspec.export.unroll import Unrolled
from ladderspec.export.uses import Facts, Use, facts_of
from ladderspec.language.read import Spec
from ladderspec.wiring.graph import Graph, in_order

Section = dict[str, str]  # definitions by name, in order


def to_python(spec: Spec | Graph, name: str | None = None) -> str:
    """The network of a spec or graph as one Python file that needs torch only, its class `name`.

    Raises UsageError where a cell is the user's own.
    """
    graph, words = graph_of(spec), getattr(spec, "words", None)  # Spec -> graph
    facts = facts_of(graph)
    uses = {node: cell_use(graph, node, facts) for node in in_order(graph)}  # -> modules
    classes = define(list(uses.values()), facts)  # -> classes
    sections = _sections(list(classes.values()), facts, graph)  # -> all that may be needed
    parts = {key: text for section in sections.values() for key, text in section.items()}
    taken = parts.keys() | IMPORTED
    name = check_name(name, taken) if name else class_name(graph, words, taken)
    network = _network(graph, uses, classes, name)
    names = needed([network], parts)
    used = {
        title: [text for key, text in section.items() if key in names]
        for title, section in sections.items()
    }
    lines = [*docstring(graph, words, name), "", *imports(names)]
    for title, texts in {**used, "the network": [network]}.items():
        lines += _section(title if any(used.values()) else "", texts)
    return "\n".join(lines) + "\n"


def _sections(classes: Sequence[Definition], facts: Facts, graph: Graph) -> dict[str, Section]:
    """What a network may need, by the title of the section that holds it."""
    order = [*ARROWS, "gate"]
    arrows = [each for each in classes if each.piece in order]
    arrows.sort(key=lambda each: (order.index(each.piece), each.name))
    cells = [each for each in classes if each.piece not in order]
    over = "iterations" if graph.graph["frames"] is None else "frames"

    def texts(definitions: Sequence[Definition]) -> Section:
        return {each.name: text_of(each, classes, facts) for each in definitions}

    return {
        "": before_arrows(classes, facts, over),
        "arrows: what becomes of a value on its way into a cell": texts(arrows),
        "cells": before_cells(classes) | texts(cells) | before_network(),
    }


def _network(
    graph: Graph, uses: Mapping[str, Use], classes: Mapping[Key, Definition], name: str
) -> str:
    """The class of the network: its table in the constructor, its loop over t in `forward`."""
    timed = frozenset(n for n, use in uses.items() if use.piece and classes[use.key].timed)
    unrolled = Unrolled(graph, uses, timed)
    modules = {n: expression(use, classes) for n, use in uses.items() if unrolled.is_called(n)}
    readouts = readouts_of(graph)
    forward = Forward(graph, list(modules), readouts, unrolled)
    lines = [
        f"class {name}(nn.Module):",
        *(f"    {line}".rstrip() for line in about(graph)),
        "",
        "    def __init__(self) -> None:",
        *constructor(graph, modules, readouts),
        "",
        f"    def forward(self, {forward.argument}: Tensor) -> dict[str, Tensor]:",
        *(part for line in forward.lines() for part in fit(f"        {line}".rstrip())),
    ]
    return "\n".join(lines)


def _section(title: str, texts: Sequence[str]) -> list[str]:
    """Definitions two lines apart; those of one line before them, close together."""
    short = [text for text in texts if "\n" not in text]
    lines = ["", *short] if short else []
    if title and texts:
        lines += ["", "", f"# --- {title} ".ljust(WIDTH, "-")]
    return [*lines, *(line for text in texts if "\n" in text for line in ("", "", text))]
