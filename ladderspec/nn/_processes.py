"""Sums over the processes that train together."""

from __future__ import annotations

import torch
import torch.distributed
from torch import Tensor


def processes() -> int:
    """How many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return 1


def over_processes(local: Tensor) -> Tensor:
    if processes() == 1:
        return local
    return _SumOverProcesses.apply(local)  # type: ignore[no-any-return, no-untyped-call]


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes; so is its gradient, since each one reads the sum."""

    @staticmethod
    def forward(ctx: object, local: Tensor) -> Tensor:
        total = local.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        torch.distributed.all_reduce(total)
        return total
