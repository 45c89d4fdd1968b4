"""Convolution by Fourier transforms, for wide filters at stride 1.

A 9x9 filter costs 81 multiplications at every place. In the Fourier domain of a map that is padded
a little, it costs one complex multiplication per frequency: with both transforms, for 32 channels
on 32x32, a sixth of the multiplications, and the same for the gradients. Transforms are products
with real matrices of cosines and sines: on maps of these sizes, `torch.fft` and complex products
take twice as long.

Roundings are of the same order as those of the direct sum, but relative to the largest value of a
map: in float32, values a million times smaller are lost, and NaN and Inf spread over the map.
Reference: `ladderspec.cells.functions.convolve`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ladderspec.cells.functions import Pair
from ladderspec.names import Shape

WIDE = 16  # taps of a filter; below, it was never faster
GAIN = 2.4  # so many times fewer multiplications pay for the passes over memory
PER_FILTER = 20  # multiplications that a number of a transformed filter is worth


@lru_cache(1024)
def pays(source: Shape, target: Shape, filter: Pair, stride: Pair, batch: int) -> bool:
    """Whether it is faster than the direct sum, by a count of multiplications."""
    if filter[0] * filter[1] < WIDE or min(filter) == 1 or stride != (1, 1):
        return False
    (height, width), pairs = source[1:], source[0] * target[0]
    padded = _padded_size((height, width), filter)
    p, q = padded[0] // 2 + 1, padded[1]
    direct = _inside(height, filter[0]) * _inside(width, filter[1]) * pairs
    maps = 2 * p * width * (height + 2 * q) * (source[0] + target[0]) + 4 * p * q * pairs
    filters = 2 * p * (filter[1] * (filter[0] + 2 * q) + PER_FILTER * q) * pairs
    return batch * direct >= GAIN * (batch * maps + filters)


def _inside(size: int, filter: int) -> int:
    """Pairs of a place and one that its filter covers, both inside the map."""
    first = (filter - 1) // 2
    return sum(min(size, i - first + filter) - max(0, i - first) for i in range(size))


def fft_convolve(x: Tensor, weight: Tensor, spectrum: Tensor | None = None) -> Tensor:
    """`convolve` at stride 1.

    Args:
        x: Maps.
        weight: The filter.
        spectrum: `filter_spectrum(x, weight)`, if it has been computed.
    """
    (batch, channels), bases = x.shape[:2], _bases_of(x, weight)
    spectrum = filter_spectrum(x, weight) if spectrum is None else spectrum
    maps = bases.x.transform(x).view(-1, 2 * batch, channels)
    by_real, by_imaginary = (
        torch.bmm(maps, part).view(-1, 2, batch, len(weight)) for part in spectrum.unbind(1)
    )
    real = by_real[:, 0] - by_imaginary[:, 1]
    imaginary = by_imaginary[:, 0] + by_real[:, 1]
    y = bases.y.transpose(torch.stack([real, imaginary], 1))
    return y.contiguous(memory_format=torch.channels_last)


def filter_spectrum(x: Tensor, weight: Tensor) -> Tensor:
    """The spectrum of a filter for maps of the size of x, (frequencies, 2, C, O)."""
    return _bases_of(x, weight).filter.transform(weight.transpose(0, 1))


# --- transforms -----------------------------------------------------------------------------------


class _Basis(NamedTuple):
    """The Fourier transform of maps, and its transpose.

    Real and imaginary parts are numbers side by side. Along the first axis there are half of all
    frequencies: those of real maps come in conjugate pairs.
    """

    rows: Tensor  # (p 2, H)
    columns: Tensor  # (q 2, 2 W)

    def transform(self, maps: Tensor) -> Tensor:
        """(N, C, H, W) -> (p q, 2, N, C)"""
        n, c, height, width = maps.shape
        along = torch.mm(self.rows, maps.permute(2, 3, 0, 1).reshape(height, -1))
        return torch.matmul(self.columns, along.view(-1, 2 * width, n * c)).view(-1, 2, n, c)

    def transpose(self, spectrum: Tensor) -> Tensor:
        """(p q, 2, N, C) -> (N, C, H, W)"""
        n, c = spectrum.shape[2:]
        along = torch.matmul(self.columns.t(), spectrum.view(-1, len(self.columns), n * c))
        fields = torch.mm(self.rows.t(), along.view(len(self.rows), -1))
        return fields.view(len(fields), -1, n, c).permute(2, 3, 0, 1)


class _Bases(NamedTuple):
    x: _Basis
    filter: _Basis
    y: _Basis  # its transpose is the inverse transform


def _bases_of(x: Tensor, weight: Tensor) -> _Bases:
    return _bases(tuple(x.shape[2:]), tuple(weight.shape[2:]), x.dtype)


@lru_cache(64)
def _bases(size: Pair, filter: Pair, dtype: torch.dtype) -> _Bases:
    """For maps of `size`, and a filter that begins (k - 1) // 2 places before. No weights in it."""
    with _disable_current_modes(), torch.inference_mode(False):  # they serve calls without these
        height, width = _padded_size(size, filter)
        half = height // 2 + 1
        # Each frequency stands for its conjugate too, except those that are real.
        shares = torch.tensor([[2.0 if 2 * f % height else 1.0] for f in range(half)], device="cpu")
        before = [-((taps - 1) // 2) for taps in filter]
        rows = _dft_matrix(height, size[0], before[0])[:half] * shares / (height * width)
        inverse = rows, _dft_matrix(width, size[1], before[1])
        maps = _dft_matrix(height, size[0])[:half], _dft_matrix(width, size[1])
        # Conjugate, since the convolution of networks is a correlation.
        filters = _dft_matrix(height, filter[0])[:half].conj(), _dft_matrix(width, filter[1]).conj()
        return _Bases(*(_as_real(*each, dtype) for each in (maps, filters, inverse)))


def _padded_size(size: Pair, filter: Pair) -> Pair:
    """Height and width so large that what wraps around falls outside the map."""
    return size[0] + filter[0] // 2, size[1] + filter[1] // 2


def _dft_matrix(period: int, size: int, first: int = 0) -> Tensor:
    """The DFT matrix exp(-2 pi i f place / period), for all frequencies f and `size` places."""
    frequency, place = (torch.arange(n, device="cpu") for n in (period, size))
    angles = (frequency[:, None] * (place + first) % period).double() * (-2 * math.pi / period)
    return torch.complex(angles.cos(), angles.sin())


def _as_real(rows: Tensor, columns: Tensor, dtype: torch.dtype) -> _Basis:
    """Complex matrices as real ones: rows of real numbers, columns of pairs."""
    re, im = columns.real, columns.imag
    pairs = torch.stack([torch.stack([re, -im], 1), torch.stack([im, re], 1)], 1)
    halves = torch.stack([rows.real, rows.imag], 1)
    return _Basis(halves.flatten(0, 1).to(dtype), pairs.flatten(2).flatten(0, 1).to(dtype))
