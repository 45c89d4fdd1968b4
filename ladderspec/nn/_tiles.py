"""Gradients of a convolution with 3x3 filters, tile by tile.

The gradient of x is a convolution of that of y: 144 products for a tile of 4x4 and two channels.
After Winograd they are 36, since a product of two polynomials is known from their values at a few
points. The tiles of y's gradient serve that of the weight as well. Forward the ways there and back
cost what is saved, so that y itself is found place by place.

Roundings are four to eight times those of a sum over places, relative to the largest values that
a tile sees: at points 0, 1, -1, 2 and -2, as is usual, they would be twice that.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

from ladderspec.names import Shape
from ladderspec.nn._parts import Pair, convolve
from ladderspec.nn._ways import Gradients, Way, asks_for_more, by_place

SIZE = 4  # of a tile, and of its border that is seen: two more
SEEN = SIZE + 2
ZERO = Fraction(0)
POINTS = (ZERO, Fraction(2, 3), Fraction(-2, 3), Fraction(3, 2), Fraction(-3, 2))
VALUES = SEEN * SEEN
GAIN = 2.3  # as many times fewer products pay for their passes over memory
MAKING = 20  # products that a value of a filter is worth: it is made, read, learnt
TOGETHER = 128  # tiles whose values stay near the processor


def way_of(source: Shape, target: Shape, filter: Pair, stride: Pair) -> Way | None:
    """None where tiles do not apply, or do not fit."""
    if filter != (3, 3) or stride != (1, 1) or any(n % SIZE for n in source[1:]):
        return None
    tiles, both = math.prod(source[1:]) // SIZE**2, source[0] * target[0]
    there = VALUES * VALUES * target[0] + VALUES * SIZE**2 * source[0]
    back = VALUES * SIZE**2 * source[0]
    return Way(
        tiled_conv,
        _learns_alone,
        GAIN,
        2 * tiles * 9 * SIZE**2 * both,
        tiles * (there + 2 * VALUES * both + back),
        MAKING * VALUES * both,
    )


def _learns_alone() -> bool:
    """With gradients, and one thread: with two, products of small matrices took longer."""
    return torch.is_grad_enabled() and torch.get_num_threads() == 1


def tiled_conv(x: Tensor, weight: Tensor) -> Tensor:
    """`convolve` at stride 1, with gradients by tiles."""
    # On a tape it is one call, with gradients of its own.
    if torch.is_grad_enabled() and has_torch_function((x, weight)):
        found: Tensor = handle_torch_function(tiled_conv, (x, weight), x, weight)
        return found
    y: Tensor = TiledConv.apply(x, weight)  # type: ignore[no-untyped-call]
    return y


class TiledConv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return convolve(x, weight)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        if asks_for_more(dy):
            return by_place(x, weight, dy, ctx.needs_input_grad)
        values, (out, channels) = values_of(x.dtype), weight.shape[:2]
        dx = dfilters = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x, memory_format=torch.channels_last)
            turned = weight.permute(2, 3, 0, 1).flip(0, 1).reshape(9, -1)
            filters = torch.mm(values.filter, turned).view(VALUES, out, channels)
        for some in _stretches(x):
            d = values.there(functional.pad(dy[some], (1, 1, 1, 1)))
            if dx is not None:
                tiles = torch.mm(values.back, torch.bmm(d, filters).flatten(1))
                field = tiles_of(dx[some], SIZE)
                field.copy_(tiles.view(field.shape))
            if ctx.needs_input_grad[1]:
                seen = torch.mm(values.back.t(), tiles_of(x[some], SIZE).reshape(SIZE**2, -1))
                seen = seen.view(VALUES, -1, channels)
                d = d.transpose(1, 2)
                dfilters = torch.bmm(d, seen) if dfilters is None else dfilters.baddbmm_(d, seen)
        dweight = None
        if dfilters is not None:
            turned = torch.mm(values.filter.t(), dfilters.flatten(1)).view(3, 3, out, channels)
            dweight = turned.flip(0, 1).permute(2, 3, 0, 1)
        return dx, dweight


def _stretches(x: Tensor) -> list[slice]:
    """Samples that are dealt with together."""
    count = max(1, TOGETHER * SIZE**2 // (x.shape[2] * x.shape[3]))
    return [slice(first, first + count) for first in range(0, len(x), count)]


def tiles_of(maps: Tensor, size: int) -> Tensor:
    """A look at maps (N, C, ...): (size, size, N, rows of tiles, columns of tiles, C)"""
    return maps.unfold(2, size, SIZE).unfold(3, size, SIZE).permute(4, 5, 0, 2, 3, 1)


# --- values at points -----------------------------------------------------------------------------


class Values(NamedTuple):
    """Matrices to and from values at points, by both axes at once."""

    seen: Tensor  # (36, 36), of what a tile sees
    filter: Tensor  # (36, 9)
    back: Tensor  # (16, 36), to a tile; transposed, from a tile that a filter is learnt from

    def there(self, maps: Tensor) -> Tensor:
        """Maps with their borders -> (36, tiles, C)"""
        tiles = tiles_of(maps, SEEN).reshape(VALUES, -1)
        return torch.mm(self.seen, tiles).view(VALUES, -1, maps.shape[1])


@lru_cache(8)
def values_of(dtype: torch.dtype) -> Values:
    """Of polynomials at the points, and at infinity: their highest coefficient (Toom and Cook)."""
    others = [[q for q in POINTS if q != p] for p in POINTS]
    seen = [*([*_coefficients(of), 0] for of in others), _coefficients(POINTS)]
    shares = [math.prod(p - q for q in of) for p, of in zip(POINTS, others, strict=True)]
    filter = [[p**k / share for k in range(3)] for p, share in zip(POINTS, shares, strict=True)]
    back = [[*(p**k for p in POINTS), int(k == SIZE - 1)] for k in range(SIZE)]
    return Values(*(_by_both_axes(m, dtype) for m in (seen, [*filter, [0, 0, 1]], back)))


def _coefficients(zeros: list[Fraction] | tuple[Fraction, ...]) -> list[Fraction]:
    """Of the polynomial with these zeros, from the lowest on."""
    found = [Fraction(1)]
    for zero in zeros:
        found = [a - zero * b for a, b in zip([ZERO, *found], [*found, ZERO], strict=True)]
    return found


def _by_both_axes(matrix: list[Any], dtype: torch.dtype) -> Tensor:
    numbers = [[float(each) for each in row] for row in matrix]
    along = torch.tensor(numbers, dtype=torch.float64, device="cpu")
    return torch.kron(along, along).to(dtype)
