"""A spec as one file of plain PyTorch: readable, without ladderspec, for the same weights."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ladderspec.api import graph as graph_of
from ladderspec.cells.pool import Identity
from ladderspec.export.classes import Classes
from ladderspec.export.heading import about, check_name, class_name, docstring
from ladderspec.export.instances import GROUPS, ModuleInstance, cell_instance
from ladderspec.export.network import Network
from ladderspec.export.source import IMPORTS, REFERENCE, TYPES, WIDTH, Definitions, names_in
from ladderspec.language.read import Spec
from ladderspec.names import is_input
from ladderspec.wiring.graph import Graph, copies, in_order, steps_of

__all__ = ["to_python"]

_PARAMETERS = ("blocks", "weight", "weight_in_blocks")
_OF_TASKS = ("Offset", "LinearOffset", "ConvOffset", "Levels")


def to_python(spec: Spec | Graph, name: str | None = None) -> str:
    """The network of a spec or graph as one Python file that needs torch only.

    Args:
        spec: the spec, or its graph.
        name: of the class. Default: the name of the spec.

    Raises:
        UsageError: if the source of a user's cell, norm or activation cannot be used.
    """
    graph, config = graph_of(spec), getattr(spec, "config", None)  # Spec -> graph
    rows = steps_of(graph)
    cells = {n: cell_instance(graph, n, rows) for n in in_order(graph) if not is_input(n)}
    cells = {node: each for node, each in cells.items() if not _is_copy(each)}
    definitions = Definitions()
    if count := copies(graph):
        about_groups = "copies of the network that share their weights, side by side in the batch"
        definitions.texts[GROUPS] = f"{GROUPS} = {count}  # {about_groups}"
    edges, nodes = Classes(definitions), Classes(definitions)
    edges.make(edge for each in cells.values() for edge in each.edges.values())  # -> classes
    nodes.texts.update(dict.fromkeys(edges.texts, ""))
    nodes.make(cells.values())
    network = Network(graph, {node: each.expression for node, each in cells.items()})
    taken = {*definitions.texts, *edges.texts, *nodes.texts, *IMPORTS, *TYPES, *REFERENCE}
    name = check_name(name, taken) if name else class_name(graph, config, taken)
    body = "\n".join(network.lines(name, about(graph)))
    for each in sorted(names_in(ast.parse(body)) & REFERENCE.keys()):
        definitions.reference(each)
    texts = _used(definitions.texts, [body, *edges.texts.values(), *nodes.texts.values()])
    cell, of_tasks = _taken(texts, ["Cell"]), _taken(texts, _OF_TASKS)
    sections = {
        "": [*_taken(texts, _PARAMETERS), *texts.values()],
        "edges: what becomes of a value on its way into a cell": sorted(edges.texts.values()),
        "cells": [*cell, *(text for text in nodes.texts.values() if text)],
        "the network": [*of_tasks, body],
    }
    everything = [text for section in sections.values() for text in section]
    lines = [*docstring(graph, config, name), "", *_imports(definitions, everything)]
    for title, section in sections.items():
        lines += _section(title, section)
    return "\n".join(lines) + "\n"


def _used(definitions: dict[str, str], texts: Iterable[str]) -> dict[str, str]:
    """The definitions that the texts use, and those that these use in turn."""
    known, wanted = {**TYPES, **definitions}, set[str]()
    new = set[str]().union(*(names_in(ast.parse(text)) for text in texts))
    while new:
        wanted |= new
        used = [names_in(ast.parse(known[name])) for name in new & known.keys()]
        new = set[str]().union(*used) - wanted
    return {name: text for name, text in known.items() if name in wanted}


def _taken(texts: dict[str, str], names: Iterable[str]) -> list[str]:
    """Some of the texts, which are removed."""
    return [texts.pop(name) for name in names if name in texts]


def _is_copy(instance: ModuleInstance) -> bool:
    """Whether a cell only hands its one value on."""
    return instance.form.compute is Identity.compute


def _imports(definitions: Definitions, texts: list[str]) -> list[str]:
    """The imports, sorted as formatters do."""
    used = set[str]().union(*(names_in(ast.parse(text)) for text in texts))
    wanted = {text for name, text in {**definitions.imports, **IMPORTS}.items() if name in used}
    parts = [name for name in ("Tensor", "nn") if IMPORTS[name] in wanted]
    wanted -= {IMPORTS["Tensor"], IMPORTS["nn"]}
    torch = sorted(line for line in wanted if line.startswith(("import torch", "from torch")))
    standard = sorted(wanted - set(torch))
    torch += [f"from torch import {', '.join(parts)}"] if parts else []
    torch.sort(key=lambda line: (not line.startswith("import"), line))
    return [*standard, *([""] if standard else []), *torch]


def _section(title: str, texts: list[str]) -> list[str]:
    """Definitions two lines apart; those of one line before them, close together."""
    short = [text for text in texts if "\n" not in text]
    lines = ["", *short] if short else []
    if title and texts:
        lines += ["", "", f"# --- {title} ".ljust(WIDTH, "-")]
    return [*lines, *(line for text in texts if "\n" in text for line in ("", "", text))]
