"""Mistakes in the arguments of modules, refused with their names and values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ladderspec.cells._arrows import strided
from ladderspec.errors import did_you_mean, one_of
from ladderspec.names import Shape, show_shape, size_of

Pair = tuple[int, int]


def check_word(what: str, word: Any, known: Collection[str]) -> None:
    """
    >>> check_word("activation", "rleu", ["relu", "tanh"])
    Traceback (most recent call last):
    ValueError: there is no activation 'rleu': did you mean `relu`?
    """
    if word not in known:
        hint = did_you_mean(str(word), list(known)) or f"it is {one_of(list(known))}"
        raise ValueError(f"there is no {what} {word!r}: {hint}")


def pair(what: str, value: Any) -> Pair:
    """One number stands for two alike.

    >>> pair("filter", 3), pair("filter", (1, 3))
    ((3, 3), (1, 3))
    """
    sizes = (value, value) if isinstance(value, int) else value
    whole = isinstance(sizes, tuple | list) and all(type(n) is int and n > 0 for n in sizes)
    if not whole or len(sizes) != 2:
        raise ValueError(f"`{what}` is one whole number or two, height and width, not {value!r}")
    return (sizes[0], sizes[1])


def check_shape(what: str, shape: Any) -> None:
    whole = isinstance(shape, tuple | list) and all(type(n) is int and n > 0 for n in shape)
    if not whole or len(shape) not in (1, 3):
        raise ValueError(f"`{what}` is a shape, (units,) or (channels, height, width), not {shape}")


def check_sizes(kind: str, source: Shape, target: Shape, stride: Pair) -> None:
    """An arrow leads where its stride does."""
    check_shape("source", source)
    check_shape("target", target)
    if kind not in ("conv", "transposed"):
        return
    if len(source) != 3 or len(target) != 3:
        way = f"{show_shape(source)} to {show_shape(target)}"
        raise ValueError(f"a {kind} arrow leads from maps to maps, not from {way}")
    fine, coarse = (source, target) if kind == "conv" else (target, source)
    found = strided(fine, stride)
    if coarse[1:] != found:
        inverse = "" if kind == "conv" else "the inverse of "
        raise ValueError(
            f"a {kind} arrow from {show_shape(source)} to {show_shape(target)} cannot have stride"
            f" {stride}: it is {inverse}{show_shape(fine[1:])} to {show_shape(found)}"
        )


def check_targets(who: str, targets: Mapping[str, Shape]) -> None:
    """Drives of one sum have one shape."""
    (first, wanted), *others = targets.items()
    for key, target in others:
        if target != wanted:
            raise ValueError(
                f"{who} sums what its arrows bring, but `{key}` leads to {show_shape(target)}"
                f" and `{first}` to {show_shape(wanted)}"
            )


def check_gates(who: str, gates: int, target: Shape, state: Shape | None) -> None:
    """A sum of several gates has so many times the channels of the output, and of the state."""
    if target[0] % gates:
        raise ValueError(f"{who} has {gates} gates: {target[0]} channels cannot be shared by them")
    out = (target[0] // gates, *target[1:])
    if state is not None and state != out:
        raise ValueError(
            f"{who} gives {show_shape(out)}, as each of the {gates} gates that its arrows drive;"
            f" so `state` comes from {show_shape(out)}, not from {show_shape(state)}"
        )


def check_units(who: str, units: int, out: Shape) -> None:
    """Dense arrows lead to all units of the output, whatever its shape."""
    if units != size_of(out):
        raise ValueError(
            f"{who} gives {show_shape(out)}, {size_of(out)} units, but its arrows lead to {units}"
        )


def check_gate(who: str, lateral: Shape, out: Shape) -> None:
    """What a gate mixes has one shape."""
    if lateral != out:
        raise ValueError(
            f"{who} mixes its `lateral` into its output, but that is {show_shape(lateral)}"
            f" and its output {show_shape(out)}"
        )
