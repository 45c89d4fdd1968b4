"""G1: the gating cell of the original Ladder [app:cells]."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ladderspec.names import Shape, size_of
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import check_gate, check_units
from ladderspec.nn._norms import NOW, NormKind, When, make_norm
from ladderspec.nn._own import ZEROS, Blocks
from ladderspec.nn._parts import Five, f, mix


class G1(Cell):
    """Decoder cell G1; w and w_s per unit, w_s owned by the lateral arrow.

    u = BN(A v_top + b),  s = f(u, w_s)
    y = s . h + (1 - s) . f(u, w);  without the lateral arrow, y = f(u, w)
    """

    offset = "b"
    apart = frozenset({"lateral"})

    w: Tensor

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        out: Shape,
        norm: NormKind = "batch",
        w: Five = (1, 1, 0, 0, 0),
        w_s: Five = (1, 1, 0, 0, 0),
        iterations: int = 1,
    ) -> None:
        super().__init__(arrows)
        units = size_of(out)
        check_units("G1", self.width, out)
        if "lateral" in arrows:
            check_gate("G1", arrows["lateral"].source, out)
        self.out = out
        self.own("b", (units,), ZEROS)
        self.own("w", (5, units), Blocks(w))
        self.norm = make_norm(norm, units, iterations=iterations)
        if "lateral" in arrows:
            arrows["lateral"].own("w_s", (5, units), Blocks(w_s))

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        u = self.gather(drives, when)
        u = u if self.norm is None else self.norm(u, when=when)
        u = u.view(u.shape[0], *self.out)  # not h to units: channels-last maps would be copied
        y = f(u, self.w.view(5, *self.out))
        if "lateral" not in drives:
            return y, {}
        s = f(u, self.arrow("lateral").w_s.view(5, *self.out))
        return mix(s, drives["lateral"], y), {}
