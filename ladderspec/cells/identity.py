"""Identity: what comes down goes on unchanged."""

from typing import ClassVar, Literal

from ladderspec.cells._arrows import Inlet, Projection
from ladderspec.cells._contract import DecoderCell, Site, register
from ladderspec.names import Role, Shape


@register
class Identity(DecoderCell):
    """A copy: the estimate of the level below is what comes down, in its own shape."""

    cell: Literal["Identity"] = "Identity"

    takes: ClassVar = frozenset({Role.DECODER, Role.LATERAL})
    single: ClassVar = True

    def out_shape(self, site: Site) -> Shape:
        return site.inlets[0].shape

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, out)
