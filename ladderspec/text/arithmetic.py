"""`$width` and `$(width * 2)`: numbers from `params`, by arithmetic alone."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from ladderspec.errors import Problem, one_of, tick

Number = int | float
Lookup = Callable[[str], Number]

PARAM_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REFERENCE = re.compile(r"\$(?:([a-z][a-z0-9_]*)|\((.*)\))", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*|//|[-+*/%()])|(?P<end>$)|(?P<other>.))",
    re.DOTALL | re.ASCII,
)
_LIMIT = 10**12
_DEEPEST = 32
_ALLOWED = "numbers, parameters and + - * / // % ** ( ) are allowed here"

_SUMS = {"+": operator.add, "-": operator.sub}
_PRODUCTS = {
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


class ArithmeticProblem(Problem, ValueError):
    """An expression that does not give a number."""


class UnknownParam(ArithmeticProblem):
    def __init__(self, name: str) -> None:
        super().__init__(f"no parameter {tick(name)}")
        self.name = name


class BrokenParam(ArithmeticProblem):
    """A parameter whose definition is wrong, which is reported there."""


# Parameters as other programs write them: `${width}`, `{{ width }}`.
FOREIGN = re.compile(r"\$\{\s*(\w+)\s*\}|\{\{\s*(\w+)\s*\}\}")


def expression(text: object) -> str | None:
    """The expression in a `$...` text, or None for any other text.

    >>> expression("$width"), expression("$(width * 2)"), expression("x$")
    ('width', 'width * 2', None)
    """
    found = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (found[1] or found[2])


def names_in(text: str) -> list[str]:
    """
    >>> names_in("width * 2 + 1e1 - depth")
    ['width', 'depth']
    """
    return [found[0].strip() for found in _TOKEN.finditer(text) if found["name"]]


def evaluate(text: str, lookup: Lookup) -> Number:
    """
    >>> evaluate("(width + 2) / 2", {"width": 30}.__getitem__)
    16
    """
    if len(text) > 200:
        raise ArithmeticProblem("an expression has at most 200 characters")
    try:
        value = _Expression(text, lookup).value()
    except ZeroDivisionError:
        raise ArithmeticProblem(f"{tick(text)} divides by zero") from None
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Expression:
    """sum = product {+- product}, product = sign {* / // % sign}, sign = {+-} power,
    power = atom [** sign], atom = number | name | ( sum )."""

    def __init__(self, text: str, lookup: Lookup) -> None:
        self.text, self.lookup, self.at = text, lookup, 0
        self.kind, self.word = "", ""
        self._next()

    def _next(self) -> str:
        """Return the current token and read the next one."""
        word, found = self.word, _TOKEN.match(self.text, self.at)
        assert found is not None
        self.kind, self.at = str(found.lastgroup), found.end()
        self.word = found[self.kind]
        return word

    def value(self) -> Number:
        value = self._sum()
        if self.kind != "end":
            raise self._unexpected()
        return value

    def _sum(self) -> Number:
        value = self._product()
        while self.word in _SUMS:
            value = _bounded(_SUMS[self._next()](value, self._product()))
        return value

    def _product(self) -> Number:
        value = self._sign()
        while self.word in _PRODUCTS:
            value = _bounded(_PRODUCTS[self._next()](value, self._sign()))
        return value

    def _sign(self) -> Number:
        if self.word in _SUMS:
            return self._sign() if self._next() == "+" else -self._sign()
        value = self._atom()
        if self.word == "**":
            self._next()
            value = _power(value, self._sign())
        return value

    def _atom(self) -> Number:
        if self.kind == "number":
            word = self._next()
            return _bounded(int(word) if word.isdigit() else float(word))
        if self.kind == "name":
            name = self._next()
            if self.word == "(":
                raise ArithmeticProblem(f"`{name}(...)` is a call", f"only {_ALLOWED}")
            return self.lookup(name)
        if self.word == "(":
            self._next()
            value = self._sum()
            if self.word != ")":
                raise self._unexpected()
            self._next()
            return value
        raise self._unexpected()

    def _unexpected(self) -> ArithmeticProblem:
        if self.kind == "end":
            return ArithmeticProblem(f"{tick(self.text)} is not complete", f"only {_ALLOWED}")
        return ArithmeticProblem(f"{tick(self.word)} is out of place", f"only {_ALLOWED}")


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > 64:
        raise ArithmeticProblem("a number too large", "powers up to 64")
    try:
        return _bounded(base**exponent)
    except OverflowError:
        raise ArithmeticProblem("a number too large", f"up to {_LIMIT:,}") from None


def _bounded(value: Any) -> Number:
    if isinstance(value, complex):
        raise ArithmeticProblem("a root of a negative number")
    if not abs(value) <= _LIMIT:
        raise ArithmeticProblem("a number too large", f"up to {_LIMIT:,}")
    return value  # type: ignore[no-any-return]


def solve(params: Mapping[str, object]) -> Lookup:
    """A lookup of parameters, which may be defined in terms of each other."""
    known: dict[str, Number] = {}
    open_names: list[str] = []
    broken: set[str] = set()

    def lookup(name: str) -> Number:
        if name in known:
            return known[name]
        if name not in params:
            raise UnknownParam(name)
        if name in open_names:
            circle = open_names[open_names.index(name) :]
            broken.update(circle)
            if len(circle) == 1:
                raise ArithmeticProblem(f"`{name}` is defined by itself")
            raise ArithmeticProblem(f"{one_of(circle, 'and')} are defined by each other")
        if name in broken:
            raise BrokenParam(f"parameter `{name}` is wrong")
        if len(open_names) == _DEEPEST:
            raise ArithmeticProblem(f"parameters defined through more than {_DEEPEST} others")
        open_names.append(name)
        try:
            known[name] = _number(name, params[name], lookup)
        except ArithmeticProblem:
            broken.add(name)
            raise
        finally:
            open_names.pop()
        return known[name]

    return lookup


def _number(name: str, value: object, lookup: Lookup) -> Number:
    text = expression(value)
    if text is not None:
        return evaluate(text, lookup)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArithmeticProblem(f"parameter {tick(name)} is not a number", _quoted(value))
    return _bounded(value)


def _quoted(value: object) -> str:
    return "without quotes" if isinstance(value, str) and value.strip().isdigit() else ""
