"""Conv, FC and SoftMax: a linear map, a norm, an activation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from ladderspec.cells.activations import ACTIVATIONS
from ladderspec.cells.base import Cell, EncoderCell, Site, register
from ladderspec.cells.common import EncoderMaps, EncoderUnits, Estimate, EstimateMaps, Normed
from ladderspec.cells.fields import ActivationName, Count, PairField, refusal
from ladderspec.cells.parameters import Parameters, zeros
from ladderspec.cells.projections import Inlet, Projection, ShapeProblem, need_map
from ladderspec.names import Shape, show_shape, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class _FeedForward(Normed):
    """A cell with a bias and an activation."""

    activation: ActivationName = Field(
        "relu", description="Activation function of the normalised sum."
    )

    offset: ClassVar = "bias"

    @property
    def scale(self) -> float:
        """Twice the variance if an activation halves it and no norm restores it (He et al.)."""
        return 2.0 if ACTIVATIONS[self.activation].halves else 1.0

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return self.term(inlet, out, scale=self.scale)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return {"bias": zeros(out[0]), **self.gain(out[0])}


class _Layer(_FeedForward):
    """e = act(BN(W e_below) + b)"""

    @staticmethod
    def compute(a: Tensor, *, activation: Callable[[Tensor], Tensor]) -> Tensor:
        return activation(a)


@register
class Conv(_Layer, EncoderMaps):
    """Convolution with batch norm and activation: e = act(BN(W * e_below) + b)."""

    cell: Literal["Conv"] = "Conv"
    dilation: PairField = Field((1, 1), description="Dilation of the filter from below.")
    channel_groups: Count = Field(
        1, description="Groups of channels that are convolved separately (grouped convolution)."
    )

    on_vectors: ClassVar = "FC"

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return self.term(
            inlet,
            out,
            self.filter,
            stride=self.stride,
            scale=self.scale,
            dilation=self.dilation,
            channel_groups=self.channel_groups,
        )


@register
class DecoderConv(_Layer, EstimateMaps):
    """Plain decoder for autoencoders and U-nets: d = act(BN(A * v_top) + BN(B * h) + b)."""

    cell: Literal["Conv"] = "Conv"

    on_vectors: ClassVar = "FC"

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return self.term(inlet, out, self.filter, scale=self.scale)


@register
class FC(_Layer, EncoderUnits):
    """Dense layer with batch norm and activation; incoming maps are flattened."""

    cell: Literal["FC"] = "FC"


@register
class DecoderFC(_FeedForward, Estimate):
    """Plain dense decoder: d = act(BN(A v_top) + BN(B h) + b), in the shape of its level."""

    cell: Literal["FC"] = "FC"

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return super().project(site, inlet, (size_of(out),))

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return super().parameters(site, (size_of(out),))

    @staticmethod
    def compute(a: Tensor, *, activation: Callable[[Tensor], Tensor], out: Shape) -> Tensor:
        return activation(a).view(a.shape[0], *out)


class _Classes(EncoderCell):
    """An encoder that makes classes: one vector, or the classes of every place."""

    channels: Count | None = Field(
        None, description="Number of classes. Not needed with `weights: none`."
    )
    weights: Literal["dense", "conv", "none"] = Field(
        "dense",
        description="Linear map before the softmax. `dense`: one vector of classes; `conv`: a 1x1"
        " convolution, with classes at every pixel; `none`: no map, the softmax of the channels of"
        " the input.",
    )

    @model_validator(mode="after")
    def _has_size(self) -> _Classes:
        if self.weights != "none" and self.channels is None:
            hint = "the number of classes; or `weights: none` for a bare softmax"
            raise refusal("S102", "SoftMax needs `channels`", hint)
        return self

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        if self.weights == "conv":
            need_map(below, "SoftMax with `weights: conv`", "`weights: dense`")
        if self.weights != "none" and self.channels is not None:
            return (self.channels, *(below[1:] if self.weights == "conv" else ()))
        if self.channels not in (None, below[0]):
            raise ShapeProblem(
                f"a SoftMax without weights keeps the {show_shape(below)} that arrives,"
                f" but says channels: {self.channels}",
                f"channels: {below[0]}, or leave it out",
            )
        return below


@register
class SoftMax(Normed, _Classes):
    """Dense layer, batch norm, softmax: e = softmax(BN(W e_below) + b); tasks read the logits."""

    cell: Literal["SoftMax"] = "SoftMax"

    offset: ClassVar = "bias"
    returns: ClassVar = ("logits",)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        if self.weights == "none":
            if inlet is not site.main():
                raise ShapeProblem("a SoftMax without weights takes no further arrow")
            return Projection("none", inlet.shape, inlet.shape)
        return self.term(inlet, out)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return {} if self.weights == "none" else {"bias": zeros(out[0]), **self.gain(out[0])}

    def node_norm(self) -> tuple[str, str, int]:
        return Cell.node_norm(self) if self.weights == "none" else super().node_norm()

    @staticmethod
    def compute(a: Tensor) -> tuple[Tensor, Tensor]:
        return a.softmax(dim=1), a
