"""Lines of Python that fit, and the names that they use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

WIDTH = 88  # what formatters take unless told otherwise

_PAIRS = {"(": ")", "[": "]", "{": "}"}


def fit(line: str, width: int = WIDTH) -> list[str]:
    """A line as it is, or with one argument per line where it is too long.

    The comma after the last argument keeps formatters of any width from joining them again.

    >>> arguments = ", ".join(f"arrow_{k}=Map(1)" for k in range(6))
    >>> print("\\n".join(fit(f"    wide = Conv({arguments})")))
        wide = Conv(
            arrow_0=Map(1),
            arrow_1=Map(1),
            arrow_2=Map(1),
            arrow_3=Map(1),
            arrow_4=Map(1),
            arrow_5=Map(1),
        )
    """
    inner = max(_brackets(line), key=lambda pair: pair[1] - pair[0], default=None)
    if len(line) <= width or inner is None or inner[1] - inner[0] < 2:
        return [line]
    start, end = inner
    indent = len(line) - len(line.lstrip())
    found = [line[: start + 1]]
    for argument in _arguments(line[start + 1 : end]):
        found += fit(f"{' ' * (indent + 4)}{argument},", width)
    return [*found, f"{' ' * indent}{line[end:]}"]


def _brackets(text: str) -> list[tuple[int, int]]:
    """Where the outermost brackets open and close."""
    found, depth, start = [], 0, 0
    for at, character in _outside_quotes(text):
        if character in _PAIRS:
            start = start if depth else at
            depth += 1
        elif character in _PAIRS.values():
            depth -= 1
            if not depth:
                found.append((start, at))
    return found


def _arguments(text: str) -> list[str]:
    """
    >>> _arguments('1, f(2, 3), x="a, b"')
    ['1', 'f(2, 3)', 'x="a, b"']
    """
    inside = [range(start, end) for start, end in _brackets(text)]
    cuts = [
        at
        for at, character in _outside_quotes(text)
        if character == "," and not any(at in span for span in inside)
    ]
    edges = [-1, *cuts, len(text)]
    parts = [text[a + 1 : b].strip() for a, b in pairwise(edges)]
    return [part for part in parts if part]


def _outside_quotes(text: str) -> Iterator[tuple[int, str]]:
    quoted = False
    for at, character in enumerate(text):
        quoted ^= character == '"'
        if not quoted and character != '"':
            yield at, character


def names_in(source: str) -> set[str]:
    """The names that a piece of Python reads from outside itself.

    >>> sorted(names_in("def g(x):\\n    i = f(x)\\n    return i"))
    ['f', 'x']
    """
    names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    own = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - own
