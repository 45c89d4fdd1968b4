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


class FastProject:
    """The map by the algorithm that takes the fewest multiplications.

    One object serves one call of a network: filters are transformed once, for all t.
    """

    def __init__(self) -> None:
        self.spectra: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = {}

    def __call__(
        self, p: Projection, x: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        if (
            weight is None
            or p.function is not convolve
            or not fft_conv.pays(p.source, p.target, p.filter, p.stride, x.shape[0])
            or x.dtype != weight.dtype
        ):
            return plain_project(p, x, weight, bias)
        key = id(weight), *x.shape[2:]
        if key not in self.spectra:
            # With the weight itself, so that its id is not used again.
            self.spectra[key] = weight, fft_conv.filter_spectrum(x, weight)
        y = fft_conv.fft_convolve(x, weight, self.spectra[key][1])
        return y if bias is None else y + per_channel(bias, y)


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
    return plain_project if plain else FastProject()
