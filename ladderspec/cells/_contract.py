"""What a cell promises, without a tensor: its fields, the arrows it takes, shapes and parameters.

A built-in cell is two things: `project`, one per incoming arrow and owned by that arrow, and
`join`, owned by the node. Parameters of a network = sum over its arrows + sum over its nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection
from ladderspec.cells._fields import Initial, Pair, Words
from ladderspec.names import Role, Shape, Side


@dataclass(frozen=True)
class Site:
    """Where a cell stands: what arrives, the shape of its level, and of the row it inverts."""

    side: Side
    inlets: tuple[Inlet, ...]
    level: Shape | None = None  # decoders: shape of the encoder of their own level
    row: Shape | None = None  # decoders: shape of the encoder of the row that they invert

    def main(self) -> Inlet:
        """The arrow from below (encoders) or from the encoder (lateral cells)."""
        role = Role.LATERAL if self.side is Side.LATERAL else Role.ENCODER
        return next(inlet for inlet in self.inlets if inlet.role is role)


class Cell(Words):
    """One cell: `fields`, `needs` and `takes`, `out_shape`, `project`, `join`."""

    cell: str
    label: str | None = Field(None, description="Drawn instead of the cell's name.")
    initial: Initial = Field(
        "zeros", description="What delayed arrows carry before the first iteration."
    )

    sides: ClassVar[frozenset[Side]]
    takes: ClassVar[frozenset[Role]]
    stateful: ClassVar[bool] = False
    single: ClassVar[bool] = False  # reads exactly one arrow

    @property
    def row_stride(self) -> Pair | None:
        """How its output is coarser than the maps from below, for the cells that invert its row.

        None: unknown. Arrows across the row then take the smallest stride that fits the sizes.
        """
        return None

    def needs(self, side: Side) -> frozenset[Role]:
        """The arrows without which the cell cannot work."""
        return frozenset()

    @abstractmethod
    def out_shape(self, site: Site) -> Shape:
        """The shape of the cell's output."""

    @abstractmethod
    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        """What this arrow owns."""

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        """What the node owns, whatever its arrows."""
        return {}

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        """What the cell remembers besides its output."""
        return {}


class EncoderCell(Cell):
    sides: ClassVar = frozenset({Side.ENCODER, Side.LATERAL})
    takes: ClassVar = frozenset(
        {Role.ENCODER, Role.LATERAL, Role.DECODER_TO_ENCODER, Role.UPWARD_DIAGONAL, Role.SKIP}
    )

    def needs(self, side: Side) -> frozenset[Role]:
        main = Role.LATERAL if side is Side.LATERAL else Role.ENCODER
        return frozenset({main, Role.STATE}) if self.stateful else frozenset({main})


class DecoderCell(Cell):
    sides: ClassVar = frozenset({Side.DECODER})
    takes: ClassVar = frozenset(
        {Role.DECODER, Role.LATERAL, Role.DOWNWARD_DIAGONAL, Role.RECURRENT_DECODER, Role.SKIP}
    )


STATEFUL_TAKES = EncoderCell.takes | {Role.STATE}


# --- registry -------------------------------------------------------------------------------------

_CELLS: dict[Side, dict[str, type[Cell]]] = {side: {} for side in Side}
C = TypeVar("C", bound=type[Cell])


def register(cell: C) -> C:
    """Make a cell known under the word of its `cell` field."""
    for side in cell.sides:
        _CELLS[side][cell_word(cell)] = cell
    return cell


def cell_word(cell: type[Cell]) -> str:
    """The word by which a spec asks for the cell: its `cell: Literal[...]`."""
    annotation = cell.model_fields["cell"].annotation
    return str(getattr(annotation, "__args__")[0])  # noqa: B009 (mypy: Literal has no attributes)


def registered(side: Side) -> dict[str, type[Cell]]:
    """The cells of a side by their words."""
    return dict(_CELLS[side])
