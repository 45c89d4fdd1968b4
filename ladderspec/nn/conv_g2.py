"""convG2: three gated branches [app:cells]."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS, Blocks, read_out
from ladderspec.nn._parts import Five, convolve, f, mix, per_channel


class ConvG2(Cell):
    """Decoder cell convG2; every arrow drives the branches mu_1, mu_2, s at once.

    mu_1, mu_2, s = f(LN(A * v_top) + LN(B * h) + c, w)        each branch normalised by itself
    y = s . mu_1 + (1 - s) . mu_2;  with `channels` of its own, D * y
    """

    offset = "c"
    gates = 3  # branches

    w: Tensor
    D: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        channels: int | None = None,
        joint: NormKind = "none",
        w: Five = (1, 1, 0, 0, 0),
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, groups=3, iterations=iterations)
        self.own("c", (self.width,), ZEROS)
        self.own("w", (5, self.width), Blocks(w))
        self.channels = channels
        if channels is not None:
            inner = self.width // 3
            self.own("D", (channels, inner, 1, 1), read_out(inner))

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        u = self.gather(drives, when)
        mu_1, mu_2, s = f(u, per_channel(self.w, u)).chunk(3, dim=1)
        y = mix(s, mu_1, mu_2)
        return y if self.channels is None else convolve(y, self.D), {}
