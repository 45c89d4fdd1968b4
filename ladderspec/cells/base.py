"""What a cell is: one class with its fields, edges, shape, parameters and computation.

A cell declares what each incoming edge owns (`project`), what the node owns (`parameters`), and
computes its output from them (`compute`). A network has the parameters of its edges and nodes.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from pydantic import Field

from ladderspec.arguments import checked
from ladderspec.cells.declarations import check_declarations
from ladderspec.cells.fields import Config, Initial, Noise, OneLine, Pair
from ladderspec.cells.parameters import Parameters
from ladderspec.cells.projections import Inlet, Projection, ShapeProblem
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, Side
from ladderspec.plugins import admit

if TYPE_CHECKING:
    from ladderspec.cells.grouping import Groups


@dataclass(frozen=True)
class Site:
    """Where a cell stands: its edges, the shapes of its level and of the row that it inverts.

    Attributes:
        side: The side of the ladder.
        inlets: The incoming edges.
        level: For decoders, the shape of the encoder of their own level.
        row: For decoders, the shape of the encoder of the row that they invert.
        groups: The groups of the network, if it has any.
        noise: The noise on the input, if there is any.
    """

    side: Side
    inlets: tuple[Inlet, ...]
    level: Shape | None = None
    row: Shape | None = None
    groups: Groups | None = None
    noise: Noise | None = None

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.groups.count if self.groups is not None else 1

    def main(self) -> Inlet:
        """The edge from below, for encoders; that from the encoder, for lateral cells."""
        role = Role.LATERAL if self.side is Side.LATERAL else Role.ENCODER
        return next(inlet for inlet in self.inlets if inlet.role is role)

    @property
    def estimate(self) -> Shape:
        """Decoders: the shape of the level that they estimate."""
        if self.level is None:
            raise ShapeProblem("only a decoder estimates a level", "`site.main().shape`")
        return self.level


class Signature(NamedTuple):
    """What `compute` reads, by the names of its arguments.

    Positional: `a` is the pre-activation; a role is that edge, kept out of the sum; `edges` are all
    edges by key, kept out of the sum; `h` is the output that the `state` edge brings; other names
    are further values of that past iteration (`returns`). Keyword-only: parameters of the node or
    of its edges, fields of the cell, its `constants`, `norm` and `out`, the shape of the output.
    """

    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    optional: frozenset[str]  # None if absent

    def sums(self, key: str) -> bool:
        """Whether an edge enters the pre-activation `a`."""
        return key not in self.positional and "edges" not in self.positional


class Cell(Config):
    """The base class of cells: fields, edges, output shape, parameters and computation.

    docs/own_cells.md describes what a subclass defines: `takes`, `needs`, `out_shape`, `project`,
    `parameters` and `compute`. The fields below are those of every cell in a spec.
    """

    cell: str
    label: OneLine | None = Field(
        None, description="Label in drawings, instead of the cell's name."
    )
    initial: Initial = Field(
        "zeros", description="Initial value of delayed arrows, before the first iteration."
    )
    noise: Noise | None = Field(
        None,
        description="Gaussian noise on the normalised pre-activation in training, before gain,"
        " offset and activation: {gaussian: 0.3}.",
    )
    share: OneLine | None = Field(
        None,
        description="Weight sharing: the row whose cell on this side owns the weights, or a node.",
    )

    sides: ClassVar[frozenset[Side]]
    takes: ClassVar[frozenset[Role]]
    stateful: ClassVar[bool] = False
    single: ClassVar[bool] = False  # reads exactly one edge
    keeps_range: ClassVar[bool] = False  # what it computes is limited like what it reads
    offset: ClassVar[str] = ""  # the parameter that is added to the pre-activation
    returns: ClassVar[tuple[str, ...]] = ()  # what `compute` returns after the output, by name
    revision: ClassVar[int] = 1  # raise it when a default or the computation changes

    compute: ClassVar[Callable[..., Any]]
    # What delayed edges carry before the first iteration, for cells that neither start at zero nor
    # learn it: a static function of `noise` (a buffer of the cell, drawn again in training).
    first_value: ClassVar[Callable[..., Any] | None] = None

    @property
    def row_stride(self) -> Pair | None:
        """How its output is coarser than the maps from below, for the cells that invert its row.

        None: unknown. Edges across the row then take the smallest stride that fits the sizes.
        """
        return None

    def needs(self, side: Side) -> frozenset[Role]:
        """The edges without which the cell cannot work."""
        return frozenset()

    @abstractmethod
    def out_shape(self, site: Site) -> Shape:
        """The shape of the cell's output."""

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        """What this edge owns. Default: nothing, the value arrives as it is."""
        return Projection("none", inlet.shape, inlet.shape)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        """What the node owns, with its initial values, whatever its edges."""
        return {}

    def constants(self, site: Site, out: Shape) -> dict[str, Any]:
        """Further values that `compute` reads by keyword: those that follow from shapes."""
        return {}

    def node_norm(self) -> tuple[str, str, int]:
        """A norm of the pre-activation: its name as a module, its kind, its groups of channels."""
        return "joint", "none", 1

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        """What the cell remembers besides its output: those of `returns` that it reads again."""
        return {}

    @classmethod
    def signature(cls) -> Signature:
        """What `compute` reads."""
        parameters = inspect.signature(cls.compute).parameters.values()
        return Signature(
            tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY),
            tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
            frozenset(p.name for p in parameters if p.default is None),
        )


class EncoderCell(Cell):
    """A cell of the encoder, or on a lateral edge."""

    sides: ClassVar = frozenset({Side.ENCODER, Side.LATERAL})
    takes: ClassVar = frozenset(
        {Role.ENCODER, Role.LATERAL, Role.DECODER_TO_ENCODER, Role.UPWARD_DIAGONAL, Role.SKIP}
    )

    def needs(self, side: Side) -> frozenset[Role]:
        main = Role.LATERAL if side is Side.LATERAL else Role.ENCODER
        return frozenset({main, Role.STATE}) if self.stateful else frozenset({main})


class DecoderCell(Cell):
    """A cell of the decoder."""

    sides: ClassVar = frozenset({Side.DECODER})
    takes: ClassVar = frozenset(
        {Role.DECODER, Role.LATERAL, Role.DOWNWARD_DIAGONAL, Role.RECURRENT_DECODER, Role.SKIP}
    )


STATEFUL_TAKES = EncoderCell.takes | {Role.STATE}


def iterations_of(cell: Cell, length: int | None) -> int:
    """How many iterations have statistics of their own; `length` is None if it may be any."""
    return 1 if getattr(cell, "statistics", None) == "shared" else length or 1


# --- the normalised pre-activation ----------------------------------------------------------------


class NoNorm(ShapeProblem):
    """A cell without a norm."""


def deviation(cell: Cell) -> float:
    """The standard deviation of the noise on the normalised pre-activation."""
    noise = cell.noise if cell.cell != "Input" else None
    return (noise.gaussian or 0.0) if isinstance(noise, Noise) else 0.0


def normalised_shape(cell: Cell, projections: Mapping[str, Projection]) -> Shape:
    """The shape of z in a = gain . z + offset, if one norm makes z from all edges.

    Noise is added to z, and arrows with `tap: normalised` carry it.

    Args:
        cell: The cell.
        projections: What its edges own, by key.

    Raises:
        ShapeProblem: if the cell has no such norm.
    """
    signature, (_, kind, _) = cell.signature(), cell.node_norm()
    summed = [each for key, each in projections.items() if signature.sums(key)]
    if not any(kind != "none" or each.norm != "none" for each in summed):
        hint = "give it one, like `norm: batch`" if hasattr(cell, "norm") else "leave it out"
        raise NoNorm(f"{cell.cell} has no norm", hint)
    if kind == "none" and len(summed) > 1:
        raise ShapeProblem(
            f"{cell.cell} normalises each of its {len(summed)} arrows by itself",
            "`norm: joint` normalises their sum",
        )
    return summed[0].target


# --- registry -------------------------------------------------------------------------------------

_CELLS: dict[Side, dict[str, type[Cell]]] = {side: {} for side in Side}
C = TypeVar("C", bound=type[Cell])


@checked
def register(cell: C) -> C:
    """Make a cell known under the name in its `cell` field. Use it as a class decorator.

    Args:
        cell: A subclass of `EncoderCell` or `DecoderCell` with a `compute`.

    Returns:
        The same class.

    Raises:
        UsageError: if the class has no `compute`, methods of the old API of cells, or the name of
            a cell of ladderspec.
    """
    for old, new in (("build", "compute"), ("join", "parameters")):
        if old in vars(cell):
            raise UsageError(
                f"the cell {cell_name(cell)} has a method `{old}`, from the old API of cells:"
                f" write `{new}` instead (docs/own_cells.md, section 'Cells of the old API')"
            )
    name = cell_name(cell)
    if not hasattr(cell, "compute"):
        raise UsageError(f"the cell {name} has no `compute`, see docs/own_cells.md")
    if not isinstance(inspect.getattr_static(cell, "compute"), staticmethod):
        raise UsageError(f"`compute` of the cell {name} needs `@staticmethod`: it has no `self`")
    check_declarations(cell, name)
    for side in cell.sides:
        admit("cell", name, _CELLS[side].get(name), cell)
        _CELLS[side][name] = cell
    return cell


def cell_name(cell: type[Cell]) -> str:
    """The name by which a spec asks for the cell: its `cell: Literal[...]`."""
    names = getattr(cell.model_fields["cell"].annotation, "__args__", ())
    if not names:
        name = cell.__name__
        raise UsageError(f'the class {name} needs a name: `cell: Literal["{name}"] = "{name}"`')
    return str(names[0])


def registered(side: Side) -> dict[str, type[Cell]]:
    """The cells of a side by their names."""
    return dict(_CELLS[side])
