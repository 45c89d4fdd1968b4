"""What is asked of a file besides its own words: variants, and changes on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ladderspec.errors import Finding, Findings, Source, SpecError, tick
from ladderspec.text.parse import parse
from ladderspec.text.tree import Node

COMMAND_LINE = "command line"


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


def command_line(request: Request, findings: Findings) -> Node:
    """The changes of a command line as a variant, so that one road serves both."""

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
        for item in request.set:
            _set(fields["set"], item, findings)
    return Node(fields, source, 0, 0)


def _set(table: Node, item: str, findings: Findings) -> None:
    """Add a NAME=VALUE to `set`; a later one replaces an earlier one."""
    source = Source("--set", item)
    name, equals, value = item.partition("=")
    if not equals or not name.strip() or not value.strip():
        place = Node(item, source, 0, len(item)).place
        message = f"{tick(item)} sets nothing"
        findings.add(Finding("S114", message, place, hint="like encoder.conv.channels=16"))
        return
    try:
        node = parse(source, findings, len(name) + 1)
    except SpecError:
        return  # said already
    node.key = name.strip()
    table.value[name.strip()] = node
    table.keys[name.strip()] = (source, 0, len(name))
