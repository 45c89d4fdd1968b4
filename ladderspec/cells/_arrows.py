"""What an incoming arrow carries and owns: a linear map between two shapes, then perhaps a norm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ladderspec.cells._fields import Norm, NormKind, Pair
from ladderspec.names import Role, Shape, show_shape, size_of


class ShapeProblem(Exception):
    """A cell that cannot stand where it stands."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


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
    gain: float | None = None  # initial gain of its norm

    @property
    def initial_gain(self) -> float:
        """What the arrow says, else small for what comes from the past.

        A norm makes what comes from the past as large as what is seen now. CHOICE: a state begins
        at 1/8, near the 0.1 of Cooijmans et al. 2016, and other delayed arrows at 1/64, since at
        first the decoder knows nothing. Small RLadders on occluded moving digits learned twice as
        fast with the first in their first 500 updates; with feedback of gain 1 into cells without
        a state, a small ladder learned the digits three times as slowly.
        """
        if self.gain is not None:
            return self.gain
        if self.role in (Role.ENCODER, Role.LATERAL, Role.DECODER) or not self.delay:
            return 1.0
        return 1 / 8 if self.role is Role.STATE else 1 / 64


@dataclass(frozen=True)
class Projection:
    """What one arrow does to what it carries: a linear map, then perhaps a norm with a gain."""

    kind: Literal["none", "dense", "conv", "transposed"]
    source: Shape
    target: Shape
    filter: Pair = (1, 1)
    stride: Pair = (1, 1)
    norm: NormKind = "none"
    gain: float = 1.0  # where its norm's gain starts
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


# --- between two shapes ---------------------------------------------------------------------------


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
    return replace(projection, norm=inlet.norm or kind, gain=inlet.initial_gain, groups=groups)


def joint_gain(norm: Norm, default: NormKind, channels: int) -> dict[str, Shape]:
    """The gain that `norm: joint` moves to the node."""
    joint = norm.terms == "joint" and (norm.kind or default) != "none"
    return {"gain": (channels,)} if joint else {}
