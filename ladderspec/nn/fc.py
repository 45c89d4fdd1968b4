"""FC: a dense layer, a norm, an activation."""

from __future__ import annotations

from collections.abc import Mapping

from ladderspec.names import Shape
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import check_units, check_word
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS
from ladderspec.nn._parts import ACTIVATIONS, HALVING, Activation


class FC(Cell):
    """Encoder cell FC, and the plain decoder of the same name, whose units take the shape `out`.

    e = act(BN(W e_below) + b)
    """

    offset = "bias"

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        out: Shape,
        activation: Activation = "relu",
        joint: NormKind = "none",
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        self.own("bias", (self.width,), ZEROS)
        check_units("FC", self.width, out)
        self.out = out
        check_word("activation", activation, ACTIVATIONS)
        self.activation = ACTIVATIONS[activation]
        if activation in HALVING and joint == "none":
            for key in self.keys:
                self.arrow(key).start_for_relu()

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        y = self.activation(self.gather(drives, when))
        return y.view(y.shape[0], *self.out), {}
