"""Filters in the order in which oneDNN reads them, made once for many calls.

torch puts a filter into that order again at every call. Where maps are small and t many, as with
music, that takes a tenth of the time of a convolution.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ladderspec.names import Shape

ONE = (1, 1)
CALLS = (
    "_reorder_convolution_weight",
    "_convolution_pointwise",
    "_reorder_convolution_transpose_weight",
    "_convolution_transpose_pointwise",
)


class Packed:
    """A convolution with a filter that stays as it is."""

    def __init__(self, weight: Tensor, stride: Shape, padding: Shape) -> None:
        self.weight, self.stride, self.padding = weight, stride, padding
        self.ordered: Tensor | None = None  # at the first call; right for other sizes too

    def __call__(self, x: Tensor, size: Shape | None = None) -> Tensor:
        if self.ordered is None:
            self.ordered = torch.ops.mkldnn._reorder_convolution_weight(
                self.weight, self.padding, self.stride, ONE, 1, x.shape
            )
        y: Tensor = torch.ops.mkldnn._convolution_pointwise(
            x, self.ordered, None, self.padding, self.stride, ONE, 1, "none", [], ""
        )
        return y


class PackedTransposed(Packed):
    """The transpose of a convolution, `beyond` its natural size or to maps of a given one."""

    def __init__(
        self, weight: Tensor, stride: Shape, padding: Shape, beyond: Shape = (0, 0)
    ) -> None:
        super().__init__(weight, stride, padding)
        self.beyond = beyond

    def __call__(self, x: Tensor, size: Shape | None = None) -> Tensor:
        beyond = self.beyond if size is None else self._beyond(x, size)
        if self.ordered is None:
            self.ordered = torch.ops.mkldnn._reorder_convolution_transpose_weight(
                self.weight, self.padding, beyond, self.stride, ONE, 1, x.shape
            )
        y: Tensor = torch.ops.mkldnn._convolution_transpose_pointwise(
            x, self.ordered, None, self.padding, beyond, self.stride, ONE, 1, "none", [], ""
        )
        return y

    def _beyond(self, x: Tensor, size: Shape) -> Shape:
        filter, facts = self.weight.shape[2:], (size, x.shape[2:], self.stride, self.padding)
        every = zip(filter, *facts, strict=True)
        return tuple(n - ((m - 1) * s + k - 2 * p) for k, n, m, s, p in every)


def packed_back(weight: Tensor, stride: Shape, padding: Shape) -> Packed:
    """From the y of a convolution to its x."""
    if stride != ONE:
        return PackedTransposed(weight, stride, padding)
    (height, width), (top, left) = weight.shape[2:], padding
    back = weight.transpose(0, 1).flip((2, 3)).contiguous(memory_format=torch.channels_last)
    return Packed(back, ONE, (height - 1 - top, width - 1 - left))


def packs(weight: Tensor) -> bool:
    """Whether oneDNN computes with it, and it is the same at the next call."""
    return (
        weight.dtype == torch.float32
        and weight.is_cpu
        and weight.grad_fn is None
        and type(weight.detach()) is Tensor  # not one without numbers, as trackers use
        and bool(torch.backends.mkldnn.enabled)
        and _is_there()
    )


@cache
def _is_there() -> bool:
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
        and all(hasattr(torch.ops.mkldnn, name) for name in CALLS)
    )
