"""FC: a dense layer, batch norm, an activation."""

from typing import Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain
from ladderspec.cells._contract import DecoderCell, EncoderCell, Site, register
from ladderspec.cells._fields import Activation, Count, Norm, NormField, NormKind, Statistics
from ladderspec.names import Shape, size_of

DEFAULT_NORM: NormKind = "batch"


@register
class FC(EncoderCell):
    """Dense layer with batch norm and activation; maps that arrive are flattened."""

    cell: Literal["FC"] = "FC"
    channels: Count = Field(description="Units.")
    norm: NormField = Field(
        Norm(), description="batch (default), layer or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    activation: Activation = Field("relu", description="What the normalised sum passes through.")

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return drive(inlet, out, (1, 1), self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"bias": out, **joint_gain(self.norm, DEFAULT_NORM, out[0])}


@register
class DecoderFC(DecoderCell):
    """Plain dense decoder; its units are reshaped to the level it estimates."""

    cell: Literal["FC"] = "FC"
    channels: Count | None = Field(
        None, description="Default: the width of the level it estimates."
    )
    norm: NormField = Field(
        Norm(), description="batch (default), layer or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    activation: Activation = Field("relu", description="What the normalised sum passes through.")

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        return (self.channels or site.level[0], *site.level[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return drive(inlet, (size_of(out),), (1, 1), self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        units = size_of(out)
        return {"bias": (units,), **joint_gain(self.norm, DEFAULT_NORM, units)}
