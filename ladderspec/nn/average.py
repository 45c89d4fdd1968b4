"""Average: spread a pooled value over its window."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from ladderspec.names import Shape
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import check_sizes, pair
from ladderspec.nn._norms import NOW, When
from ladderspec.nn._parts import Pair


class Average(Cell):
    """Decoder cell Average.

    y[i, j] = v_top[i // stride, j // stride]; a vector is spread over the whole map

    Without a stride, the smallest that leads to the shape `out`.
    """

    def __init__(
        self, arrows: Mapping[str, Arrow], out: Shape, stride: Pair | int | None = None
    ) -> None:
        super().__init__(arrows)
        self.out, self.stride = out, None if stride is None else pair("stride", stride)
        source = self.arrow(self.carrier).source
        if self.stride is not None and len(source) == 3:
            check_sizes("transposed", source, out, self.stride)

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        (v_top,) = drives.values()
        if v_top.dim() == 1 + len(self.out):
            return self._spread(v_top), {}
        return v_top[:, :, None, None].expand(-1, *self.out), {}

    def _spread(self, v_top: Tensor) -> Tensor:
        if v_top.shape[2:] == self.out[1:]:
            return v_top
        sizes = zip(self.out[1:], v_top.shape[2:], strict=True)
        stride = self.stride or [-(-m // n) for m, n in sizes]
        whole = [n * s for n, s in zip(v_top.shape[2:], stride, strict=True)]
        y = functional.interpolate(v_top, whole, mode="nearest-exact")
        return y[:, :, : self.out[1], : self.out[2]]
