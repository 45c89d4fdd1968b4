"""What one iteration hands to the next, and the groups that are folded into the batch.

Sample b of group k has the index b K + k while the network runs. What users see has an axis of
groups: outputs and values (B, T, K, ...), carries (B, K, ...). An input belongs to all groups and
has no such axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ladderspec.names import is_input


class Carry(NamedTuple):
    """Everything that the next iteration remembers: plain tensors by name, newest value first.

    `values["encoder.lstm1"]` are the last outputs of that node, as many as the largest delay that
    leaves it; `values["encoder.lstm1.c"]` what its cell remembers besides. `t` counts the
    iterations so far; a tensor (B,) if sequences of unequal length ended at different t.
    """

    t: int | Tensor
    values: dict[str, tuple[Tensor, ...]]

    def detach(self) -> Carry:
        """Cut the gradient here: truncated back-propagation through time."""
        cut = {name: tuple(value.detach() for value in kept) for name, kept in self.values.items()}
        return Carry(self.t, cut)

    def to(self, *where: torch.device | torch.dtype | str) -> Carry:
        """On another device, in another type, or both; `t` only moves."""
        moved = {
            name: tuple(_to(value, where) for value in kept) for name, kept in self.values.items()
        }
        places = [each for each in where if not isinstance(each, torch.dtype)]
        return Carry(_to(self.t, places) if isinstance(self.t, Tensor) else self.t, moved)


def _to(value: Tensor, where: Sequence[torch.device | torch.dtype | str]) -> Tensor:
    for each in where:
        value = value.to(each)
    return value


# --- groups ---------------------------------------------------------------------------------------


def fold(value: Tensor, groups: int | None) -> Tensor:
    """(B, ...) -> (B K, ...): the same value for all groups."""
    return value if groups is None else value.repeat_interleave(groups, 0)


def unfold(value: Tensor, groups: int | None, axis: int = 0) -> Tensor:
    """(..., B K, ...) -> (..., B, K, ...)"""
    if groups is None:
        return value
    shape = value.shape
    return value.view(*shape[:axis], shape[axis] // groups, groups, *shape[axis + 1 :])


def fold_carry(carry: Carry | None, groups: int | None) -> Carry | None:
    """A carry (B, K, ...) as the executor reads it."""
    if carry is None or groups is None:
        return carry
    values = {
        name: tuple(fold(v, groups) if is_input(name) else v.flatten(0, 1) for v in kept)
        for name, kept in carry.values.items()
    }
    t = fold(carry.t, groups) if isinstance(carry.t, Tensor) and carry.t.dim() else carry.t
    return Carry(t, values)


def unfold_carry(carry: Carry, groups: int | None) -> Carry:
    """A carry of the executor as users see it, (B, K, ...)."""
    if groups is None:
        return carry
    values = {
        name: tuple(v[::groups] if is_input(name) else unfold(v, groups) for v in kept)
        for name, kept in carry.values.items()
    }
    t = carry.t[::groups] if isinstance(carry.t, Tensor) and carry.t.dim() else carry.t
    return Carry(t, values)
