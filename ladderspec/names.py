"""Names that every package shares: sides, the table of roles, nodes, arrows and shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Shape = tuple[int, ...]  # (C,) for vectors, (C, H, W) for maps

LEVEL_NAME = re.compile(r"[a-z][a-z0-9_]*")
INPUT = "input"
BOTTOM = "encoder.input"  # the node of the input
GROUPS = "groups"  # the level between the input and the first row, if the network has groups


class Side(StrEnum):
    """The column of the ladder that a node belongs to."""

    INPUT = "input"  # inputs beside the one at the bottom of the encoder
    ENCODER = "encoder"
    LATERAL = "lateral"
    DECODER = "decoder"

    @property
    def letter(self) -> str:
        """The paper's letter for the values of its nodes."""
        return {"input": "x", "encoder": "e", "lateral": "h", "decoder": "d"}[self]


class Role(StrEnum):
    """Why an arrow exists; in the order in which arrows are listed and summed."""

    ENCODER = "encoder"
    STATE = "state"
    LATERAL = "lateral"
    DECODER = "decoder"
    DECODER_TO_ENCODER = "decoder_to_encoder"
    UPWARD_DIAGONAL = "upward_diagonal"
    DOWNWARD_DIAGONAL = "downward_diagonal"
    RECURRENT_DECODER = "recurrent_decoder"
    SKIP = "skip"  # any arrow that fits no row of the table

    @property
    def order(self) -> int:
        """Its position among the roles.

        >>> sorted([Role.SKIP, Role.STATE], key=lambda role: role.order)[0].value
        'state'
        """
        return _ORDER[self]


_ORDER = {role: index for index, role in enumerate(Role)}


class Ink(NamedTuple):
    """How a line is drawn."""

    colour: str
    width: float = 1.2
    dash: tuple[float, ...] = ()


class RoleStyle(NamedTuple):
    """How the arrows of a role are drawn: their line in each theme, and their letter."""

    legend: int  # the position in a legend
    paper: Ink
    safe: Ink
    mono: Ink
    dark: Ink
    basic: bool = False  # part of the plain ladder: routed first, labelled in the mini view
    letter: str = ""  # the paper's letter for the value; default: that of the source's side


@dataclass(frozen=True)
class RoleRow:
    """One row of the table of roles: `source` at level l + `offset` -> `target` at level l."""

    source: Side
    target: Side
    offset: int
    delay: int
    default: Literal["always", "stateful", "nowhere"]  # at which target cells, unless `edges` says
    style: RoleStyle

    @property
    def description(self) -> str:
        """
        >>> TABLE[Role.UPWARD_DIAGONAL].description
        'decoder l-1(t-1) -> encoder l; by default nowhere'
        """
        level = f"l{self.offset:+}" if self.offset else "l"
        place = {"stateful": "; by default at stateful cells", "nowhere": "; by default nowhere"}
        arrow = show_arrow(f"{self.source} {level}", f"{self.target} l", self.delay)
        return arrow + place.get(self.default, "")


_SOLID = 1.25
_DASHED, _DOTTED, _DASH_DOT = (5.0, 2.5), (1.2, 2.2), (6.0, 2.0, 1.2, 2.0)
_SHORT, _DASH_DOT_DOT = (4.5, 2.0), (6.0, 2.0, 1.2, 2.0, 1.2, 2.0)

# The table of roles. An arrow's level is that of its target. `safe` has the colours of Okabe and
# Ito; arrows that share a hue differ in their dashes. `mono` differs in dashes and widths alone.
TABLE: dict[Role, RoleRow] = {
    Role.ENCODER: RoleRow(Side.ENCODER, Side.ENCODER, -1, 0, "always", RoleStyle(
        0, paper=Ink("#c62828", _SOLID), safe=Ink("#d55e00", _SOLID),
        mono=Ink("#000000", 1.7), dark=Ink("#ff8a80", _SOLID), basic=True,
    )),
    Role.STATE: RoleRow(Side.ENCODER, Side.ENCODER, 0, 1, "stateful", RoleStyle(
        4, paper=Ink("#7a4100", _SOLID), safe=Ink("#000000", _SOLID),
        mono=Ink("#000000", 1.2, _DOTTED), dark=Ink("#fcad70", _SOLID), basic=True, letter="s",
    )),
    Role.LATERAL: RoleRow(Side.ENCODER, Side.DECODER, 0, 0, "always", RoleStyle(
        1, paper=Ink("#202124", _SOLID), safe=Ink("#5f6368", _SOLID),
        mono=Ink("#000000", 0.8), dark=Ink("#e8eaed", _SOLID), basic=True,
    )),
    Role.DECODER: RoleRow(Side.DECODER, Side.DECODER, +1, 0, "always", RoleStyle(
        2, paper=Ink("#1450b0", _SOLID), safe=Ink("#0072b2", _SOLID),
        mono=Ink("#000000", 1.5, _SHORT), dark=Ink("#8ab4f8", _SOLID), basic=True,
    )),
    Role.DECODER_TO_ENCODER: RoleRow(Side.DECODER, Side.ENCODER, 0, 1, "stateful", RoleStyle(
        3, paper=Ink("#0b7d3b", _SOLID), safe=Ink("#009e73", 1.5, _SHORT),
        mono=Ink("#000000", 1.3, _DASH_DOT), dark=Ink("#81c995", _SOLID), basic=True,
    )),
    Role.UPWARD_DIAGONAL: RoleRow(Side.DECODER, Side.ENCODER, -1, 1, "nowhere", RoleStyle(
        6, paper=Ink("#0b7d3b", _SOLID, _DASHED), safe=Ink("#cc79a7", 1.4, _DASHED),
        mono=Ink("#000000", 1.3, _DASH_DOT_DOT), dark=Ink("#81c995", _SOLID, _DASHED),
    )),
    Role.DOWNWARD_DIAGONAL: RoleRow(Side.DECODER, Side.DECODER, +1, 1, "nowhere", RoleStyle(
        7, paper=Ink("#1450b0", _SOLID, _DASHED), safe=Ink("#56b4e9", 1.4, _DASH_DOT),
        mono=Ink("#000000", 0.9, _DASH_DOT_DOT), dark=Ink("#8ab4f8", _SOLID, _DASHED),
    )),
    Role.RECURRENT_DECODER: RoleRow(Side.DECODER, Side.DECODER, 0, 1, "nowhere", RoleStyle(
        5, paper=Ink("#1450b0", _SOLID, _DOTTED), safe=Ink("#56b4e9", 1.4, _DOTTED),
        mono=Ink("#000000", 0.8, _SHORT), dark=Ink("#8ab4f8", _SOLID, _DOTTED),
    )),
}  # fmt: skip
SKIP_STYLE = RoleStyle(
    8, paper=Ink("#8e24aa", _SOLID), safe=Ink("#e69f00", 1.5),
    mono=Ink("#000000", 1.1, (2.0, 1.4)), dark=Ink("#d7aefb", _SOLID),
)  # fmt: skip


def node_name(side: Side, level: str) -> str:
    return f"{side}.{level}"


def split_node(node: str) -> tuple[Side, str]:
    """`encoder.conv_2` -> (Side.ENCODER, "conv_2")."""
    side, _, level = node.partition(".")
    return Side(side), level


def is_input(node: str) -> bool:
    """Whether a node is an input: `encoder.input` or a further one, like `input.action`."""
    return node == BOTTOM or node.startswith(f"{Side.INPUT}.")


def show_shape(shape: Shape | None) -> str:
    """
    >>> show_shape((32, 16, 16))
    '32x16x16'
    """
    return "?" if shape is None else "x".join(map(str, shape))


def show_arrow(source: str, target: str, delay: int) -> str:
    """
    >>> show_arrow("decoder.conv_2", "encoder.conv_2", 1)
    'decoder.conv_2(t-1) -> encoder.conv_2'
    """
    return f"{source}(t-{delay}) -> {target}" if delay else f"{source} -> {target}"


def edge_key(role: Role, source: str, delay: int) -> str:
    """The name of an arrow among the arrows of its target, and in parameter names."""
    if role is Role.SKIP:
        return f"skip_{source.replace('.', '_')}_{delay}"
    return role.value


def size_of(shape: Shape) -> int:
    """The number of elements of a value of this shape."""
    product = 1
    for n in shape:
        product *= n
    return product


def equal_but_for_ones(one: Shape, other: Shape) -> bool:
    """Whether two shapes agree but for axes of length 1: a vector may also be a map of width 1.

    >>> equal_but_for_ones((10,), (10, 1, 1)), equal_but_for_ones((), (1,))
    (True, False)
    """
    if not one or not other:
        return one == other
    return [n for n in one if n != 1] == [n for n in other if n != 1]
