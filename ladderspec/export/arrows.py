"""Projection -> use: what an arrow does on its way into a cell."""

from __future__ import annotations

from collections.abc import Callable

from ladderspec.cells import Projection
from ladderspec.export.uses import Facts, Use
from ladderspec.names import size_of

Words = tuple[tuple[str, ...], set[str]]  # arguments, and what the class must be able to do


def arrow_use(projection: Projection, norm: frozenset[str], facts: Facts) -> Use | None:
    """The module on an arrow; None where it brings its value as it is."""
    if projection.kind == "none":
        return None
    piece, words = _MAPS[projection.kind]
    arguments, asks = words(projection, facts)
    if projection.groups > 1 and "layer" in norm:
        arguments = (*arguments, f"branches={projection.groups}")
        asks.add("branched")
    return Use(piece, arguments, norm, frozenset(asks))


def _dense(projection: Projection, facts: Facts) -> Words:
    arguments = (str(size_of(projection.source)), *map(str, projection.target))
    return arguments, {"map"} if len(projection.target) > 1 else set()


def _conv(projection: Projection, facts: Facts) -> Words:
    arguments, asks = _filter(projection, facts), set[str]()
    if projection.stride != (1, 1):
        arguments = (*arguments, f"stride={facts.size(projection.stride)}")
        asks.add("strided")
    if any(k % 2 == 0 for k in projection.filter):
        asks.add("even")
    return arguments, asks


def _transposed(projection: Projection, facts: Facts) -> Words:
    """It gives maps of one size by itself; to another, it is padded or cropped."""
    arguments = (*_filter(projection, facts), facts.size(projection.stride))
    asks = set[str]()
    sizes = zip(
        projection.source[1:],
        projection.target[1:],
        projection.filter,
        projection.stride,
        strict=True,
    )
    missing = [m - ((n - 1) * s + k - 2 * ((k - 1) // 2)) for n, m, k, s in sizes]
    if max(missing) > 0:
        arguments = (*arguments, f"output_padding={tuple(max(n, 0) for n in missing)}")
        asks.add("beyond")
    if min(missing) < 0:
        arguments = (*arguments, f"size={projection.target[1:]}")
        asks.add("cropped")
    return arguments, asks


def _filter(projection: Projection, facts: Facts) -> tuple[str, ...]:
    channels = projection.source[0], projection.target[0]
    return (*map(str, channels), facts.size(projection.filter))


_MAPS: dict[str, tuple[str, Callable[[Projection, Facts], Words]]] = {
    "dense": ("dense_arrow", _dense),
    "conv": ("conv_arrow", _conv),
    "transposed": ("up_arrow", _transposed),
}
