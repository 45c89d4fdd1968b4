"""Layer norm of a convolution that sees few numbers, from the moments of what it sees.

The lowest cell of a ladder sees one channel: nine pixels at a place, for the 128 channels of its
gates. Mean and variance of those channels follow from mean and covariance of nine pixels, so that
the norm becomes part of the weights: one matrix product, where a convolution, its statistics and
their scaling pass over memory again and again, and more often on the way back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_unary

from ladderspec.names import Shape, size_of
from ladderspec.nn._fused import transformed
from ladderspec.nn._norms import EPS
from ladderspec.nn._tally import Conv

AT_A_PLACE = 16  # numbers that are seen there, at most
TIMES = 2  # as many channels, at least, that are made from them
MANY = 1 << 18  # values that come out: below, the calls take longer than the passes over memory


def makes_many_of_few(weight: Tensor) -> bool:
    """Whether a filter (C, ...) makes many channels from few numbers."""
    few = weight[0].numel()
    return few <= AT_A_PLACE and weight.shape[0] >= TIMES * few


def pays(x: Tensor, dtype: torch.dtype, target: Shape) -> bool:
    """Whether it is faster here, and as exact: `x` is data, and weights have its precision."""
    return (
        not transformed()  # first: a compiler would remember that the batch was compared
        and x.dtype == dtype in (torch.float32, torch.float64)
        and x.shape[0] * size_of(target) >= MANY
        and x.is_cpu
        and not x.requires_grad
        and not torch.is_autocast_enabled("cpu")
    )


def layer_norm_of_conv(
    x: Tensor, weight: Tensor, conv: Conv, gain: Tensor, bias: Tensor | None, target: Shape
) -> Tensor:
    """LN(weight * x) with its gain and bias: maps (N, *target)."""
    seen = functional.unfold(x, weight.shape[2:], padding=conv.padding, stride=conv.stride)
    filters = weight.flatten(1)  # (C, K), for what is seen (N, K, places)
    mean, variance = moments(seen, filters)
    scale = gain * torch.rsqrt(variance + EPS)  # (N, C)
    shift = -mean * scale if bias is None else bias - mean * scale
    maps = torch.cat([filters.t() * scale[:, None], shift[:, None]], 1)  # (N, K + 1, C)
    numbers = functional.pad(seen, (0, 0, 0, 1), value=1.0).transpose(1, 2)
    return channels_last_product(numbers, maps, (x.shape[0], *target))


def moments(seen: Tensor, filters: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (N, 1), over channels and places, of what the filters make."""
    many, few = seen.double(), filters.double()  # squares cancel where filters look for edges
    middle = many.mean(2)
    apart = many - middle[:, :, None]
    covariance = torch.bmm(apart, apart.transpose(1, 2)) / many.shape[2]
    by_channel = middle @ few.t()
    mean = by_channel.mean(1, keepdim=True)
    inside = (covariance * (few.t() @ few)).sum((1, 2)) / len(few)
    between = (by_channel - mean).square().mean(1)
    variance = (inside + between).clamp_min(0)[:, None]
    return mean.to(seen.dtype), variance.to(seen.dtype)


class Product(Function):
    """numbers @ maps, sample by sample, into channels-last maps; the numbers are data."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, maps: Tensor, shape: Shape) -> Tensor:
        ctx.save_for_backward(numbers)
        y = torch.empty(
            shape, dtype=maps.dtype, device=maps.device, memory_format=torch.channels_last
        )
        torch.bmm(numbers, maps, out=y.permute(0, 2, 3, 1).view(*numbers.shape[:2], -1))
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, Tensor, None]:
        (numbers,) = ctx.saved_tensors
        flat = dy.permute(0, 2, 3, 1).reshape(*numbers.shape[:2], -1)
        return None, torch.bmm(numbers.transpose(1, 2), flat), None


def channels_last_product(numbers: Tensor, maps: Tensor, shape: Shape) -> Tensor:
    # On a tape it is one call, with gradients of its own.
    if torch.is_grad_enabled() and has_torch_function_unary(maps):
        found: Tensor = handle_torch_function(channels_last_product, (maps,), numbers, maps, shape)
        return found
    y: Tensor = Product.apply(numbers, maps, shape)  # type: ignore[no-untyped-call]
    return y
