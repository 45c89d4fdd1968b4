"""convG3: a gate between two maps of one hidden layer [app:cells]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ladderspec.names import size_of
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS, Normal
from ladderspec.nn._parts import Pair, convolve


class ConvG3(Cell):
    """Decoder cell convG3.

    u = relu(LN(A * v_top) + LN(B * h) + c)
    s = sigmoid(W_s * u)
    y = s . (D * u) + (1 - s) . (E * u)
    """

    offset: ClassVar = "c"

    W_s: Tensor
    D: Tensor
    E: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        channels: int,
        inner_filter: Pair = (1, 1),
        joint: NormKind = "none",
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        self.own("c", (self.width,), ZEROS)
        # CHOICE: variance 1 / fan_in; relu halves that of u, but u sums two normalised drives.
        start = Normal(1 / (self.width * size_of(inner_filter)))
        for name in ("W_s", "D", "E"):
            self.own(name, (channels, self.width, *inner_filter), start)

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        u = torch.relu(self.gather(drives, when))
        maps = convolve(u, torch.cat([self.W_s, self.D, self.E]))  # one convolution for the three
        s, D_u, E_u = maps.chunk(3, dim=1)
        return torch.lerp(E_u, D_u, torch.sigmoid(s)), {}
