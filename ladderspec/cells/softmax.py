"""SoftMax: class probabilities; tasks read its logits."""

from typing import Literal

from pydantic import Field, model_validator

from ladderspec.cells._arrows import Inlet, Projection, ShapeProblem, drive, joint_gain
from ladderspec.cells._contract import EncoderCell, Site, register
from ladderspec.cells._fields import Count, Norm, NormField, NormKind, Statistics, refusal
from ladderspec.names import Shape, show_shape

DEFAULT_NORM: NormKind = "batch"


@register
class SoftMax(EncoderCell):
    """Dense layer with batch norm, then softmax; what goes on to other cells are probabilities."""

    cell: Literal["SoftMax"] = "SoftMax"
    channels: Count | None = Field(
        None, description="Classes; may be left out with `weights: none`."
    )
    weights: Literal["dense", "none"] = Field("dense", description="none: softmax of what arrives.")
    norm: NormField = Field(
        Norm(), description="batch (default), layer or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")

    @model_validator(mode="after")
    def _has_size(self) -> "SoftMax":
        if self.weights == "dense" and self.channels is None:
            hint = "the number of classes; or `weights: none` for a bare softmax"
            raise refusal("S102", "SoftMax needs `channels`", hint)
        return self

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        if self.weights == "dense":
            assert self.channels is not None
            return (self.channels,)
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
        return drive(inlet, out, (1, 1), self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        if self.weights == "none":
            return {}
        return {"bias": out, **joint_gain(self.norm, DEFAULT_NORM, out[0])}
