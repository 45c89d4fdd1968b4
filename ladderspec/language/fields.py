"""The fields of the language at a place, with examples and what other programs call them."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from pydantic import BaseModel

from ladderspec.cells import Cell, registered
from ladderspec.cells.input import Input
from ladderspec.names import Side
from ladderspec.text.tree import Node

Loc = tuple[str | int, ...]


def model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The model that `loc` leads to, as pydantic writes it: with the tags of unions."""
    here: Any = model
    for word in loc:
        here = _inside(here, word)
        if here is None:
            return None
    models = _models(here)
    return models[0] if len(models) == 1 else None


def fields_of(model: type[BaseModel] | None) -> list[str]:
    """The fields of a model: its own first, then those that all cells have."""
    if model is None:
        return []
    shared = Cell.model_fields if issubclass(model, Cell) else {}
    names = [field.alias or name for name, field in model.model_fields.items()]
    if shared and model is not Input and "norm" not in names:
        names.remove("noise")  # it is added to what a norm makes
    own = [name for name in names if name not in shared]
    return own + [name for name in names if name in shared and name != "cell"]


def inner_fields(model: type[BaseModel], loc: Loc) -> list[str]:
    """The fields of the value at `loc`; for a cell, those of all cells of its side."""
    side = side_of(loc)
    if side is None:
        return fields_of(model_at(model, loc))
    return ["cell", *(name for cell in registered(side).values() for name in cell.model_fields)]


def side_of(loc: Loc) -> Side | None:
    """The side of the cell that `loc` leads to."""
    if loc[:1] == ("top",):
        return Side.DECODER
    if loc[:1] == ("laterals",):
        return Side.LATERAL
    return (
        Side(str(loc[2]))
        if loc[:1] == ("levels",) and loc[2:3] in (("encoder",), ("decoder",))
        else None
    )


def present(tree: Node, loc: Loc) -> Loc:
    """`loc` without the tags that pydantic adds for the branch of a union."""
    node, path = tree, list[str | int]()
    for word in loc:
        child, depth = node.find((word,))
        if depth and not _is_tag(node, path, word):
            node = child
            path.append(word)
    return tuple(path)


def _is_tag(node: Node, path: list[str | int], word: str | int) -> bool:
    """Whether a part of `loc` is a tag, even if the text has a key of that name."""
    if path[-2:-1] == ["add"]:
        return word in ("text", "ends")
    tags = (node.get("cell"), node.get("kind"))
    return any(tag is not None and tag.value == word for tag in tags)


def _inside(annotation: Any, word: str | int) -> Any:
    mark = _choice_mark(getattr(annotation, "__metadata__", ())) or annotation
    if hasattr(mark, "choices"):  # a cell or a task: the tag is its name
        return mark.choices().get(str(word))
    for model in _models(annotation):
        if word in model.model_fields:
            field = model.model_fields[str(word)]
            return _choice_mark(field.metadata) or field.annotation
    tagged = [model for model in _models(annotation) if _kind(model) == word]
    if tagged:
        return tagged[0]
    for part in _parts(annotation):
        if any(getattr(mark, "tag", None) == word for mark in getattr(part, "__metadata__", ())):
            return get_args(part)[0]
        if get_origin(part) in (dict, tuple):
            return get_args(part)[1 if get_origin(part) is dict else 0]
    return None


def _choice_mark(metadata: Any) -> Any:
    return next((mark for mark in metadata if hasattr(mark, "choices")), None)


def _kind(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    arguments = get_args(field.annotation) if field else ()
    return str(arguments[0]) if arguments else None


def _parts(annotation: Any) -> list[Any]:
    arguments = get_args(annotation)
    return [annotation, *[part for argument in arguments for part in _parts(argument)]]


def _models(annotation: Any) -> list[type[BaseModel]]:
    if get_origin(annotation) in (dict, tuple):
        return []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[type[BaseModel]] = []
    for argument in get_args(annotation):
        found += _models(argument)
    return found


# --- examples and other names ---------------------------------------------------------------------

# What a value looks like, by its key.
LIKE = {
    "input": "{channels: 1, size: [32, 32]}",
    "inputs": "{action: {channels: 4}}",
    "channels": "32",
    "size": "[32, 32]",
    "noise": "{gaussian: 0.15}",
    "time": "{frames: 5}",
    "groups": "{count: 3}",
    "norm.groups": "4",
    "count": "3",
    "encoder": "{cell: Conv, channels: 32}",
    "decoder": "{cell: convG3, filter: 3}",
    "top": "{cell: convG3, filter: 3}",
    "laterals": "{conv_1: {cell: ConvLSTM, channels: 32}}",
    "defaults": "{Conv: {activation: elu}}",
    "params": "{width: 32}",
    "tasks": "{digit: {kind: classification, at: encoder.class}}",
    "at": "encoder.class",
    "weight": "100",
    "target": "digit",
    "edges": "{lateral: none, add: [decoder.conv(t-1) -> encoder.conv]}",
    "add": "[decoder.conv(t-1) -> encoder.conv]",
    "arrow": "decoder.conv(t-1) -> encoder.conv",
    "from": "decoder.conv",
    "to": "encoder.conv",
    "delay": "1",
    "without": "[lateral, decoder.*]",
    "variants": "{no_lateral: {without: [lateral]}}",
    "of": "[another_variant]",
    "set": "{encoder.conv.channels: 16}",
    "expect": "{parameters: 12345}",
    "parameters": "12345",
    "shape": "{encoder.conv: [32, 16, 16]}",
    "updates": "1000",
    "rows": "[{name: whole}]",
    "columns": "[{name: all}]",
    "spec": "mine.yaml",
    "data": "{set: occluded_mnist, canvas: 16}",
    "training": "{updates: 1000, batch: 50}",
    "patience": "5",
    "batch": "50",
}

ROW = "`- encoder: {cell: Conv, channels: 32}`"
TASK = "`{kind: classification, at: encoder.class}`"
VARIANT = "`{without: [lateral]}`"

# What other programs call our fields.
ELSEWHERE = {
    "act": "activation",
    "base": "extends",
    "class": "cell",
    "filters": "filter",
    "hidden": "channels",
    "hidden_size": "channels",
    "in_channels": "channels",
    "include": "extends",
    "kernel": "filter",
    "kernel_size": "filter",
    "layer": "cell",
    "learning_rate": "lr",
    "layers": "levels",
    "loss": "cost",
    "losses": "tasks",
    "nonlinearity": "activation",
    "normalisation": "norm",
    "normalization": "norm",
    "out_channels": "channels",
    "outputs": "tasks",
    "parameters": "params",
    "pool_size": "filter",
    "remove": "without",
    "source": "from",
    "steps": "frames",
    "target": "to",
    "type": "cell",
    "units": "channels",
    "width": "channels",
    "window": "filter",
}

# Our values for those of other programs, by key.
VALUES_ELSEWHERE = {
    "cost": {
        "mae": "l1", "absolute": "l1", "l2": "mse", "squared": "mse", "smooth_l1": "huber",
        "cross_entropy": "bce", "ce": "bce",
    },
    "per": {"constant": "sequence", "item": "sequence", "step": "frame", "time": "frame"},
}  # fmt: skip

# Fields that do not exist because there is nothing to set.
NOT_NEEDED = {
    "batch_norm": "like `norm: batch`, which is the default of Conv, FC and SoftMax",
    "bias": "every cell has one bias per sum; there is nothing to set",
    "padding": "an output has size n / stride, rounded up; there is no padding to set",
    "watch": "it belongs under `stop` or `optimiser.schedule` of `training`",
    "skip": "skip arrows are declared one by one, under `add`",
}
