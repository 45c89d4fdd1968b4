"""What a drawing can be asked for, and whether it was asked for in the right words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypedDict

from ladderspec.drawing.labels import USUAL, labels_of
from ladderspec.drawing.sizes import points_of
from ladderspec.drawing.view import View, check
from ladderspec.errors import UsageError, did_you_mean, one_of

LAYOUTS = ("ladder", "dot")


class Options(TypedDict, total=False):
    """What every drawing can be asked for."""

    view: str  # unrolled (default), rolled or mini
    iterations: int | None  # side by side when unrolled; two, or one where nothing is delayed
    fold: bool  # rows that are truly identical as one
    base: Any  # a spec or graph: show what was removed from it and added to it
    plan: bool | Mapping[str, str]  # shade what runs once and what loops; or node: once, loop, ...
    labels: str | Iterable[str]  # cell, shape, params, name; or none
    levels: str  # names, numbers or none
    theme: str  # paper, mono, safe or dark
    title: str | None  # default: that of a variant, where `base` is given
    legend: bool | None  # default: except in mini
    plates: Mapping[str, Sequence[str]] | None  # {"K": ["lstm1", "conv_*"]}: frames around levels
    start: bool  # the first iteration shown is the first of all: draw initial values
    width: str | float | None  # at most, on paper, like "8.5cm": less air, so words stay large
    worth: Mapping[str, float] | None  # by selector: arrows as thick as their worth
    worth_of: str  # what that is, for the legend: "rise of the error without it, %"
    layout: str  # ladder; or dot, where Graphviz chooses the places


_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("view", "levels", "theme", "worth_of", "layout"), ((str,), "a word")),
    **dict.fromkeys(("fold", "start"), ((bool,), "True or False")),
    "title": ((str,), "a text"),
    "legend": ((bool,), "True or False"),
    "iterations": ((Integral,), "a whole number"),
    "plan": ((bool, Mapping), "True, False or {node: phase}"),
    "labels": ((str, Iterable), "words"),
    "plates": ((Mapping,), "{label: levels}"),
    "worth": ((Mapping,), "{selector: number}"),
}
_OPTIONAL = ("title", "legend", "iterations", "plates", "worth")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what nobody knows, and what is of another kind."""
    known = list(Options.__annotations__)
    for name, value in options.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {one_of(known)}"
            raise UsageError(f"no option `{name}`: {hint}")
        types, words = _TYPES.get(name, ((object,), ""))
        if value is None and name in _OPTIONAL:
            continue
        counts = bool in types or not isinstance(value, bool)
        if not isinstance(value, types) or not counts:
            raise UsageError(f"{name}: {value!r} is not {words}")
    for label, levels in (options.get("plates") or {}).items():
        if isinstance(levels, str) or not isinstance(levels, Iterable):
            raise UsageError(f"plate `{label}`: {levels!r} is no list of levels")
    layout = options.get("layout", "ladder")
    if layout not in LAYOUTS:
        hint = did_you_mean(layout, LAYOUTS) or f"there are {one_of(LAYOUTS)}"
        raise UsageError(f"no layout `{layout}`: {hint}")


def view_of(options: Options) -> View:
    view = View(
        kind=options.get("view", "unrolled"),
        iterations=options.get("iterations"),
        fold=options.get("fold", False),
        labels=labels_of(options.get("labels", USUAL)),
        levels=options.get("levels", "names"),
        theme=options.get("theme", "paper"),
        title=options.get("title"),
        legend=options.get("legend"),
        plates=options.get("plates"),
        start=options.get("start", False),
        width=points_of(options.get("width")),
        worth_of=options.get("worth_of", "worth"),
    )
    check(view)
    return view
