"""Normalisations: one registered object each, with all that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor


class Norm:
    """A normalisation of a pre-activation. Its gain belongs to an edge or a node, not to it.

    A norm of your own is its `compute`; only batch norm keeps statistics.
    """

    name: ClassVar[str]
    symbol: ClassVar[str]  # in formulas
    keeps_zeros: ClassVar[bool] = True  # zeros come out if zeros go in
    statistics: ClassVar[bool] = False  # keeps running statistics: batch norm alone

    @staticmethod
    def compute(x: Tensor, gain: Tensor | None, bias: Tensor | None, groups: int) -> Tensor:
        """The normalised x, scaled by `gain` and shifted by `bias`, both one value per channel.

        Channels are normalised in `groups`, separately.
        """
        raise NotImplementedError


NORMS: dict[str, type[Norm]] = {}


def register_norm(norm: type[Norm]) -> type[Norm]:
    """Make a norm known under its `name`, as in `norm: layer`."""
    NORMS[norm.name] = norm
    return norm


def norm_names() -> list[str]:
    """The words of specs for norms, `none` last."""
    return [*NORMS, "none"]


@register_norm
class Batch(Norm):
    """BN(x) = gain . (x - mean) / std + bias, with the statistics of each iteration by itself."""

    name = "batch"
    symbol = "BN"
    keeps_zeros = False  # running means shift them
    statistics = True


@register_norm
class Layer(Norm):
    """LN(x) = gain . (x - mean) / std + bias, over channels and places of each sample."""

    name = "layer"
    symbol = "LN"

    @staticmethod
    def compute(x: Tensor, gain: Tensor | None, bias: Tensor | None, groups: int) -> Tensor:
        import torch

        return torch.group_norm(x, groups, gain, bias, 1e-5)
