"""What one iteration hands to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Carry(NamedTuple):
    """Everything that the next iteration remembers: plain tensors by name, newest value first.

    `values["encoder.lstm1"]` are the last outputs of that node, as many as the largest delay that
    leaves it; `values["encoder.lstm1.c"]` what its cell remembers besides. `t` counts the
    iterations so far; a tensor (B,) where sequences of unequal length ended at different t.
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
