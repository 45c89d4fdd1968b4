"""Layer norm and batch norm, and the iterations that a call computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from ladderspec.nn._checks import check_word
from ladderspec.nn._own import Edited
from ladderspec.nn._processes import over_processes, processes
from ladderspec.nn._tally import Tally

NormKind = Literal["batch", "layer", "none"]
Norm: TypeAlias = "LayerNorm | BatchNorm | None"

# CHOICE: the original Ladder uses 1e-10, whose 1 / sqrt(eps) = 1e5 explodes where u is constant.
EPS = 1e-5
MOMENTUM = 0.1


@dataclass(frozen=True)
class When:
    """Which iterations a call computes: `count` of them, folded time-major into the batch.

    Batch norms read it, and weights that learn from several t at once (`tally`). `alive`
    (count * batch,) marks the sequences that have not ended.
    """

    start: int | Tensor = 0  # 0 is t = 1; a tensor serves evaluation, where t is then data
    count: int = 1
    alive: Tensor | None = None
    repeats: int = 1  # one value stands for so many iterations, where all are the same
    again: bool = False  # computed a second time: what is kept has counted it already
    tally: Tally | None = None
    streams: bool = False  # one call of many: what is made from weights may be kept for the next


NOW = When()


class LayerNorm(Edited):
    """LN(x) = gain . (x - mean) / std + bias, over C, H, W of each sample.

    The channels are normalised in `groups` apart from each other. Gain and bias are by channel and
    belong to the caller: the gain to an arrow or a node, the bias to a sum.
    """

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.groups = groups

    def forward(
        self, x: Tensor, gain: Tensor | None = None, bias: Tensor | None = None, when: When = NOW
    ) -> Tensor:
        if forward_ad._current_level >= 0:
            x = x.contiguous()  # tangents of channels-last maps end in an error (torch 2.13)
        # Not functional.group_norm: it refuses a batch of one where it takes a batch of two.
        cudnn = torch.backends.cudnn.enabled
        if x.requires_grad or not torch.is_grad_enabled():
            return torch.group_norm(x, self.groups, gain, bias, EPS, cudnn)
        # On channels-last maps that need no gradient, its backward pass crashes (torch 2.13, CPU).
        y = torch.group_norm(x, self.groups, None, None, EPS, cudnn)
        wide = (-1, *(1 for _ in x.shape[2:]))
        y = y if gain is None else y * gain.view(wide)
        return y if bias is None else y + bias.view(wide)


class BatchNorm(Edited):
    """BN(x) = gain . (x - mean) / std + bias, with the statistics of each iteration by itself.

    For evaluation, running statistics of the first `iterations` iterations are kept; those beyond
    use the last. `iterations=1` shares one set. Those that training never computed, since no cost
    reads them, get the statistics of the nearest that it did when evaluation begins. Gain and bias
    belong to the caller. A sequence that is alone at some t, where others have ended, is normalised
    by what is kept. Across processes, training statistics are those of the whole batch.
    """

    running_mean: Tensor  # (iterations, C)
    running_var: Tensor

    def __init__(self, channels: int, iterations: int = 1) -> None:
        super().__init__()
        self.iterations = iterations
        self.filled: dict[int, int] = {}  # rows that were never computed, and whose they have got
        self.register_buffer("running_mean", torch.zeros(iterations, channels))
        self.register_buffer("running_var", torch.ones(iterations, channels))

    def train(self, mode: bool = True) -> Self:
        if self.training and not mode:
            self._fill_in()
        elif mode:
            self._empty()
        return super().train(mode)

    @torch.no_grad()
    def _empty(self) -> None:
        mean, var = self.running_mean, self.running_var
        for row, nearest in self.filled.items():
            # Others have been loaded since where they are no longer the same.
            if torch.equal(mean[row], mean[nearest]) and torch.equal(var[row], var[nearest]):
                mean[row], var[row] = 0.0, 1.0
        self.filled.clear()

    @torch.no_grad()
    def _fill_in(self) -> None:
        kept = self.running_mean, self.running_var
        # Not where there are no numbers yet, or none that may change.
        if self.iterations == 1 or any(map(_is_fixed, kept)):
            return
        counted = ((kept[0] != 0) | (kept[1] != 1)).any(1).tolist()
        known = [row for row, is_counted in enumerate(counted) if is_counted]
        for row in {*range(self.iterations)} - {*known} if known else ():
            nearest = min(known, key=lambda other: abs(other - row))
            for each in kept:
                each[row] = each[nearest]
            self.filled[row] = nearest

    def forward(
        self, x: Tensor, gain: Tensor | None = None, bias: Tensor | None = None, when: When = NOW
    ) -> Tensor:
        if not self.training:
            return self._evaluate(x, gain, bias, when)
        if when.alive is not None:  # what is left of a batch may be one sequence
            return self._train_on_part(x, gain, bias, when)
        _refuse_one_value(x, when)
        if processes() > 1:
            return self._train_on_part(x, gain, bias, when)
        if when.repeats > 1:
            return self._train_for_all(x, gain, bias, when)
        return self._train(x, gain, bias, when)

    def row(self, when: When) -> int | None:
        """Evaluation: which statistics a call uses, where it uses the same for all it computes."""
        start = when.start
        if self.training or type(start) is not int:
            return None
        last = self.iterations - 1
        return min(start, last) if when.count == 1 or start >= last else None

    def _rows(self, when: When) -> list[int]:
        last = self.iterations - 1
        # In training, sequences that ended earlier no longer count.
        start = when.start if isinstance(when.start, int) else int(when.start.max())
        return [min(start + i, last) for i in range(when.count * when.repeats)]

    def _evaluate(self, x: Tensor, gain: Tensor | None, bias: Tensor | None, when: When) -> Tensor:
        if isinstance(when.start, Tensor):
            steps = torch.arange(when.count, device=when.start.device)
            later = (when.start.reshape(1, -1) + steps[:, None]).flatten()
            later = later.clamp(max=self.iterations - 1)
            return _normalise(x, self.running_mean[later], self.running_var[later], gain, bias)
        row = self.row(when)
        if row is not None:
            return _batch_norm(x, self.running_mean[row], self.running_var[row], gain, bias)
        rows = self._rows(when)[: when.count]
        return _normalise(x, self.running_mean[rows], self.running_var[rows], gain, bias)

    def _train(self, x: Tensor, gain: Tensor | None, bias: Tensor | None, when: When) -> Tensor:
        # One native call per iteration: three times faster than reductions over the folded batch.
        means, variances = self.running_mean, self.running_var
        if when.again:  # copies, so that as many tensors wait for the backward pass as before
            means, variances = means.clone(), variances.clone()
        # Not one chunk of all: its gradient would be copied.
        parts = x.chunk(when.count) if when.count > 1 else (x,)
        normal = [
            _batch_norm(part, means[k], variances[k], gain, bias, training=True)
            for k, part in zip(self._rows(when), parts, strict=True)
        ]
        return normal[0] if when.count == 1 else torch.cat(normal)

    def _train_for_all(
        self, x: Tensor, gain: Tensor | None, bias: Tensor | None, when: When
    ) -> Tensor:
        mean, var = torch.zeros_like(self.running_mean[0]), torch.ones_like(self.running_var[0])
        y = _batch_norm(x, mean, var, gain, bias, training=True, momentum=1.0)
        for k in self._rows(when):
            self.running_mean[k].lerp_(mean, MOMENTUM)
            self.running_var[k].lerp_(var, MOMENTUM)
        return y

    def _train_on_part(
        self, x: Tensor, gain: Tensor | None, bias: Tensor | None, when: When
    ) -> Tensor:
        n, mean, var = _statistics(x, when)  # (count, 1), (count, C), (count, C)
        rows = self._rows(when)
        enough = n > 1
        unbiased = var.detach() * (n / (n - 1).clamp(min=1))
        for i, k in enumerate(() if when.again else rows):
            t = i % when.count
            share = MOMENTUM * enough[t]
            for kept, seen in ((self.running_mean, mean.detach()), (self.running_var, unbiased)):
                kept[k].add_((share * (seen[t] - kept[k])).to(kept.dtype))
        rows = rows[: when.count]
        # CHOICE: where only one value per channel is still alive, what is kept normalises it.
        mean = torch.where(enough, mean, self.running_mean[rows].to(mean.dtype))
        var = torch.where(enough, var, self.running_var[rows].to(var.dtype))
        return _normalise(x, mean, var, gain, bias)


def make_norm(kind: NormKind, channels: int, groups: int = 1, iterations: int = 1) -> Norm:
    """The norm of that name; None for `none`."""
    check_word("norm", kind, _NORMS)
    return _NORMS[kind](channels, groups, iterations)


_NORMS: dict[NormKind, Callable[[int, int, int], Norm]] = {
    "none": lambda channels, groups, iterations: None,
    "layer": lambda channels, groups, iterations: LayerNorm(groups),
    "batch": lambda channels, groups, iterations: BatchNorm(channels, iterations),
}


def _batch_norm(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    gain: Tensor | None,
    bias: Tensor | None,
    training: bool = False,
    momentum: float = MOMENTUM,
) -> Tensor:
    return functional.batch_norm(x, mean, var, gain, bias, training, momentum, EPS)


def _is_fixed(kept: Tensor) -> bool:
    return type(kept) is not Tensor or kept.is_meta or kept.is_inference()


def _normalise(
    x: Tensor, mean: Tensor, var: Tensor, gain: Tensor | None, bias: Tensor | None
) -> Tensor:
    """Each iteration of a folded batch by its own row of `mean` and `var`, (count, C)."""
    scale = torch.rsqrt(var + EPS)
    scale = scale if gain is None else scale * gain
    shift = -mean * scale if bias is None else bias - mean * scale
    folded = x.view(mean.shape[0], -1, *x.shape[1:])  # (count, B, C, ...)
    shape = (mean.shape[0], 1, -1, *(1 for _ in x.shape[2:]))
    return (folded * scale.view(shape)).add_(shift.view(shape)).flatten(0, 1).to(x.dtype)


def _statistics(x: Tensor, when: When) -> tuple[Tensor, Tensor, Tensor]:
    """Values per channel, mean and variance of each iteration, over all processes."""
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    # First per sample, so that who is alive and who sits elsewhere weighs small tables only.
    field = x.shape[2:].numel()
    if x.dim() > 2:
        var, mean = torch.var_mean(x, tuple(range(2, x.dim())), correction=0)
    else:
        var, mean = torch.zeros_like(x), x
    alive = x.new_ones(x.shape[0]) if when.alive is None else when.alive.to(x.dtype)
    weight, mean, var = (
        table.view(when.count, -1, table.shape[1]) for table in (alive[:, None] * field, mean, var)
    )
    sums = over_processes(torch.cat([(weight * mean).sum(1), weight.sum(1)], dim=1))
    n = sums[:, -1:]
    middle = sums[:, :-1] / n.clamp(min=1)
    spread = weight * (var + (mean - middle[:, None]) ** 2)
    return n.detach(), middle, over_processes(spread.sum(1)) / n.clamp(min=1)


def _refuse_one_value(x: Tensor, when: When) -> None:
    values = x.numel() // (x.shape[1] * when.count) * processes()
    if values == 1:
        raise ValueError(
            "batch norm cannot be trained on one value per channel:"
            f" it got one sequence of {x.shape[1]} channels;"
            " train on more sequences at once, or use norm: layer or none"
        )
