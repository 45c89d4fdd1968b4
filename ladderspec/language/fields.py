"""Which fields the words of the language have at a place."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from pydantic import BaseModel

from ladderspec.cells import Cell, registered
from ladderspec.names import Side
from ladderspec.text.tree import Node

Loc = tuple[str | int, ...]


def model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The table of words that `loc` leads to, as pydantic writes it: with the tags of unions."""
    here: Any = model
    for word in loc:
        here = _inside(here, word)
        if here is None:
            return None
    models = _models(here)
    return models[0] if len(models) == 1 else None


def fields_of(model: type[BaseModel] | None) -> list[str]:
    """The words that a table knows: its own first, then those that all of its kind have."""
    if model is None:
        return []
    shared = Cell.model_fields if issubclass(model, Cell) else {}
    names = [field.alias or name for name, field in model.model_fields.items()]
    own = [name for name in names if name not in shared]
    return own + [name for name in names if name in shared and name != "cell"]


def inner_fields(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys that may stand under a key; for a cell, those of all cells of its side."""
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
    """`loc` without the words that pydantic adds for the branch of a union."""
    node, path = tree, list[str | int]()
    for word in loc:
        child, depth = node.find((word,))
        if depth and not _is_tag(node, path, word):
            node = child
            path.append(word)
    return tuple(path)


def _is_tag(node: Node, path: list[str | int], word: str | int) -> bool:
    """Whether a word only names the branch, even where a key of the text is called so too."""
    if path[-2:-1] == ["add"]:
        return word in ("text", "ends")
    tags = (node.get("cell"), node.get("kind"))
    return any(tag is not None and tag.value == word for tag in tags)


def _inside(annotation: Any, word: str | int) -> Any:
    mark = _side_mark(getattr(annotation, "__metadata__", ())) or annotation
    if hasattr(mark, "side"):  # a cell: the word is its tag
        return registered(mark.side).get(str(word))
    for model in _models(annotation):
        if word in model.model_fields:
            field = model.model_fields[str(word)]
            return _side_mark(field.metadata) or field.annotation
    tagged = [model for model in _models(annotation) if _kind(model) == word]
    if tagged:
        return tagged[0]
    for part in _parts(annotation):
        if any(getattr(mark, "tag", None) == word for mark in getattr(part, "__metadata__", ())):
            return get_args(part)[0]
        if get_origin(part) in (dict, tuple):
            return get_args(part)[1 if get_origin(part) is dict else 0]
    return None


def _side_mark(metadata: Any) -> Any:
    return next((mark for mark in metadata if hasattr(mark, "side")), None)


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
