"""The choice of algorithms for one call of a network: the only place that makes it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ladderspec.cells.functions import convolve, per_channel
from ladderspec.cells.projections import Projection
from ladderspec.ops import fft_conv
from ladderspec.ops.transforms import is_transformed

# The map of an edge: its projection, a value, the weight and the bias -> the value of the map.
Project = Callable[[Projection, Tensor, Tensor | None, Tensor | None], Tensor]

plain_project: Project = Projection.compute  # every map as its cell declares it


def fast_project(p: Projection, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """The map by the algorithm that takes the fewest multiplications."""
    if (
        weight is not None
        and p.function is convolve
        and fft_conv.pays(p.source, p.target, p.filter, p.stride, x.shape[0])
        and x.dtype == weight.dtype
    ):
        y = fft_conv.fft_convolve(x, weight)
        return y if bias is None else y + per_channel(bias, y)
    return plain_project(p, x, weight, bias)


def choose(frames: Tensor) -> Project:
    """The algorithm for the maps of a call with these frames.

    The plain one if torch compiles, traces or transforms the call, under autocast, for types other
    than float32 and float64, and on devices on which nothing else was measured.
    """
    plain = (
        is_transformed()
        or type(frames) is not Tensor
        or not frames.is_cpu
        or frames.dtype not in (torch.float32, torch.float64)
        or torch.is_autocast_enabled("cpu")
    )
    return plain_project if plain else fast_project
