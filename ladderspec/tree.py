"""YAML text -> a tree of values that know their places. Data only: no tags, bounded size.

Scalars follow YAML 1.2: `no` and `on` are text, `1e-3` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from ladderspec.errors import Finding, Findings, Place, Source, SpecError

MAX_CHARACTERS = 2_000_000
MAX_VALUES = 200_000  # after aliases are expanded
MAX_DEPTH = 32

_INT = re.compile(r"[-+]?[0-9]{1,30}|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_WORDS: dict[str, object] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".inf", "+.inf", ".Inf", ".INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
}


class Node:
    """A scalar, list or mapping of the text; `value` holds plain scalars or further nodes."""

    __slots__ = ("end", "key", "keys", "parent", "source", "start", "value")

    def __init__(self, value: Any, source: Source, start: int, end: int) -> None:
        self.value = value  # scalar | list[Node] | dict[str, Node]
        self.source, self.start, self.end = source, start, end
        self.parent: Node | None = None
        self.key: str | int | None = None  # its name or index in the parent
        self.keys: dict[str, tuple[int, int]] = {}  # where a mapping's keys stand

    @property
    def place(self) -> Place:
        return Place(self.source, self.start, self.end)

    def key_place(self, key: str) -> Place:
        start, end = self.keys.get(key, (self.start, self.end))
        return Place(self.source, start, end)

    @property
    def path(self) -> str:
        """`levels[0].encoder.cell`, as the text has it."""
        parts: list[str] = []
        node: Node | None = self
        while node is not None and node.key is not None:
            parts.append(f"[{node.key}]" if isinstance(node.key, int) else f".{node.key}")
            node = node.parent
        return "".join(reversed(parts)).lstrip(".")

    def get(self, key: str) -> Node | None:
        return self.value.get(key) if isinstance(self.value, dict) else None

    def find(self, path: tuple[str | int, ...]) -> tuple[Node, int]:
        """The deepest node on `path`, and how many of its words led there."""
        node: Node = self
        for depth, word in enumerate(path):
            inside = node.value
            if (isinstance(inside, dict) and word in inside) or (
                isinstance(inside, list) and isinstance(word, int) and word < len(inside)
            ):
                node = inside[word]
            else:
                return node, depth
        return node, len(path)

    def plain(self) -> Any:
        """The bare value, without places."""
        value = self.value
        if isinstance(value, dict):
            return {key: node.plain() for key, node in value.items()}
        if isinstance(value, list):
            return [node.plain() for node in value]
        return value

    def replaced(self, value: Any) -> Node:
        """The same place with another value; its children keep their own places."""
        node = Node(value, self.source, self.start, self.end)
        node.parent, node.key, node.keys = self.parent, self.key, self.keys
        return node


class _Open:
    """A list or mapping still being read."""

    __slots__ = ("anchor", "key", "node", "size")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node, self.anchor, self.size = node, anchor, 1
        self.key: str | None = None


def parse(source: Source, findings: Findings, start: int = 0, end: int | None = None) -> Node:
    """Read one YAML document, or the stretch of the text from `start` to `end`.

    What can be read past (a key written twice, a tag) goes to `findings`; what cannot raises
    SpecError together with what was found so far.
    """
    return _Reader(source, findings, start, end).read()


class _Reader:
    def __init__(self, source: Source, findings: Findings, start: int, end: int | None) -> None:
        self.source, self.findings = source, findings
        self.offset, self.text = start, source.text[start:end]
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int] | None] = {}  # None: still open
        self.count = 0
        self.root: Node | None = None

    def read(self) -> Node:
        if len(self.text) > MAX_CHARACTERS:
            self._fail(0, 1, "Y008", f"the text has more than {MAX_CHARACTERS:,} characters")
        for event in self._events():
            start = event.start_mark.index + self.offset
            end = event.end_mark.index + self.offset
            self._count(1, start)
            if isinstance(event, yaml.ScalarEvent):
                self._check_tag(event)
                value = event.value if event.style else resolve_scalar(event.value)
                node = Node(value, self.source, start, end)
                if event.anchor:
                    self.anchors[event.anchor] = (node, 1)
                self._place(node, 1, event.value)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._check_tag(event)
                empty: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
                self._open(Node(empty, self.source, start, end), event.anchor)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._close(end)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event.anchor, start, end)
            elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
                self._fail(
                    start, end, "Y005", "a second document begins here", "one file, one spec"
                )
        if self.root is None or (self.root.value is None and self.root.start == self.root.end):
            self._fail(0, 1, "Y006", "the file is empty", "`ladderspec new` writes a first spec")
        return self.root

    def _events(self) -> Iterator[Any]:
        # libyaml counts characters, so marks index the text directly.
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        try:
            yield from yaml.parse(self.text, Loader=loader)
        except yaml.reader.ReaderError as error:
            at = error.position + self.offset
            self._fail(
                at, at + 1, "Y002", "a character that YAML does not allow", repr(error.character)
            )
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = min(mark.index if mark else 0, max(0, len(self.text) - 1)) + self.offset
            self._fail(at, at + 1, "Y002", *_syntax(error, self.source.text, at))
        except (yaml.YAMLError, UnicodeEncodeError):
            self._fail(0, 1, "Y002", "this is not YAML")

    def _count(self, values: int, start: int) -> None:
        self.count += values
        if self.count > MAX_VALUES:
            self._fail(start, start + 1, "Y008", f"more than {MAX_VALUES:,} values")

    def _open(self, node: Node, anchor: str | None) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._fail(node.start, node.end, "Y008", f"nested more than {MAX_DEPTH} deep")
        if anchor:
            self.anchors[anchor] = None
        self.stack.append(_Open(node, anchor))

    def _close(self, end: int) -> None:
        done = self.stack.pop()
        done.node.end = max(done.node.start + 1, end)
        if done.anchor:
            self.anchors[done.anchor] = (done.node, done.size)
        if isinstance(done.node.value, dict) and "<<" in done.node.value:
            self._merge(done.node)
        self._place(done.node, done.size, None)

    def _alias(self, name: str, start: int, end: int) -> None:
        if name not in self.anchors:
            self._fail(start, end, "Y007", f"no `&{name}` before this `*{name}`")
        target = self.anchors[name]
        if target is None:
            self._fail(start, end, "Y007", f"`*{name}` stands inside `&{name}` itself")
        node, size = target
        self._count(size, start)
        if isinstance(node.value, dict | list) or self.stack[-1].key is not None:
            self._place(node, size, None)
        else:
            self._place(node, size, str(node.value))

    def _place(self, node: Node, size: int, text: str | None) -> None:
        """Put a finished node into what is open; `text` is its spelling where it may be a key."""
        if not self.stack:
            self.root = node
            return
        inside = self.stack[-1]
        inside.size += size
        parent = inside.node
        if isinstance(parent.value, list):
            self._adopt(node, parent, len(parent.value))
            parent.value.append(node)
        elif inside.key is None:
            if text is None:
                self._fail(
                    node.start, node.end, "Y009", "a key must be a word, not a list or mapping"
                )
            if text in parent.value:
                first = Place(self.source, *parent.keys[text])
                self._note(node.start, node.end, "Y003", f"`{text}` is written twice",
                           f"first on line {first.line}")  # fmt: skip
            inside.key = text
            parent.keys.setdefault(text, (node.start, max(node.end, node.start + 1)))
        else:
            key, inside.key = inside.key, None
            if key in parent.value:
                return  # written twice: the first stays
            self._adopt(node, parent, key)
            if node.start == node.end:  # `key:` with nothing behind it: point at the key
                node.start, node.end = parent.keys[key]
            parent.value[key] = node

    def _adopt(self, node: Node, parent: Node, key: str | int) -> None:
        if node.parent is None:  # an aliased node stays where it was written
            node.parent, node.key = parent, key

    def _merge(self, node: Node) -> None:
        """`<<: *base`: the keys of base that are not written here."""
        merged = node.value.pop("<<")
        bases = merged.value if isinstance(merged.value, list) else [merged]
        for base in bases:
            if not isinstance(base.value, dict):
                self._fail(*node.keys["<<"], "Y009", "`<<` takes a mapping or a list of mappings")
            for key, child in base.value.items():
                if key not in node.value:
                    node.value[key] = child
                    node.keys[key] = base.keys[key]
        del node.keys["<<"]

    def _check_tag(self, event: Any) -> None:
        if event.tag is not None:
            start = event.start_mark.index + self.offset
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._note(start, start + len(tag), "Y004", f"tag `{tag}`: a spec is plain data",
                       "remove the tag")  # fmt: skip

    def _note(self, start: int, end: int, code: str, message: str, hint: str = "") -> None:
        place = Place(self.source, start, max(end, start + 1))
        self.findings.add(Finding(code, message, place, hint=hint))

    def _fail(self, start: int, end: int, code: str, message: str, hint: str = "") -> NoReturn:
        self._note(start, end, code, message, hint)
        raise SpecError(self.findings.sorted())


def resolve_scalar(text: str) -> object:
    """YAML 1.2's reading of a plain scalar.

    >>> [resolve_scalar(text) for text in ("12", "1e-3", "no", "true", "~")]
    [12, 0.001, 'no', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _syntax(error: yaml.MarkedYAMLError, text: str, at: int) -> tuple[str, str]:
    """libyaml's words for a syntax error, and a hint for the usual causes."""
    line_start = text.rfind("\n", 0, at) + 1
    if "\t" in text[line_start : at + 1]:
        return "a tab: YAML is indented with spaces", "replace the tab by spaces"
    problem = str(error.problem or "this is not YAML")
    hints = {
        "mapping values are not allowed": "a `:` too many here, or an indentation that is off?",
        "did not find expected key": "is this line indented like its neighbours?",
        "could not find expected ':'": "a `:` is missing, or the line above is not closed",
        "did not find expected ',' or": "a `,`, `}` or `]` is missing",
        "found character that cannot start": "put the text in quotes",
        "found unexpected end of stream": "a quote or bracket is not closed",
        "did not find expected '-' indicator": "is this line indented like its neighbours?",
    }
    return problem, next((hint for start, hint in hints.items() if problem.startswith(start)), "")
