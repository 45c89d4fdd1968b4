"""Text -> Spec: resolved and validated, with the line and column of every value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ladderspec.arguments import checked
from ladderspec.display import svg
from ladderspec.errors import Finding, Findings, Source, SpecError, UsageError, tick
from ladderspec.language.edges import Edges
from ladderspec.language.extends import extend, read_source, read_stdin
from ladderspec.language.resolve import Choice, choose, drop_levels, resolve
from ladderspec.language.rows import row_names
from ladderspec.language.spec import Expect, SpecConfig, Variant, refresh
from ladderspec.shipped import located
from ladderspec.text.tree import Node, parse

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from ladderspec.language.repair import UnknownKeys

MAX_ROUNDS = 5  # of repairing unknown keys: as deep as mappings nest
UNKNOWN_NAME = ("S103", "S105")  # codes of an unknown cell, task, norm or activation
COMMAND_LINE = "command line"
EXPERIMENT = ("rows", "spec", "data", "training")  # keys of experiments, and of no spec


@dataclass(frozen=True)
class Request:
    """Changes to apply to a file: variants by name, and changes as on the command line."""

    variant: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    set: tuple[str, ...] = ()  # NAME=VALUE

    @staticmethod
    @checked
    def of(
        variant: str | Sequence[str] | None = None,
        without: str | Sequence[str] = (),
        add: str | Sequence[str] = (),
        set: Mapping[str, Any] | str | Sequence[str] = (),
    ) -> Request:
        def many(texts: str | Sequence[str] | None) -> tuple[str, ...]:
            return (texts,) if isinstance(texts, str) else tuple(texts or ())

        if isinstance(set, Mapping):
            import json

            try:
                set = [f"{name}={json.dumps(value)}" for name, value in set.items()]
            except (TypeError, ValueError, RecursionError):
                raise UsageError(f"set: {set!r} has values that no spec can have") from None
        return Request(many(variant), many(without), many(add), many(set))

    @property
    def bare(self) -> bool:
        return not (self.without or self.add or self.set)


def command_line(request: Request, findings: Findings) -> Node:
    """The changes of a command line as a variant, which is applied like any other."""

    def text(option: str, value: str) -> Node:
        return Node(value, Source(option, value), 0, len(value))

    source = Source(COMMAND_LINE, "")
    fields: dict[str, Node] = {}
    if request.without:
        fields["without"] = Node([text("--without", w) for w in request.without], source, 0, 0)
    if request.add:
        added = Node([text("--add", a) for a in request.add], source, 0, 0)
        fields["edges"] = Node({"add": added}, source, 0, 0)
    if request.set:
        fields["set"] = Node({}, source, 0, 0)
        for item in request.set:  # a later one replaces an earlier one
            node = parse_set(item, findings, "encoder.conv.channels=16")
            if node is not None:
                name = str(node.key)
                fields["set"].value[name] = node
                fields["set"].keys[name] = (node.source, 0, len(name))
    return Node(fields, source, 0, 0)


def parse_set(item: str, findings: Findings, example: str) -> Node | None:
    """The value of NAME=VALUE, with the name as its key; None if it is a mistake."""
    source = Source("--set", item)
    name, equals, value = item.partition("=")
    if not equals or not name.strip() or not value.strip():
        place = Node(item, source, 0, len(item)).place
        findings.add(Finding("S114", f"{tick(item)} sets nothing", place, hint=f"like {example}"))
        return None
    try:
        node = parse(source, findings, len(name) + 1)
    except SpecError:
        return None  # reported already
    node.key = name.strip()
    return node


# --- the result -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EdgePatch:
    """Changes to the edges: selectors to remove, roles to move, arrows to add."""

    name: str
    without: tuple[str, ...]
    edges: Edges
    node: Node = field(repr=False, compare=False)


@dataclass(frozen=True)
class Spec:
    """A spec after `extends`, variants, `params`, `set`, `defaults` and `repeat`.

    Attributes:
        config: The validated fields: levels, tasks, time and so on.
        patches: Changes to the edges: those of the spec, of its variants, of the command line.
        variants: The names of the variants that were applied.
        title: The title in tables and drawings.
        expect: What the network is checked against, if the spec says so.
        tree: The text as a tree of values with their places.
        compiled: The graph, once it is compiled. It is frozen; `ladderspec.graph` gives a copy.
    """

    config: SpecConfig
    patches: tuple[EdgePatch, ...]
    variants: tuple[str, ...]
    title: str
    expect: Expect | None
    tree: Node = field(repr=False, compare=False)
    broken: bool = field(default=False, repr=False)  # has mistakes that were read past
    unsure: frozenset[str] = field(default=frozenset(), repr=False)  # what these leave open
    rows: tuple[str, ...] = field(default=(), repr=False)  # their names, dropped ones included
    compiled: MultiDiGraph | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.config.name or Path(self.tree.source.name).stem

    def at(self, *path: str | int) -> Node:
        """The node of the tree at this path, or the deepest one on the way to it."""
        return self.tree.find(path)[0]

    def carry(self, graph: MultiDiGraph) -> None:
        """Keep the compiled graph; a spec made from this one by `replace` begins without it."""
        object.__setattr__(self, "compiled", graph)

    def __repr__(self) -> str:
        config, title = self.config, f": {self.title}" if self.title else ""
        lines = [
            f"<spec {self.name}{title}",
            f"from {self.tree.source.name}",
            f"{len(config.levels) + 1} levels, tasks {', '.join(config.tasks) or 'none'}",
            f"variants {', '.join(config.variants) or 'none'}",
        ]
        names = ["further changes" if v == COMMAND_LINE else v for v in self.variants]
        applied = [f"with {', '.join(names)}"] if names else []
        return "\n  ".join([*lines, *applied]) + ">"

    def _repr_svg_(self) -> str:
        return svg(self)


@dataclass(frozen=True)
class Document:
    """A file after parsing and `extends`: the part that all its variants share."""

    tree: Node
    findings: Findings  # mistakes that were read past
    whole: bool  # False: a base file could not be read

    @property
    def is_experiment(self) -> bool:
        keys = set(self.tree.value) if isinstance(self.tree.value, dict) else set()
        known = [key for key in EXPERIMENT if key in keys]
        return (known[:1] == ["rows"] or len(known) > 1) and not {"levels", "input"} & keys


def open_document(path: str | Path, root: Path | None = None, advice: str = "") -> Document:
    """Read a file; `-` is standard input, and `ladderspec:NAME` a shipped file.

    `extends` stays inside `root`, or the file's folder.
    """
    if str(path) == "-":
        return document(read_stdin())
    path = located(path)
    return document(read_source(path), path, root, advice)


def document(
    source: Source, path: Path | None = None, root: Path | None = None, advice: str = ""
) -> Document:
    findings = Findings()
    tree, whole = extend(parse(source, findings), path, root, findings, advice)
    return Document(tree, findings, whole)


def read(document: Document, request: Request, findings: Findings) -> Spec | None:
    """Resolve and validate; None if the mistakes leave nothing to compile.

    Unknown names may be those of installed packages, which are then imported.
    """
    found = findings.copy()
    spec = _read(document, request, found)
    if any(finding.code in UNKNOWN_NAME for finding in found.sorted()):
        from ladderspec.plugins import load_installed

        if load_installed():
            found = findings.copy()
            spec = _read(document, request, found)
    findings.update(found)
    return spec


def _read(document: Document, request: Request, findings: Findings) -> Spec | None:
    """Unknown keys are reported and replaced by what was meant, and the tree is read again."""
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
        rows = tuple(name for name in row_names(resolved) if name)
        resolved = drop_levels(resolved, choices, found) if document.whole else tree
        reading = _Reading(resolved, rows, document.whole, found)
        unknown = reading.unknown_keys
        if unknown is None:
            findings.update(found)
            return reading.spec(choices, request, findings)
        findings.update(unknown.findings)
        if findings.enough:
            break
        tree, command = unknown.repair(tree), unknown.repair(command)
    return None


# --- validation -----------------------------------------------------------------------------------


class _Reading:
    """The config of a tree, or of the part of it that is right."""

    def __init__(self, tree: Node, rows: tuple[str, ...], whole: bool, findings: Findings) -> None:
        self.tree, self.rows, self.findings = tree, rows, findings
        self.config: SpecConfig | None = None
        self.unknown_keys: UnknownKeys | None = None
        self.unsure: frozenset[str] = frozenset()
        if not isinstance(tree.value, dict):
            hint = "put `levels:` above the rows" if isinstance(tree.value, list) else ""
            message = "a spec is a mapping, with `input:` and `levels:`"
            findings.add(Finding("S104", message, tree.place, hint=hint))
            return
        refresh()
        try:
            self.config = SpecConfig.model_validate(tree.plain())
        except ValidationError as error:
            self._salvage(error, whole)

    def _salvage(self, error: ValidationError, whole: bool) -> None:
        """Report the mistakes, and continue without the wrong parts."""
        from ladderspec.language.explain import explain
        from ladderspec.language.repair import salvage
        from ladderspec.language.unknown_keys import find_unknown_keys

        items = error.errors(include_url=False, include_input=False)
        self.unknown_keys = find_unknown_keys(items, self.tree, SpecConfig)
        if self.unknown_keys is not None:
            return
        explain(items, self.tree, SpecConfig, self.findings, whole)
        enough = self.findings.enough
        saved = salvage(self.tree, [i["loc"] for i in items]) if whole and not enough else None
        if saved is None:
            return
        self.tree, self.unsure = saved
        try:
            self.config = SpecConfig.model_validate(self.tree.plain())
        except ValidationError:
            return  # too little is left to compile

    def spec(self, choices: Sequence[Choice], request: Request, findings: Findings) -> Spec | None:
        config = self.config
        if config is None:
            return None
        patches = [EdgePatch("spec", config.without, config.edges, self.tree)]
        title, expect = config.title or "", config.expect if not choices else None
        for choice in choices:
            variant, node = config.variants.get(choice.name), choice.node
            if choice.name == COMMAND_LINE:
                variant, node = _variant(choice.node, self.tree, findings)
            if variant is not None:
                patches.append(EdgePatch(choice.name, variant.without, variant.edges, node))
                title = variant.title or (title if choice.name == COMMAND_LINE else choice.name)
                expect = variant.expect if request.bare and len(request.variant) == 1 else None
        names = tuple(choice.name for choice in choices)
        broken = bool(findings)
        return Spec(
            config, tuple(patches), names, title, expect,
            self.tree, broken, self.unsure, self.rows,
        )  # fmt: skip


def _experiment(tree: Node) -> Finding:
    spec = tree.get("spec")
    named = f": {spec.value}" if spec is not None and isinstance(spec.value, str) else ""
    message = "this is an experiment, not a spec"
    key = next(key for key in EXPERIMENT if key in tree.value)
    return Finding("S104", message, tree.key_place(key), hint=f"take its spec{named}")


def _variant(node: Node, spec: Node, findings: Findings) -> tuple[Variant, Node]:
    """The changes of the command line as a variant, without the wrong ones."""
    try:
        return Variant.model_validate(node.plain()), node
    except ValidationError as error:
        from ladderspec.language.explain import explain
        from ladderspec.language.repair import salvage

        items = error.errors(include_url=False, include_input=False)
        explain(items, node, Variant, findings, spec=spec)
        saved = salvage(node, [item["loc"] for item in items])
        assert saved is not None
        return Variant.model_validate(saved[0].plain()), saved[0]
