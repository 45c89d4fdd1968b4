"""The values of a network over time: while it runs, and what one iteration hands to the next.

Groups are folded into the batch: sample b of group k has the index b K + k while the network runs.
What users see has an axis of groups: outputs and values (B, T, K, ...), carries (B, K, ...). An
input belongs to all groups and has no such axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ladderspec.names import Shape, is_input

Row = list[Tensor | None]


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
        return self.mapped(lambda _, value: value.detach(), self.t)

    def to(self, *where: torch.device | torch.dtype | str) -> Carry:
        """On another device, in another type, or both; `t` only moves."""
        places = [each for each in where if not isinstance(each, torch.dtype)]
        t = _to(self.t, places) if isinstance(self.t, Tensor) else self.t
        return self.mapped(lambda _, value: _to(value, where), t)

    def mapped(self, change: Callable[[str, Tensor], Tensor], t: int | Tensor) -> Carry:
        """Another carry: `change` of every name and value, after `t` iterations."""
        values = {
            name: tuple(change(name, value) for value in kept) for name, kept in self.values.items()
        }
        return Carry(t, values)


def _to(value: Tensor, where: Sequence[torch.device | torch.dtype | str]) -> Tensor:
    for each in where:
        value = value.to(each)
    return value


class Slot(NamedTuple):
    """One series of values: the output of a node, or a further value of its cell."""

    shape: Shape
    depth: int  # how many of its last values the next iteration reads


class History:
    """One row of values per slot: first the past (`lead` values), then t = 0, 1, ...

    None is a value that does not exist: from before the first t, not needed, or dropped. Values
    have the batch size, type and device of the tensor `like`.
    """

    def __init__(self, slots: Mapping[str, Slot], length: int, like: Tensor) -> None:
        self.slots, self.length, self.like = slots, length, like
        self.lead = max([0, *(slot.depth for slot in slots.values())])
        self.rows: dict[str, Row] = {name: [None] * (self.lead + length) for name in slots}

    def begin(self, initial: Mapping[str, Tensor], carry: Carry | None) -> None:
        """Fill the past: what was carried, else initial values that are not zero."""
        for name, slot in self.slots.items():
            if slot.depth and carry is not None:
                self.rows[name][self.lead - slot.depth : self.lead] = reversed(carry.values[name])
            elif slot.depth and name in initial:
                self.rows[name][: self.lead] = [initial[name]] * self.lead

    def zeros(self, name: str) -> Tensor:
        return self.like.new_zeros(self.like.shape[0], *self.slots[name].shape)

    def at(self, name: str, t: int) -> Tensor | None:
        return self.rows[name][self.lead + t]

    def series(self, name: str, times: list[int]) -> Tensor:
        """The values of some iterations, (n, B, ...)."""
        values = [value for t in times if (value := self.at(name, t)) is not None]
        if len(values) < len(times):
            raise RuntimeError(f"not all values of {name} were kept")
        return torch.stack(values)

    def carry(self, start: int | Tensor = 0, ends: tuple[int, ...] | None = None) -> Carry:
        """The carry for the next iteration, after a call that began after `start` iterations."""
        values = {
            name: tuple(self._last(name, age, ends) for age in range(1, slot.depth + 1))
            for name, slot in self.slots.items()
            if slot.depth
        }
        steps = self.length if ends is None else torch.tensor(ends, device=self.like.device)
        return Carry(start + steps, values)

    def _last(self, name: str, age: int, ends: tuple[int, ...] | None) -> Tensor:
        """The last value (age 1) or an earlier one; by sequence if these have their own ends."""
        if ends is None:
            value = self.at(name, self.length - age)
            return self.zeros(name) if value is None else value
        values = {end: self.at(name, end - age) for end in set(ends)}
        whole = {end: self.zeros(name) if v is None else v for end, v in values.items()}
        return torch.stack([whole[end][b] for b, end in enumerate(ends)])


def channels_last(value: Tensor) -> Tensor:
    """Maps in the memory format in which all cells pass them on."""
    if value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value.contiguous()


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
    t = fold(carry.t, groups) if isinstance(carry.t, Tensor) and carry.t.dim() else carry.t
    return carry.mapped(lambda name, v: fold(v, groups) if is_input(name) else v.flatten(0, 1), t)


def unfold_carry(carry: Carry, groups: int | None) -> Carry:
    """A carry of the executor as users see it, (B, K, ...)."""
    if groups is None:
        return carry
    t = carry.t[::groups] if isinstance(carry.t, Tensor) and carry.t.dim() else carry.t
    return carry.mapped(lambda name, v: v[::groups] if is_input(name) else unfold(v, groups), t)
