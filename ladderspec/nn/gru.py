"""GRU: the dense cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS
from ladderspec.nn._parts import gru_update


class GRU(Cell):
    """Encoder cell GRU; every arrow drives the gates r, z and the candidate n at once.

    x = W_x e_below + W_d d(t-1) + b,  a = W_h h(t-1)
    r = sigmoid(x_r + a_r),  z = sigmoid(x_z + a_z),  n = tanh(x_n + r . (a_n + b_n))
    h = (1 - z) . n + z . h(t-1)

    CHOICE: `norm: joint` normalises x; a is left as it is, since r reaches into it.
    """

    offset: ClassVar = "bias"
    apart: ClassVar = frozenset({"state"})

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
        x, b_n = self.gather(drives, when), self.state_bias
        h = previous["h"] if previous else None
        return gru_update(x, drives.get("state"), h, b_n), {}
