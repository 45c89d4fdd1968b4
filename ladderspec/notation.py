"""How arrows and selectors are written: `decoder.a(t-1) -> encoder.a`, `lateral@conv_*`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Literal

from ladderspec.names import Role, Side

_NODE = r"(?:encoder|decoder|lateral)\.[a-z0-9_*?]+"
_HOP = re.compile(rf"({_NODE})(?:\s*\(\s*t\s*(?:-\s*([0-9]{{1,3}}))?\s*\))?")
_LEVEL_PATTERN = re.compile(r"[a-z0-9_*?]+")
_SIDES = [side.value for side in Side]
_ROLES = [role.value for role in Role]


class NotationProblem(ValueError):
    """A text that is no arrow or selector; says what would be one."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class Arrow:
    source: str
    target: str
    delay: int


@dataclass(frozen=True)
class Selector:
    """What `without` names: nodes, arrows by role and level or by their ends, a level or a task."""

    kind: Literal["role", "arrow", "node", "level", "task"]
    pattern: str = "*"  # of node names, level names or task names
    role: Role | None = None
    arrows: tuple[Arrow, ...] = ()


def parse_arrows(text: str) -> tuple[Arrow, ...]:
    """The hops of a chain; each carries the delay that stands on its source.

    >>> parse_arrows("decoder.a(t-1) -> encoder.b")
    (Arrow(source='decoder.a', target='encoder.b', delay=1),)
    >>> [arrow.delay for arrow in parse_arrows("encoder.a -> encoder.b(t-2) -> decoder.c")]
    [0, 2]
    """
    ends = [_HOP.fullmatch(part.strip()) for part in text.split("->")]
    if len(ends) < 2:
        raise NotationProblem(f"`{text}` is not an arrow", _ARROW_HINT)
    for part, end in zip(text.split("->"), ends, strict=True):
        if end is None:
            raise NotationProblem(f"`{part.strip()}` is not an end of an arrow", _ARROW_HINT)
    found = [(end[1], int(end[2] or 0)) for end in ends if end]
    if found[-1][1]:
        raise NotationProblem("the delay stands on the source of an arrow", _ARROW_HINT)
    return tuple(Arrow(source, target, delay) for (source, delay), (target, _) in pairwise(found))


_ARROW_HINT = "write it like `decoder.conv_2(t-1) -> encoder.conv_2`"


def parse_selector(text: str) -> Selector:
    """
    >>> parse_selector("lateral@conv_*").kind, parse_selector("decoder.*").kind
    ('role', 'node')
    """
    text = text.strip()
    if "->" in text:
        return Selector("arrow", arrows=parse_arrows(text))
    head, dot, rest = text.partition(".")
    if dot and head in ("level", "task", *_SIDES):
        if not _LEVEL_PATTERN.fullmatch(rest):
            raise NotationProblem(
                f"`{rest}` is no name or pattern of names", "like `conv_2`, `conv_*`"
            )
        kind: Literal["level", "task", "node"]
        kind = "level" if head == "level" else "task" if head == "task" else "node"
        return Selector(kind, pattern=text if kind == "node" else rest)
    role, at, levels = text.partition("@")
    if role not in _ROLES:
        raise NotationProblem(f"`{text}` selects nothing", _SELECTOR_HINT)
    if at:
        if not _LEVEL_PATTERN.fullmatch(levels):
            raise NotationProblem(f"`{levels}` is no level or pattern of levels", "like `conv_*`")
        return Selector("role", pattern=levels, role=Role(role))
    if role in _SIDES and role != Role.LATERAL:
        raise NotationProblem(
            f"`{role}` alone could mean nodes or arrows",
            f"say `{role}.*` for the nodes or `{role}@*` for the arrows",
        )
    return Selector("role", role=Role(role))


_SELECTOR_HINT = (
    "a role (`lateral`, `lateral@conv_*`), an arrow (`a -> b`), nodes (`decoder.*`),"
    " `level.NAME` or `task.NAME`"
)


def matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
