"""What one iteration hands to the next."""

from __future__ import annotations

from typing import NamedTuple

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
