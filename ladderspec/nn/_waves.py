"""Maps and filters as waves on a torus, where a convolution is a product for each wave.

Real and imaginary parts are numbers side by side, and waves are found axis by axis, by products
with matrices of cosines and sines: for the sizes of maps as fast as a Fourier transform.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ladderspec.names import Shape

Size = tuple[int, int]


class Waves:
    """The waves of fields (H, W, M), and what is transposed to that.

    By the first axis there are half of all waves: those of real fields come in conjugate pairs.
    """

    def __init__(self, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> None:
        self.rows, self.columns = rows.to(dtype), columns.to(dtype)  # (p 2, H), (q 2, 2 W)

    def of(self, field: Tensor) -> Tensor:
        """(H, W, M) -> (p q, 2, M)"""
        along = torch.mm(self.rows, field.flatten(1))
        pairs = along.view(-1, self.columns.shape[1], field.shape[2])
        return torch.matmul(self.columns, pairs).view(-1, 2, field.shape[2])

    def back(self, waves: Tensor) -> Tensor:
        """The transpose: (p q, 2, M) -> (H, W, M)"""
        pairs = waves.view(-1, len(self.columns), waves.shape[2])
        along = torch.matmul(self.columns.t(), pairs)
        field = torch.mm(self.rows.t(), along.view(len(self.rows), -1))
        return field.view(len(field), -1, waves.shape[2])


class Three(NamedTuple):
    """The waves that take part in a convolution."""

    x: Waves
    filter: Waves
    y: Waves  # its `back` makes a field from waves


def torus_of(field: Size, filter: Size) -> Size:
    """So large that what comes round falls outside of what is seen."""
    return field[0] + filter[0] // 2, field[1] + filter[1] // 2


@lru_cache(64)
def three(field: Size, filter: Size, dtype: torch.dtype) -> Three:
    """For maps of the size `field`, and a filter that begins (k - 1) // 2 places before."""
    with _disable_current_modes():  # kept for those who come without them
        return _made(field, filter, dtype)


def _made(field: Size, filter: Size, dtype: torch.dtype) -> Three:
    height, width = torus_of(field, filter)
    before = (filter[0] - 1) // 2, (filter[1] - 1) // 2
    seen = _rows(height, field[0]), _columns(width, field[1])
    # Conjugate, since what networks call a convolution is a correlation.
    filters = _rows(height, filter[0], sign=1), _columns(width, filter[1], sign=1)
    # Each wave is one of so many, and counts for its conjugate, but for those that are real.
    shares = torch.full((height // 2 + 1,), 2.0, dtype=torch.float64, device="cpu")
    shares[0] = 1
    if height % 2 == 0:
        shares[-1] = 1
    rows = _rows(height, field[0], -before[0]) * shares.repeat_interleave(2)[:, None]
    made = rows / (height * width), _columns(width, field[1], -before[1])
    return Three(*(Waves(*each, dtype) for each in (seen, filters, made)))


def _rows(torus: int, size: int, first: int = 0, sign: int = -1) -> Tensor:
    cos, sin = _angles(torus, torus // 2 + 1, size, first)
    return torch.stack([cos, sign * sin], 1).flatten(0, 1)


def _columns(torus: int, size: int, first: int = 0, sign: int = -1) -> Tensor:
    cos, sin = _angles(torus, torus, size, first)
    sin = sign * sin
    parts = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
    return parts.flatten(2).flatten(0, 1)


def _angles(torus: int, waves: int, size: int, first: int) -> tuple[Tensor, Tensor]:
    wave, place = (torch.arange(n, device="cpu") for n in (waves, size))
    angles = (wave[:, None] * (place + first) % torus).double() * (2 * math.pi / torus)
    return torch.cos(angles), torch.sin(angles)


# --- maps and filters as fields -------------------------------------------------------------------


def fields_of(maps: Tensor) -> Tensor:
    """(N, C, H, W) -> (H, W, N C)"""
    return maps.permute(2, 3, 0, 1).contiguous().flatten(2)


def maps_of(fields: Tensor, shape: Shape) -> Tensor:
    """(H, W, N C) -> channels-last (N, C, H, W)"""
    maps = torch.empty(
        shape, dtype=fields.dtype, device=fields.device, memory_format=torch.channels_last
    )
    return maps.copy_(fields.view(*shape[2:], *shape[:2]).permute(2, 3, 0, 1))


def fields_of_filter(weight: Tensor) -> Tensor:
    """(O, C, h, w) -> (h, w, C O)"""
    return weight.permute(2, 3, 1, 0).reshape(*weight.shape[2:], -1)


def filter_of(fields: Tensor, shape: Shape) -> Tensor:
    """(h, w, C O) -> (O, C, h, w)"""
    return fields.view(*shape[2:], shape[1], shape[0]).permute(3, 2, 0, 1)
