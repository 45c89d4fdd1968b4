"""Text -> Spec: one resolved, validated table, whose every value knows its line and column."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ladderspec.cells import registered
from ladderspec.cells.unknown import UNKNOWN
from ladderspec.errors import Finding, Findings, Source
from ladderspec.explain import findings_of
from ladderspec.extends import decode, extend, read_source
from ladderspec.names import Side
from ladderspec.resolve import Choice, choose, resolve
from ladderspec.rows import cell_words
from ladderspec.spec import Edges, Expect, SpecWords, Variant, fresh
from ladderspec.tree import Node, parse


@dataclass(frozen=True)
class Patch:
    """Changes to the arrows: which selectors go, which roles move, which arrows come."""

    name: str
    without: tuple[str, ...]
    edges: Edges
    node: Node = field(repr=False, compare=False)


@dataclass(frozen=True)
class Spec:
    """A spec after `extends`, variants, `params`, `set`, `defaults` and `repeat`."""

    words: SpecWords
    patches: tuple[Patch, ...]
    variants: tuple[str, ...]  # those applied
    title: str
    expect: Expect | None
    tree: Node = field(repr=False, compare=False)
    broken: bool = field(
        default=False, repr=False
    )  # read past errors: say nothing that follows from them

    @property
    def name(self) -> str:
        return self.words.name or Path(self.tree.source.name).stem

    def at(self, *path: str | int) -> Node:
        """The place in the text that says this."""
        return self.tree.find(path)[0]


@dataclass(frozen=True)
class Request:
    """What to apply to a file: variants by name, and changes as the command line writes them."""

    variant: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    set: tuple[str, ...] = ()  # NAME=VALUE

    @staticmethod
    def of(
        variant: str | Sequence[str] | None = None,
        without: str | Sequence[str] = (),
        add: str | Sequence[str] = (),
        set: Mapping[str, Any] | Sequence[str] = (),
    ) -> Request:
        def many(words: str | Sequence[str] | None) -> tuple[str, ...]:
            return (words,) if isinstance(words, str) else tuple(words or ())

        if isinstance(set, Mapping):
            import json

            set = [f"{name}={json.dumps(value)}" for name, value in set.items()]
        return Request(many(variant), many(without), many(add), many(set))

    @property
    def bare(self) -> bool:
        return not (self.without or self.add or self.set)


@dataclass(frozen=True)
class Document:
    """A file after parsing and `extends`: what all its variants share."""

    tree: Node
    findings: tuple[Finding, ...] = ()  # what could be read past


def open_document(path: str | Path, root: Path | None = None) -> Document:
    """Read a file; `-` is standard input. `extends` stays inside `root`, or the file's folder."""
    if str(path) == "-":
        return document(decode("<stdin>", sys.stdin.buffer.read()))
    return document(read_source(Path(path)), Path(path), root)


def document(source: Source, path: Path | None = None, root: Path | None = None) -> Document:
    findings = Findings()
    tree = extend(parse(source, findings), path, root, findings)
    return Document(tree, tuple(findings.sorted()))


def read(document: Document, request: Request, findings: Findings) -> Spec | None:
    """Resolve and validate; None where what is wrong leaves nothing to go on with."""
    for finding in document.findings:
        findings.add(finding)
    choices = choose(document.tree, request.variant, findings)
    if not request.bare:
        choices.append(Choice("command line", _command_line(request, findings)))
    return _spec(resolve(document.tree, choices, findings), choices, request, findings)


def _spec(
    tree: Node, choices: Sequence[Choice], request: Request, findings: Findings
) -> Spec | None:
    broken = bool(findings)
    words, salvaged = _validate(tree, findings)
    if words is None:
        return None
    broken = broken or salvaged is not tree
    patches = [_patch("spec", words, salvaged)]
    title, expect = words.title or "", words.expect if not choices else None
    for choice in choices:
        variant = words.variants.get(choice.name)
        if choice.name == "command line":
            variant = _validated_variant(choice.node, findings)
        if variant is None:
            broken = True
            continue
        patches.append(_patch(choice.name, variant, choice.node))
        title = variant.title or (title if choice.name == "command line" else choice.name)
        expect = variant.expect if request.bare and len(request.variant) == 1 else None
    names = tuple(choice.name for choice in choices)
    return Spec(words, tuple(patches), names, title, expect, salvaged, broken)


def _patch(name: str, words: SpecWords | Variant, node: Node) -> Patch:
    return Patch(name, words.without, words.edges, node)


def _validated_variant(node: Node, findings: Findings) -> Variant | None:
    try:
        return Variant.model_validate(node.plain())
    except ValidationError as error:
        for finding in findings_of(error, node, Variant):
            findings.add(finding)
        return None


def _command_line(request: Request, findings: Findings) -> Node:
    """The changes of a command line as a variant, so that one road serves both."""

    def text(option: str, value: str) -> Node:
        return Node(value, Source(option, value), 0, len(value))

    source = Source("command line", "")
    fields: dict[str, Node] = {}
    if request.without:
        fields["without"] = Node([text("--without", w) for w in request.without], source, 0, 0)
    if request.add:
        added = Node([text("--add", a) for a in request.add], source, 0, 0)
        fields["edges"] = Node({"add": added}, source, 0, 0)
    if request.set:
        whole = Source("--set", "\n".join(request.set))
        values = Node({}, whole, 0, 0)
        start = 0
        for item in request.set:
            name, equals, _ = item.partition("=")
            if not equals:
                place = Node(item, whole, start, start + len(item)).place
                findings.add(Finding("S114", f"`{item}` sets nothing", place, hint="NAME=VALUE"))
            else:
                at = start + len(name) + 1
                values.value[name] = parse(whole, findings, at, start + len(item))
                values.keys[name] = (start, start + len(name))
            start += len(item) + 1
        fields["set"] = values
    return Node(fields, source, 0, 0)


# --- words ----------------------------------------------------------------------------------------


def _validate(tree: Node, findings: Findings) -> tuple[SpecWords | None, Node]:
    """The words of the tree. Where cells or tasks are wrong, go on without what they would say."""
    if not isinstance(tree.value, dict):
        message = "a spec is a mapping: `input:`, `levels:`, ..."
        findings.add(Finding("S104", message, tree.place))
        return None, tree
    known = {word for side in Side for word in registered(side)}
    if cell_words(tree) - known:
        from ladderspec.plugins import load_installed

        load_installed()
    fresh()
    try:
        return SpecWords.model_validate(tree.plain()), tree
    except ValidationError as error:
        for finding in findings_of(error, tree, SpecWords):
            findings.add(finding)
        locs = [item["loc"] for item in error.errors(include_url=False, include_input=False)]
    salvaged = _salvage(tree, locs)
    if salvaged is None:
        return None, tree
    try:
        return SpecWords.model_validate(salvaged.plain()), salvaged
    except ValidationError:
        return None, tree


def _salvage(tree: Node, locs: Sequence[tuple[str | int, ...]]) -> Node | None:
    """The tree with an unknown cell in place of each wrong one, and without wrong tasks."""
    fields = dict(tree.value)
    for loc in locs:
        head, rest = loc[0], loc[1:]
        if head == "levels" and len(rest) >= 2 and isinstance(rest[0], int):
            rows = list(fields["levels"].value)
            row = rows[rest[0]]
            if not isinstance(row.value, dict) or rest[1] not in ("encoder", "decoder"):
                return None
            unknown = row.replaced({"cell": row.replaced(UNKNOWN)})
            rows[rest[0]] = row.replaced({**row.value, str(rest[1]): unknown})
            fields["levels"] = fields["levels"].replaced(rows)
        elif head in ("tasks", "variants") and rest:
            kept = {k: v for k, v in fields[head].value.items() if k != rest[0]}
            fields[str(head)] = fields[head].replaced(kept)
        elif head == "expect":
            fields.pop("expect", None)
        else:
            return None
    return tree.replaced(fields)
