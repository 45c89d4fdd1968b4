"""pydantic's findings -> ours: in the user's words, at the place in the text, each mistake once."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ladderspec.cells import registered
from ladderspec.errors import Finding, did_you_mean, one_of
from ladderspec.names import Side
from ladderspec.tree import Node

Loc = tuple[str | int, ...]

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing",
    "finite_number": "a finite number",
}


def findings_of(error: ValidationError, tree: Node, model: type[BaseModel]) -> list[Finding]:
    """All that pydantic found wrong with `tree` as a `model`."""
    by_node: dict[int, list[tuple[Any, Node, str]]] = defaultdict(list)
    missing: list[tuple[Any, Node, str]] = []
    extra: dict[int, list[tuple[Any, Node, str]]] = defaultdict(list)
    for item in error.errors(include_url=False, include_input=True):
        node, last = _walk(tree, item["loc"])
        if item["type"] == "missing":
            missing.append((item, node, last))
        elif item["type"] == "extra_forbidden":
            assert node.parent is not None
            owner = tree.find(_present(tree, item["loc"][:-1]))[0]
            extra[id(owner)].append((item, owner, last))
        else:
            by_node[id(node)].append((item, node, last))

    found = [_about_value(group) for group in by_node.values()]
    for group in extra.values():
        for item, owner, key in group:
            fields = _fields(model, item["loc"][:-1])
            place = owner.key_place(key)
            hint = did_you_mean(key, fields) or _known(fields)
            path = f"{owner.path}.{key}".lstrip(".")
            found.append(Finding("S101", f"unknown key `{key}`", place, path, hint))
    for item, node, key in missing:
        misspelt = [k for _, _, k in extra.get(id(node), []) if did_you_mean(k, [key])]
        if not misspelt:
            path = f"{node.path}.{key}".lstrip(".")
            found.append(Finding("S102", f"`{key}` is missing", node.place, path, _why(item, key)))
    return found


def _why(item: Any, key: str) -> str:
    return "" if key != "input" else "like `input: {channels: 1, size: [32, 32]}`"


def _known(fields: list[str]) -> str:
    return f"known here: {one_of(fields)}" if 0 < len(fields) <= 12 else ""


def _present(tree: Node, loc: Loc) -> Loc:
    """`loc` without the words that pydantic adds for the branch of a union."""
    node, path = tree, []
    for word in loc:
        child, depth = node.find((word,))
        if depth:
            node = child
            path.append(word)
    return tuple(path)


def _walk(tree: Node, loc: Loc) -> tuple[Node, str]:
    """The node that `loc` speaks of, and the last word of `loc`."""
    return tree.find(_present(tree, loc))[0], str(loc[-1]) if loc else ""


def _about_value(group: list[tuple[Any, Node, str]]) -> Finding:
    """One finding for a value, however many readings of it, or copies of its row, failed."""
    group = list(
        {(item["type"], item["msg"]): (item, node, key) for item, node, key in group}.values()
    )
    item, node, _ = group[0]
    kind, context = item["type"], item.get("ctx", {})
    shown = _show(node)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_word(item, node)
    if len(group) == 1:
        if kind == "literal_error":
            allowed = [str(word).strip("'") for word in _allowed(context["expected"])]
            hint = did_you_mean(node.value, allowed) or one_of(allowed)
            return Finding("S105", f"{shown} is not allowed here", node.place, node.path, hint)
        if kind in ("greater_than_equal", "less_than_equal", "greater_than", "less_than"):
            return Finding("S106", f"{shown} is out of range", node.place, node.path, _range(item))
        if kind in ("name", "notation", "time", "pair"):
            code = {"name": "S107", "notation": "S111", "time": "S105", "pair": "S104"}[kind]
            return Finding(code, item["msg"], node.place, node.path, context.get("hint", ""))
        if kind == "too_short":
            return Finding("S102", "at least one row is needed", node.place, node.path)
    expected = list(dict.fromkeys(_expectation(each) for each, _, _ in group))
    hint = (
        "put it in quotes"
        if expected == ["text"] and not isinstance(node.value, dict | list)
        else ""
    )
    message = f"expected {' or '.join(expected)}, got {shown}"
    return Finding("S104", message, node.place, node.path, hint)


def _expectation(item: Any) -> str:
    if item["type"] == "literal_error":
        return one_of([str(word).strip("'") for word in _allowed(item["ctx"]["expected"])])
    return _EXPECTED.get(item["type"], item["msg"][:1].lower() + item["msg"][1:])


def _allowed(expected: str) -> list[str]:
    return [word.strip() for word in expected.replace(" or ", ", ").split(",") if word.strip()]


def _range(item: Any) -> str:
    words = {"ge": "at least", "le": "at most", "gt": "more than", "lt": "less than"}
    return " and ".join(f"{words[key]} {item['ctx'][key]}" for key in words if key in item["ctx"])


def _show(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    if node.value is None:
        return "nothing"
    text = str(node.value) if not isinstance(node.value, bool) else str(node.value).lower()
    return f"`{text if len(text) <= 40 else text[:37] + '...'}`"


def _unknown_word(item: Any, node: Node) -> Finding:
    """A cell or a kind of task that nobody knows."""
    key = str(item["ctx"]["discriminator"]).strip("'")
    word = node.get(key)
    if word is None:
        if not isinstance(node.value, dict):
            what = "a cell" if key == "cell" else "a mapping"
            return Finding("S104", f"expected {what}, got {_show(node)}", node.place, node.path)
        misspelt = next((k for k in node.value if did_you_mean(k, [key])), None)
        if misspelt:
            path = f"{node.path}.{misspelt}"
            place = node.key_place(misspelt)
            return Finding(
                "S101", f"unknown key `{misspelt}`", place, path, f"did you mean `{key}`?"
            )
        return Finding("S102", f"`{key}` is missing", node.place, f"{node.path}.{key}")
    tags = _allowed(item["ctx"].get("expected_tags", "").replace("'", ""))
    known = [tag for tag in tags if "unknown" not in tag]  # our own stand-in is no suggestion
    if key == "kind":
        hint = did_you_mean(word.value, known) or one_of(known)
        message = f"unknown kind of task {_show(word)}"
        return Finding("S105", message, word.place, word.path, hint)
    others = [side for side in Side if word.value in registered(side)]
    if others:
        message = f"`{word.value}` is no cell of this side"
        hint = did_you_mean(word.value, known) or f"it is a cell of the {others[0]}"
        return Finding("S112", message, word.place, word.path, hint)
    hint = did_you_mean(word.value, known) or one_of(known)
    return Finding("S103", f"unknown cell {_show(word)}", word.place, word.path, hint)


# --- which fields there are at a place ------------------------------------------------------------


def _fields(model: type[BaseModel], loc: Loc) -> list[str]:
    """The fields of the table that `loc` leads to."""
    here: Any = model
    for word in loc:
        here = _inside(here, word)
        if here is None:
            return []
    models = list(_models(here))
    return list(models[0].model_fields) if len(models) == 1 else []


def _inside(annotation: Any, word: str | int) -> Any:
    for model in _models(annotation):
        if word in model.model_fields:
            field = model.model_fields[str(word)]
            marks = [mark for mark in field.metadata if hasattr(mark, "side")]
            return marks[0] if marks else field.annotation
    if hasattr(annotation, "side"):  # a cell: the word is its tag
        return registered(annotation.side).get(str(word))
    tagged = [model for model in _models(annotation) if _tag(model) == word]
    if tagged:
        return tagged[0]
    for part in _parts(annotation):
        if get_origin(part) in (dict, tuple) or hasattr(part, "__metadata__"):
            arguments = get_args(part)
            marks = [a for a in getattr(part, "__metadata__", ()) if hasattr(a, "side")]
            return marks[0] if marks else arguments[1 if get_origin(part) is dict else 0]
    return annotation if isinstance(annotation, type) and annotation.__name__ == word else None


def _tag(model: type[BaseModel]) -> str | None:
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
