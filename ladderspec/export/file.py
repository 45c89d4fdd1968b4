"""Spec -> the text of a file: every part once, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ladderspec.corridor import graph as graph_of
from ladderspec.export.cells import cell_use
from ladderspec.export.code import WIDTH, fit
from ladderspec.export.constructor import constructor
from ladderspec.export.definitions import ARROWS, Definition, Key, define, expression
from ladderspec.export.forward import Forward
from ladderspec.export.heading import about, class_name, docstring
from ladderspec.export.helpers import before_arrows, before_cells, before_network, imports, needed
from ladderspec.export.readouts import readouts_of
from ladderspec.export.text import text_of
from ladderspec.export.unroll import Unrolled
from ladderspec.export.uses import Facts, Use, facts_of
from ladderspec.read import Spec
from ladderspec.wiring import Graph, in_order


def to_python(spec: Spec, name: str | None = None) -> str:
    """The network of a spec as one Python file that needs torch only; `name` is its class's."""
    graph = graph_of(spec)
    facts = facts_of(graph)
    uses = {node: cell_use(graph, node, facts) for node in in_order(graph)}
    classes = define(list(uses.values()), facts)
    name = name or class_name(spec, {each.name for each in classes.values()})
    network = _network(graph, uses, classes, name)
    sections = _sections(list(classes.values()), facts, graph)
    parts = {n: text for section in sections.values() for n, text in section.items()}
    names = needed([network], parts)
    lines = ['"""' + "\n".join(docstring(spec, graph, readouts_of(graph), name)) + '\n"""', ""]
    lines += imports(names)
    used = {
        title: [text for n, text in section.items() if n in names]
        for title, section in sections.items()
    }
    titled = any(used.values())
    for title, texts in {**used, "the network": [network]}.items():
        lines += _section(title if titled else "", texts)
    return "\n".join(lines) + "\n"


def _network(
    graph: Graph, uses: Mapping[str, Use], classes: Mapping[Key, Definition], name: str
) -> str:
    timed = frozenset(n for n, use in uses.items() if use.piece and classes[use.key].timed)
    unrolled = Unrolled(graph, uses, timed)
    readouts = readouts_of(graph)
    modules = {n: expression(use, classes) for n, use in uses.items() if unrolled.is_called(n)}
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


def _sections(
    classes: Sequence[Definition], facts: Facts, graph: Graph
) -> dict[str, dict[str, str]]:
    """All that a network may need, by the title of its section and by name."""
    order = [*ARROWS, "gate"]
    arrows = sorted(
        (each for each in classes if each.piece in order),
        key=lambda each: (order.index(each.piece), each.name),
    )
    over = "iterations" if graph.graph["frames"] is None else "frames"
    return {
        "": before_arrows(classes, facts, over),
        "arrows: what becomes of a value on its way into a cell": {
            each.name: text_of(each, classes, facts) for each in arrows
        },
        "cells": before_cells(classes)
        | {each.name: text_of(each, classes, facts) for each in classes if each not in arrows}
        | before_network(),
    }


def _section(title: str, texts: Sequence[str]) -> list[str]:
    """Definitions two lines apart; those of one line at the top close together."""
    short = [text for text in texts if "\n" not in text]
    lines = ["", *short] if short else []
    if title and texts:
        lines += ["", "", f"# --- {title} ".ljust(WIDTH, "-")]
    return [*lines, *(line for text in texts if "\n" in text for line in ("", "", text))]
