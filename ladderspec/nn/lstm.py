"""LSTM: the dense cell."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import Blocks
from ladderspec.nn._parts import lstm_update


class LSTM(Cell):
    """Encoder cell LSTM; every arrow drives the four gates i, f, o, g at once, with one bias.

    a = W_x e_below + W_d d(t-1) + W_h h(t-1) + b
    c = sigmoid(a_f) . c(t-1) + sigmoid(a_i) . tanh(a_g)
    h = sigmoid(a_o) . tanh(c)
    """

    offset = "bias"
    gates = 4
    remembers = ("c",)

    bias: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        forget_bias: float = 1.0,
        joint: NormKind = "none",
        iterations: int = 1,
        gate_bias: float = 0.0,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        self.own("bias", (self.width,), Blocks((gate_bias, forget_bias, gate_bias, 0.0)))

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        h, c = lstm_update(self.gather(drives, when), previous["c"] if previous else None)
        return h, {"c": c}

    def sequence(self, values: Values, previous: Values, count: int) -> Result:
        """`count` iterations in one call, where the cell is `plain` and only it reads its past.

        `values` of the other arrows are folded time-major, and so is the output; `previous` holds
        the h and c before them, the extras the c after them.
        """
        x, W_x = self.merged(values)
        W_x, W_h, b = (_torch_order(w) for w in (W_x, self.arrow("state").weight, self.bias))
        x = x.to(W_x.dtype).view(count, -1, x.shape[1])
        start = (previous["h"].to(x.dtype)[None], previous["c"].to(x.dtype)[None])
        weights = [W_x, W_h, b, torch.zeros_like(b)]  # torch adds two biases
        h, _, c = torch.lstm(x, start, weights, True, 1, 0.0, self.training, False, False)
        return h.flatten(0, 1), {"c": c[0]}


def _torch_order(rows: Tensor) -> Tensor:
    i, f, o, g = rows.chunk(4)
    return torch.cat([i, f, g, o])
