"""A spec as one file of plain PyTorch: readable, without ladderspec, for the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

from ladderspec.api import graph as graph_of
from ladderspec.arguments import checked
from ladderspec.cells.pool import Identity
from ladderspec.export.classes import GROUPS, write_classes
from ladderspec.export.heading import about, check_name, class_name, docstring
from ladderspec.export.modules import CellClass
from ladderspec.export.network import Network
from ladderspec.export.source import REFERENCE, WIDTH, Definitions, names_in
from ladderspec.language.read import Spec
from ladderspec.names import is_input
from ladderspec.wiring.graph import Graph, copies, in_order

__all__ = ["to_python"]


@checked
def to_python(spec: Spec | str | Path | Graph, name: str | None = None) -> str:
    """The network of a spec or graph as one Python file that needs torch only.

    Args:
        spec: the spec, its file, or its graph.
        name: of the class. Default: the name of the spec.

    Raises:
        UsageError: if the source of a user's cell, norm or activation cannot be used.
    """
    graph, config = graph_of(spec), getattr(spec, "config", None)
    definitions = Definitions(classes={GROUPS})
    if count := copies(graph):
        about_groups = "copies of the network that share their weights, side by side in the batch"
        definitions.texts[GROUPS] = f"{GROUPS} = {count}  # {about_groups}"
    nodes = [
        node
        for node in in_order(graph)
        if not is_input(node) and graph.nodes[node]["cell"].compute is not Identity.compute
    ]
    cells = {node: CellClass(definitions, graph, node) for node in nodes}
    edges = write_classes([edge for cell in cells.values() for edge in cell.edges.values()], [])
    definitions.classes.update(edges)
    classes = {**edges, **write_classes(cells.values(), edges)}
    network = Network(graph, {node: cell.expression for node, cell in cells.items()})
    taken = {*definitions.names, *classes}
    name = check_name(name, taken) if name else class_name(graph, config, taken)
    body = network.text(name, about(graph))
    definitions.reference([*definitions.texts.values(), *classes.values(), body])
    helpers = {**REFERENCE, **definitions.texts}
    texts = [*definitions.texts.values(), *classes.values(), body]
    used = set[str]().union(*map(names_in, texts))
    sections = {
        "": [text for key, text in helpers.items() if key in definitions.texts],
        "edges: the map and the norm of a value that enters a cell": sorted(edges.values()),
        "cells": [text for key, text in classes.items() if key not in edges],
        "the network": [body],
    }
    lines = docstring(graph, config, name)
    lines += ["", "from __future__ import annotations"] if definitions.later else []
    lines += ["", *_imports(definitions, used)]
    for title, section in sections.items():
        lines += _section(title, section)
    return "\n".join(lines) + "\n"


def _imports(definitions: Definitions, used: set[str]) -> list[str]:
    """The imports, sorted as formatters do."""
    found: dict[str, set[str]] = {}
    for key in used & definitions.imports.keys():
        module, part = definitions.imports[key]
        found.setdefault(module, set()).add(part)
    lines = sorted(f"import {part}" for part in found.pop("", ()))
    for module in sorted(found):
        renamed = sorted(part for part in found[module] if " as " in part)
        plain = ", ".join(sorted(found[module] - {*renamed}))
        lines += [f"from {module} import {parts}" for parts in (plain, *renamed) if parts]
    standard = [s for s in lines if s.split()[1].partition(".")[0] in sys.stdlib_module_names]
    others = [line for line in lines if line not in standard]
    return [*standard, *([""] if standard and others else []), *others]


def _section(title: str, texts: list[str]) -> list[str]:
    """Definitions two lines apart; those of one line before them, close together."""
    short = [text for text in texts if "\n" not in text]
    lines = ["", *short] if short else []
    if title and texts:
        lines += ["", "", f"# --- {title} ".ljust(WIDTH, "-")]
    return [*lines, *(line for text in texts if "\n" in text for line in ("", "", text))]
