"""Tree -> tree: what was meant in place of keys that nobody knows.

A misspelt key is said once; reading then goes on as if it had been spelt right, so that it is not
also a missing one and what stands under it is checked as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ladderspec.errors import Findings
from ladderspec.text.tree import Node, Span

Mark = tuple[int, int]  # where a key stands: source and offset
Action = Literal["drop", "rename", "move", "unfold"]


@dataclass(frozen=True)
class Stray:
    """A key that nobody knows, and what to do with it."""

    mark: Mark
    key: str
    action: Action
    word: str = ""  # rename: to this key; move: into the mapping under this key
    value: object = None  # rename: with this value, where the key had swallowed it; unfold: the tag


@dataclass(frozen=True)
class Strays:
    """All unknown keys of a tree, and what is said of them."""

    found: dict[Mark, Stray]
    said: Findings

    def repair(self, tree: Node) -> Node:
        """The tree with what was meant in their place."""
        return _repaired(tree, self.found, {})


def mark_of(owner: Node, key: str) -> Mark:
    place = owner.key_place(key)
    return id(place.source), place.start


def _repaired(node: Node, strays: dict[Mark, Stray], seen: dict[int, Node]) -> Node:
    """The tree with what was meant; an aliased node is repaired once."""
    if id(node) not in seen:
        items = node.value
        if isinstance(items, list):
            seen[id(node)] = node.replaced([_repaired(item, strays, seen) for item in items])
        else:
            seen[id(node)] = _mended(node, strays, seen) if isinstance(items, dict) else node
    return seen[id(node)]


def _mended(node: Node, strays: dict[Mark, Stray], seen: dict[int, Node]) -> Node:
    fields: dict[str, Node] = {}
    keys = dict(node.keys)
    moved: dict[str, dict[str, Node]] = {}
    for key, child in node.value.items():
        stray = strays.get(mark_of(node, key)) if key in node.keys else None
        child = _repaired(child, strays, seen)
        if stray is None:
            fields[key] = child
        elif stray.action == "rename":
            word = key.removesuffix(stray.key) + stray.word  # `set` has whole paths as keys
            fields[word] = child if stray.value is None else child.replaced(stray.value)
            keys[word] = node.keys[key]
        elif stray.action == "move":
            moved.setdefault(stray.word, {})[key] = child
        elif stray.action == "unfold":
            tag = str(stray.value)
            fields[tag] = child.replaced(stray.word)
            fields |= child.value if isinstance(child.value, dict) else {}
            keys |= {tag: node.keys[key], **child.keys}
    for word, inside in moved.items():
        spans = {key: node.keys[key] for key in inside}
        fields[word] = _with(fields.get(word, node.replaced(None)), inside, spans)
    result = node.replaced(fields)
    result.keys = keys
    return result


def _with(node: Node, inside: dict[str, Node], spans: dict[str, Span]) -> Node:
    """A mapping with more fields; or a list whose last row has more."""
    if isinstance(node.value, list) and node.value:
        return node.replaced([*node.value[:-1], _with(node.value[-1], inside, spans)])
    fields = node.value if isinstance(node.value, dict) else {}
    result = node.replaced({**inside, **fields})
    result.keys = {**spans, **node.keys}
    return result
