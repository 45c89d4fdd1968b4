"""Unknown: stands in for a cell that a spec got wrong, so that the rest can still be checked."""

from typing import ClassVar, Literal

from ladderspec.cells._arrows import Inlet, Projection
from ladderspec.cells._contract import Cell, Site
from ladderspec.names import Role, Shape, Side

UNKNOWN = "\0unknown"  # a word that no YAML text can hold


class Unknown(Cell):
    """Takes every arrow, needs none, has no shape; what depends on it is left unsaid."""

    cell: Literal["\0unknown"] = "\0unknown"

    sides: ClassVar = frozenset(Side)
    takes: ClassVar = frozenset(Role)

    def out_shape(self, site: Site) -> Shape:
        raise UnknownShape

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        raise UnknownShape


class UnknownShape(Exception):
    """The shape follows from something that is wrong elsewhere."""
