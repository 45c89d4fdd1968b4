"""YAML text -> a tree of values with their places. Data only: no tags, bounded size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from ladderspec.errors import Finding, Findings, Place, Source, SpecError

Span = tuple[Source, int, int]

MAX_CHARACTERS = 2_000_000
MAX_VALUES = 100_000  # after aliases are expanded
MAX_DEPTH = 32

# Control characters, halves of surrogate pairs, marks that reorder text, and line breaks that
# differ in YAML 1.1 and 1.2.
_FORBIDDEN = re.compile(
    "[^\t\n\r -~\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"
)
# The same as escapes in double quotes (`"\\e[31m"`), where tabs and returns are refused too.
_ESCAPED = re.compile(_FORBIDDEN.pattern.replace("\t", "").replace("\r", ""))
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # `&anchor !tag ` before a value


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


# --- reading --------------------------------------------------------------------------------------


class _Open:
    """A list or mapping that is still being read."""

    __slots__ = ("anchor", "doubled", "key", "node", "size")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node, self.anchor, self.size = node, anchor, 1
        self.key: str | None = None
        self.doubled = False  # a key was written twice


def parse(source: Source, findings: Findings, start: int = 0) -> Node:
    """Read one YAML document: the text from `start` on.

    Mistakes that can be read past (a key written twice, a tag) are added to `findings`; any other
    raises SpecError with all findings so far.
    """
    return _Reader(source, findings, start).read()


class _Reader:
    def __init__(self, source: Source, findings: Findings, start: int) -> None:
        self.source, self.findings = source, findings
        self.offset, self.text = start, source.text[start:]
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int] | None] = {}  # None: still open
        self.count = 0
        self.root: Node | None = None

    def read(self) -> Node:
        if len(self.text) > MAX_CHARACTERS:
            self._fail(0, 1, "Y008", f"the text has more than {MAX_CHARACTERS:,} characters")
        if found := _FORBIDDEN.search(self.text):
            from ladderspec.text.syntax import character

            self._refuse(character(self.text, found.start()))
        for event in self._events():
            start = event.start_mark.index + self.offset
            end = event.end_mark.index + self.offset
            kind = type(event)
            self.count += 1
            if self.count > MAX_VALUES:
                self._too_many(start)
            if kind is yaml.ScalarEvent:
                node = Node(self._scalar(event), self.source, self._begin(event, start), end)
                if event.anchor:
                    self.anchors[event.anchor] = (node, 1)
                self._place(node, 1, event.value)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                empty: Any = {} if kind is yaml.MappingStartEvent else []
                node = Node(empty, self.source, self._begin(event, start), end)
                self._open(node, event.anchor)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(end)
            elif kind is yaml.AliasEvent:
                self._alias(event.anchor, start, end)
            elif kind is yaml.DocumentStartEvent and self.root is not None:
                hint = "one file, one spec"
                self._fail(start, end, "Y005", "a second document begins here", hint)
        if self.root is None or (self.root.value is None and self.root.start == self.root.end):
            what = "holds only comments" if "#" in self.text else "is empty"
            self._fail(0, 1, "Y006", f"the file {what}", "`ladderspec new` writes a first spec")
        return self.root

    def _events(self) -> Iterator[Any]:
        # libyaml counts characters, so marks index the text directly.
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        try:
            yield from yaml.parse(self.text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            from ladderspec.text.syntax import explain

            self._refuse(explain(error, self.text))
        except yaml.YAMLError:
            self._fail(0, 1, "Y002", "this is not YAML")

    def _scalar(self, event: Any) -> object:
        if not event.style:
            return resolve_scalar(event.value)
        if found := _ESCAPED.search(event.value):
            from ladderspec.text.syntax import character

            start = event.start_mark.index + self.offset
            end = event.end_mark.index + self.offset
            _, _, message, _ = character(event.value, found.start())
            self._fail(start, end, "Y002", message, "remove the escape sequence")
        return event.value

    def _begin(self, event: Any, start: int) -> int:
        """The start of the value itself, after its anchor and tag; a tag is refused."""
        if event.anchor is None and event.tag is None:
            return start
        found = _PROPERTIES.match(self.source.text, start)
        begin = found.end() if found else start
        if event.tag is not None and not self.findings.enough:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            hint = "`extends` builds on another file" if tag == "!include" else "remove the tag"
            message = f"a tag, `{tag}`: a spec is plain data"
            at = self.source.text.find("!", start)
            self._note(at, at + len(tag), "Y004", message, hint)
            self.findings.blame(Place(self.source, begin, begin + 1))
        return min(begin, int(event.end_mark.index) + self.offset)

    def _too_many(self, start: int) -> NoReturn:
        what = "values, with aliases written out"
        self._fail(start, start + 1, "Y008", f"more than {MAX_VALUES:,} {what}")

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
            hint = "a pattern that begins with `*` needs quotes"
            self._fail(start, end, "Y007", f"no `&{name}` before this `*{name}`", hint)
        target = self.anchors[name]
        if target is None:
            self._fail(start, end, "Y007", f"`*{name}` is inside `&{name}` itself")
        node, size = target
        self.count += size
        if self.count > MAX_VALUES:
            self._too_many(start)
        if isinstance(node.value, dict | list) or self.stack[-1].key is not None:
            self._place(node, size, None)
        else:
            self._place(node, size, str(node.value))

    def _place(self, node: Node, size: int, text: str | None) -> None:
        """Add a finished node to the open list or mapping; `text` is its spelling as a key."""
        if not self.stack:
            self.root = node
            return
        inside = self.stack[-1]
        inside.size += size
        parent = inside.node
        if isinstance(parent.value, list):
            if node.start == node.end:  # nothing after a `-`: point at it
                node.end = len(self.source.text[: node.start].rstrip())
                node.start = max(0, node.end - 1)
            self._adopt(node, parent, len(parent.value))
            parent.value.append(node)
        elif inside.key is None:
            inside.key = self._key(node, text, inside)
        else:
            key, inside.key = inside.key, None
            if key in parent.value:
                return  # written twice: the first counts
            self._adopt(node, parent, key)
            if node.start == node.end:  # `key:` without a value: point at the key
                _, node.start, node.end = parent.keys[key]
            parent.value[key] = node

    def _key(self, node: Node, text: str | None, inside: _Open) -> str:
        parent = inside.node
        if text is None:
            written = self.source.text[node.start : node.end]
            hint = "a parameter is written `$name`" if written.startswith("{") else ""
            message = "a key must be a word, not a list or mapping"
            self._fail(node.start, node.end, "Y009", message, hint)
        if text in parent.value and not inside.doubled and not self.findings.enough:
            hint = f"first on line {Place(*parent.keys[text]).line}"
            if len(self.stack) > 1 and isinstance(self.stack[-2].node.value, list):
                inside.doubled = True  # a row: what follows is likely to be another one
                hint += "; is a `- ` missing before this line?"
            self._note(node.start, node.end, "Y003", f"`{text}` is written twice", hint)
        parent.keys.setdefault(text, (self.source, node.start, max(node.end, node.start + 1)))
        return text

    def _adopt(self, node: Node, parent: Node, key: str | int) -> None:
        if node.parent is None:  # an aliased node keeps the place where it was written
            node.parent, node.key = parent, key

    def _merge(self, node: Node) -> None:
        """`<<: *base`: the keys of base that are not written here."""
        merged = node.value.pop("<<")
        bases = merged.value if isinstance(merged.value, list) else [merged]
        _, start, end = node.keys.pop("<<")
        for base in bases:
            if not isinstance(base.value, dict):
                hint = "like `<<: *name`, with `&name` before a mapping"
                self._fail(start, end, "Y009", "`<<` takes a mapping or a list of mappings", hint)
            for key, child in base.value.items():
                if key not in node.value:
                    node.value[key] = child
                    node.keys[key] = base.keys[key]

    def _note(self, start: int, end: int, code: str, message: str, hint: str = "") -> None:
        place = Place(self.source, start, max(end, start + 1))
        self.findings.add(Finding(code, message, place, hint=hint))

    def _fail(self, start: int, end: int, code: str, message: str, hint: str = "") -> NoReturn:
        self._note(start, end, code, message, hint)
        raise SpecError(self.findings.sorted())

    def _refuse(self, problem: tuple[int, int, str, str]) -> NoReturn:
        start, end, message, hint = problem
        start = max(0, min(start, len(self.text.rstrip()) - 1))  # not after the last line
        self._fail(start + self.offset, end + self.offset, "Y002", message, hint)


# --- scalars --------------------------------------------------------------------------------------

# YAML 1.2: `no` and `on` are text, and `1e-3` is a number.
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
