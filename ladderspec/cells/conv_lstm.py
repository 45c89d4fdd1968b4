"""ConvLSTM: an LSTM whose maps are convolutions."""

from typing import ClassVar, Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain, need_map, strided
from ladderspec.cells._contract import STATEFUL_TAKES, EncoderCell, Site, register
from ladderspec.cells._fields import Count, Norm, NormField, NormKind, Pair, PairField, Statistics
from ladderspec.names import Shape

DEFAULT_NORM: NormKind = "layer"


@register
class ConvLSTM(EncoderCell):
    """Convolutional LSTM; every arrow's drive of the four gates is layer-normalised."""

    cell: Literal["ConvLSTM"] = "ConvLSTM"
    channels: Count = Field(description="Width of the output and of the state.")
    filter: PairField = Field((3, 3), description="Filter size, one number or [height, width].")
    stride: PairField = Field((1, 1), description="Output size is input size / stride, rounded up.")
    norm: NormField = Field(
        Norm(), description="layer (default), batch or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    forget_bias: float = Field(1.0, description="Start of the forget gate's bias.")
    gate_bias: float = Field(0.0, description="Start of the input and the output gate's bias.")

    takes: ClassVar = STATEFUL_TAKES
    stateful: ClassVar = True

    @property
    def row_stride(self) -> Pair:
        return self.stride

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, "ConvLSTM", "LSTM")
        return (self.channels, *strided(below, self.stride))

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        gates = (4 * out[0], *out[1:])
        return drive(inlet, gates, self.filter, self.norm, DEFAULT_NORM, stride=self.stride)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"bias": (4 * out[0],), **joint_gain(self.norm, DEFAULT_NORM, 4 * out[0])}

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        return {"c": out}
