"""ConvGRU: a GRU whose maps are convolutions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS
from ladderspec.nn._parts import gru_update, per_channel, split_gru


class ConvGRU(Cell):
    """Encoder cell ConvGRU; every arrow drives the gates r, z and the candidate n at once.

    x = LN(W_x * e_below) + LN(W_d * d(t-1)) + b,  a = LN(W_h * h(t-1))
    r = sigmoid(x_r + a_r),  z = sigmoid(x_z + a_z),  n = tanh(x_n + r . (a_n + b_n))
    h = (1 - z) . n + z . h(t-1)

    CHOICE: `norm: joint` normalises the sum x + (a_r, a_z, 0); r scales a_n as it is.
    """

    offset = "bias"
    gates = 3
    apart = frozenset({"state"})

    state_bias: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        joint: NormKind = "none",
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        self.own("bias", (self.width,), ZEROS)
        self.own("state_bias", (self.width // 3,), ZEROS)

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        gates, x_n = split_gru(self.total(drives))
        h = a_n = None
        if "state" in drives and previous:
            h = previous["h"]
            a_gates, a_n = split_gru(drives["state"])
            gates = gates + a_gates
        if self.joint is not None:
            gates, x_n = split_gru(self.normalise(torch.cat([gates, x_n], dim=1), when))
        return gru_update(gates, x_n, a_n, h, per_channel(self.state_bias, x_n)), {}
