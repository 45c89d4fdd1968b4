"""Plain modules that exported files contain as they stand here."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def blocks(*shape: int, values: tuple[float, ...]) -> Tensor:
    """The first dimension in equal blocks, each filled with its own value."""
    start = torch.tensor(values).repeat_interleave(shape[0] // len(values))
    return start.view(-1, *(1 for _ in shape[1:])).repeat(1, *shape[1:])


def gaussian(*shape: int, scale: float = 1.0) -> Tensor:
    """Random numbers with variance scale / fan_in."""
    return torch.randn(shape).mul((scale / torch.Size(shape[1:]).numel()) ** 0.5)


def gaussian_blocks(*shape: int, taps: tuple[int, int], scale: float = 1.0) -> Tensor:
    """Equal taps within blocks: all phases of a strided transposed filter start alike."""
    (*_, height, width), (rows, columns) = shape, taps
    coarse = gaussian(*shape, scale=scale)[..., ::rows, ::columns]
    fine = coarse.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    return fine[..., :height, :width].clone()


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

    def __init__(self, channels: int, rows: int) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(rows, channels))
        self.register_buffer("running_var", torch.ones(rows, channels))

    def forward(self, t: int, x: Tensor, *gain_and_bias: Tensor) -> Tensor:
        mean, var = self.buffers()
        untrained = len(mean) * (var == 1).all(1)  # rows that evaluation skips
        nearest = (abs(torch.arange(len(mean), device=x.device) - t) + untrained).argmin()
        row: int | Tensor = min(t, len(mean) - 1) if self.training else nearest
        return functional.batch_norm(x, mean[row], var[row], *gain_and_bias, training=self.training)


def with_noise(cell: nn.Module, z: Tensor, deviation: float) -> Tensor:
    """z with Gaussian noise in training."""
    return z + deviation * torch.randn_like(z) if cell.training else z


def with_same_noise(cell: nn.Module, t: int, z: Tensor, deviation: float) -> Tensor:
    """z with Gaussian noise in training, the same at every t."""
    if cell.training and t == 0:
        vars(cell)["drawn"] = deviation * torch.randn_like(z)
    return z + vars(cell)["drawn"] if cell.training else z


def affine(z: Tensor, gain: Tensor, offset: Tensor | None = None) -> Tensor:
    """gain . z + offset, one value of each per channel."""
    wide = (-1, *(1 for _ in z.shape[2:]))
    return z * gain.view(wide) + (0 if offset is None else offset.view(wide))


class Cell(nn.ModuleDict):
    """A module for each edge that owns something, by role."""

    def __init__(self, **edges: nn.Module) -> None:
        super().__init__(edges)

    def total(self, t: int, values: dict[str, Tensor], offset: Tensor | None = None) -> Tensor:
        """The sum over all edges, plus an offset per channel."""
        first, *rest = (self[key](t, x) if key in self else x for key, x in values.items())
        total = sum(rest, first)
        return total if offset is None else total + offset.view(-1, *(1 for _ in total.shape[2:]))


class Head(nn.Module):
    """W x + b, which a task sees; W is a matrix, or a 1x1 filter on maps."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(gaussian(*shape))
        self.bias = nn.Parameter(torch.zeros(shape[0]))

    def forward(self, x: Tensor) -> Tensor:
        linear = functional.linear if self.weight.dim() == 2 else functional.conv2d
        return linear(x, self.weight, self.bias)


class Offset(nn.Module):
    """x + offset, a buffer with the mean of what is to be predicted."""

    offset: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("offset", torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.offset


class HeadOffset(Head):
    """W x + b + offset, a buffer with the mean of what is to be predicted."""

    offset: Tensor

    def __init__(self, *shape: int, offset: tuple[int, ...]) -> None:
        super().__init__(*shape)
        self.register_buffer("offset", torch.zeros(offset))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.offset


class Modules(nn.ModuleDict):
    """Modules by name, which may be that of a method of a module: `half`, `train`."""

    def __setitem__(self, name: str, module: nn.Module) -> None:
        self._modules[name] = module
