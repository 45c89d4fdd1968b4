"""convG3: a gate between two maps of one hidden layer [app:cells]."""

from typing import Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, drive, joint_gain, need_map
from ladderspec.cells._contract import DecoderCell, Site, register
from ladderspec.cells._fields import Count, Norm, NormField, NormKind, PairField, Statistics
from ladderspec.names import Shape

DEFAULT_NORM: NormKind = "layer"


@register
class ConvG3(DecoderCell):
    """Gate over a hidden layer u: y = s . D * u + (1 - s) . E * u, s = sigmoid(W_s * u).

    u = relu(LN(A * v_top) + LN(B * h) + c)
    """

    cell: Literal["convG3"] = "convG3"
    channels: Count | None = Field(
        None, description="Default: the width of the level it estimates."
    )
    filter: PairField = Field(
        (3, 3), description="Filter of A and B, one number or [height, width]."
    )
    inner: Count | None = Field(None, description="Width of u. Default: the width of its row.")
    inner_filter: PairField = Field((1, 1), description="Filter of W_s, D and E.")
    norm: NormField = Field(
        Norm(), description="layer (default), batch or none; joint or separate."
    )
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        need_map(site.level, "convG3", "G1")
        return (self.channels or site.level[0], *site.level[1:])

    def width(self, site: Site) -> int:
        assert site.row is not None
        return self.inner or site.row[0]

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        u = (self.width(site), *out[1:])
        return drive(inlet, u, self.filter, self.norm, DEFAULT_NORM)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        width = self.width(site)
        inner = (out[0], width, *self.inner_filter)
        gain = joint_gain(self.norm, DEFAULT_NORM, width)
        return {"c": (width,), "W_s": inner, "D": inner, "E": inner, **gain}
