"""Activation functions: one registered object each, with all that is known of it.

The docstring of a function is its formula, with `a` as the pre-activation; docs/cells.md shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ladderspec.plugins import admit

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Activation:
    """A function of the pre-activation, under its name in specs.

    Attributes:
        name: Its name in specs.
        compute: The function.
        halves: Whether it lets about half of the variance through (He et al. 2015).
        limits: `rectified` or `squashed`, if its values are limited.
    """

    name: str
    compute: Callable[[Tensor], Tensor]
    halves: bool = False
    limits: str = ""


ACTIVATIONS: dict[str, Activation] = {}


def register_activation(
    name: str, *, halves: bool = False, limits: Literal["", "rectified", "squashed"] = ""
) -> Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]:
    """Register a plain function of a tensor as an activation; import torch inside of it.

    Args:
        name: what specs call it, as in `activation: relu`.
        halves: whether it lets about half of the variance through, so that weights in front of it
            that have no norm start twice as large.
        limits: how its values are limited, if they are; costs on them are noted.

    Raises:
        UsageError: if ladderspec has an activation of that name.
    """

    def add(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        known = ACTIVATIONS.get(name)
        admit("activation", name, known and known.compute, compute)
        ACTIVATIONS[name] = Activation(name, compute, halves, limits)
        return compute

    return add


@register_activation("none")
def none(a: Tensor) -> Tensor:
    """a"""
    return a


@register_activation("relu", halves=True, limits="rectified")
def relu(a: Tensor) -> Tensor:
    """max(a, 0)"""
    return a.relu()


@register_activation("relu6", halves=True, limits="rectified")
def relu6(a: Tensor) -> Tensor:
    """min(max(a, 0), 6)"""
    return a.clamp(0, 6)


@register_activation("leaky_relu", halves=True)
def leaky_relu(a: Tensor) -> Tensor:
    """a, or 0.1 a below 0"""
    from torch.nn import functional

    return functional.leaky_relu(a, 0.1)  # CHOICE: the slope of the original Ladder


@register_activation("elu", halves=True)
def elu(a: Tensor) -> Tensor:
    """a, or exp(a) - 1 below 0"""
    from torch.nn import functional

    return functional.elu(a)


@register_activation("gelu", halves=True)
def gelu(a: Tensor) -> Tensor:
    """a Phi(a), with the exact normal distribution function"""
    from torch.nn import functional

    return functional.gelu(a)


@register_activation("silu", halves=True)
def silu(a: Tensor) -> Tensor:
    """a sigmoid(a)"""
    from torch.nn import functional

    return functional.silu(a)


@register_activation("softplus", limits="rectified")
def softplus(a: Tensor) -> Tensor:
    """log(1 + exp(a))"""
    from torch.nn import functional

    return functional.softplus(a)


@register_activation("tanh", limits="squashed")
def tanh(a: Tensor) -> Tensor:
    """tanh(a)"""
    return a.tanh()


@register_activation("hard_tanh", limits="squashed")
def hard_tanh(a: Tensor) -> Tensor:
    """min(max(a, -1), 1)"""
    return a.clamp(-1, 1)


@register_activation("sigmoid", limits="squashed")
def sigmoid(a: Tensor) -> Tensor:
    """1 / (1 + exp(-a))"""
    return a.sigmoid()
