"""The groups of a network, folded into the batch while it runs: index b K + k.

What users see carries the axis: outputs and values (B, T, K, ...), carries (B, K, ...). An input
belongs to all groups and has no such axis.
"""

from __future__ import annotations

from torch import Tensor

from ladderspec.names import is_input
from ladderspec.network.carry import Carry


def fold(value: Tensor, count: int | None) -> Tensor:
    """(B, ...) -> (B K, ...): the same value for all groups."""
    return value if count is None else value.repeat_interleave(count, 0)


def unfold(value: Tensor, count: int | None, axis: int = 0) -> Tensor:
    """(..., B K, ...) -> (..., B, K, ...)"""
    if count is None:
        return value
    shape = value.shape
    return value.view(*shape[:axis], shape[axis] // count, count, *shape[axis + 1 :])


def fold_ends(ends: tuple[int, ...] | None, count: int | None) -> tuple[int, ...] | None:
    """The end of every sequence, for each of its groups."""
    if ends is None or count is None:
        return ends
    return tuple(end for end in ends for _ in range(count))


def fold_carry(carry: Carry | None, count: int | None) -> Carry | None:
    """A carry (B, K, ...) as the executor reads it."""
    if carry is None or count is None:
        return carry
    values = {
        name: tuple(fold(v, count) if is_input(name) else v.flatten(0, 1) for v in kept)
        for name, kept in carry.values.items()
    }
    timed = isinstance(carry.t, Tensor) and carry.t.dim() > 0
    return Carry(fold(carry.t, count) if timed else carry.t, values)  # type: ignore[arg-type]


def unfold_carry(carry: Carry, count: int | None) -> Carry:
    """A carry of the executor as users see it, (B, K, ...)."""
    if count is None:
        return carry
    values = {
        name: tuple(v[::count] if is_input(name) else unfold(v, count) for v in kept)
        for name, kept in carry.values.items()
    }
    timed = isinstance(carry.t, Tensor) and carry.t.dim() > 0
    return Carry(carry.t[::count] if timed else carry.t, values)  # type: ignore[index]
