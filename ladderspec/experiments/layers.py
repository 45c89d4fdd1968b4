"""Layers of settings: those of the file, of a column, of rows and of the command line, merged.

Rows win over columns, and columns over the file; the command line comes last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ladderspec.data import DataConfig
from ladderspec.errors import Finding, Findings, Place, Source, tick
from ladderspec.experiments.config import ExperimentConfig
from ladderspec.experiments.training import (
    EvaluationConfig,
    MachineConfig,
    OptimiserConfig,
    TrainingConfig,
    refresh,
)
from ladderspec.language.explain import example, explain, show
from ladderspec.language.extends import merge
from ladderspec.language.fields import Loc, present
from ladderspec.language.read import COMMAND_LINE, MAX_ROUNDS, Document, parse_set
from ladderspec.language.unknown_keys import find_unknown_keys
from ladderspec.text.tree import Node, items_of

M = TypeVar("M", bound=BaseModel)

# Keys of a row or column that change the spec, and the keys of a variant that they become.
_SECTIONS = ("params", "data", "training", "evaluation")
_PATCH = {"variant": "of", "set": "set", "tasks": "tasks", "edges": "edges", "without": "without"}


def last_value(line: Sequence[Node], key: str) -> Node | None:
    """The value of a key in the last row that has it."""
    found = [node for row in line if (node := row.get(key)) is not None]
    return found[-1] if found else None


def listed(node: Node | None) -> list[Node]:
    """The items of a list, or a single value."""
    if node is None or node.value is None:
        return []
    return node.value if isinstance(node.value, list) else [node]


# --- sections and patches of a run ---------------------------------------------------------------


def validate(tree: Node, model: type[M], findings: Findings) -> tuple[M | None, Node]:
    """Validate a tree and report mistakes; misspelt keys are corrected and reported."""
    refresh()
    for _ in range(MAX_ROUNDS):
        if not isinstance(tree.value, dict):
            message = f"expected a mapping, got {show(tree)}"
            findings.add(Finding("S104", message, tree.mark, tree.path, example(tree)))
            return None, tree
        try:
            return model.model_validate(tree.plain()), tree
        except ValidationError as error:
            items = error.errors(include_url=False, include_input=False)
            unknown = find_unknown_keys(items, tree, model)
            if unknown is None:
                explain(items, tree, model, findings)
                return None, tree
            findings.update(unknown.findings)
            tree = unknown.repair(tree)
    return None, tree


def merged(layers: Sequence[Node], key: str) -> Node:
    """A section of the file, merged with that of the column and of the rows."""
    found = layers[0].get(key)
    for layer in layers[1:]:
        over = layer.get(key)
        if over is not None:
            found = over if found is None else merge(_replaceable(over, _long(found)), over)
    return layers[0].replaced({}) if found is None else found


def _replaceable(over: Node, found: Node) -> Node:
    """Without `updates` if `over` sets `epochs`, and the other way round."""
    given = [key for key in ("updates", "epochs") if over.get(key) is not None]
    if len(given) != 1:
        return found
    (other,) = {"updates", "epochs"} - set(given)
    return found.replaced({key: node for key, node in items_of(found) if key != other})


def _long(node: Node) -> Node:
    """`data: {set: music}` for `data: music`."""
    return node.replaced({"set": node}) if isinstance(node.value, str) else node


def patch_of(node: Node | None) -> Node | None:
    """The changes of a row or column as a variant; its `params` win over those of variants."""
    if node is None:
        return None
    changes = {key: node.value[name] for name, key in _PATCH.items() if name in node.value}
    params = node.get("params")
    if params is not None and params.value:
        named = params.replaced({f"params.{name}": value for name, value in items_of(params)})
        changes["set"] = merge(changes["set"], named) if "set" in changes else named
    return node.replaced(changes) if changes else None


def with_variant(tree: Node, name: str, patch: Node) -> tuple[Node, str]:
    """The spec with one more variant, and the name of that variant."""
    variants = tree.get("variants")
    known: Mapping[str, Node] = variants.value if variants is not None else {}
    while name in known:
        name += "_"
    table = (variants or patch).replaced({**known, name: patch})
    return tree.replaced({**tree.value, "variants": table}), name


def with_path(node: Node) -> Node:
    """The section `data` with an absolute `path`, if that is beside the file that names it."""
    path = node.get("path")
    if path is None or not isinstance(path.value, str):
        return node
    beside = Path(path.source.name).parent / path.value
    if not os.path.exists(beside):  # it may be in the current folder or in the data folder
        return node
    return node.replaced({**node.value, "path": path.replaced(os.path.abspath(beside))})


def written_path(node: Node, data: DataConfig) -> str | None:
    """`path` of the section `data` as it is written, if it was made absolute."""
    path = node.get("path")
    changed = path is not None and getattr(data, "path", None) != path.value
    return str(path.value) if path is not None and changed else None


def title_of(line: Sequence[Node], document: Document) -> str:
    """The title of the variant in the spec, or of the spec."""
    names = [str(node.value) for row in line for node in listed(row.get("variant"))]
    places = [("title",), *(("variants", name, "title") for name in names)]
    found = [document.tree.find(place) for place in places]
    titles = [
        str(node.value)
        for (node, depth), place in zip(found, places, strict=True)
        if depth == len(place)
    ]
    return titles[-1] if titles else ""


# --- the command line -----------------------------------------------------------------------------


_FIELDS = {
    "training": TrainingConfig.model_fields,
    "evaluation": EvaluationConfig.model_fields,
    "training.optimiser": OptimiserConfig.model_fields,
    "machine": MachineConfig.model_fields,
}


def overrides(changes: Sequence[str], findings: Findings) -> Node:
    """The changes of a command line as a tree; those of nodes and tasks are placed under `set`."""
    over = Node({}, Source(COMMAND_LINE, ""), 0, 0)
    for item in changes:
        if (node := parse_set(item, findings, "training.updates=300")) is None:
            continue
        path = str(node.key).split(".")
        if path[0] not in ExperimentConfig.model_fields:  # of the spec
            section = next((name for name, model in _FIELDS.items() if path[0] in model), None)
            if section is not None:
                hint = f"did you mean `{section}.{node.key}`?"
                message = f"{tick(node.key)} cannot be set"
                place = Place(node.source, 0, len(str(node.key)))
                findings.add(Finding("G202", message, place, str(node.key), hint))
                continue
            path = ["set", str(node.key)]
        for key in reversed(path):
            node.key = key
            table = Node({key: node}, node.source, 0, node.end)
            table.keys[key] = (node.source, 0, len(item.partition("=")[0]))
            node = table
        over = merge(over, node)
    return over


def merge_file(tree: Node, over: Node) -> Node:
    """The file with those changes that rows and columns cannot make."""
    changed = {key: node for key, node in items_of(over) if key not in (*_PATCH, *_SECTIONS)}
    return merge(tree, over.replaced(changed)) if changed and isinstance(tree.value, dict) else tree


# --- a file with mistakes -------------------------------------------------------------------------


def salvaged(tree: Node) -> tuple[ExperimentConfig | None, Node]:
    """The part of an experiment that is right, if that can be read."""
    for _ in range(MAX_ROUNDS):
        if not isinstance(tree.value, dict):
            break
        if "rows" not in tree.value:  # what else is wrong shows in one without changes
            name = Node("whole", tree.source, tree.start, tree.start)
            row = tree.replaced({"name": name})
            rest = {key: node for key, node in tree.value.items() if key != "base"}
            tree = tree.replaced({**rest, "rows": tree.replaced([row])})
        empty = tree.replaced({})
        tree = tree.replaced({"data": empty, "training": empty, **tree.value})
        try:
            return ExperimentConfig.model_validate(tree.plain()), tree
        except ValidationError as error:
            for item in error.errors(include_url=False, include_input=False):
                tree = _without(tree, present(tree, item["loc"]))
    return None, tree


def _without(tree: Node, loc: Loc) -> Node:
    """The tree without the row, column or field at `loc`, or the entry of a row or column."""
    if not loc or str(loc[0]) not in tree.value:
        return tree
    key, rest = str(loc[0]), loc[1:]
    value = tree.value[key]
    if key in ("rows", "columns") and rest and isinstance(value.value, list):
        items = list(value.value)
        if len(rest) > 1 and rest[1] != "name":
            items[int(rest[0])] = _without(items[int(rest[0])], rest[1:])
        elif int(rest[0]) < len(items):
            del items[int(rest[0])]
        return tree.replaced({**tree.value, key: value.replaced(items)})
    return tree.replaced({name: node for name, node in tree.value.items() if name != key})
