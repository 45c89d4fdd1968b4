"""Normalisations: one registered object each, with all that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ladderspec.errors import UsageError
from ladderspec.names import Shape, show_shape, size_of
from ladderspec.plugins import admit

if TYPE_CHECKING:
    from torch import Tensor


class Norm:
    """A normalisation of a pre-activation. Its gain belongs to an edge or a node, not to it.

    A norm of your own is its `compute`; only batch norm keeps statistics.

    Attributes:
        name: Its name in specs.
        symbol: Its name in formulas.
        keeps_zeros: Whether it maps zeros to zeros.
        statistics: Whether it keeps running statistics, as batch norm alone does.
    """

    name: ClassVar[str]
    symbol: ClassVar[str]
    keeps_zeros: ClassVar[bool] = True
    statistics: ClassVar[bool] = False

    @staticmethod
    def compute(x: Tensor, gain: Tensor | None, bias: Tensor | None, groups: int) -> Tensor:
        """The normalised x, scaled by `gain` and shifted by `bias`, both one value per channel.

        Channels are normalised in `groups`, separately.
        """
        raise NotImplementedError

    @classmethod
    def problem(cls, shape: Shape, groups: int) -> tuple[str, str] | None:
        """A message and a hint if a value of this shape cannot be normalised."""
        return None


NORMS: dict[str, type[Norm]] = {}
TERMS = ["joint", "separate"]  # what `norm` may say besides the name of a norm


def register_norm(norm: type[Norm]) -> type[Norm]:
    """Make a norm known under its `name`, as in `norm: layer`. Use it as a class decorator.

    Args:
        norm: A subclass of `Norm` with a `compute`.

    Returns:
        The same class.

    Raises:
        UsageError: if the name has another meaning in ladderspec, or `compute` is missing.
    """
    if norm.name in ("none", *TERMS):
        raise UsageError(f"`norm: {norm.name}` has a meaning of its own: give yours another name")
    if norm.compute is Norm.compute and not norm.statistics:
        raise UsageError(f"the norm {norm.name} has no `compute`, see docs/own_cells.md")
    admit("norm", norm.name, NORMS.get(norm.name), norm)
    NORMS[norm.name] = norm
    return norm


def norm_names() -> list[str]:
    """The words of specs for norms, `none` last."""
    return [*NORMS, "none"]


@register_norm
class BatchNormalisation(Norm):
    """BN(x) = gain . (x - mean) / std + bias, with the statistics of each iteration by itself."""

    name = "batch"
    symbol = "BN"
    keeps_zeros = False  # running means shift them
    statistics = True


def _group_norm(
    x: Tensor, gain: Tensor | None = None, bias: Tensor | None = None, groups: int = 1
) -> Tensor:
    """gain . (x - mean) / std + bias, over places and each of the groups of channels."""
    import torch

    return torch.group_norm(x, groups, gain, bias, 1e-5)


@register_norm
class LayerNormalisation(Norm):
    """LN(x) = gain . (x - mean) / std + bias, over channels and places of each sample."""

    name = "layer"
    symbol = "LN"

    compute = staticmethod(_group_norm)

    @classmethod
    def problem(cls, shape: Shape, groups: int) -> tuple[str, str] | None:
        if size_of(shape) > groups:
            return None
        return "the layer norm of a single value is always zero", "`norm: batch` or `norm: none`"


@register_norm
class GroupNormalisation(Norm):
    """GN(x) = gain . (x - mean) / std + bias, over a group of channels and all places."""

    name = "group"
    symbol = "GN"

    compute = staticmethod(_group_norm)

    @classmethod
    def problem(cls, shape: Shape, groups: int) -> tuple[str, str] | None:
        if groups == 1:
            return (
                "group norm needs its number of groups",
                "cells with `norm: {kind: group, groups: 4}` have it; one group is `norm: layer`",
            )
        if shape[0] % groups:
            message = f"{shape[0]} channels cannot be divided into {groups} equal groups"
            return message, f"a number of groups that divides {shape[0]}"
        if size_of(shape) == groups:
            message = f"{groups} groups of {show_shape(shape)} hold one value each"
            return f"{message}, which group norm makes zero", "take fewer groups"
        return None


@register_norm
class InstanceNormalisation(Norm):
    """IN(x) = gain . (x - mean) / std + bias, over the places of each channel by itself."""

    name = "instance"
    symbol = "IN"

    @staticmethod
    def compute(x: Tensor, gain: Tensor | None, bias: Tensor | None, groups: int) -> Tensor:
        import torch

        return torch.group_norm(x, x.shape[1], gain, bias, 1e-5)

    @classmethod
    def problem(cls, shape: Shape, groups: int) -> tuple[str, str] | None:
        if size_of(shape[1:]) == 1:
            message = f"a channel of {show_shape(shape)} is one value"
            return f"{message}, which instance norm makes zero", "use `norm: layer` or `batch`"
        return None
