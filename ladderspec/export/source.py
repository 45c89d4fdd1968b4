"""The source of the functions that run, as an exported file contains it."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladderspec.cells import functions
from ladderspec.errors import UsageError

WIDTH = 100
IMPORTS = {  # what a file may import, by the name that it gives
    "torch": "import torch",
    "Tensor": "from torch import Tensor",
    "nn": "from torch import nn",
    "functional": "from torch.nn import functional",
    "Callable": "from collections.abc import Callable",
    "deque": "from collections import deque",
    "pairwise": "from itertools import pairwise",
    "prod": "from math import prod",
}
TYPES = {  # names in annotations
    "Pair": "Pair = tuple[int, int]  # height and width",
    "Shape": "Shape = tuple[int, ...]  # without the batch",
}


def _definitions(path: Path) -> dict[str, str]:
    """The functions and classes of a file, by name."""
    text = path.read_text(encoding="utf-8")
    parts = [
        part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef | ast.ClassDef)
    ]
    return {part.name: ast.get_source_segment(text, part) or "" for part in parts}


REFERENCE = _definitions(Path(__file__).with_name("reference.py"))  # read, not imported: no torch


@dataclass
class Definitions:
    """What the file defines besides the network: constants and functions by name, in order."""

    owner: str = ""  # whose source is read, for messages
    texts: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)  # of functions, by name

    def function(self, function: Callable[..., Any], name: str = "") -> str:
        """Define a function, and all that it uses; under another `name`, if given."""
        name = name or function.__name__
        if name not in self.texts:
            self.texts[name] = ""  # a function may use itself
            text = self.method(function)
            del self.texts[name]
            self.texts[name] = text.replace(f"def {function.__name__}(", f"def {name}(", 1)
        return name

    def reference(self, name: str) -> str:
        """Define a function or class of `ladderspec.export.reference`, and all that it uses."""
        if name not in self.texts:
            self.texts[name] = REFERENCE[name]
            for used in names_in(ast.parse(REFERENCE[name])):
                if used in REFERENCE:
                    self.reference(used)
                elif used in vars(functions):
                    self.function(getattr(functions, used))
        return name

    def method(self, function: Callable[..., Any]) -> str:
        """The source of a function without its decorators, imports and examples."""
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            raise UsageError(
                f"cannot export {self.owner}: `{function.__qualname__}` has no source to read"
            ) from None
        lines, tree = source.splitlines(), ast.parse(source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise UsageError(
                f"cannot export {self.owner}: `{function.__qualname__}` is no plain function"
            )
        dropped = set(range(tree.lineno - 1))  # decorators
        tree.decorator_list = []
        inside: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                dropped |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
                inside |= {alias.asname or alias.name for alias in node.names}
                self._import(node)
        if (example := _example(tree, lines)) is not None:
            dropped |= set(example)
        self._define(function, names_in(tree) - inside - {"self"})
        return _without(lines, dropped)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = node.module if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = alias.asname or alias.name
            root = (module or alias.name).split(".")[0]
            if name not in IMPORTS and root != "torch" and root in _ours():
                raise UsageError(
                    f"cannot export {self.owner}: its source imports `{module or alias.name}`"
                )
            single = ast.ImportFrom(module, [alias], 0) if module else ast.Import([alias])
            self.imports[name] = IMPORTS.get(name, ast.unparse(single))

    def _define(self, function: Callable[..., Any], names: set[str]) -> None:
        """Define what a function uses from outside itself."""
        outside = getattr(function, "__globals__", {})
        for name in sorted(names - set(dir(builtins)) - set(self.texts)):
            value = outside.get(name)
            if name in IMPORTS or name in TYPES:
                continue  # added at the end, if it is still used
            if inspect.isfunction(value) and _may_be_read(value, function):
                self.function(value)
            elif isinstance(value, int | float | str | tuple | bool):
                self.texts[name] = f"{name} = {value!r}"
            else:
                raise UsageError(
                    f"cannot export {self.owner}: `{function.__qualname__}` uses `{name}`, which is"
                    " neither a function nor a number, text or tuple of its file; import modules"
                    " inside of it"
                )


def _ours() -> set[str]:
    return {"ladderspec", "pydantic", "networkx"}


def _may_be_read(value: Any, user: Callable[..., Any]) -> bool:
    """Functions of the same file, and those that cells share."""
    return value.__module__ in (user.__module__, "ladderspec.cells.functions")


def names_in(tree: ast.AST) -> set[str]:
    """The names that a piece of Python reads from outside itself.

    >>> sorted(names_in(ast.parse("def g(x):\\n    i = f(x)\\n    return i")))
    ['f']
    """
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return {name.id for name in names} - stored


def _example(tree: ast.FunctionDef, lines: list[str]) -> range | None:
    """The lines of a docstring from its arguments or first example on, but for the last."""
    if ast.get_docstring(tree) is None:
        return None
    doc = tree.body[0]
    for at in range(doc.lineno - 1, (doc.end_lineno or doc.lineno) - 1):
        if lines[at].lstrip().startswith((">>>", "Args:")):
            return range(at, (doc.end_lineno or doc.lineno) - 1)
    return None


def _without(lines: list[str], dropped: set[int]) -> str:
    """The other lines; blank lines that follow a dropped line go too, a short docstring closes."""
    found: list[str] = []
    for at, line in enumerate(lines):
        blank_after = not line.strip() and (not found or at - 1 in dropped)
        if at not in dropped and not blank_after:
            found.append(line)
    text = "\n".join(found)
    head, quotes, rest = text.partition('"""')
    doc, closing, body = rest.partition('"""')
    if not quotes or not closing or "\n" in doc.strip():
        return text
    return f'{head}"""{doc.strip()}"""{body}'


# --- lines that fit -------------------------------------------------------------------------------

_PAIRS = {"(": ")", "[": "]", "{": "}"}


def fit(line: str, width: int = WIDTH) -> list[str]:
    """A line as it is, or with one argument per line if it is too long.

    The comma after the last argument keeps formatters of any width from joining them again.

    >>> arguments = ", ".join(f"edge_{k}=Map(1)" for k in range(2))
    >>> print("\\n".join(fit(f"    wide = Conv({arguments})", 40)))
        wide = Conv(
            edge_0=Map(1),
            edge_1=Map(1),
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
    found, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(text):
        quoted ^= character == '"'
        if quoted:
            continue
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
    found, start, quoted = [], 0, False
    for at, character in enumerate(text):
        quoted ^= character == '"'
        if character == "," and not quoted and not any(at in span for span in inside):
            found.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*found, text[start:].strip()] if part]
