"""What several cells share: [eq:fdec], the updates of LSTM and GRU, activations, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ladderspec.names import Shape
from ladderspec.nn._fused import fused_lstm_update, fusible, gated_maps

Pair = tuple[int, int]
Five = tuple[float, float, float, float, float]

Activation = Literal[
    "none", "relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "tanh", "sigmoid"
]


def _same(x: Tensor) -> Tensor:  # no lambda, which cannot be pickled
    return x


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": _same,
    "relu": torch.relu_,  # in place: the sum of the drives is the cell's own
    "leaky_relu": partial(functional.leaky_relu, negative_slope=0.1),  # CHOICE: that of the Ladder
    "elu": functional.elu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
# Activations that let about half of the variance through.
HALVING = frozenset[Activation]({"relu", "leaky_relu", "elu", "gelu", "silu"})


def f(u: Tensor, w: Tensor) -> Tensor:
    """f(u, w) = w0 sigmoid(w1 u + w2) + w3 u + w4 [eq:fdec]; w (5, ...) broadcasts over u.

    >>> number = f(torch.tensor(0.7), torch.tensor([1.5, -2.0, 0.25, 0.5, -0.1]))
    >>> f"{number:.6f}"
    '0.610734'
    """
    w0, w1, w2, w3, w4 = w.unbind(0)
    # Not addcmul, which takes twice as long where it has to broadcast, and backward one more pass.
    s = (u * w1).add_(w2).sigmoid_()
    return (u * w3).add_(w4).add_(s * w0)


def mix(s: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """s . a + (1 - s) . b"""
    if s.dtype == a.dtype == b.dtype:
        return torch.lerp(b, a, s)
    return torch.addcmul(b, s, a - b)  # under autocast their precisions may differ


def gate(maps: Tensor) -> Tensor:
    """sigmoid(s) . a + (1 - sigmoid(s)) . b, where s, a, b = split(maps)"""
    if fusible(maps):
        return gated_maps(maps)
    s, a, b = maps.chunk(3, dim=1)
    return mix(torch.sigmoid(s), a, b)


def lstm_update(a: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
    """h and c from the sum a of all drives and the former c; None is a c of zeros.

    The sum belongs to the cell and may be overwritten.

    i, f, o, g = split(a); c' = sigmoid(f) . c + sigmoid(i) . tanh(g); h' = sigmoid(o) . tanh(c')
    """
    if fusible(a, c):
        # In place of a part of something else, autograd takes no function of several results.
        return fused_lstm_update(a.clone() if a._is_view() else a, c)
    channels = a.shape[1] // 4
    gates, g = a.split_with_sizes((3 * channels, channels), dim=1)
    i, f, o = torch.sigmoid(gates).chunk(3, dim=1)
    new = i * torch.tanh(g) if c is None else torch.addcmul(f * c, i, torch.tanh(g))
    return o * torch.tanh(new), new


def gru_update(
    gates: Tensor, x_n: Tensor, a_n: Tensor | None, h: Tensor | None, b: Tensor
) -> Tensor:
    """h from the drives of r and z, of n by the inputs (x_n) and of n by the former h (a_n).

    r, z = sigmoid(split(gates)); n = tanh(x_n + r . (a_n + b)); h' = (1 - z) . n + z . h
    None is an h of zeros.
    """
    r, z = torch.sigmoid(gates).chunk(2, dim=1)
    n = torch.tanh(torch.addcmul(x_n, r, b if a_n is None else a_n + b))
    return n - z * n if h is None else mix(z, h, n)


def split_gru(drive: Tensor) -> tuple[Tensor, Tensor]:
    """A drive of r, z, n: the part of both gates, and that of n."""
    channels = drive.shape[1] // 3
    gates, n = drive.split_with_sizes((2 * channels, channels), dim=1)
    return gates, n


def per_channel(values: Tensor, like: Tensor) -> Tensor:
    """(..., C) -> (..., C, 1, 1) where `like` is a batch of maps."""
    return values.view(*values.shape, *(1 for _ in like.shape[2:]))


# --- linear maps ----------------------------------------------------------------------------------


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = (1, 1)
) -> Tensor:
    """Convolution to ceil(n / s) outputs: (k - 1) // 2 zeros before, after as many as needed."""
    sizes, filter = x.shape[2:], weight.shape[2:]
    before = [(k - 1) // 2 for k in filter]
    # As many after as before are enough, but for an even filter whose last place is the border.
    after = [
        int(k % 2 == 0 and (n - 1) % s == 0) for n, k, s in zip(sizes, filter, stride, strict=True)
    ]
    if any(after):
        x = functional.pad(x, (0, after[1], 0, after[0]))
    return functional.conv2d(x, weight, bias, stride, before)


def margins(sizes: Sequence[int], filter: Sequence[int], stride: Pair) -> tuple[Pair, Pair]:
    """Of a transposed convolution: zeros before that are dropped, and the sizes that come out."""
    before = (filter[0] - 1) // 2, (filter[1] - 1) // 2
    height, width = (
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(sizes, stride, filter, before, strict=True)
    )
    return before, (height, width)


def convolve_transposed(
    x: Tensor, weight: Tensor, size: Shape, bias: Tensor | None = None, stride: Pair = (1, 1)
) -> Tensor:
    """The transpose of `convolve` from maps of `size`; what falls outside them is dropped."""
    before, natural = margins(x.shape[2:], weight.shape[2:], stride)
    beyond = [max(m - n, 0) for m, n in zip(size, natural, strict=True)]
    y = functional.conv_transpose2d(x, weight, bias, stride, before, beyond)
    if any(n > m for m, n in zip(size, natural, strict=True)):
        y = y[:, :, : size[0], : size[1]]
    return y
