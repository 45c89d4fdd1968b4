"""Convolution by Fourier transforms, for wide filters at stride 1.

A 9x9 filter costs 81 multiplications at every place. In the Fourier domain of a torus that is a
little larger than the map it costs one complex multiplication per frequency: with both transforms,
for 32 channels on 32x32, a sixth of the multiplications, and the same for the gradients. Transforms
are products with matrices of cosines and sines: for maps of these sizes as fast as an FFT.

Roundings are of the same order as those of the direct sum, but relative to the largest value of a
map: in float32, values a million times smaller are lost, and NaN and Inf spread over the map.
Reference: `ladderspec.cells.functions.convolve`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils._python_dispatch import _disable_current_modes

from ladderspec.cells.functions import Pair, convolve
from ladderspec.names import Shape
from ladderspec.ops.transforms import wants_derivatives

Gradients = tuple[Tensor | None, Tensor | None]  # of x and weight

WIDE = 16  # taps of a filter; below, it was never faster
GAIN = 2.4  # so many times fewer multiplications pay for the passes over memory
PER_FILTER = 20  # multiplications that a number of a transformed filter is worth


@lru_cache(1024)
def pays(source: Shape, target: Shape, filter: Pair, stride: Pair, batch: int) -> bool:
    """Whether it is faster than the direct sum, by a count of multiplications."""
    if filter[0] * filter[1] < WIDE or min(filter) == 1 or stride != (1, 1):
        return False
    (height, width), pairs = source[1:], source[0] * target[0]
    torus = _torus((height, width), filter)
    p, q = torus[0] // 2 + 1, torus[1]
    direct = _inside(height, filter[0]) * _inside(width, filter[1]) * pairs
    maps = 2 * p * width * (height + 2 * q) * (source[0] + target[0]) + 4 * p * q * pairs
    filters = 2 * p * (filter[1] * (filter[0] + 2 * q) + PER_FILTER * q) * pairs
    return batch * direct >= GAIN * (batch * maps + filters)


def _inside(size: int, filter: int) -> int:
    """Pairs of a place and one that its filter covers, both inside the map."""
    first = (filter - 1) // 2
    return sum(min(size, i - first + filter) - max(0, i - first) for i in range(size))


def fft_convolve(x: Tensor, weight: Tensor) -> Tensor:
    """`convolve` at stride 1."""
    y: Tensor = _FFTConv.apply(x, weight)  # type: ignore[no-untyped-call]
    return y


class _FFTConv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        basis = _bases(tuple(x.shape[2:]), tuple(weight.shape[2:]), x.dtype)
        spectrum = basis.x.transform(_fields(x)).view(-1, 2, *x.shape[:2])
        ctx.save_for_backward(x, weight, spectrum if ctx.needs_input_grad[1] else None)
        y = _product(spectrum, _filter_spectrum(basis, weight))
        return _maps(basis.y.transpose(y.flatten(2)), (len(x), len(weight), *x.shape[2:]))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        with torch.autocast("cpu", enabled=False):  # it would round what was never rounded
            x, weight, spectrum = ctx.saved_tensors
            if wants_derivatives(dy):
                return _direct_gradients(x, weight, dy, ctx.needs_input_grad)
            return _gradients(x, weight, spectrum, dy, ctx.needs_input_grad)


def _gradients(
    x: Tensor, weight: Tensor, spectrum: Tensor, dy: Tensor, wanted: tuple[bool, bool]
) -> Gradients:
    basis = _bases(tuple(x.shape[2:]), tuple(weight.shape[2:]), x.dtype)
    d = basis.y.transform(_fields(dy)).view(-1, 2, *dy.shape[:2])
    dx = dweight = None
    if wanted[0]:
        # The filter's spectrum is made again: it is many times as large as the filter.
        product = _product(d, _filter_spectrum(basis, weight).transpose(2, 3), sign=-1)
        dx = _maps(basis.x.transpose(product.flatten(2)), x.shape)
        del product
    if wanted[1]:
        real, imaginary = spectrum.transpose(2, 3).unbind(1)
        # Not into halves of one tensor: products that are not contiguous take two to four times
        # as long.
        parts = (
            torch.bmm(spectrum.flatten(1, 2).transpose(1, 2), d.flatten(1, 2)),
            torch.bmm(real, d[:, 1]).baddbmm_(imaginary, d[:, 0], alpha=-1),
        )
        fields = basis.filter.transpose(torch.stack(parts, 1).flatten(2))
        shape = weight.shape
        filters = fields.view(*shape[2:], shape[1], shape[0]).permute(3, 2, 0, 1)
        dweight = torch.empty_like(weight).copy_(filters)
    return dx, dweight


def _direct_gradients(
    x: Tensor, weight: Tensor, dy: Tensor, wanted: tuple[bool, bool]
) -> Gradients:
    """The gradients of `convolve`, which can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        given = x.view_as(x), weight.view_as(weight)
        y = convolve(*given)
    inputs = [each for each, is_wanted in zip(given, wanted, strict=True) if is_wanted]
    found = iter(torch.autograd.grad(y, inputs, dy, create_graph=again))
    return next(found) if wanted[0] else None, next(found) if wanted[1] else None


def _product(a: Tensor, b: Tensor, sign: int = 1) -> Tensor:
    """a b of complex matrices (frequencies, 2, I, K) and (.., 2, K, J); sign -1: b conjugate."""
    both = a.flatten(1, 2)
    y, crossed = (torch.bmm(both, part).view(len(a), 2, a.shape[2], -1) for part in b.unbind(1))
    y[:, 0].sub_(crossed[:, 1], alpha=sign)
    y[:, 1].add_(crossed[:, 0], alpha=sign)
    return y


# --- transforms -----------------------------------------------------------------------------------


class _Basis:
    """The Fourier transform of fields (H, W, M), and its transpose.

    Real and imaginary parts are numbers side by side. Along the first axis there are half of all
    frequencies: those of real fields come in conjugate pairs.
    """

    def __init__(self, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> None:
        self.rows, self.columns = rows.to(dtype), columns.to(dtype)  # (p 2, H), (q 2, 2 W)

    def transform(self, field: Tensor) -> Tensor:
        """(H, W, M) -> (p q, 2, M)"""
        along = torch.mm(self.rows, field.flatten(1))
        pairs = along.view(-1, self.columns.shape[1], field.shape[2])
        return torch.matmul(self.columns, pairs).view(-1, 2, field.shape[2])

    def transpose(self, spectrum: Tensor) -> Tensor:
        """(p q, 2, M) -> (H, W, M)"""
        pairs = spectrum.view(-1, len(self.columns), spectrum.shape[2])
        along = torch.matmul(self.columns.t(), pairs)
        field = torch.mm(self.rows.t(), along.view(len(self.rows), -1))
        return field.view(len(field), -1, spectrum.shape[2])


class _Bases(NamedTuple):
    x: _Basis
    filter: _Basis
    y: _Basis  # its transpose is the inverse transform


def _torus(size: Pair, filter: Pair) -> Pair:
    """So large that what wraps around falls outside of the map."""
    return size[0] + filter[0] // 2, size[1] + filter[1] // 2


@lru_cache(64)
def _bases(size: Pair, filter: Pair, dtype: torch.dtype) -> _Bases:
    """For maps of `size`, and a filter that begins (k - 1) // 2 places before. No weights in it."""
    with _disable_current_modes():  # the cache serves calls without these modes too
        height, width = _torus(size, filter)
        before = (filter[0] - 1) // 2, (filter[1] - 1) // 2
        maps = _rows(height, size[0]), _columns(width, size[1])
        # Conjugate, since the convolution of networks is a correlation.
        filters = _rows(height, filter[0], sign=1), _columns(width, filter[1], sign=1)
        # Each frequency stands for its conjugate too, but for those that are real.
        shares = torch.full((height // 2 + 1,), 2.0, dtype=torch.float64, device="cpu")
        shares[0] = 1
        if height % 2 == 0:
            shares[-1] = 1
        rows = _rows(height, size[0], -before[0]) * shares.repeat_interleave(2)[:, None]
        inverse = rows / (height * width), _columns(width, size[1], -before[1])
        return _Bases(*(_Basis(*each, dtype) for each in (maps, filters, inverse)))


def _rows(torus: int, size: int, first: int = 0, sign: int = -1) -> Tensor:
    cos, sin = _angles(torus, torus // 2 + 1, size, first)
    return torch.stack([cos, sign * sin], 1).flatten(0, 1)


def _columns(torus: int, size: int, first: int = 0, sign: int = -1) -> Tensor:
    cos, sin = _angles(torus, torus, size, first)
    sin = sign * sin
    parts = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
    return parts.flatten(2).flatten(0, 1)


def _angles(torus: int, frequencies: int, size: int, first: int) -> tuple[Tensor, Tensor]:
    frequency, place = (torch.arange(n, device="cpu") for n in (frequencies, size))
    angles = (frequency[:, None] * (place + first) % torus).double() * (2 * math.pi / torus)
    return torch.cos(angles), torch.sin(angles)


def _fields(maps: Tensor) -> Tensor:
    """(N, C, H, W) -> (H, W, N C)"""
    return maps.permute(2, 3, 0, 1).contiguous().flatten(2)


def _maps(fields: Tensor, shape: Shape) -> Tensor:
    """(H, W, N C) -> channels-last (N, C, H, W)"""
    maps = torch.empty(
        shape, dtype=fields.dtype, device=fields.device, memory_format=torch.channels_last
    )
    return maps.copy_(fields.view(*shape[2:], *shape[:2]).permute(2, 3, 0, 1))


def _filter_spectrum(basis: _Bases, weight: Tensor) -> Tensor:
    """(frequencies, 2, C, O)"""
    fields = weight.permute(2, 3, 1, 0).reshape(*weight.shape[2:], -1)
    return basis.filter.transform(fields).view(-1, 2, weight.shape[1], len(weight))
