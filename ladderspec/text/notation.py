"""The notation of arrows and selectors: `decoder.a(t-1) -> encoder.a`, `lateral@conv_*`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Literal

from ladderspec.errors import Problem, did_you_mean, tick
from ladderspec.names import Role, Side

MAX_DELAY = 999

_NODE = re.compile(r"(?:encoder|decoder|lateral|input)\.[a-z0-9_*?]+")
_HOP = re.compile(rf"({_NODE.pattern})(?:\s*\(\s*t\s*(?:-\s*([0-9]{{1,3}}))?\s*\))?")
_LEVEL_PATTERN = re.compile(r"[a-z0-9_*?]+")
_SIDES = [side.value for side in Side]
_ROLES = [role.value for role in Role]


class NotationProblem(Problem, ValueError):
    """A text that is neither an arrow nor a selector, with a hint."""


@dataclass(frozen=True)
class ArrowNotation:
    source: str
    target: str
    delay: int


@dataclass(frozen=True)
class Selector:
    """A selection of `without`: nodes, arrows by role and level or by ends, a level, or a task."""

    kind: Literal["role", "arrow", "node", "level", "task"]
    pattern: str = "*"  # of node names, level names or task names
    role: Role | None = None
    arrows: tuple[ArrowNotation, ...] = ()


# --- arrows ---------------------------------------------------------------------------------------


def parse_arrows(text: str) -> tuple[ArrowNotation, ...]:
    """The hops of a chain, each with the delay that is written on its source.

    >>> parse_arrows("decoder.a(t-1) -> encoder.b")
    (ArrowNotation(source='decoder.a', target='encoder.b', delay=1),)
    >>> [arrow.delay for arrow in parse_arrows("encoder.a -> encoder.b(t-2) -> decoder.c")]
    [0, 2]
    """
    parts = text.split("->")
    if len(parts) < 2:
        raise NotationProblem(f"{tick(text)} is not an arrow", _ARROW_HINT)
    found = [parse_end(part) for part in parts]
    if found[-1][1]:
        source, target = parts[-2].strip(), found[-1][0]
        hint = f"like `{source.partition('(')[0].strip()}(t-{found[-1][1]}) -> {target}`"
        raise NotationProblem("the delay belongs to the source of an arrow", hint)
    return tuple(
        ArrowNotation(source, target, delay) for (source, delay), (target, _) in pairwise(found)
    )


def parse_end(text: str) -> tuple[str, int]:
    """A node and the delay with which it is read.

    >>> parse_end("decoder.a (t-2)")
    ('decoder.a', 2)
    """
    text = text.strip()
    found = _HOP.fullmatch(text)
    if found is None:
        raise NotationProblem(*_no_end(text))
    return found[1], int(found[2] or 0)


def _no_end(text: str) -> tuple[str, str]:
    name, bracket, time = text.partition("(")
    if not text:
        return "one end of the arrow is missing", _ARROW_HINT
    if _NODE.fullmatch(name.strip()) and bracket:
        if re.fullmatch(r"\s*t\s*\+.*", time):
            return f"{tick(text)} is in the future", "an arrow comes from t, t-1, t-2, ..."
        return f"`({printed(time)}` is not a delay", f"from (t-1) to (t-{MAX_DELAY})"
    side, dot, rest = name.strip().partition(".")
    if not dot and _LEVEL_PATTERN.fullmatch(name.strip()):
        hint = f"a node has a side: `encoder.{name.strip()}` or `decoder.{name.strip()}`"
        return f"{tick(text)} is not a node", hint
    if dot and side not in _SIDES:
        close = did_you_mean(side, _SIDES).replace("`?", f".{printed(rest)}`?")
        return f"{tick(text)} is not a node", close or _ARROW_HINT
    return f"{tick(text)} is not an end of an arrow", _ARROW_HINT


def printed(text: str) -> str:
    return tick(text, 30).strip("`")


_ARROW_HINT = "like `decoder.conv_2(t-1) -> encoder.conv_2`"


# --- selectors ------------------------------------------------------------------------------------


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
            message = f"{tick(rest)} is not a name or a pattern of names"
            raise NotationProblem(message, f"like `{head}.conv_2` or `{head}.conv_*`")
        if head == "level":
            return Selector("level", pattern=rest)
        return Selector("task", pattern=rest) if head == "task" else Selector("node", text)
    role, at, levels = text.partition("@")
    if role not in _ROLES:
        raise NotationProblem(f"{tick(text)} selects nothing", _meant(text, head, rest, role))
    if at:
        if not _LEVEL_PATTERN.fullmatch(levels):
            message = f"{tick(levels)} is not a level or a pattern of levels"
            message = message if levels else "a level is missing after the `@`"
            raise NotationProblem(message, f"like `{role}@conv_2` or `{role}@conv_*`")
        return Selector("role", pattern=levels, role=Role(role))
    if role in _SIDES and role != Role.LATERAL:
        raise NotationProblem(
            f"`{role}` alone could mean nodes or arrows",
            f"say `{role}.*` for the nodes or `{role}@*` for the arrows",
        )
    return Selector("role", role=Role(role))


def _meant(text: str, head: str, rest: str, role: str) -> str:
    """A suggestion for a text that is not a selector."""
    if "," in text:
        return "one selector at a time: write a list, or repeat `--without`"
    if rest:
        close = did_you_mean(head, ["level", "task", *_SIDES])
        return close.replace("`?", f".{printed(rest)}`?") if close else _SELECTOR_HINT
    if close := did_you_mean(role, _ROLES):
        return close
    if _LEVEL_PATTERN.fullmatch(text):
        return f"a level is `level.{text}`, a task `task.{text}`, a node `encoder.{text}`"
    return _SELECTOR_HINT


_SELECTOR_HINT = (
    "a role (`lateral`, `lateral@conv_*`), an arrow (`a -> b`), nodes (`decoder.*`),"
    " `level.NAME` or `task.NAME`"
)


def matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
