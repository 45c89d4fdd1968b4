"""Conv: a convolution, batch norm, an activation."""

from typing import Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain, need_map, strided
from ladderspec.cells._contract import DecoderCell, EncoderCell, Site, register
from ladderspec.cells._fields import (
    Activation,
    Count,
    Norm,
    NormField,
    NormKind,
    Pair,
    PairField,
    Statistics,
)
from ladderspec.names import Shape

DEFAULT_NORM: NormKind = "batch"


@register
class Conv(EncoderCell):
    """Convolution with batch norm and activation: e = act(BN(W * e_below) + b)."""

    cell: Literal["Conv"] = "Conv"
    channels: Count = Field(description="Width of the output.")
    filter: PairField = Field((3, 3), description="Filter size, one number or [height, width].")
    stride: PairField = Field((1, 1), description="Output size is input size / stride, rounded up.")
    norm: NormField = Field(
        Norm(), description="batch (default), layer or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    activation: Activation = Field("relu", description="What the normalised sum passes through.")

    @property
    def row_stride(self) -> Pair:
        return self.stride

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, "Conv", "FC")
        return (self.channels, *strided(below, self.stride))

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return drive(inlet, out, self.filter, self.norm, DEFAULT_NORM, stride=self.stride)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"bias": (out[0],), **joint_gain(self.norm, DEFAULT_NORM, out[0])}


@register
class DecoderConv(DecoderCell):
    """Plain decoder for autoencoders and U-nets: d = act(BN(A * v_top) + BN(B * h) + b)."""

    cell: Literal["Conv"] = "Conv"
    channels: Count | None = Field(
        None, description="Default: the width of the level it estimates."
    )
    filter: PairField = Field((3, 3), description="Filter size, one number or [height, width].")
    norm: NormField = Field(
        Norm(), description="batch (default), layer or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    activation: Activation = Field("relu", description="What the normalised sum passes through.")

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        need_map(site.level, "Conv", "FC")
        return (self.channels or site.level[0], *site.level[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return drive(inlet, out, self.filter, self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"bias": (out[0],), **joint_gain(self.norm, DEFAULT_NORM, out[0])}
