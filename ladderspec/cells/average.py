"""Average: spread a pooled value over its window."""

from typing import ClassVar, Literal

from ladderspec.cells._arrows import Inlet, Projection, ShapeProblem, between
from ladderspec.cells._contract import DecoderCell, Site, register
from ladderspec.names import Role, Shape, Side, show_shape


@register
class Average(DecoderCell):
    """The inverse of an average pool: each pooled value, over the whole of its window."""

    cell: Literal["Average"] = "Average"

    takes: ClassVar = frozenset({Role.DECODER})
    single: ClassVar = True

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.DECODER})

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        return site.level

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        fits = inlet.shape[0] == out[0] and len(inlet.shape) <= len(out)
        # One value over the whole map; between maps, the sizes must be a whole stride apart.
        stride = (out[1], out[2]) if len(out) == 3 else (1, 1)
        if len(inlet.shape) == 3:
            stride = between(inlet.shape, out, (1, 1), stride=inlet.stride).stride
        if not fits:
            raise ShapeProblem(
                f"Average spreads {show_shape(inlet.shape)} over {show_shape(out)},"
                " but their channels differ",
                "Average belongs on a Pool row",
            )
        return Projection("none", inlet.shape, out, stride=stride)
