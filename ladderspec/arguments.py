"""Arguments of public functions, checked against their annotations before anything is done."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from ladderspec.errors import UsageError, one_of

P = ParamSpec("P")
R = TypeVar("R")

# How annotations are called in messages, one and several.
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a text", "texts"),
    Path: ("a path", "paths"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "True or False"),
    Mapping: ("a mapping", "mappings"),
    Callable: ("a function", "functions"),
    type: ("a class", "classes"),
}


class ArgumentError(UsageError, TypeError):
    """An argument of another type than a function takes."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of other types than the annotations of a function say. A decorator."""
    signature = inspect.signature(function)

    @cache
    def hints() -> dict[str, Any]:
        annotated = {
            name: parameter.annotation
            for name, parameter in signature.parameters.items()
            if parameter.annotation is not parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
        }
        return get_type_hints(SimpleNamespace(__annotations__=annotated), function.__globals__)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:
            bound = {}  # Python says what is missing
        for name, hint in hints().items():
            if name in bound:
                check_type(name, bound[name], hint)
        return function(*args, **kwargs)

    return call


def check_type(name: str, value: object, hint: Any) -> None:
    """Raise ArgumentError if a value is not of the type of an annotation.

    >>> check_type("seed", True, int)
    Traceback (most recent call last):
    ...
    ladderspec.arguments.ArgumentError: seed: True is not a whole number
    """
    if not fits(value, hint):
        text = repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise ArgumentError(f"{name}: {shown} is not {describe(hint)}")


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of the type of an annotation.

    A text is no list of texts, and True is no number; numbers may be those of NumPy.

    >>> fits("a", str | Sequence[str]), fits("a", Sequence[str]), fits([1], Sequence[str])
    (True, False, False)
    """
    kind, inner = _kind(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if kind in (Sequence, Iterable):
        if isinstance(value, str | bytes) or not isinstance(value, kind):
            return False
        return not isinstance(value, Collection) or all(fits(each, inner[0]) for each in value)
    if kind is Path:
        return isinstance(value, PathLike)
    return kind is Any or isinstance(value, kind)


def _kind(hint: Any) -> Any:
    """`Sequence` of `Sequence[str]`, `type` of a variable with the bound `type[Cell]`."""
    bound = hint.__bound__ if isinstance(hint, TypeVar) else hint
    return get_origin(bound) or bound


def describe(hint: Any, several: bool = False) -> str:
    """An annotation in words.

    >>> describe(str | Path), describe(int | Iterable[int] | None), describe(Literal["a", "b"])
    ('a path', 'a whole number or a list of whole numbers', '`a` or `b`')
    """
    kind, inner = _kind(hint), get_args(hint)
    if kind is Literal:
        return one_of(sorted(map(str, inner)))  # equal ones may have another order
    if kind in (Union, UnionType):
        meant = [each for each in inner if each is not NoneType]
        meant = [each for each in meant if each is not str or Path not in meant]
        parts = [describe(each, several) for each in meant]
        return " or ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    if kind in (Sequence, Iterable):
        return "a list" + (f" of {describe(inner[0], True)}" if inner[0] is not Any else "")
    name = getattr(kind, "__name__", str(kind))
    article = "an" if name[0] in "AEIOU" else "a"
    return _WORDS.get(kind, (f"{article} {name}", f"{name}s"))[several]
