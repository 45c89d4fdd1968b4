"""Norms of convolutions that see few numbers, from the moments of what they see.

The lowest cell of a ladder sees one channel: nine pixels at a place, for the 128 channels of its
gates. Mean and variance of those channels follow from mean and covariance of nine pixels, so that
the norm becomes part of the weights: one matrix product, where a convolution, its statistics and
their scaling pass over memory again and again, and more often on the way back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_unary

from ladderspec.names import Shape, size_of
from ladderspec.nn._fused import transformed
from ladderspec.nn._tally import Conv

FEW = 16  # numbers that are seen at a place
TIMES = 2  # as many channels, at least, that are made from them
MANY = 1 << 18  # values that come out: below, the calls take longer than the passes over memory


class Seen(NamedTuple):
    """What a convolution sees at its places, sample by sample."""

    numbers: Tensor  # (N, places, K + 1), the last of them 1
    mean: Tensor  # (N, K)
    covariance: Tensor  # (N, K, K)


def sees_few(weight: Tensor) -> bool:
    """Whether a filter (C, ...) makes many channels from few numbers."""
    few = weight[0].numel()
    return few <= FEW and weight.shape[0] >= TIMES * few


def pays(x: Tensor, weight: Tensor, target: Shape) -> bool:
    """Whether it is faster here: many values, of which `x` wants no gradient."""
    return (
        x.shape[0] * size_of(target) >= MANY
        and x.is_cpu
        and not x.requires_grad
        and x.dtype == weight.dtype
        and not transformed()
        and not torch.is_autocast_enabled("cpu")
        and forward_ad._current_level < 0
    )


def look(x: Tensor, conv: Conv, filter: Shape) -> Seen:
    """What a convolution sees of each sample."""
    seen = functional.unfold(x, filter, padding=conv.padding, stride=conv.stride)  # (N, K, places)
    mean = seen.mean(2)
    apart = seen - mean[:, :, None]
    covariance = torch.bmm(apart, apart.transpose(1, 2)) / seen.shape[2]
    one = functional.pad(seen, (0, 0, 0, 1), value=1.0)
    return Seen(one.transpose(1, 2), mean, covariance)


def scaled(
    seen: Seen, weight: Tensor, scale: Tensor, shift: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """scale . (weight * x) + shift, both by sample and channel, as maps of `shape` (N, C, H, W)."""
    maps = torch.cat([weight.flatten(1).t() * scale[:, None], shift[:, None]], 1)
    return channels_last_product(seen.numbers, maps, shape)


class Product(Function):
    """numbers @ maps, sample by sample, into channels-last maps; the numbers are data."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, maps: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(numbers)
        y = torch.empty(shape, dtype=maps.dtype, memory_format=torch.channels_last)
        torch.bmm(numbers, maps, out=y.permute(0, 2, 3, 1).view(*numbers.shape[:2], -1))
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, Tensor, None]:
        (numbers,) = ctx.saved_tensors
        flat = dy.permute(0, 2, 3, 1).reshape(*numbers.shape[:2], -1)
        return None, torch.bmm(numbers.transpose(1, 2), flat), None


def channels_last_product(numbers: Tensor, maps: Tensor, shape: tuple[int, ...]) -> Tensor:
    # One call for whoever records those of torch, as the fused gates.
    if torch.is_grad_enabled() and has_torch_function_unary(maps):
        found: Tensor = handle_torch_function(channels_last_product, (maps,), numbers, maps, shape)
        return found
    y: Tensor = Product.apply(numbers, maps, shape)  # type: ignore[no-untyped-call]
    return y
