"""The body of a function with its arguments filled in, as text.

Branches that the arguments decide are resolved, so that a class only contains what it computes.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ladderspec.export.source import Definitions, fit

PRESENT = object()  # an argument that is a tensor


class Template(NamedTuple):
    """An argument that is called: the text of the call, with {} for what it is called with."""

    text: str


Known = Mapping[str, Any]  # by argument: PRESENT, None, a Template, a function or another constant


def inline(
    source: str, known: Known, names: Mapping[str, str], definitions: Definitions
) -> list[str]:
    """The lines of a function's body; `names` replace its arguments.

    >>> source = '''def g(a, *, w=None, mode):
    ...     y = a if mode == "max" else -a
    ...     if w is not None:
    ...         y = w * y
    ...     return y'''
    >>> inline(source, {"w": PRESENT, "mode": "max"}, {"w": "self.w"}, Definitions())
    ['y = a', 'y = self.w * y', 'return y']
    """
    while (shorter := _resolve(source, known)) != source:
        source = shorter
    source = _with_calls(source, known, definitions)
    function = _function(source)
    edits = [
        (node, names[node.id])
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
    ]
    lines = _edited(source, edits).splitlines()
    first = _statements(function)[0].lineno - 1
    body = textwrap.dedent("\n".join(_with_comments(lines, first))).splitlines()
    return [part for line in body for part in (fit(line, 92) if line else [line])]


def _with_calls(source: str, known: Known, definitions: Definitions) -> str:
    """Calls of functions that are one expression, like an activation, written out."""
    edits: list[tuple[ast.expr, str]] = []
    for node in ast.walk(_function(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = known.get(node.func.id)
            if isinstance(called, Template):
                argument = ast.get_source_segment(source, node.args[0]) or ""
                edits.append((node, called.text.format(argument)))
            if not inspect.isfunction(called):
                continue
            body = inline(definitions.method(called), {}, _given(called, node, source), definitions)
            single = len(body) == 1 and body[0].startswith("return ")
            name = "" if single else definitions.function(called)
            text = body[0].removeprefix("return ").partition("  #")[0]
            edits.append((node, text) if single else (node.func, name))
    return _edited(source, edits)


def _given(called: Any, node: ast.Call, source: str) -> dict[str, str]:
    names = inspect.signature(called).parameters
    return dict(
        zip(names, (ast.get_source_segment(source, a) or "" for a in node.args), strict=True)
    )


def _with_comments(lines: list[str], first: int) -> list[str]:
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return lines[first:]


def _function(source: str) -> ast.FunctionDef:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """The body without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _resolve(source: str, known: Known) -> str:
    """Resolve one branch that the arguments decide."""
    function = _function(source)
    for node in ast.walk(function):
        if isinstance(node, ast.If) and (holds := _decide(node.test, known)) is not None:
            return _replaced(source, node, node.body if holds else node.orelse)
        if isinstance(node, ast.IfExp) and (holds := _decide(node.test, known)) is not None:
            chosen = node.body if holds else node.orelse
            return _edited(source, [(node, ast.get_source_segment(source, chosen) or "")])
    return source


def _replaced(source: str, node: ast.If, body: list[ast.stmt]) -> str:
    """An `if` statement replaced by one of its branches; after a return, nothing follows."""
    lines = source.splitlines()
    start, end = node.lineno - 1, node.end_lineno or node.lineno
    kept: list[str] = []
    if body:
        inside = lines[body[0].lineno - 1 : body[-1].end_lineno]
        shift = body[0].col_offset - node.col_offset
        kept = [line[shift:] for line in inside]
        if isinstance(body[-1], ast.Return) and node.col_offset == 4:
            end = len(lines)
    return "\n".join([*lines[:start], *kept, *lines[end:]])


def _decide(test: ast.expr, known: Known) -> bool | None:
    """Whether a condition holds; None if the arguments do not decide it."""
    if isinstance(test, ast.BoolOp):
        values = [_decide(value, known) for value in test.values]
        if None in values:
            return None
        return any(values) if isinstance(test.op, ast.Or) else all(values)
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
        return None
    name, right = test.left.id, test.comparators[0]
    if name not in known or not isinstance(right, ast.Constant):
        return None
    value, operator = known[name], test.ops[0]
    if isinstance(operator, ast.Is | ast.IsNot) and right.value is None:
        return (value is None) is isinstance(operator, ast.Is)
    if isinstance(operator, ast.Eq) and value is not PRESENT:
        return bool(value == right.value)
    return None


def _edited(source: str, edits: Sequence[tuple[ast.expr, str]]) -> str:
    """The source with some expressions replaced by other text."""
    lines = source.splitlines()
    for node, text in sorted(edits, key=lambda edit: _place(edit[0]), reverse=True):
        row, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before = lines[row].encode()[: node.col_offset].decode()
        after = lines[end].encode()[node.end_col_offset :].decode()
        lines[row : end + 1] = (before + text + after).splitlines()
    return "\n".join(lines)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
