"""GRU: the dense cell."""

from typing import ClassVar, Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain
from ladderspec.cells._contract import STATEFUL_TAKES, EncoderCell, Site, register
from ladderspec.cells._fields import Count, Norm, NormField, NormKind, Statistics
from ladderspec.names import Shape

DEFAULT_NORM: NormKind = "none"


@register
class GRU(EncoderCell):
    """Dense GRU; maps that arrive are flattened."""

    cell: Literal["GRU"] = "GRU"
    channels: Count = Field(description="Units.")
    norm: NormField = Field(
        Norm(), description="none (default), layer or batch; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")

    takes: ClassVar = STATEFUL_TAKES
    stateful: ClassVar = True

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return drive(inlet, (3 * out[0],), (1, 1), self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        # Two sums: what the inputs drive, and the state's part of n, which the reset gate scales.
        gain = joint_gain(self.norm, DEFAULT_NORM, 3 * out[0])
        return {"bias": (3 * out[0],), "state_bias": (out[0],), **gain}
