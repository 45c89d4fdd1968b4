"""Batch norm for evaluation: statistics measured anew on training data.

Running averages follow weights that have moved on; in a network of many levels each one is then
a little wrong, and the errors add up. As the original Ladder did for its final numbers, the means
and variances are measured with the weights as they are, over several training batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ladderspec.learn.feed import Feed
from ladderspec.learn.measure import trimmed
from ladderspec.network.carry import Carry
from ladderspec.network.net import Net
from ladderspec.nn import BatchNorm
from ladderspec.nn._norms import NOW, _statistics


class _Seen:
    """What one batch norm has seen: by iteration, how many values, their mean and variance."""

    def __init__(self, norm: BatchNorm) -> None:
        kept = norm.running_mean
        self.count = kept.new_zeros(kept.shape[0], 1, dtype=torch.float64)
        self.mean = torch.zeros_like(kept, dtype=torch.float64)
        self.var = torch.zeros_like(self.mean)

    def add(self, norm: BatchNorm, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before each call of the norm. CHOICE: means of the batches' variances, by their sizes."""
        when = kwargs.get("when", args[3] if len(args) > 3 else NOW)
        n, mean, var = (value.double() for value in _statistics(args[0], when))
        var = var * (n / (n - 1).clamp(min=1))
        rows = norm._rows(when)
        for i, row in enumerate(rows):
            t = i % when.count
            self.count[row] += n[t]
            self.mean[row] += n[t] * mean[t]
            self.var[row] += n[t] * var[t]

    def settle(self, norm: BatchNorm) -> None:
        """Put the means in place of the running averages, where anything was seen."""
        seen = self.count.clamp(min=1)
        for kept, total in ((norm.running_mean, self.mean), (norm.running_var, self.var)):
            kept.copy_(torch.where(self.count > 0, total / seen, kept.double()))


@contextmanager
def settled(net: Net, feeds: Iterable[Feed]) -> Iterator[None]:
    """The network in evaluation, its batch norms measured on `feeds`; then all as before."""
    norms = [part for part in net.modules() if isinstance(part, BatchNorm)]
    kept = [
        (norm.running_mean.clone(), norm.running_var.clone(), dict(norm.filled)) for norm in norms
    ]
    training = net.training
    net.eval()
    try:
        _measure(net, norms, feeds)
        yield
    finally:
        for norm, (mean, var, filled) in zip(norms, kept, strict=True):
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(var)
            norm.filled.clear()
            norm.filled.update(filled)
        net.train(training)


@torch.no_grad()
def _measure(net: Net, norms: list[BatchNorm], feeds: Iterable[Feed]) -> None:
    """CHOICE: on inputs as they are in this evaluation, with noise only if that adds it."""
    if not norms:
        return
    seen = [_Seen(norm) for norm in norms]
    hooks = [
        norm.register_forward_pre_hook(_hook(one), with_kwargs=True)
        for norm, one in zip(norms, seen, strict=True)
    ]
    for norm in norms:
        norm.train()
    carry: Carry | None = None
    try:
        for feed in feeds:
            carry = None if feed.first else trimmed(carry, len(feed))
            carry = net(feed.frames, feed.lengths, carry).carry
    finally:
        for hook in hooks:
            hook.remove()
        for norm in norms:
            norm.eval()
    for norm, one in zip(norms, seen, strict=True):
        one.settle(norm)


def _hook(seen: _Seen) -> Callable[..., None]:
    def hook(norm: BatchNorm, args: tuple[Tensor, ...], kwargs: dict[str, Any]) -> None:
        seen.add(norm, args, kwargs)

    return hook
