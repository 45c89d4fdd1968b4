"""convG2: three gated branches [app:cells]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, NormKind, When
from ladderspec.nn._own import ZEROS, Blocks, Normal
from ladderspec.nn._parts import Five, convolve, f, per_channel


class ConvG2(Cell):
    """Decoder cell convG2; every arrow drives the branches mu_1, mu_2, s at once.

    mu_1, mu_2, s = f(LN(A * v_top) + LN(B * h) + c, w)        each branch normalised by itself
    y = s . mu_1 + (1 - s) . mu_2;  with `read_out` channels, D * y
    """

    offset: ClassVar = "c"

    w: Tensor
    D: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        read_out: int | None = None,
        joint: NormKind = "none",
        w: Five = (1, 1, 0, 0, 0),
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows, joint, groups=3, iterations=iterations)
        self.own("c", (self.width,), ZEROS)
        self.own("w", (5, self.width), Blocks(w))
        self.read_out = read_out
        if read_out is not None:
            inner = self.width // 3
            self.own("D", (read_out, inner, 1, 1), Normal(1 / inner))

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        u = self.gather(drives, when)
        mu_1, mu_2, s = f(u, per_channel(self.w, u)).chunk(3, dim=1)
        y = torch.lerp(mu_2, mu_1, s)
        return y if self.read_out is None else convolve(y, self.D), {}
