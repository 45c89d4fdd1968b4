"""`$width` and `$(width * 2)`: numbers from `params`, with arithmetic and nothing else."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Number = int | float

PARAM_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REFERENCE = re.compile(r"\$(?:([a-z][a-z0-9_]*)|\((.*)\))", re.DOTALL)
_LIMIT = 10**12

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


class ArithmeticProblem(ValueError):
    """An expression that is no number."""


class UnknownParam(ArithmeticProblem):
    def __init__(self, name: str) -> None:
        super().__init__(f"no parameter `{name}`")
        self.name = name


def expression(text: object) -> str | None:
    """The expression in a `$...` text, or None where the text is just a text.

    >>> expression("$width"), expression("$(width * 2)"), expression("x$")
    ('width', 'width * 2', None)
    """
    found = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (found[1] or found[2])


def evaluate(text: str, lookup: Callable[[str], Number]) -> Number:
    """
    >>> evaluate("(width + 2) / 2", {"width": 30}.__getitem__)
    16
    """
    if len(text) > 200:
        raise ArithmeticProblem("an expression has at most 200 characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _value(tree.body, lookup)
    except (SyntaxError, MemoryError, RecursionError):
        raise ArithmeticProblem(f"`{text}` is no arithmetic") from None
    except ZeroDivisionError:
        raise ArithmeticProblem(f"`{text}` divides by zero") from None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _value(node: ast.expr, lookup: Callable[[str], Number]) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)
    if isinstance(node, ast.Name):
        return lookup(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, lookup), _value(node.right, lookup)
        if isinstance(node.op, ast.Pow) and (abs(right) > 64 or abs(left) > _LIMIT):
            raise ArithmeticProblem("a power too large")
        return _bounded(_BINARY[type(node.op)](left, right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, lookup))
    raise ArithmeticProblem("only numbers, parameters and + - * / // % ** ( ) can stand here")


def _bounded(value: Any) -> Number:
    if not isinstance(value, int | float) or not abs(value) <= _LIMIT:
        raise ArithmeticProblem("a number too large")
    return value


def solve(params: Mapping[str, object]) -> Callable[[str], Number]:
    """A look-up of parameters, which may be written in terms of each other."""
    known: dict[str, Number] = {}
    open_names: list[str] = []

    def lookup(name: str) -> Number:
        if name in known:
            return known[name]
        if name not in params:
            raise UnknownParam(name)
        if name in open_names:
            raise ArithmeticProblem(f"`{name}` is defined by itself")
        value = params[name]
        text = expression(value)
        if text is not None:
            open_names.append(name)
            value = evaluate(text, lookup)
            open_names.pop()
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArithmeticProblem(f"parameter `{name}` is no number")
        known[name] = value
        return value

    return lookup
