"""convG3: a gate between two maps of one hidden layer [app:cells]."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ladderspec.names import size_of
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import pair
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS, Normal, read_out
from ladderspec.nn._parts import Pair, convolve, gate


class ConvG3(Cell):
    """Decoder cell convG3.

    u = relu(LN(A * v_top) + LN(B * h) + c)
    s = sigmoid(W_s * u)
    y = s . (D * u) + (1 - s) . (E * u)
    """

    offset = "c"

    W_s: Tensor
    D: Tensor
    E: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        channels: int,
        inner_filter: Pair | int = (1, 1),
        joint: NormKind = "none",
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        self.own("c", (self.width,), ZEROS)
        inner = pair("inner_filter", inner_filter)
        shape, fan_in = (channels, self.width, *inner), self.width * size_of(inner)
        # CHOICE: variance 1 / fan_in; relu halves that of u, but u sums two normalised drives.
        self.own("W_s", shape, Normal(1 / fan_in))
        self.own("D", shape, read_out(fan_in))
        self.own("E", shape, read_out(fan_in))

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        u = torch.relu_(self.gather(drives, when))
        maps = convolve(u, torch.cat([self.W_s, self.D, self.E]))  # one convolution for the three
        return gate(maps), {}
