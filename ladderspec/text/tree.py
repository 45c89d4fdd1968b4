"""A tree of values with their places in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ladderspec.errors import Place, Source

Span = tuple[Source, int, int]


class Node:
    """A scalar, list or mapping of the text; `value` holds plain scalars or further nodes."""

    __slots__ = ("end", "key", "keys", "parent", "source", "start", "value")

    def __init__(self, value: Any, source: Source, start: int, end: int) -> None:
        self.value = value  # scalar | list[Node] | dict[str, Node]
        self.source, self.start, self.end = source, start, end
        self.parent: Node | None = None
        self.key: str | int | None = None  # its name or index in the parent
        self.keys: dict[str, Span] = {}  # the places of a mapping's keys

    @property
    def place(self) -> Place:
        return Place(self.source, self.start, self.end)

    def key_place(self, key: str) -> Place:
        span = self.keys.get(key)
        return self.mark if span is None else Place(*span)

    @property
    def mark(self) -> Place:
        """The place to point at if the whole value is wrong: for a block of lines, its key."""
        flow = self.source.text[self.start : self.start + 1] in ("{", "[")
        short = isinstance(self.value, dict) and not self.keys  # `G1` for `{cell: G1}`
        if flow or short or not isinstance(self.value, dict | list):
            return self.place
        if self.parent is not None and isinstance(self.key, str) and self.key in self.parent.keys:
            return Place(*self.parent.keys[self.key])
        first = min((span for span in self.keys.values() if span[0] is self.source),
                    key=lambda span: span[1], default=None)  # fmt: skip
        return self.place if first is None else Place(*first)

    @property
    def path(self) -> str:
        """`levels[0].encoder.cell`, in the terms of the text."""
        parts: list[str] = []
        node: Node | None = self
        while node is not None and node.key is not None:
            parts.append(f"[{node.key}]" if isinstance(node.key, int) else f".{node.key}")
            node = node.parent
        return "".join(reversed(parts)).lstrip(".")

    def get(self, key: str) -> Node | None:
        return self.value.get(key) if isinstance(self.value, dict) else None

    def find(self, path: tuple[str | int, ...]) -> tuple[Node, int]:
        """The deepest node on `path`, and how many parts of the path lead to it."""
        node: Node = self
        for depth, word in enumerate(path):
            inside = node.value
            if isinstance(inside, dict) and word in inside:  # noqa: SIM114 (types differ)
                node = inside[word]
            elif isinstance(inside, list) and isinstance(word, int) and word < len(inside):
                node = inside[word]
            else:
                return node, depth
        return node, len(path)

    def plain(self) -> Any:
        """The value without places: nested dicts and lists."""
        value = self.value
        if isinstance(value, dict):
            return {key: node.plain() for key, node in value.items()}
        if isinstance(value, list):
            return [node.plain() for node in value]
        return value

    def replaced(self, value: Any) -> Node:
        """A node at the same place with another value; its children keep their own places."""
        node = Node(value, self.source, self.start, self.end)
        node.parent, node.key, node.keys = self.parent, self.key, self.keys
        return node


def items_of(node: Node | None) -> Iterator[tuple[str, Node]]:
    """The fields of a mapping; nothing if the node is not a mapping."""
    if node is not None and isinstance(node.value, dict):
        yield from node.value.items()
