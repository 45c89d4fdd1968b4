"""ConvLSTM: an LSTM whose maps are convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import Blocks
from ladderspec.nn._parts import lstm_update


class ConvLSTM(Cell):
    """Encoder cell ConvLSTM; every arrow drives the four gates i, f, o, g at once.

    a = LN(W_x * e_below) + LN(W_d * d(t-1)) + LN(W_h * h(t-1)) + b
    c = sigmoid(a_f) . c(t-1) + sigmoid(a_i) . tanh(a_g)
    h = sigmoid(a_o) . tanh(c)
    """

    offset = "bias"
    gates = 4
    remembers = ("c",)

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
