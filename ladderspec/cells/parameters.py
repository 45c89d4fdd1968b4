"""The parameters that a cell declares: a shape and an initial value each, drawn from a generator.

Never imports torch by itself: shapes and counts are known before any tensor exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ladderspec.names import Shape, size_of

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(frozen=True)
class Parameter:
    """Shape and initial value of a parameter, before any tensor exists.

    Attributes:
        shape: The shape.
        values: Initial values, each of an equal block of the first dimension.
        variance: The variance of a Gaussian with mean 0, drawn instead of `values`.
        buffer: Whether it is saved with the network, but neither learned nor counted.
        taps: Height and width of the blocks of a filter's taps that start with equal values.
        elementwise: Whether it holds coefficients, not a linear map: it has no multiply-adds.
    """

    shape: Shape
    values: tuple[float, ...] = (0.0,)
    variance: float | None = None
    buffer: bool = False
    taps: tuple[int, int] = (1, 1)
    elementwise: bool = False

    @property
    def size(self) -> int:
        """How many numbers are learned."""
        return 0 if self.buffer else size_of(self.shape)

    def as_buffer(self) -> Parameter:
        """The same numbers, not learned: set from data, or drawn once."""
        return replace(self, buffer=True)

    def fill(self, tensor: Tensor, generator: Generator | None = None) -> None:
        """Write the initial value into `tensor`, in place."""
        import torch

        if self.variance is None:
            for block, value in zip(tensor.chunk(len(self.values)), self.values, strict=True):
                block.fill_(value)
            return
        # Drawn on the CPU in one precision: the same numbers on every device and in every dtype.
        shape, (rows, columns) = list(self.shape), self.taps
        if self.taps != (1, 1):
            shape[-2:] = [-(-shape[-2] // rows), -(-shape[-1] // columns)]
        drawn = torch.empty(shape, dtype=torch.float32)
        drawn.normal_(0.0, self.variance**0.5, generator=generator)
        if self.taps != (1, 1):
            drawn = drawn.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
            drawn = drawn[..., : self.shape[-2], : self.shape[-1]]
        tensor.copy_(drawn)


Parameters = dict[str, Parameter]


def shareable(parameters: Mapping[str, Parameter]) -> Parameters:
    """Those that cells and arrows share: no buffers, and no initial values of nodes."""
    return {
        name: parameter
        for name, parameter in parameters.items()
        if not parameter.buffer and not name.startswith("initial")
    }


def zeros(*shape: int) -> Parameter:
    """All zeros.

    >>> zeros(3).values
    (0.0,)
    """
    return Parameter(shape)


def ones(*shape: int) -> Parameter:
    """All ones.

    >>> ones(3).values
    (1.0,)
    """
    return Parameter(shape, (1.0,))


def blocks(*shape: int, values: tuple[float, ...]) -> Parameter:
    """Coefficients that are applied elementwise, in equal blocks of the first dimension.

    Args:
        shape: The shape.
        values: The initial value of each block.
    """
    return Parameter(shape, tuple(map(float, values)), elementwise=True)


def normal(*shape: int) -> Parameter:
    """Gaussian with variance 1."""
    return Parameter(shape, variance=1.0)


def weight(*shape: int, scale: float = 1.0, fan_in: float | None = None) -> Parameter:
    """Gaussian with variance scale / fan_in. CHOICE: an output is about as large as its inputs.

    Args:
        shape: The shape, with the outputs first.
        scale: A factor of the variance.
        fan_in: How many values an output sums. Default: the size of `shape` without the outputs.
    """
    return Parameter(shape, variance=scale / (fan_in or size_of(shape[1:])))
