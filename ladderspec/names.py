"""Roles, delays, shapes and node names: the words that every room shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

Shape = tuple[int, ...]  # (C,) for vectors, (C, H, W) for maps

LEVEL_NAME = re.compile(r"[a-z][a-z0-9_]*")
INPUT = "input"


class Side(StrEnum):
    """Which column of the ladder a node stands in."""

    ENCODER = "encoder"
    LATERAL = "lateral"
    DECODER = "decoder"


class Role(StrEnum):
    """Why an arrow exists."""

    ENCODER = "encoder"
    STATE = "state"
    LATERAL = "lateral"
    DECODER = "decoder"
    DECODER_TO_ENCODER = "decoder_to_encoder"
    UPWARD_DIAGONAL = "upward_diagonal"
    DOWNWARD_DIAGONAL = "downward_diagonal"
    RECURRENT_DECODER = "recurrent_decoder"
    SKIP = "skip"


@dataclass(frozen=True)
class Wiring:
    """One row of the table of roles: `source` at level l + `offset` -> `target` at level l."""

    source: Side
    target: Side
    offset: int
    delay: int


# The table of roles. An arrow's level is that of its target.
TABLE: dict[Role, Wiring] = {
    Role.ENCODER: Wiring(Side.ENCODER, Side.ENCODER, -1, 0),
    Role.STATE: Wiring(Side.ENCODER, Side.ENCODER, 0, 1),
    Role.LATERAL: Wiring(Side.ENCODER, Side.DECODER, 0, 0),
    Role.DECODER: Wiring(Side.DECODER, Side.DECODER, +1, 0),
    Role.DECODER_TO_ENCODER: Wiring(Side.DECODER, Side.ENCODER, 0, 1),
    Role.UPWARD_DIAGONAL: Wiring(Side.DECODER, Side.ENCODER, -1, 1),
    Role.DOWNWARD_DIAGONAL: Wiring(Side.DECODER, Side.DECODER, +1, 1),
    Role.RECURRENT_DECODER: Wiring(Side.DECODER, Side.DECODER, 0, 1),
}


def node_name(side: Side, level: str) -> str:
    return f"{side}.{level}"


def split_node(node: str) -> tuple[Side, str]:
    """`encoder.conv_2` -> (Side.ENCODER, "conv_2")."""
    side, _, level = node.partition(".")
    return Side(side), level


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
    """What an arrow is called among the arrows of its target, and in parameter names."""
    if role is Role.SKIP:
        return f"skip_{source.replace('.', '_')}_{delay}"
    return role.value


def size_of(shape: Shape) -> int:
    """How many numbers a value of this shape holds."""
    product = 1
    for n in shape:
        product *= n
    return product
