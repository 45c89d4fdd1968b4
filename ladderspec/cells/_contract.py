"""What a cell promises, without a tensor: its fields, the arrows it takes, shapes and parameters.

A built-in cell is two things: `project`, one per incoming arrow and owned by that arrow, and
`join`, owned by the node. Parameters of a network = sum over its arrows + sum over its nodes.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from ladderspec.errors import did_you_mean, one_of, tick
from ladderspec.names import Role, Shape, Side, show_shape, size_of

Pair = tuple[int, int]


class Words(BaseModel):
    """Everything a spec may say is a frozen table of known words."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True, allow_inf_nan=False
    )


class ShapeProblem(Exception):
    """A cell that cannot stand where it stands."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


# --- field types ----------------------------------------------------------------------------------


def refusal(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """A mistake in a field, in the words and with the code that users see."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def pair(value: Any) -> Any:
    """One number stands for two alike."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, value)
    if isinstance(value, list) and len(value) == 2:
        return tuple(value)
    if isinstance(value, tuple | NoneType):
        return value
    hint = "height and width: [3, 5]" if isinstance(value, list) else "like 3 or [3, 5]"
    numbers = re.findall(r"\d+", value)[:2] if isinstance(value, str) else []
    if len(numbers) == 2 or value == f"({''.join(numbers)}":
        hint = f"write [{', '.join([*numbers, *numbers][:2])}]"
    elif numbers and value.strip(" ,") == numbers[0]:
        hint = f"write {numbers[0]}"
    raise refusal("S104", "one whole number or a list of two is needed", hint)


_COUNT = {"type": "integer", "minimum": 1, "maximum": 4096}
PAIR_SCHEMA: dict[str, Any] = {
    "anyOf": [_COUNT, {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2}]
}

Count = Annotated[int, Field(ge=1, le=65536)]
Size = Annotated[int, Field(ge=1, le=4096)]
PairField = Annotated[tuple[Size, Size], BeforeValidator(pair), WithJsonSchema(PAIR_SCHEMA)]


def by_form(**forms: Any) -> Any:
    """A union told apart by its form (mapping, list or word), so that a mistake is said once."""

    def form(value: Any) -> str:
        if isinstance(value, dict | BaseModel):
            return "mapping"
        return "list" if isinstance(value, list | tuple) else "word"

    tagged = [Annotated[kind, Tag(tag)] for tag, kind in forms.items()]
    known = list(forms)
    return Annotated[
        Union[tuple(tagged)],  # noqa: UP007 (built from a list)
        Discriminator(lambda value: form(value) if form(value) in known else known[0]),
    ]


Activation = Literal[
    "none", "relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "tanh", "sigmoid"
]
Initial = Literal["zeros", "learned"]
Statistics = Literal["per_iteration", "shared"]
NormKind = Literal["batch", "layer", "none"]


class Norm(Words):
    """How the drives of a cell are normalised."""

    kind: NormKind | None = Field(None, description="None: the cell's own kind.")
    terms: Literal["separate", "joint"] = Field(
        "separate",
        description="Each arrow's drive by itself, or their sum with the gain on the node.",
    )


_NORM_WORDS = ["batch", "layer", "none", "joint", "separate"]


def _norm(value: Any) -> Any:
    if isinstance(value, dict | Norm):
        return value
    if value not in _NORM_WORDS:
        meant = "none" if value in (None, False, "no", "off") else value
        hint = did_you_mean(meant, _NORM_WORDS) or f"{one_of(_NORM_WORDS)}, or {{kind, terms}}"
        shown = str(value).lower() if isinstance(value, bool) else value
        raise refusal("S105", f"there is no norm {tick(shown)}", hint)
    return {"terms" if value in ("joint", "separate") else "kind": value}


_NORM_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": _NORM_WORDS},
        {
            "type": "object",
            "properties": {"kind": {"enum": _NORM_WORDS[:3]}, "terms": {"enum": _NORM_WORDS[3:]}},
            "additionalProperties": False,
        },
    ]
}
NormField = Annotated[Norm, BeforeValidator(_norm), WithJsonSchema(_NORM_SCHEMA)]

Five = tuple[float, float, float, float, float]
_STARTS: dict[str, Five] = {"even": (1, 1, 0, 0, 0), "ladder": (0, 1, 0, 0, 0)}


def _five(value: Any) -> Any:
    if isinstance(value, str) and value in _STARTS:
        return _STARTS[value]
    if isinstance(value, list | tuple) and len(value) == 5:
        return tuple(value)
    raise refusal(
        "S104", "a start of w is five numbers or a word", "`even`, `ladder` or [1, 1, 0, 0, 0]"
    )


# Start of w in f(u, w) [eq:fdec]. CHOICE: `even` has gradients everywhere from the first update;
# `ladder` is that of the original Ladder code, whose cells wake up one after another.
FunctionStart = Annotated[
    Five,
    BeforeValidator(_five),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": list(_STARTS)},
                {"type": "array", "items": {"type": "number"}, "minItems": 5, "maxItems": 5},
            ]
        }
    ),
]


# --- what a cell sees and says --------------------------------------------------------------------


@dataclass(frozen=True)
class Inlet:
    """One incoming arrow, as the cell at its head sees it."""

    key: str  # its name among the arrows of this cell: the role, or skip_<source>_<delay>
    role: Role
    delay: int
    shape: Shape
    filter: Pair | None = None  # what the arrow itself says
    norm: NormKind | None = None
    stride: Pair | None = None  # of the rows between its ends; below 0 where it leads back down


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


@dataclass(frozen=True)
class Projection:
    """What one arrow does to what it carries: a linear map, then perhaps a norm with a gain."""

    kind: Literal["none", "dense", "conv", "transposed"]
    source: Shape
    target: Shape
    filter: Pair = (1, 1)
    stride: Pair = (1, 1)
    norm: NormKind = "none"
    groups: int = 1  # channels normalised apart from each other (layer norm)
    own: tuple[tuple[str, Shape], ...] = ()  # further parameters of this arrow

    @property
    def parameters(self) -> dict[str, Shape]:
        found = dict(self.own)
        rows, columns = size_of(self.target), size_of(self.source)
        if self.kind == "dense":
            found["weight"] = (rows, columns)
        elif self.kind == "conv":
            found["weight"] = (self.target[0], self.source[0], *self.filter)
        elif self.kind == "transposed":
            found["weight"] = (self.source[0], self.target[0], *self.filter)
        if self.norm != "none":
            found["gain"] = (self.target[0],)
        return found

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the linear map for one value."""
        if self.kind == "none":
            return 0
        if self.kind == "dense":
            return size_of(self.source) * size_of(self.target)
        field = self.filter[0] * self.filter[1] * self.source[0] * self.target[0]
        positions = self.target if self.kind == "conv" else self.source
        return field * positions[1] * positions[2]


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


# --- shapes ---------------------------------------------------------------------------------------


def need_map(shape: Shape, who: str, instead: str) -> None:
    if len(shape) != 3:
        raise ShapeProblem(
            f"{who} works on maps, not on a vector of {show_shape(shape)}", f"use {instead}"
        )


def strided(shape: Shape, stride: Pair) -> Pair:
    """Height and width after a stride: ceil(n / s), so that nothing is lost at the border."""
    return (-(-shape[1] // stride[0]), -(-shape[2] // stride[1]))


def odd(filter: Pair) -> Pair:
    """The filter of arrows that do not resample: even table filters lose one [PAPER: F]."""
    return (filter[0] - 1 + filter[0] % 2, filter[1] - 1 + filter[1] % 2)


def between(
    source: Shape,
    target: Shape,
    filter: Pair,
    same_filter: Pair | None = None,
    stride: Pair | None = None,
) -> Projection:
    """The linear map from one shape to another: dense, convolution, or transposed convolution.

    `same_filter` replaces `filter` where the two have the same size. `stride` is that of the rows
    in between, where it is known (see `Inlet`).
    """
    if len(source) != 3 or len(target) != 3:
        return Projection("dense", source, target)
    sizes = zip(source[1:], target[1:], stride or (1, 1), strict=True)
    height, width = (_stride(*side) for side in sizes)
    if height is None or width is None or (height < 0 < width - 1) or (width < 0 < height - 1):
        raise ShapeProblem(
            f"no stride leads from {show_shape(source)} to {show_shape(target)}",
            "sizes must be equal, or one the other divided by a whole number (rounded up)",
        )
    if height == width == 1:
        return Projection("conv", source, target, same_filter or filter)
    if height < 0 or width < 0:
        return Projection("transposed", source, target, filter, (abs(height), abs(width)))
    return Projection("conv", source, target, filter, (height, width))


def _stride(n: int, m: int, rows: int = 1) -> int | None:
    """s > 0 with m = ceil(n / s), or s < 0 with n = ceil(m / -s); None where there is none.

    That of the `rows` if it fits, else the smallest.

    >>> _stride(11, 6), _stride(6, 11), _stride(8, 8), _stride(7, 5)
    (2, -2, 1, None)
    >>> _stride(9, 3), _stride(9, 3, 4), _stride(3, 9, -4)
    (3, 4, -4)
    """
    if n == m:
        return 1
    big, small = max(n, m), min(n, m)
    sign = 1 if n > m else -1
    steps = [step for step in (sign * rows, -(-big // small)) if step > 0]
    return next((sign * step for step in steps if -(-big // step) == small), None)


def drive(
    inlet: Inlet,
    target: Shape,
    filter: Pair,
    norm: Norm,
    default: NormKind,
    *,
    stride: Pair | None = None,
    groups: int = 1,
) -> Projection:
    """The usual projection: a linear map to `target`, normalised by itself unless `norm` is joint.

    `stride` is the row's own, for the arrow from below; other arrows resample as the sizes ask.
    """
    main = inlet.role in (Role.ENCODER, Role.LATERAL, Role.DECODER)
    own = inlet.filter or filter
    if stride and main and len(inlet.shape) == 3:
        projection = Projection("conv", inlet.shape, target, own, stride)
    else:
        same = own if main or inlet.filter else odd(filter)
        projection = between(inlet.shape, target, own, same, inlet.stride)
    kind = "none" if norm.terms == "joint" else norm.kind or default
    return replace(projection, norm=inlet.norm or kind, groups=groups)


def joint_gain(norm: Norm, default: NormKind, channels: int) -> dict[str, Shape]:
    """The gain that `norm: joint` moves to the node."""
    joint = norm.terms == "joint" and (norm.kind or default) != "none"
    return {"gain": (channels,)} if joint else {}
