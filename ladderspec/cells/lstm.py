"""LSTM: the dense cell."""

from typing import ClassVar, Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain
from ladderspec.cells._contract import STATEFUL_TAKES, EncoderCell, Site, register
from ladderspec.cells._fields import Count, Norm, NormField, NormKind, Statistics
from ladderspec.names import Shape

DEFAULT_NORM: NormKind = "none"


@register
class LSTM(EncoderCell):
    """Dense LSTM with one bias vector; maps that arrive are flattened."""

    cell: Literal["LSTM"] = "LSTM"
    channels: Count = Field(description="Units.")
    norm: NormField = Field(
        Norm(), description="none (default), layer or batch; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    forget_bias: float = Field(1.0, description="Start of the forget gate's bias.")
    gate_bias: float = Field(0.0, description="Start of the input and the output gate's bias.")

    takes: ClassVar = STATEFUL_TAKES
    stateful: ClassVar = True

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return drive(inlet, (4 * out[0],), (1, 1), self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"bias": (4 * out[0],), **joint_gain(self.norm, DEFAULT_NORM, 4 * out[0])}

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        return {"c": out}
