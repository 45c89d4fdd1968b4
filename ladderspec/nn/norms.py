"""Layer norm and batch norm as modules, and the iteration that a call computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells.functions import per_channel
from ladderspec.cells.norms import NORMS
from ladderspec.errors import UsageError
from ladderspec.ops import Project, plain_project, transforms
from ladderspec.plugins import is_built_in

# CHOICE: the original Ladder uses 1e-10, whose 1 / sqrt(eps) = 1e5 explodes where u is constant.
EPS = 1e-5
MOMENTUM = 0.1


@dataclass(frozen=True)
class TimeStep:
    """The iteration that a cell computes, and how.

    Args:
        t: The index of the iteration; 0 is the first. In evaluation it may be a tensor.
        alive: A mask (B,) of the sequences that have not ended. Default: all.
        recomputed: Whether this is a second pass, which running statistics do not count again.
        project: The algorithm with which edges compute their maps.
        noise: The noise of cells by node, drawn before the first iteration. Default: a cell in
            training draws its own.
        clean: Whether a cell also returns the mean and standard deviation of its batch norm.
    """

    t: int | Tensor = 0
    alive: Tensor | None = None
    recomputed: bool = False
    project: Project = plain_project
    noise: Mapping[str, Tensor] | None = None
    clean: bool = False


FIRST = TimeStep()


class Stateless(nn.Module):
    """A registered norm that keeps no statistics, like layer norm."""

    def __init__(self, name: str, groups: int = 1) -> None:
        super().__init__()
        self.name, self.groups = name, groups
        self.compute = returning_its_form(f"norm `{name}`", NORMS[name].compute)

    def forward(
        self,
        x: Tensor,
        gain: Tensor | None = None,
        bias: Tensor | None = None,
        step: TimeStep = FIRST,
    ) -> Tensor:
        if torch.compiler.is_compiling() or transforms.has_tangents():
            # On channels-last maps, gradients of group_norm are wrong in compiled graphs (maps of
            # height 1, backend aot_eager), and tangents end in an error (torch 2.13).
            y = self.compute(x.contiguous(), gain, bias, self.groups)
            return y.contiguous(memory_format=torch.channels_last) if y.dim() == 4 else y
        if x.requires_grad or not torch.is_grad_enabled():
            return self.compute(x, gain, bias, self.groups)
        # On channels-last maps that need no gradient, backward of group_norm crashes (torch 2.13).
        return affine(self.compute(x, None, None, self.groups), gain, bias)

    def extra_repr(self) -> str:
        return f"{self.name}, groups={self.groups}"


class LayerNorm(Stateless):
    """LN(x) = gain . (x - mean) / std + bias, over C, H, W of each sample.

    Args:
        groups: The number of groups of channels that are normalised separately.
    """

    def __init__(self, groups: int = 1) -> None:
        super().__init__("layer", groups)


class BatchNorm(nn.Module):
    """BN(x) = gain . (x - mean) / std + bias, with the statistics of each iteration by itself.

    Running statistics of the first `iterations` iterations are kept for evaluation; later ones use
    the last. `iterations=1` shares one set. Evaluation of an iteration that training never
    computed, because no cost reads it, uses the statistics of the nearest one that it did. Gain and
    bias belong to the caller. If only one sequence is still alive at some t, it is normalised by
    the running statistics. Across processes, training statistics are those of the whole batch.

    Args:
        channels: The number of channels.
        iterations: How many iterations have statistics of their own.
    """

    running_mean: Tensor  # (iterations, C)
    running_var: Tensor

    def __init__(self, channels: int, iterations: int = 1) -> None:
        super().__init__()
        self.iterations = iterations
        self.register_buffer("running_mean", torch.zeros(iterations, channels))
        self.register_buffer("running_var", torch.ones(iterations, channels))

    def forward(
        self,
        x: Tensor,
        gain: Tensor | None = None,
        bias: Tensor | None = None,
        step: TimeStep = FIRST,
    ) -> Tensor:
        if not self.training:
            mean, var = self._running(step.t)
            if isinstance(step.t, Tensor):
                return _normalise(x, mean, var, gain, bias)
            return functional.batch_norm(x, mean, var, gain, bias, False, MOMENTUM, EPS)
        if step.alive is not None or world() > 1:  # one sequence may be left of a batch
            return _normalise(x, *self._of_part(x, step, count=True), gain, bias)
        if x.numel() == x.shape[1]:
            raise ValueError(
                "batch norm cannot be trained on one value per channel:"
                f" it got one sequence of {x.shape[1]} channels;"
                " train on more sequences at once, or use norm: layer or none"
            )
        row = self.row(step)
        mean, var = self.running_mean[row], self.running_var[row]
        if step.recomputed:  # copies, so that as many tensors wait for the backward pass as before
            mean, var = mean.clone(), var.clone()
        return functional.batch_norm(x, mean, var, gain, bias, True, MOMENTUM, EPS)

    def row(self, step: TimeStep) -> int:
        """The row of running statistics that a training call updates."""
        if self.iterations == 1:
            return 0
        # Sequences that ended earlier no longer count.
        t = step.t if isinstance(step.t, int) else int(step.t.max())
        return min(t, self.iterations - 1)

    def moments(self, x: Tensor, step: TimeStep) -> Tensor:
        """The mean and standard deviation by which x is normalised: (2, 1, C) or (2, B, C)."""
        mean, var = self._of_part(x, step) if self.training else self._running(step.t)
        return torch.stack([mean, (var + EPS).sqrt()]).view(2, -1, x.shape[1])

    def _running(self, t: int | Tensor) -> tuple[Tensor, Tensor]:
        """The statistics of evaluation: (C,), or (n, C) for a tensor of n iterations."""
        mean, var, n = self.running_mean, self.running_var, self.iterations
        if n == 1:
            return mean[0], var[0]
        steps = t.clamp(max=n - 1).view(-1, 1) if isinstance(t, Tensor) else min(t, n - 1)
        distance = (torch.arange(n, device=var.device) - steps).abs()
        # In every call: averages of weights or `functional_call` may fill rows at any time.
        is_untrained = (var == 1).all(1)
        row = distance.masked_fill(is_untrained, n).argmin(-1, keepdim=True).view(-1)
        mean, var = mean.index_select(0, row), var.index_select(0, row)
        return (mean, var) if isinstance(t, Tensor) else (mean[0], var[0])

    def _of_part(self, x: Tensor, step: TimeStep, count: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance of the living sequences; `count`: running statistics count them.

        CHOICE: if only one value per channel is still alive, running statistics normalise it.
        """
        n, mean, var = statistics_of(x, step.alive)
        row = self.row(step)
        running_mean, running_var = self.running_mean[row], self.running_var[row]
        if count and not step.recomputed:
            share = (n > 1).to(mean.dtype) * MOMENTUM  # a bool alone would make it float32
            unbiased = var.detach() * (n / (n - 1).clamp(min=1))
            for running, seen in ((running_mean, mean.detach()), (running_var, unbiased)):
                running.add_((share * (seen - running)).to(running.dtype))
        return (
            torch.where(n > 1, mean, running_mean.to(mean.dtype)),
            torch.where(n > 1, var, running_var.to(var.dtype)),
        )


def make_norm(kind: str, channels: int, groups: int = 1, iterations: int = 1) -> nn.Module | None:
    """The norm of that name; None for `none`."""
    if kind == "none":
        return None
    return BatchNorm(channels, iterations) if NORMS[kind].statistics else Stateless(kind, groups)


def affine(z: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
    """gain . z + bias, both by channel."""
    a = z if gain is None else z * per_channel(gain, z)
    return a if bias is None else a + per_channel(bias, a)


def _normalise(
    x: Tensor, mean: Tensor, var: Tensor, gain: Tensor | None, bias: Tensor | None
) -> Tensor:
    """By `mean` and `var` of each channel, (C,), or of each channel and sample, (B, C)."""
    scale = torch.rsqrt(var + EPS)
    scale = scale if gain is None else scale * gain
    shift = -mean * scale if bias is None else bias - mean * scale
    wide = (*mean.shape, *(1 for _ in x.shape[2:]))
    return (x * scale.view(wide)).add_(shift.view(wide)).to(x.dtype)


def statistics_of(x: Tensor, alive: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Values per channel, mean and variance of the living sequences, over all processes."""
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    # First per sample, so that weights by sample and sums over processes are small tables only.
    places = x.shape[2:].numel()
    if x.dim() > 2:
        var, mean = torch.var_mean(x, tuple(range(2, x.dim())), correction=0)
    else:
        var, mean = torch.zeros_like(x), x
    weight = x.new_ones(x.shape[0]) if alive is None else alive.to(x.dtype)
    weight = weight[:, None] * places
    sums = over_processes(torch.cat([(weight * mean).sum(0), weight.sum(0)]))
    n = sums[-1:]
    middle = sums[:-1] / n.clamp(min=1)
    spread = weight * (var + (mean - middle) ** 2)
    return n.detach(), middle, over_processes(spread.sum(0)) / n.clamp(min=1)


# --- functions of plug-ins ------------------------------------------------------------------------


def returning_its_form(what: str, compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`compute`; if it comes from a plug-in, it is refused unless it returns the form it gets."""
    return compute if is_built_in(compute) else partial(_checked, what, compute)


def _checked(what: str, compute: Callable[..., Any], x: Tensor, *others: Any) -> Tensor:
    y = compute(x, *others)
    if not isinstance(y, Tensor):
        found = "None" if y is None else f"a {type(y).__name__}"
        raise UsageError(f"{what} returned {found}, not a tensor")
    if y.shape != x.shape:
        raise UsageError(f"{what} got {tuple(x.shape)}, but returned {tuple(y.shape)}")
    if y.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):  # which chooses types
        raise UsageError(f"{what} got {x.dtype}, but returned {y.dtype}")
    return y


# --- processes that train together ----------------------------------------------------------------


def world() -> int:
    """How many processes train together."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return 1


def over_processes(local: Tensor) -> Tensor:
    """The sum over all processes."""
    if world() == 1:
        return local
    return _SumOverProcesses.apply(local)  # type: ignore[no-any-return, no-untyped-call]


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes; so is its gradient, since each one reads the sum."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        total = local.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _SumOverProcesses.forward(ctx, gradient)
