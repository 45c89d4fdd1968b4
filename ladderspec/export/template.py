"""Templates of definitions: Python with conditions, in `pieces/`.

A line that ends in `#: a not b` stays where feature a is wanted and b is not; `{{a?x?y}}` is x
where a is wanted, else y; `$word` is filled in. Lines that come out too long are broken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from string import Template

from ladderspec.export.code import WIDTH, fit
from ladderspec.export.formulas import fold

_CONDITION = re.compile(r"  #: ([\w ]+)$")
_CHOICE = re.compile(r"\{\{(\w+)\?([^?{}]*)(?:\?([^?{}]*))?\}\}")
_QUOTES = '"""'


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
