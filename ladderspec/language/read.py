"""Text -> Spec: one resolved, validated table, whose every value knows its line and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ladderspec.cells import registered
from ladderspec.errors import Finding, Findings, Source
from ladderspec.language.edges import Edges
from ladderspec.language.extends import extend, read_source, read_stdin
from ladderspec.language.request import COMMAND_LINE, command_line
from ladderspec.language.request import Request as Request
from ladderspec.language.resolve import Choice, choose, resolve
from ladderspec.language.rows import cell_words
from ladderspec.language.spec import Expect, SpecWords, Variant, fresh
from ladderspec.names import Side
from ladderspec.text.parse import parse
from ladderspec.text.tree import Node

if TYPE_CHECKING:
    from ladderspec.language.repair import Strays

MAX_ROUNDS = 5  # of putting misspelt keys right: as deep as mappings nest


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
    broken: bool = field(default=False, repr=False)  # read past mistakes
    unsure: frozenset[str] = field(default=frozenset(), repr=False)  # what they leave open

    @property
    def name(self) -> str:
        return self.words.name or Path(self.tree.source.name).stem

    def at(self, *path: str | int) -> Node:
        """The place in the text that says this."""
        return self.tree.find(path)[0]

    def _repr_svg_(self) -> str:
        from ladderspec.drawing import svg  # in notebooks

        return svg(self)


@dataclass(frozen=True)
class Document:
    """A file after parsing and `extends`: what all its variants share."""

    tree: Node
    findings: Findings  # what could be read past
    whole: bool  # False: a file that it builds on could not be read

    @property
    def is_experiment(self) -> bool:
        words = self.tree.value
        return isinstance(words, dict) and "rows" in words and not {"levels", "input"} & set(words)


def open_document(path: str | Path, root: Path | None = None, advice: str = "") -> Document:
    """Read a file; `-` is standard input. `extends` stays inside `root`, or the file's folder."""
    if str(path) == "-":
        return document(read_stdin())
    return document(read_source(Path(path)), Path(path), root, advice)


def document(
    source: Source, path: Path | None = None, root: Path | None = None, advice: str = ""
) -> Document:
    findings = Findings()
    tree, whole = extend(parse(source, findings), path, root, findings, advice)
    return Document(tree, findings, whole)


def read(document: Document, request: Request, findings: Findings) -> Spec | None:
    """Resolve and validate; None where what is wrong leaves nothing to go on with.

    Misspelt keys are said and put right, and reading begins anew.
    """
    findings.update(document.findings)
    if document.is_experiment:
        findings.add(_experiment(document.tree))
        return None
    tree, command = document.tree, command_line(request, findings)
    for _ in range(MAX_ROUNDS):
        found = findings.copy()
        choices = choose(tree, request.variant, found) if document.whole else []
        if not request.bare:
            choices.append(Choice(COMMAND_LINE, command))
        resolved = resolve(tree, choices, found) if document.whole else tree
        words = _Words(resolved, document.whole, found)
        if words.strays is None:
            findings.update(found)
            return words.spec(choices, request, findings)
        findings.update(words.strays.said)
        if findings.enough:
            break
        tree, command = words.strays.repair(tree), words.strays.repair(command)
    return None


# --- words ----------------------------------------------------------------------------------------


class _Words:
    """The words of a tree, or of what can be saved of it."""

    def __init__(self, tree: Node, whole: bool, findings: Findings) -> None:
        self.tree, self.findings = tree, findings
        self.words: SpecWords | None = None
        self.strays: Strays | None = None
        self.unsure: frozenset[str] = frozenset()
        if not isinstance(tree.value, dict):
            hint = "put `levels:` above the rows" if isinstance(tree.value, list) else ""
            message = "a spec is a mapping, with `input:` and `levels:`"
            findings.add(Finding("S104", message, tree.place, hint=hint))
            return
        known = {word for side in Side for word in registered(side)}
        if cell_words(tree) - known:
            from ladderspec.plugins import load_installed

            load_installed()
        fresh()
        try:
            self.words = SpecWords.model_validate(tree.plain())
        except ValidationError as error:
            self._go_on(error, whole)

    def _go_on(self, error: ValidationError, whole: bool) -> None:
        """Say what is wrong; go on without what the wrong parts would say."""
        from ladderspec.language.explain import explain
        from ladderspec.language.salvage import salvage
        from ladderspec.language.strays import find_strays

        items = error.errors(include_url=False, include_input=False)
        self.strays = find_strays(items, self.tree, SpecWords)
        if self.strays is not None:
            return
        explain(items, self.tree, SpecWords, self.findings, whole)
        enough = self.findings.enough
        saved = salvage(self.tree, [i["loc"] for i in items]) if whole and not enough else None
        if saved is None:
            return
        self.tree, self.unsure = saved
        try:
            self.words = SpecWords.model_validate(self.tree.plain())
        except ValidationError:
            return  # nothing left to go on with

    def spec(self, choices: Sequence[Choice], request: Request, findings: Findings) -> Spec | None:
        words = self.words
        if words is None:
            return None
        patches = [Patch("spec", words.without, words.edges, self.tree)]
        title, expect = words.title or "", words.expect if not choices else None
        for choice in choices:
            variant, node = words.variants.get(choice.name), choice.node
            if choice.name == COMMAND_LINE:
                variant, node = _variant(choice.node, findings)
            if variant is not None:
                patches.append(Patch(choice.name, variant.without, variant.edges, node))
                title = variant.title or (title if choice.name == COMMAND_LINE else choice.name)
                expect = variant.expect if request.bare and len(request.variant) == 1 else None
        names = tuple(choice.name for choice in choices)
        broken = bool(findings)
        return Spec(words, tuple(patches), names, title, expect, self.tree, broken, self.unsure)


def _experiment(tree: Node) -> Finding:
    spec = tree.get("spec")
    named = f": {spec.value}" if spec is not None and isinstance(spec.value, str) else ""
    message = "this is an experiment, not a spec"
    return Finding("S104", message, tree.key_place("rows"), hint=f"take its spec{named}")


def _variant(node: Node, findings: Findings) -> tuple[Variant, Node]:
    """The command line's words as those of a variant, without those that are wrong."""
    try:
        return Variant.model_validate(node.plain()), node
    except ValidationError as error:
        from ladderspec.language.explain import explain
        from ladderspec.language.salvage import salvage

        items = error.errors(include_url=False, include_input=False)
        explain(items, node, Variant, findings)
        saved = salvage(node, [item["loc"] for item in items])
        assert saved is not None
        return Variant.model_validate(saved[0].plain()), saved[0]
