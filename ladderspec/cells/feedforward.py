"""Conv, FC and SoftMax: a linear map, a norm, an activation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from ladderspec.cells.activations import ACTIVATIONS
from ladderspec.cells.base import Cell, DecoderCell, EncoderCell, Site, register
from ladderspec.cells.fields import (
    ActivationName,
    Count,
    NormChoice,
    NormField,
    Pair,
    PairField,
    Statistics,
    refusal,
)
from ladderspec.cells.parameters import Parameters, zeros
from ladderspec.cells.projections import (
    Inlet,
    Projection,
    ShapeProblem,
    joint_gain,
    joint_norm,
    need_map,
    pre_activation,
    strided,
)
from ladderspec.names import Shape, show_shape, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

DEFAULT_NORM = "batch"

_CHANNELS = Field(None, description="Output channels. Default: those of the level it estimates.")
_FILTER = Field((3, 3), description="Filter size, one number or [height, width].")
_NORM = Field(NormChoice(), description="Norm: batch (default) or another norm; joint or separate.")
_STATISTICS = Field(None, description="Statistics that batch norm keeps for evaluation.")
_ACTIVATION = Field("relu", description="Activation function of the normalised sum.")


class _FeedForward(Cell):
    """What all but SoftMax share: a norm, a bias and an activation."""

    if TYPE_CHECKING:  # fields, which each cell declares in its own order
        norm: NormChoice
        activation: str

    offset: ClassVar = "bias"

    def node_norm(self) -> tuple[str, str, int]:
        return joint_norm(self.norm, DEFAULT_NORM)

    @property
    def scale(self) -> float:
        """Twice the variance if an activation halves it and no norm restores it (He et al.)."""
        return 2.0 if ACTIVATIONS[self.activation].halves else 1.0

    def parameters(self, site: Site, out: Shape) -> Parameters:
        units = self._units(out)
        return {"bias": zeros(units), **joint_gain(self.norm, DEFAULT_NORM, units)}

    def _units(self, out: Shape) -> int:
        return out[0]


class _Layer(_FeedForward):
    """e = act(BN(W e_below) + b)"""

    @staticmethod
    def compute(a: Tensor, *, activation: Callable[[Tensor], Tensor]) -> Tensor:
        return activation(a)


@register
class Conv(_Layer, EncoderCell):
    """Convolution with batch norm and activation: e = act(BN(W * e_below) + b)."""

    cell: Literal["Conv"] = "Conv"
    channels: Count = Field(description="Output channels.")
    filter: PairField = _FILTER
    stride: PairField = Field(
        (1, 1), description="Stride: output size = input size / stride, rounded up."
    )
    norm: NormField = _NORM
    statistics: Statistics | None = _STATISTICS
    activation: ActivationName = _ACTIVATION
    dilation: PairField = Field((1, 1), description="Dilation of the filter from below.")
    channel_groups: Count = Field(
        1, description="Groups of channels that are convolved separately (grouped convolution)."
    )

    @property
    def row_stride(self) -> Pair:
        return self.stride

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, "Conv", "FC")
        return (self.channels, *strided(below, self.stride))

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        choice = (self.norm, DEFAULT_NORM)
        return pre_activation(
            inlet,
            out,
            self.filter,
            *choice,
            stride=self.stride,
            scale=self.scale,
            dilation=self.dilation,
            channel_groups=self.channel_groups,
        )


@register
class DecoderConv(_Layer, DecoderCell):
    """Plain decoder for autoencoders and U-nets: d = act(BN(A * v_top) + BN(B * h) + b)."""

    cell: Literal["Conv"] = "Conv"
    channels: Count | None = _CHANNELS
    filter: PairField = _FILTER
    norm: NormField = _NORM
    statistics: Statistics | None = _STATISTICS
    activation: ActivationName = _ACTIVATION

    def out_shape(self, site: Site) -> Shape:
        need_map(site.estimate, "Conv", "FC")
        return (self.channels or site.estimate[0], *site.estimate[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return pre_activation(inlet, out, self.filter, self.norm, DEFAULT_NORM, scale=self.scale)


@register
class FC(_Layer, EncoderCell):
    """Dense layer with batch norm and activation; maps that arrive are flattened."""

    cell: Literal["FC"] = "FC"
    channels: Count = Field(description="Number of units.")
    norm: NormField = _NORM
    statistics: Statistics | None = _STATISTICS
    activation: ActivationName = _ACTIVATION

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return pre_activation(inlet, out, (1, 1), self.norm, DEFAULT_NORM, scale=self.scale)


@register
class DecoderFC(_FeedForward, DecoderCell):
    """Plain dense decoder: d = act(BN(A v_top) + BN(B h) + b), in the shape of its level."""

    cell: Literal["FC"] = "FC"
    channels: Count | None = _CHANNELS
    norm: NormField = _NORM
    statistics: Statistics | None = _STATISTICS
    activation: ActivationName = _ACTIVATION

    def out_shape(self, site: Site) -> Shape:
        return (self.channels or site.estimate[0], *site.estimate[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        units = (size_of(out),)
        return pre_activation(inlet, units, (1, 1), self.norm, DEFAULT_NORM, scale=self.scale)

    def _units(self, out: Shape) -> int:
        return size_of(out)

    @staticmethod
    def compute(a: Tensor, *, activation: Callable[[Tensor], Tensor], out: Shape) -> Tensor:
        return activation(a).view(a.shape[0], *out)


@register
class SoftMax(EncoderCell):
    """Dense layer, batch norm, softmax: e = softmax(BN(W e_below) + b); tasks read the logits."""

    cell: Literal["SoftMax"] = "SoftMax"
    channels: Count | None = Field(
        None, description="Number of classes. Not needed with `weights: none`."
    )
    weights: Literal["dense", "conv", "none"] = Field(
        "dense",
        description="Linear map before the softmax. `dense`: one vector of classes; `conv`: a 1x1"
        " convolution, with classes at every pixel; `none`: no map, the softmax of the channels of"
        " the input.",
    )
    norm: NormField = _NORM
    statistics: Statistics | None = _STATISTICS

    offset: ClassVar = "bias"
    returns: ClassVar = ("logits",)

    @model_validator(mode="after")
    def _has_size(self) -> SoftMax:
        if self.weights != "none" and self.channels is None:
            hint = "the number of classes; or `weights: none` for a bare softmax"
            raise refusal("S102", "SoftMax needs `channels`", hint)
        return self

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        if self.weights == "dense":
            assert self.channels is not None
            return (self.channels,)
        if self.weights == "conv":
            assert self.channels is not None
            need_map(below, "SoftMax with `weights: conv`", "`weights: dense`")
            return (self.channels, *below[1:])
        if self.channels not in (None, below[0]):
            raise ShapeProblem(
                f"a SoftMax without weights keeps the {show_shape(below)} that arrives,"
                f" but says channels: {self.channels}",
                f"channels: {below[0]}, or leave it out",
            )
        return below

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        if self.weights == "none":
            if inlet is not site.main():
                raise ShapeProblem("a SoftMax without weights takes no further arrow")
            return Projection("none", inlet.shape, inlet.shape)
        return pre_activation(inlet, out, (1, 1), self.norm, DEFAULT_NORM)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        if self.weights == "none":
            return {}
        return {"bias": zeros(out[0]), **joint_gain(self.norm, DEFAULT_NORM, out[0])}

    def node_norm(self) -> tuple[str, str, int]:
        return (
            super().node_norm() if self.weights == "none" else joint_norm(self.norm, DEFAULT_NORM)
        )

    @staticmethod
    def compute(a: Tensor) -> tuple[Tensor, Tensor]:
        return a.softmax(dim=1), a
