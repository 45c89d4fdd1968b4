"""convG1: the convolutional G1 [app:cells]."""

from typing import Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, between, need_map, odd
from ladderspec.cells._contract import DecoderCell, Site, register
from ladderspec.cells._fields import FunctionStart, NormKind, PairField, Statistics
from ladderspec.cells.g1 import gate
from ladderspec.names import Role, Shape, Side


@register
class ConvG1(DecoderCell):
    """Convolutional gate: G1 with u = BN(A * v_top + b) and one w per channel.

    CHOICE: normalised like G1, although the printed formula has no BN.
    """

    cell: Literal["convG1"] = "convG1"
    filter: PairField = Field((3, 3), description="Filter size, one number or [height, width].")
    norm: NormKind = Field("batch", description="Norm of u.")
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    w: FunctionStart = Field(
        (1, 1, 0, 0, 0), description="Start of w: `even`, `ladder` or five numbers."
    )
    w_s: FunctionStart = Field((1, 1, 0, 0, 0), description="Start of the gate's w_s, likewise.")

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.DECODER})

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        need_map(site.level, "convG1", "G1")
        return site.level

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        if inlet.role is Role.LATERAL:
            return gate(inlet, out, "convG1", out[0])
        extra = None if inlet.role is Role.DECODER or inlet.filter else odd(self.filter)
        return between(inlet.shape, out, inlet.filter or self.filter, extra, inlet.stride)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"b": (out[0],), "w": (5, out[0])}
