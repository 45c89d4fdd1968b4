"""pydantic's errors -> findings: in the user's terms, at the place in the text, each once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from ladderspec.cells import Cell, registered
from ladderspec.errors import (
    CODES,
    Finding,
    Findings,
    did_you_mean,
    one_of,
    registered_name_meant,
    spell,
    tick,
)
from ladderspec.language.fields import (
    LIKE,
    ROW,
    TASK,
    VALUES_ELSEWHERE,
    VARIANT,
    model_at,
    present,
    side_of,
)
from ladderspec.language.rows import row_names
from ladderspec.language.unknown_keys import MAX_ITEMS, TABLES
from ladderspec.names import Side
from ladderspec.text.arithmetic import FOREIGN
from ladderspec.text.tree import Node, items_of
from ladderspec.wording import EXPECTED, RANGE

_RANGES = ("greater_than_equal", "less_than_equal", "greater_than", "less_than")


def explain(
    items: Sequence[Any],
    tree: Node,
    model: type[BaseModel],
    findings: Findings,
    whole: bool = True,
    spec: Node | None = None,
) -> None:
    """Report all that pydantic found wrong with `tree` as a `model`, except unknown keys.

    Args:
        items: The errors as pydantic gives them.
        tree: The tree that was validated.
        model: The model that it was validated against.
        findings: Receives the findings.
        whole: False if a base file could not be read; missing fields are then not reported.
        spec: The spec whose tasks and levels `tree` may name. Default: `tree` itself.
    """
    values: dict[int, list[tuple[Any, Node]]] = defaultdict(list)
    for item in items[:MAX_ITEMS]:
        node = tree.find(present(tree, item["loc"]))[0]
        left_out = item["type"] in ("missing", "union_tag_not_found")
        if item["loc"][-1:] == ("[key]",) and node.parent is not None:
            place = node.parent.key_place(str(node.key))
            findings.add(Finding(item["type"], item["msg"], place, node.path, _hint(item)))
        elif _reported(item, node, findings) or (not whole and (left_out or _refers(node))):
            continue
        elif item["type"] == "missing":
            _missing(item, node, model, findings)
        else:
            values[id(node)].append((item, node))
    rows_reported = False
    for group in values.values():
        _, node = group[0]
        row = isinstance(node.key, int) and node.parent is not None and node.parent.key == "levels"
        if findings.enough:
            break
        if not (row and rows_reported):  # a table without rows is one mistake
            findings.add(_about_value(group, spec or tree))
        rows_reported = rows_reported or row


def _reported(item: Any, node: Node, findings: Findings) -> bool:
    if item["type"] == "missing":
        return findings.blames(node.place)
    known = findings.blames(node.place) or findings.blames(node.mark)
    return known or item["type"] == "extra_forbidden"


def _refers(node: Node) -> bool:
    return isinstance(node.value, str) and node.value.startswith("$")


def _missing(item: Any, node: Node, model: type[BaseModel], findings: Findings) -> None:
    key = str(item["loc"][-1])
    here = model_at(model, item["loc"][:-1])
    cell = node.get("cell")
    if isinstance(node.value, list):  # a list that is too short
        message = f"a list of {int(key) + 1} is needed" if key.isdigit() else "too short"
        findings.add(Finding("S104", message, node.mark, node.path))
        return
    message = f"`{key}` is missing"
    hint = f"like `{key}: {LIKE[key]}`" if key in LIKE else ""
    if key == "levels":
        hint = f"rows like {ROW}" if len(item["loc"]) == 1 else "like `levels: [conv_1]`"
    elif key == "encoder" and list(node.value)[:1] == ["decoder"]:
        hint = "without the `- `, the decoder belongs to the row above"
    elif cell is not None and here and issubclass(here, Cell):
        message = f"{cell.value} needs `{key}`"
        hint = f"like `{{cell: {cell.value}, {key}: {LIKE.get(key, '...')}}}`"
    path = f"{node.path}.{key}".lstrip(".")
    findings.add(Finding("S102", message, node.mark, path, hint))


# --- values ---------------------------------------------------------------------------------------


def _about_value(group: list[tuple[Any, Node]], spec: Node) -> Finding:
    """One finding for a value, even if several branches of a union or copies of its row failed."""
    group = list({(item["type"], item["msg"]): (item, node) for item, node in group}.values())
    item, node = group[0]
    kind = item["type"]
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return unknown_word(item, node)
    if kind in CODES:
        hint = _selected(item["msg"], node, spec) or _hint(item)
        return Finding(kind, item["msg"], node.mark, node.path, hint)
    if kind == "too_short":
        return _empty(node)
    ranges = [each for each, _ in group if each["type"] in _RANGES]
    allowed = [
        word for each, _ in group if each["type"] == "literal_error" for word in allowed_by(each)
    ]
    key = _key(node)
    shown = show(node)
    if kind == "multiple_of":
        hint = f"a multiple of {item['ctx']['multiple_of']:g}"
        return Finding("S106", f"`{key}` cannot be {shown}", node.mark, node.path, hint)
    if ranges:
        hint = " and ".join(f"{RANGE[k]} {v:g}" for k, v in ranges[0]["ctx"].items() if k in RANGE)
        hint += "".join(f", or `{word}`" for word in allowed)
        message = f"{shown} is out of range" if not key else f"`{key}` is {shown}, out of range"
        return Finding("S106", message, node.mark, node.path, hint)
    if allowed and len(group) == 1:
        message = f"`{key}` cannot be {shown}" if key else f"{shown} is not allowed here"
        return Finding("S105", message, node.mark, node.path, _among(node, allowed))
    expected = [EXPECTED.get(each["type"]) for each, _ in group if each["type"] != "literal_error"]
    if None in expected:  # a user's own cell may raise its own message
        message = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return Finding("S104", message, node.mark, node.path, _hint(item))
    kinds = " or ".join([*dict.fromkeys(filter(None, expected)), *(f"`{w}`" for w in allowed)])
    if node.value is None and key:
        message = "an empty item" if isinstance(node.key, int) else f"`{key}` has no value"
        return Finding("S104", message, node.mark, node.path, example(node))
    message = f"expected {kinds}, got {shown}"
    return Finding("S104", message, node.mark, node.path, _instead(node, kinds) or example(node))


def _selected(message: str, node: Node, spec: Node) -> str:
    """For a selector or an end of an arrow that is the name of a task, level or input alone."""
    if bare := re.fullmatch("`(.*)` is not a node", message):
        known = bare[1] in dict(items_of(spec.get("inputs")))
        return f"did you mean `input.{bare[1]}`?" if known else ""
    name = str(node.value)
    if "selects nothing" in message and name in dict(items_of(spec.get("tasks"))):
        return f"did you mean `task.{name}`?"
    level = "selects nothing" in message and name in row_names(spec)
    return f"did you mean `level.{name}`?" if level else ""


def _empty(node: Node) -> Finding:
    """A list or table that must not be empty."""
    rows = {"levels": f"like {ROW}", "rows": "like `- {name: whole}`"}
    key = _key(node)
    message = "at least one row is needed" if key in rows else f"`{key}` needs at least one item"
    return Finding("S102", message, node.mark, node.path, rows.get(key, ""))


def _key(node: Node) -> str:
    """The key of a value, or of the list that contains it."""
    while isinstance(node.key, int) and node.parent is not None:
        node = node.parent
    return str(node.key or "").rpartition(".")[2]


def _hint(item: Any) -> str:
    return str(item.get("ctx", {}).get("hint", ""))


def _among(node: Node, allowed: list[str]) -> str:
    """The allowed values, or the one that was meant."""
    meant = node.value
    if "none" in allowed and meant in (None, False, "no", "off", "false"):
        meant = "none"
    elsewhere = VALUES_ELSEWHERE.get(_key(node), {}).get(str(meant).lower())
    if elsewhere in allowed:
        return f"did you mean `{elsewhere}`?"
    more = ""
    if meant != "none" and _key(node) in ("norm", "activation"):
        return registered_name_meant(meant, allowed, _key(node))
    if "stateful" in allowed:
        more = f", or a list of levels: [{str(meant)[:40]}]"
    elif {"last", "all"} <= {*allowed}:
        more = ", or a weight for each t: [0, 0, 1]"
    return did_you_mean(meant, allowed) or one_of(allowed) + more


def _instead(node: Node, expected: str) -> str:
    """The same value, written correctly."""
    value = node.value
    if expected == "text" and isinstance(value, int | float):
        written = node.source.text[node.start : node.end]
        return "" if written.startswith("$") else f'in quotes: "{written}"'
    if node.key == "weight" and isinstance(value, list):
        return "`when` takes a weight for each t"
    if isinstance(value, float) and "whole" in expected:
        written = node.source.text[node.start : node.end]
        if written.startswith("$") and "/" in written:
            return "`//` divides and rounds down"
        return f"write {value:.0f}" if value.is_integer() else ""
    if not isinstance(value, str) or "number" not in expected:
        return ""
    if foreign := FOREIGN.search(value):
        return f"a parameter is `${foreign[1] or foreign[2]}`"
    if re.fullmatch(r"\$[A-Za-z]\w*", value):
        return f"names of parameters are lower case: `${spell(value[1:])}`"
    if value.startswith("$"):
        return "like `$width` or `$(width * 2)`"
    number = re.match(r"-?\d+(\.\d+)?", value.strip())
    rest = value.strip()[number.end() :] if number else value
    if number and not rest:
        return f"without quotes: {number[0]}"
    if number and rest.startswith("#"):
        return "a comment needs a space before its `#`"
    return "without the comma" if number and rest == "," else ""


def example(node: Node) -> str:
    parent = node.parent.key if node.parent is not None else None
    if isinstance(node.key, int):
        items = {"levels": f"a row is like {ROW}", "rows": "like `- {name: whole}`"}
        return items.get(str(parent), "")
    if parent in TABLES:
        like = {"inputs": "`{channels: 4}`", "tasks": TASK, "variants": VARIANT}.get(str(parent))
        return f"like {like}" if like else ""
    if node.key == "levels":
        return f"each row begins with `- `, like {ROW}"
    like = LIKE.get(f"{parent}.{node.key}") or LIKE.get(str(node.key))
    return f"like `{node.key}: {like}`" if like else ""


# --- unknown cells and tasks ----------------------------------------------------------------------


def show(node: Node) -> str:
    """A value as it is written in the text."""
    if isinstance(node.value, dict | list):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    if node.value is None:
        return "nothing"
    written = " ".join(node.source.text[node.start : node.end].split())
    if written.startswith("$") and not isinstance(node.value, str):
        return f"{node.value} ({tick(written, 40)})"
    return tick(written or node.value, 40)


def allowed_by(item: Any) -> list[str]:
    """The values that a pydantic error lists as allowed."""
    expected = str(item["ctx"]["expected"]).replace(" or ", ", ")
    return [value.strip().strip("'") for value in expected.split(",") if value.strip()]


def unknown_word(item: Any, node: Node) -> Finding:
    """An unknown cell or kind of task."""
    tag = str(item["ctx"]["discriminator"]).strip("'")
    side = side_of(item["loc"])
    kinds = allowed_by({"ctx": {"expected": item["ctx"].get("expected_tags", "")}})
    known = sorted(registered(side), key=str.lower) if side else kinds
    word = node.get(tag)
    if word is None or word.value is None:
        hint = one_of(known) if known else f"like {TASK}"
        return Finding("S102", f"`{tag}` is missing", node.mark, f"{node.path}.{tag}", hint)
    path = word.path
    if tag == "kind":
        hint = registered_name_meant(word.value, known, "task")
        return Finding("S105", f"unknown kind of task {show(word)}", word.mark, path, hint)
    if isinstance(word.value, dict | list):
        message = f"expected the word of a cell, got {show(word)}"
        return Finding("S104", message, word.mark, path, one_of(known))
    others = [s for s in Side if word.value in registered(s)]
    if others and side:
        what = {Side.LATERAL: "lateral arrow"}.get(side, side.value)
        message = f"`{word.value}` is a cell of the {others[0]}, not of the {what}"
        return Finding("S112", message, word.mark, path, one_of(known))
    text = str(word.value)
    bare = text.replace("(", " ").split(" ")[0]
    if bare in known and bare != text:
        field = "channels" if side is Side.ENCODER else "filter"
        hint = f"write its fields beside it, like `{{cell: {bare}, {field}: ...}}`"
    elif text in ("none", "no", "-", "null", "false", "None") and side is Side.DECODER:
        hint = "for no decoder, leave it out"
    elif text == "Groups":
        hint = "`groups: {count: 3}`, beside `levels`, adds the level of the groups"
    else:
        hint = registered_name_meant(text, known, "cell")
    return Finding("S103", f"unknown cell {show(word)}", word.mark, path, hint)
