"""Plain modules that exported files contain as they stand here."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def blocks(*shape: int, values: tuple[float, ...]) -> nn.Parameter:
    """The first dimension in equal blocks, each filled with its own value."""
    start = torch.tensor(values).repeat_interleave(shape[0] // len(values))
    return nn.Parameter(start.view(-1, *(1 for _ in shape[1:])).repeat(1, *shape[1:]))


def weight(*shape: int, scale: float = 1.0) -> nn.Parameter:
    """Gaussian with variance scale / fan_in."""
    return nn.Parameter(torch.randn(shape) * (scale / torch.Size(shape[1:]).numel()) ** 0.5)


def weight_in_blocks(*shape: int, taps: tuple[int, int], scale: float = 1.0) -> nn.Parameter:
    """Equal taps within blocks: all phases of a strided transposed filter start alike."""
    (*_, height, width), (rows, columns) = shape, taps
    coarse = weight(*shape, scale=scale).detach()[..., ::rows, ::columns]
    fine = coarse.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    return nn.Parameter(fine[..., :height, :width].clone())


def share(owner: nn.Module, module: nn.Module) -> None:
    """Let a module use the parameters of its owner, under whose name they are registered once."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        if name not in owner._parameters:  # an owner that does nothing but keep them
            owner.register_parameter(name, parameter)
        del module._parameters[name]
        module.__dict__[name] = owner._parameters[name]


def spread_channels(values: Tensor, batch: int, *shape: int) -> Tensor:
    """One value per channel, over a batch of maps or vectors."""
    return values.view(-1, *(1 for _ in shape[1:])).expand(batch, *shape)


class BatchNorm(nn.Module):
    """(x - mean) / std of each channel; each t has a row of running statistics, up to the last."""

    running_mean: Tensor  # (rows, C)
    running_var: Tensor

    def __init__(self, channels: int, rows: int) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(rows, channels))
        self.register_buffer("running_var", torch.ones(rows, channels))

    def forward(self, t: int, x: Tensor, *gain_and_bias: Tensor) -> Tensor:
        row = min(t, len(self.running_mean) - 1)
        mean, var = self.running_mean[row], self.running_var[row]
        return functional.batch_norm(x, mean, var, *gain_and_bias, training=self.training)


class Offset(nn.Module):
    """x + offset, a buffer with the mean of what is to be predicted."""

    offset: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("offset", torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.offset


class LinearOffset(nn.Linear):
    """A read-out with an offset, a buffer with the mean of what is to be predicted."""

    offset: Tensor

    def __init__(self, source: int, *shape: int) -> None:
        super().__init__(source, shape[0])
        self.register_buffer("offset", torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.offset


class ConvOffset(nn.Conv2d):
    """A 1x1 read-out with an offset, a buffer with the mean of what is to be predicted."""

    offset: Tensor

    def __init__(self, source: int, *shape: int) -> None:
        super().__init__(source, shape[0], 1)
        self.register_buffer("offset", torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.offset


class Levels(nn.ModuleDict):
    """Modules by name, even by one such as `half` or `train`, which ModuleDict has itself."""

    def __setitem__(self, name: str, module: nn.Module) -> None:
        self._modules[name] = module


class Cell(nn.Module):
    """Has a module for each edge that owns something, by role."""

    def __init__(self, **edges: nn.Module) -> None:
        super().__init__()
        for key, module in edges.items():
            self.add_module(key, module)

    def total(self, t: int, values: dict[str, Tensor], offset: Tensor | None = None) -> Tensor:
        """The sum of what the edges bring, plus the offset of each channel."""
        own = dict(self.named_children())
        terms = [own[key](t, x) if key in own else x for key, x in values.items()]
        total = sum(terms[1:], terms[0])
        return total if offset is None else total + offset.view(-1, *(1 for _ in total.shape[2:]))
