"""The choice of algorithms for one call of a network: the only place that makes it."""

from __future__ import annotations

import torch
from torch import Tensor

from ladderspec.cells.functions import convolve, per_channel
from ladderspec.cells.projections import Projection
from ladderspec.ops import fft_conv
from ladderspec.ops.transforms import is_transformed


class Plain:
    """Every map as its cell declares it."""

    def project(
        self, projection: Projection, x: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        return projection.compute(x, weight, bias)


class Fast(Plain):
    """Maps by the algorithm that takes the fewest multiplications."""

    def project(
        self, projection: Projection, x: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        if (
            projection.function is convolve
            and fft_conv.pays(
                projection.source,
                projection.target,
                projection.filter,
                projection.stride,
                x.shape[0],
            )
            and weight is not None
            and x.dtype == weight.dtype
        ):
            y = fft_conv.fft_convolve(x, weight)
            return y if bias is None else y + per_channel(bias, y)
        return projection.compute(x, weight, bias)


PLAIN, FAST = Plain(), Fast()


def choose(frames: Tensor) -> Plain:
    """The algorithms for a call with these frames.

    Plain ones if torch compiles, traces or transforms the call, under autocast, for types other
    than float32 and float64, and on devices on which nothing else was measured.
    """
    plain = (
        is_transformed()
        or type(frames) is not Tensor
        or not frames.is_cpu
        or frames.dtype not in (torch.float32, torch.float64)
        or torch.is_autocast_enabled("cpu")
    )
    return PLAIN if plain else FAST
