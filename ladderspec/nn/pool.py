"""Pool: the largest or the mean value of each window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._checks import check_word, pair
from ladderspec.nn._norms import NOW, When
from ladderspec.nn._parts import Pair


class Pool(Cell):
    """Encoder cell Pool, to ceil(n / stride) windows; without a filter, one window over all.

    Windows are centred on the blocks of `stride` that they stand for. Where they reach over the
    border, `max` ignores what is outside and `average` divides by the number of values inside.
    """

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        mode: Literal["max", "average"] = "max",
        filter: Pair | int | None = (2, 2),
        stride: Pair | int | None = None,
    ) -> None:
        super().__init__(arrows)
        check_word("mode", mode, _POOLS)
        self.mode, self.filter = mode, None if filter is None else pair("filter", filter)
        self.stride = self.filter if stride is None else pair("stride", stride)

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        (x,) = drives.values()
        pool = _POOLS[self.mode]
        if self.filter is None or self.stride is None:
            size = (x.shape[2], x.shape[3])
            return pool(x, size, size).flatten(1), {}
        return pool(x, self.filter, self.stride), {}


def _max(x: Tensor, filter: Pair, stride: Pair) -> Tensor:
    pad = _short(x, filter, stride)
    if any(pad):
        x = functional.pad(x, (0, pad[1], 0, pad[0]), value=-torch.inf)
    before = _before(filter, stride)
    return functional.max_pool2d(x, filter, stride, before, ceil_mode=True)


def _average(x: Tensor, filter: Pair, stride: Pair) -> Tensor:
    pad = _short(x, filter, stride)
    before = _before(filter, stride)
    if not any(pad):
        return functional.avg_pool2d(x, filter, stride, before, True, count_include_pad=False)
    inside = functional.pad(torch.ones_like(x[:1, :1]), (0, pad[1], 0, pad[0]))
    x = functional.pad(x, (0, pad[1], 0, pad[0]))
    sums, counts = (
        functional.avg_pool2d(y, filter, stride, before, True, divisor_override=1)
        for y in (x, inside)
    )
    return sums / counts


def _before(filter: Pair, stride: Pair) -> Pair:
    """What a window reaches beyond its block, on the near side."""
    return (max(filter[0] - stride[0], 0) // 2, max(filter[1] - stride[1], 0) // 2)


def _short(x: Tensor, filter: Pair, stride: Pair) -> Pair:
    """Where ceil_mode alone gives one window too few: overlap that cannot be shared evenly."""
    height, width = (
        int(k > s and (k - s) % 2 == 1 and (n - 1) % s == 0)
        for n, k, s in zip(x.shape[2:], filter, stride, strict=True)
    )
    return (height, width)


_POOLS = {"max": _max, "average": _average}
