"""Plain tensor functions that several cells share. torch is imported when they are called.

Exported networks contain the source of these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

Pair = tuple[int, int]


def f(u: Tensor, w: Tensor) -> Tensor:
    """f(u, w) = w0 sigmoid(w1 u + w2) + w3 u + w4 [eq:fdec]

    >>> from torch import tensor
    >>> number = f(tensor(0.7), tensor([1.5, -2.0, 0.25, 0.5, -0.1]))
    >>> f"{number:.6f}"
    '0.610734'

    Args:
        u: The values.
        w: Five coefficients, (5, ...), each of a shape that broadcasts over `u`.
    """
    import torch

    w0, w1, w2, w3, w4 = w.unbind(0)
    return w0 * torch.sigmoid(u * w1 + w2) + (u * w3 + w4)


def per_unit(w: Tensor, u: Tensor) -> Tensor:
    """w (5, units) shaped to broadcast over u: one w for each value, or one for each channel."""
    if w[0].numel() == u[0].numel():
        return w.view(5, *u.shape[1:])
    return w.view(5, -1, 1, 1)


def mix(s: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """s . a + (1 - s) . b"""
    import torch

    if s.dtype == a.dtype == b.dtype:
        return torch.lerp(b, a, s)
    return torch.addcmul(b, s, a - b)  # under autocast their precisions may differ


def per_channel(values: Tensor, like: Tensor) -> Tensor:
    """(C,) -> (C, 1, 1) if `like` is a batch of maps."""
    return values.view(-1, *(1 for _ in like.shape[2:]))


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b; maps are flattened."""
    from torch.nn import functional

    return functional.linear(x.flatten(1), weight, bias)


def dense_to_map(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, target: tuple[int, ...]
) -> Tensor:
    """W x + b in the shape of maps; the bias is by channel."""
    y = dense(x, weight).view(x.shape[0], *target)
    return y if bias is None else y + per_channel(bias, y)


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = (1, 1)
) -> Tensor:
    """Convolution to ceil(n / s) outputs: (k - 1) // 2 zeros before, after as many as needed.

    Args:
        x: Maps (B, C, H, W).
        weight: Filters (out, C, height, width).
        bias: One number per output channel.
        stride: Step of the filter, (height, width).
    """
    from torch.nn import functional

    before = [(k - 1) // 2 for k in weight.shape[2:]]
    # As many zeros after as before, and one more if the last window of an even filter sticks out.
    sides = zip(x.shape[2:], weight.shape[2:], stride, strict=True)
    bottom, right = (int(k % 2 == 0 and (n - 1) % s == 0) for n, k, s in sides)
    if bottom or right:
        x = functional.pad(x, (0, right, 0, bottom))
    return functional.conv2d(x, weight, bias, stride, before)


def general_convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    channel_groups: int = 1,
) -> Tensor:
    """As `convolve`, dilated and in groups of channels: k is then d (taps - 1) + 1.

    Args:
        x: Maps (B, C, H, W).
        weight: Filters (out, C / channel_groups, height, width).
        bias: One number per output channel.
        stride: Step of the filter, (height, width).
        dilation: Distance d of the taps, (height, width).
        channel_groups: Groups of channels, each of which is convolved by itself.
    """
    from torch.nn import functional

    spans = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    sides = zip(x.shape[2:], spans, stride, strict=True)
    bottom, right = (int(k % 2 == 0 and (n - 1) % s == 0) for n, k, s in sides)
    x = functional.pad(x, (0, right, 0, bottom))
    before = [(k - 1) // 2 for k in spans]
    return functional.conv2d(x, weight, bias, stride, before, dilation, channel_groups)


def convolve_transposed(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Pair, size: Pair
) -> Tensor:
    """The transpose of `convolve` from maps of `size`; values outside of them are dropped.

    Args:
        x: Maps (B, C, H, W).
        weight: Filters (C, out, height, width).
        bias: One number per output channel.
        stride: Stride of the convolution that leads back, (height, width).
        size: Height and width of the output.
    """
    from torch.nn import functional

    before = [(k - 1) // 2 for k in weight.shape[2:]]
    sides = zip(size, x.shape[2:], stride, weight.shape[2:], before, strict=True)
    beyond = [max(m - (n - 1) * s - k + 2 * p, 0) for m, n, s, k, p in sides]
    y = functional.conv_transpose2d(x, weight, bias, stride, before, beyond)
    return y[:, :, : size[0], : size[1]]


def scaled(x: Tensor, *, factor: float) -> Tensor:
    """The value, times a constant."""
    return x * factor


def resampled(x: Tensor, *, size: Pair, mode: str, factor: float = 1.0) -> Tensor:
    """Maps of another size, times a constant: the nearest place, or a mean of the nearest four.

    Args:
        x: Maps (B, C, H, W).
        size: Height and width of the output.
        mode: `nearest` or `bilinear`.
        factor: The constant.
    """
    from torch.nn import functional

    if mode == "bilinear":
        return functional.interpolate(x, size, mode="bilinear", align_corners=False) * factor
    return functional.interpolate(x, size, mode="nearest-exact") * factor


def spread(x: Tensor, *, stride: Pair, size: Pair) -> Tensor:
    """Each value over its window of `stride`, to maps of `size`; a vector over whole maps."""
    from torch.nn import functional

    if x.dim() == 2:
        return x[:, :, None, None].expand(-1, -1, *size)
    if x.shape[2:] == size:
        return x
    whole = [n * s for n, s in zip(x.shape[2:], stride, strict=True)]
    return functional.interpolate(x, whole, mode="nearest-exact")[:, :, : size[0], : size[1]]
