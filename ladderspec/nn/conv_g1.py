"""convG1: the convolutional G1 [app:cells]."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import check_gate
from ladderspec.nn._norms import NOW, NormKind, When, make_norm
from ladderspec.nn._own import ZEROS, Blocks
from ladderspec.nn._parts import Five, f, mix, per_channel


class ConvG1(Cell):
    """Decoder cell convG1; w and w_s per channel, w_s owned by the lateral arrow.

    u = BN(A * v_top + b),  s = f(u, w_s)
    y = s . h + (1 - s) . f(u, w);  without the lateral arrow, y = f(u, w)
    """

    offset = "b"
    apart = frozenset({"lateral"})

    w: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        norm: NormKind = "batch",
        w: Five = (1, 1, 0, 0, 0),
        w_s: Five = (1, 1, 0, 0, 0),
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows)
        self.own("b", (self.width,), ZEROS)
        self.own("w", (5, self.width), Blocks(w))
        self.norm = make_norm(norm, self.width, iterations=iterations)
        if "lateral" in arrows:
            check_gate("ConvG1", arrows["lateral"].source, self.arrow(self.carrier).target)
            arrows["lateral"].own("w_s", (5, self.width), Blocks(w_s))

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        u = self.gather(drives, when)
        u = u if self.norm is None else self.norm(u, when=when)
        y = f(u, per_channel(self.w, u))
        if "lateral" not in drives:
            return y, {}
        s = f(u, per_channel(self.arrow("lateral").w_s, u))
        return mix(s, drives["lateral"], y), {}
