"""SoftMax: class probabilities; tasks read its logits."""

from __future__ import annotations

from collections.abc import Mapping

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS


class SoftMax(Cell):
    """Encoder cell SoftMax; without weights, the softmax of what arrives.

    logits = BN(W e_below) + b,  e = softmax(logits)
    """

    offset = "bias"

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        joint: NormKind = "none",
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, iterations=iterations)
        if self.arrow(self.carrier).kind == "none":
            self.offset = ""
        else:
            self.own("bias", (self.width,), ZEROS)

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        logits = self.gather(drives, when)
        return logits.softmax(dim=1), {"logits": logits}
