"""GRU: the dense cell."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS
from ladderspec.nn._parts import gru_update, split_gru


class GRU(Cell):
    """Encoder cell GRU; every arrow drives the gates r, z and the candidate n at once.

    x = W_x e_below + W_d d(t-1) + b,  a = W_h h(t-1)
    r = sigmoid(x_r + a_r),  z = sigmoid(x_z + a_z),  n = tanh(x_n + r . (a_n + b_n))
    h = (1 - z) . n + z . h(t-1)

    CHOICE: `norm: joint` normalises the sum x + (a_r, a_z, 0); r scales a_n as it is.
    """

    offset = "bias"
    gates = 3
    apart = frozenset({"state"})

    bias: Tensor
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
        return gru_update(gates, x_n, a_n, h, self.state_bias), {}

    def sequence(self, values: Values, previous: Values, count: int) -> Result:
        """`count` iterations in one call, where the cell is `plain` and only it reads its past.

        `values` of the other arrows are folded time-major, and so is the output; `previous` holds
        the h before them.
        """
        x, W_x = self.merged(values)
        x = x.to(W_x.dtype).view(count, -1, x.shape[1])
        b_h = functional.pad(self.state_bias, (2 * self.state_bias.shape[0], 0))
        weights = [W_x, self.arrow("state").weight, self.bias, b_h]
        start = previous["h"].to(x.dtype)[None]
        h, _ = torch.gru(x, start, weights, True, 1, 0.0, self.training, False, False)
        return h.flatten(0, 1), {}
