"""Conv: a convolution, a norm, an activation."""

from __future__ import annotations

from collections.abc import Mapping

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import check_word
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS
from ladderspec.nn._parts import ACTIVATIONS, HALVING, Activation


class Conv(Cell):
    """Encoder cell Conv, and the plain decoder of the same name.

    e = act(BN(W * e_below) + b)
    """

    offset = "bias"

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        activation: Activation = "relu",
        joint: NormKind = "none",
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        self.own("bias", (self.width,), ZEROS)
        check_word("activation", activation, ACTIVATIONS)
        self.activation = ACTIVATIONS[activation]
        if activation in HALVING and joint == "none":
            for key in self.keys:
                self.arrow(key).start_for_relu()

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        return self.activation(self.gather(drives, when)), {}
