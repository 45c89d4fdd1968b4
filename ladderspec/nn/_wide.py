"""Convolution with wide filters, by way of waves.

A filter of 9x9 costs 81 products at every place. Among the waves of a torus that is a little larger
than the map it costs one complex product for each of them: with the way there and back, for 32
channels on 32x32, a sixth of the products, and the same for the gradients.

Roundings are of the same order, but relative to the largest values of a map: beside a place that is
a million times as bright, dim ones are lost in float32, and NaN and Inf spread over the whole map.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ladderspec.names import Shape
from ladderspec.nn._fused import asks_for_more
from ladderspec.nn._parts import Pair
from ladderspec.nn._waves import (
    Three,
    fields_of,
    fields_of_filter,
    filter_of,
    maps_of,
    three,
    torus_of,
)
from ladderspec.nn._ways import Gradients, Way, as_one_call, by_place

GAIN = 2.4  # as many times fewer products pay for their passes over memory, forward too
MAKING = 20  # products that a number among the waves of a filter is worth: it is made, read, learnt
WIDE = 16  # places of a filter: below, it was never so


def way_of(source: Shape, target: Shape, filter: Pair, stride: Pair) -> Way | None:
    """None where waves do not apply: for narrow filters, or strides."""
    if filter[0] * filter[1] < WIDE or min(filter) == 1 or stride != (1, 1):
        return None
    (height, width), pairs = source[1:], source[0] * target[0]
    torus = torus_of((height, width), filter)
    p, q = torus[0] // 2 + 1, torus[1]
    return Way(
        wide_conv,
        _always,
        GAIN,
        _inside(height, filter[0]) * _inside(width, filter[1]) * pairs,
        2 * p * width * (height + 2 * q) * (source[0] + target[0]) + 4 * p * q * pairs,
        2 * p * (filter[1] * (filter[0] + 2 * q) + MAKING * q) * pairs,
    )


def _always(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    return True


def _inside(size: int, filter: int) -> int:
    """Pairs of a place and one that its filter sees, both inside."""
    first = (filter - 1) // 2
    return sum(min(size, i - first + filter) - max(0, i - first) for i in range(size))


def wide_conv(x: Tensor, weight: Tensor) -> Tensor:
    """`convolve` at stride 1."""
    return as_one_call(wide_conv, WideConv, x, weight)


class WideConv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        waves = three(tuple(x.shape[2:]), tuple(weight.shape[2:]), x.dtype)
        seen = waves.x.of(fields_of(x)).view(-1, 2, *x.shape[:2])
        ctx.save_for_backward(x, weight, seen if ctx.needs_input_grad[1] else None)
        y = _product(seen, _filters(waves, weight))
        return maps_of(waves.y.back(y.flatten(2)), (len(x), len(weight), *x.shape[2:]))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        with torch.autocast("cpu", enabled=False):  # which would round what was never rounded
            x, weight, seen = ctx.saved_tensors
            if asks_for_more(dy):
                return by_place(x, weight, dy, ctx.needs_input_grad)
            return _gradients(x, weight, seen, dy, ctx.needs_input_grad)


def _gradients(
    x: Tensor, weight: Tensor, seen: Tensor, dy: Tensor, wanted: tuple[bool, bool]
) -> Gradients:
    waves = three(tuple(x.shape[2:]), tuple(weight.shape[2:]), x.dtype)
    d = waves.y.of(fields_of(dy)).view(-1, 2, *dy.shape[:2])
    dx = dweight = None
    if wanted[0]:
        # Made again: there are many times as many as weights, and each t would keep its own.
        by_filters = _product(d, _filters(waves, weight).transpose(2, 3), sign=-1)
        dx = maps_of(waves.x.back(by_filters.flatten(2)), x.shape)
        del by_filters
    if wanted[1]:
        dweight = torch.empty_like(weight)
        fields = waves.filter.back(_towards_filters(seen, d))
        dweight.copy_(filter_of(fields, weight.shape))
    return dx, dweight


def _filters(waves: Three, weight: Tensor) -> Tensor:
    """(waves, 2, C, O)"""
    return waves.filter.of(fields_of_filter(weight)).view(-1, 2, weight.shape[1], len(weight))


def _towards_filters(seen: Tensor, d: Tensor) -> Tensor:
    """The conjugate of what is seen, transposed, by its gradient: (waves, 2, C O)"""
    real, imaginary = seen.transpose(2, 3).unbind(1)
    # Not into halves of one tensor: products that do not lie apart take two to four times as long.
    found = (
        torch.bmm(seen.flatten(1, 2).transpose(1, 2), d.flatten(1, 2)),
        torch.bmm(real, d[:, 1]).baddbmm_(imaginary, d[:, 0], alpha=-1),
    )
    return torch.stack(found, 1).flatten(2)


def _product(a: Tensor, b: Tensor, sign: int = 1) -> Tensor:
    """a b of complex matrices (waves, 2, I, K) and (waves, 2, K, J); sign -1: with b conjugate."""
    both = a.flatten(1, 2)
    y, crossed = (torch.bmm(both, part).view(len(a), 2, a.shape[2], -1) for part in b.unbind(1))
    y[:, 0].sub_(crossed[:, 1], alpha=sign)
    y[:, 1].add_(crossed[:, 0], alpha=sign)
    return y
