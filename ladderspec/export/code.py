"""Text of the file: templates of definitions, lines of Python that fit, the names they use.

The templates in `pieces/` are Python with conditions. A line that ends in `#: a not b` stays where
feature a is wanted and b is not; `{{a?x?y}}` is x where a is wanted, else y; `$word` is filled in.
Lines that come out too long are broken.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import pairwise
from string import Template

WIDTH = 100  # wide enough for a row of the table on a line

_CONDITION = re.compile(r"  #: ([\w ]+)$")
_CHOICE = re.compile(r"\{\{(\w+)\?([^?{}]*)(?:\?([^?{}]*))?\}\}")
_QUOTES = '"""'
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def render(piece: str, features: Collection[str], words: Mapping[str, str]) -> str:
    """The text of a definition with the features that are wanted.

    >>> print(render("f", [], {}).splitlines()[0])
    def f(u: Tensor, w: Tensor) -> Tensor:
    """
    found: list[str] = []
    quoted = False  # inside a docstring, where formulas stand
    for line in _lines(piece, features, words):
        if _QUOTES in line:
            quoted ^= line.count(_QUOTES) == 1
            found.append(line)
        else:
            found += [fold(line, WIDTH, " " * 8)] if quoted else fit(line)
    return "\n".join(found)


def _lines(piece: str, features: Collection[str], words: Mapping[str, str]) -> list[str]:
    found = []
    for line in _text(piece).splitlines():
        condition = _CONDITION.search(line)
        if condition is None or _holds(condition[1], features):
            line = _CONDITION.sub("", line)
            line = _CHOICE.sub(lambda m: (m[2] if m[1] in features else m[3]) or "", line)
            found.append(Template(line).substitute(words))
    return found


def _holds(condition: str, features: Collection[str]) -> bool:
    """
    >>> _holds("a not b", ["a"]), _holds("a not b", ["a", "b"])
    (True, False)
    """
    wanted = re.findall(r"(not )?(\w+)", condition)
    return all((word in features) is not bool(negated) for negated, word in wanted)


@cache
def _text(piece: str) -> str:
    folder = resources.files("ladderspec.export") / "pieces"
    return (folder / f"{piece}.txt").read_text(encoding="utf-8")


# --- lines that fit -------------------------------------------------------------------------------


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


def fold(text: str, width: int, indent: str) -> str:
    """A long sum over several lines.

    >>> print(fold("u = A * v_top + B * h [+ K * skip] + c", 16, "    "))
    u = A * v_top
        + B * h
        [+ K * skip]
        + c
    """
    lines = [""]
    for part in re.split(r" (?=\+|\[\+)", text):
        longer = f"{lines[-1]} {part}" if lines[-1] else part
        if len(longer) > width and lines[-1]:
            lines.append(indent + part)
        else:
            lines[-1] = longer
    return "\n".join(lines)
