"""A cell or a kind of task that nobody knows; and values as the text has them."""

from __future__ import annotations

from typing import Any

from ladderspec.cells import registered
from ladderspec.errors import Finding, did_you_mean, one_of, tick
from ladderspec.language.fields import side_of
from ladderspec.language.hints import TASK
from ladderspec.names import Side
from ladderspec.text.tree import Node


def show(node: Node) -> str:
    """A value as the text has it."""
    if isinstance(node.value, dict | list):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    if node.value is None:
        return "nothing"
    written = " ".join(node.source.text[node.start : node.end].split())
    if written.startswith("$") and not isinstance(node.value, str):
        return f"{node.value} ({tick(written, 40)})"
    return tick(written or node.value, 40)


def words_of(item: Any) -> list[str]:
    expected = str(item["ctx"]["expected"]).replace(" or ", ", ")
    return [word.strip().strip("'") for word in expected.split(",") if word.strip()]


def unknown_word(item: Any, node: Node) -> Finding:
    """A cell or a kind of task that nobody knows."""
    tag = str(item["ctx"]["discriminator"]).strip("'")
    side = side_of(item["loc"])
    kinds = words_of({"ctx": {"expected": item["ctx"].get("expected_tags", "")}})
    known = sorted(registered(side), key=str.lower) if side else kinds
    word = node.get(tag)
    if word is None or word.value is None:
        hint = one_of(known) if known else f"like {TASK}"
        return Finding("S102", f"`{tag}` is missing", node.mark, f"{node.path}.{tag}", hint)
    path = word.path
    if tag == "kind":
        hint = did_you_mean(word.value, known) or one_of(known)
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
        hint = f"its fields stand beside it, like `{{cell: {bare}, {field}: ...}}`"
    elif text in ("none", "no", "-", "null", "false", "None") and side is Side.DECODER:
        hint = "for no decoder, leave it out"
    else:
        hint = did_you_mean(text, known) or one_of(known)
    return Finding("S103", f"unknown cell {show(word)}", word.mark, path, hint)
