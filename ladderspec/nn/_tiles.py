"""Gradients of a convolution with 3x3 filters, tile by tile.

Each gradient takes 144 products for a tile of 4x4 and a pair of channels. After Winograd they are
36, since a product of polynomials is known from their values at a few points; and the values of dy,
the gradient of y, serve both gradients. Forward, the ways there and back cost what is saved, so y
itself is found place by place.

Roundings are about five times those of a sum over places, and ten times where dy is nearly empty;
at points 0, 1, -1, 2 and -2, as is usual, they would be twice that. Inf becomes NaN in the tiles
that see it.
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
from torch.utils._python_dispatch import _disable_current_modes

from ladderspec.names import Shape
from ladderspec.nn._fused import asks_for_more
from ladderspec.nn._parts import Pair, convolve
from ladderspec.nn._ways import Gradients, Way, as_one_call, by_place

SIZE = 4  # of a tile
SEEN = SIZE + 2  # of what a tile is made from, with its border
VALUES = SEEN * SEEN  # that are known of it, instead
ZERO = Fraction(0)
POINTS = (ZERO, Fraction(2, 3), Fraction(-2, 3), Fraction(3, 2), Fraction(-3, 2))
GAIN = 2.4  # as many times fewer products pay for their passes over memory
MAKING = 20  # products that a value of a filter is worth: it is made, read, learnt
NEAR = 300_000  # values that stay near the processor


def way_of(source: Shape, target: Shape, filter: Pair, stride: Pair) -> Way | None:
    """None where tiles do not apply, do not fit, or are too many."""
    channels, out = source[0], target[0]
    tiles, both = math.prod(source[1:]) // SIZE**2, channels * out
    near = VALUES * tiles * max(channels, out) <= NEAR
    if filter != (3, 3) or stride != (1, 1) or any(n % SIZE for n in source[1:]) or not near:
        return None
    if _x_has_borders(channels, out):
        around = 2 * VALUES * channels + SIZE**2 * out  # x there, dx back; dy there
    else:
        around = VALUES * out + 2 * SIZE**2 * channels
    return Way(
        tiled_conv,
        _is_open,
        GAIN,
        2 * tiles * 9 * SIZE**2 * both,
        tiles * VALUES * (around + 2 * both),
        MAKING * VALUES * both,
    )


def _x_has_borders(channels: int, out: int) -> bool:
    """Whether x is what is seen with borders, and not dy: where it takes fewer products."""
    return out >= 2 * channels


def _is_open(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Where both gradients are wanted, and one thread finds them: two took longer than by place."""
    learns = torch.is_grad_enabled() and x.requires_grad and weight.requires_grad
    return learns and bias is None and torch.get_num_threads() == 1


def tiled_conv(x: Tensor, weight: Tensor) -> Tensor:
    """`convolve` at stride 1, with gradients by tiles."""
    return as_one_call(tiled_conv, TiledConv, x, weight)


class TiledConv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return convolve(x, weight)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        with torch.autocast("cpu", enabled=False):  # which would round what was never rounded
            x, weight = ctx.saved_tensors
            if asks_for_more(dy) or not all(ctx.needs_input_grad):
                return by_place(x, weight, dy, ctx.needs_input_grad)
            return _gradients(x, weight, dy)


def _gradients(x: Tensor, weight: Tensor, dy: Tensor) -> Gradients:
    values, (out, channels) = values_of(x.dtype), weight.shape[:2]
    dx, dweight = torch.empty_like(x), torch.empty_like(weight)
    # Towards x a filter looks the other way.
    turns = () if _x_has_borders(channels, out) else (0, 1)
    filters = values.of_filter(weight.permute(2, 3, 0, 1).flip(turns))
    dfilters = torch.zeros_like(filters)
    count = max(1, NEAR * SIZE**2 // (VALUES * max(channels, out) * math.prod(x.shape[2:])))
    for first in range(0, len(x), count):
        some = slice(first, first + count)
        if turns:
            d, given = values.of_seen(dy[some]), values.of_tiles(x[some])
            field = tiles_of(dx[some], SIZE)
            field.copy_(torch.mm(values.tile, torch.bmm(d, filters).flatten(1)).view(field.shape))
        else:
            d, given = values.of_tiles(dy[some]), values.of_seen(x[some])
            dseen = torch.mm(values.seen.t(), torch.bmm(d, filters).flatten(1))
            dx[some] = _added(dseen, dx[some].shape)
        dfilters.baddbmm_(d.transpose(1, 2), given)
    dturned = torch.mm(values.filter.t(), dfilters.flatten(1)).view(3, 3, out, channels)
    return dx, dweight.copy_(dturned.flip(turns).permute(2, 3, 0, 1))


def _added(seen: Tensor, shape: Shape) -> Tensor:
    """Maps from tiles with borders (36, ...), which lie over one another."""
    samples, channels, height, width = shape
    seen = seen.view(SEEN, SEEN, samples, height // SIZE, width // SIZE, channels)
    maps = seen.new_zeros(samples, height + SIZE, width + SIZE, channels).permute(0, 3, 1, 2)
    tiles = tiles_of(maps, SIZE)
    tiles[:, :, :, :-1, :-1] = seen[:SIZE, :SIZE]
    tiles[:2, :, :, 1:, :-1] += seen[SIZE:, :SIZE]
    tiles[:, :2, :, :-1, 1:] += seen[:SIZE, SIZE:]
    tiles[:2, :2, :, 1:, 1:] += seen[SIZE:, SIZE:]
    return maps[:, :, 1 : height + 1, 1 : width + 1]


def tiles_of(maps: Tensor, size: int) -> Tensor:
    """A look at maps (N, C, ...): (size, size, N, rows of tiles, columns of tiles, C)"""
    return maps.unfold(2, size, SIZE).unfold(3, size, SIZE).permute(4, 5, 0, 2, 3, 1)


# --- values at points -----------------------------------------------------------------------------


class Values(NamedTuple):
    """Matrices to and from values at points, by both axes at once."""

    seen: Tensor  # (36, 36), of what a tile is made from
    filter: Tensor  # (36, 9)
    tile: Tensor  # (16, 36), from values to a tile

    def of_seen(self, maps: Tensor) -> Tensor:
        """Of tiles with their borders: (36, tiles, C)"""
        tiles = tiles_of(functional.pad(maps, (1, 1, 1, 1)), SEEN).reshape(VALUES, -1)
        return torch.mm(self.seen, tiles).view(VALUES, -1, maps.shape[1])

    def of_tiles(self, maps: Tensor) -> Tensor:
        """Transposed to what makes tiles: (36, tiles, C)"""
        tiles = tiles_of(maps, SIZE).reshape(SIZE**2, -1)
        return torch.mm(self.tile.t(), tiles).view(VALUES, -1, maps.shape[1])

    def of_filter(self, filter: Tensor) -> Tensor:
        """(3, 3, O, C) -> (36, O, C)"""
        return torch.mm(self.filter, filter.reshape(9, -1)).view(VALUES, *filter.shape[2:])


@lru_cache(8)
def values_of(dtype: torch.dtype) -> Values:
    """Of polynomials at the points, and at infinity: their highest coefficient (Toom and Cook)."""
    others = [[q for q in POINTS if q != p] for p in POINTS]
    seen = [*([*_coefficients(of), 0] for of in others), _coefficients(POINTS)]
    shares = [math.prod(p - q for q in of) for p, of in zip(POINTS, others, strict=True)]
    filter = [[p**k / share for k in range(3)] for p, share in zip(POINTS, shares, strict=True)]
    tile = [[*(p**k for p in POINTS), int(k == SIZE - 1)] for k in range(SIZE)]
    with _disable_current_modes():  # kept for those who come without them
        return Values(*(_by_both_axes(m, dtype) for m in (seen, [*filter, [0, 0, 1]], tile)))


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
