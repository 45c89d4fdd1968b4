"""Templates of definitions: Python with conditions, in `pieces/`.

A line that ends in `#: a not b` stays where feature a is wanted and b is not; `{{a?x?y}}` is x where a
is wanted, else y; `$word` is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from string import Template

from ladderspec.export.code import fit

_CONDITION = re.compile(r"  #: ([\w ]+)$")
_CHOICE = re.compile(r"\{\{(\w+)\?([^?{}]*)(?:\?([^?{}]*))?\}\}")


def render(piece: str, features: Collection[str], words: Mapping[str, str]) -> str:
    """The text of a definition with the features that are wanted.

    >>> print(render("f", [], {}).splitlines()[0])
    def f(u: Tensor, w: Tensor) -> Tensor:
    """
    lines: list[str] = []
    for line in _text(piece).splitlines():
        condition = _CONDITION.search(line)
        if condition is None or _holds(condition[1], features):
            line = _CONDITION.sub("", line)
            line = _CHOICE.sub(lambda m: (m[2] if m[1] in features else m[3]) or "", line)
            for part in Template(line).substitute(words).split("\n"):
                lines += fit(part)
    return "\n".join(lines)


def _holds(condition: str, features: Collection[str]) -> bool:
    """
    >>> _holds("a not b", ["a"]), _holds("a not b", ["a", "b"])
    (True, False)
    """
    wanted = True
    for word in condition.split():
        if word == "not":
            wanted = False
            continue
        if (word in features) is not wanted:
            return False
        wanted = True
    return True


@cache
def _text(piece: str) -> str:
    folder = resources.files("ladderspec.export") / "pieces"
    return (folder / f"{piece}.txt").read_text(encoding="utf-8")
