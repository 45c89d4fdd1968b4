"""Names that every package shares: sides, the table of roles, nodes, arrows and shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

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


@dataclass(frozen=True)
class RoleRow:
    """One row of the table of roles: `source` at level l + `offset` -> `target` at level l."""

    source: Side
    target: Side
    offset: int
    delay: int
    default: Literal["always", "stateful", "nowhere"]  # at which target cells, unless `edges` says

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


# The table of roles. An arrow's level is that of its target.
TABLE: dict[Role, RoleRow] = {
    Role.ENCODER: RoleRow(Side.ENCODER, Side.ENCODER, -1, 0, "always"),
    Role.STATE: RoleRow(Side.ENCODER, Side.ENCODER, 0, 1, "stateful"),
    Role.LATERAL: RoleRow(Side.ENCODER, Side.DECODER, 0, 0, "always"),
    Role.DECODER: RoleRow(Side.DECODER, Side.DECODER, +1, 0, "always"),
    Role.DECODER_TO_ENCODER: RoleRow(Side.DECODER, Side.ENCODER, 0, 1, "stateful"),
    Role.UPWARD_DIAGONAL: RoleRow(Side.DECODER, Side.ENCODER, -1, 1, "nowhere"),
    Role.DOWNWARD_DIAGONAL: RoleRow(Side.DECODER, Side.DECODER, +1, 1, "nowhere"),
    Role.RECURRENT_DECODER: RoleRow(Side.DECODER, Side.DECODER, 0, 1, "nowhere"),
}


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
