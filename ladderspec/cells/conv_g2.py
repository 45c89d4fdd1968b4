"""convG2: three gated branches [app:cells]."""

from typing import Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain, need_map
from ladderspec.cells._contract import DecoderCell, Site, register
from ladderspec.cells._fields import (
    Count,
    FunctionStart,
    Norm,
    NormField,
    NormKind,
    PairField,
    Statistics,
)
from ladderspec.names import Shape

DEFAULT_NORM: NormKind = "layer"


@register
class ConvG2(DecoderCell):
    """Gate of three branches f(LN(A * v_top) + LN(B * h) + c, w): y = s . mu_1 + (1 - s) . mu_2."""

    cell: Literal["convG2"] = "convG2"
    channels: Count | None = Field(
        None, description="Default: the width of the level it estimates."
    )
    filter: PairField = Field((3, 3), description="Filter size, one number or [height, width].")
    inner: Count | None = Field(
        None, description="Width of the branches, with a 1x1 read-out D behind them."
    )
    norm: NormField = Field(
        Norm(), description="layer (default), batch or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    w: FunctionStart = Field(
        (1, 1, 0, 0, 0), description="Start of w: `even`, `ladder` or five numbers."
    )

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        need_map(site.level, "convG2", "G1")
        return (self.channels or site.level[0], *site.level[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        branches = (3 * (self.inner or out[0]), *out[1:])
        return drive(inlet, branches, self.filter, self.norm, DEFAULT_NORM, groups=3)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        branches = 3 * (self.inner or out[0])
        own: dict[str, Shape] = {"c": (branches,), "w": (5, branches)}
        if self.inner:
            own["D"] = (out[0], self.inner, 1, 1)
        return {**own, **joint_gain(self.norm, DEFAULT_NORM, branches)}
