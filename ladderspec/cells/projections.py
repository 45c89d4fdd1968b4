"""Incoming edges and their projections: a linear map, then perhaps a norm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from ladderspec.cells.fields import NormChoice, NormName, Pair
from ladderspec.cells.functions import (
    convolve,
    convolve_transposed,
    dense,
    dense_to_map,
    general_convolve,
    per_channel,
    resampled,
    scaled,
    spread,
)
from ladderspec.cells.norms import NORMS, norm_names
from ladderspec.cells.parameters import Parameter, Parameters, blocks, weight
from ladderspec.errors import Problem, did_you_mean, one_of
from ladderspec.names import Role, Shape, show_shape, size_of

if TYPE_CHECKING:
    from torch import Tensor

MapKind = Literal["none", "dense", "conv", "transposed", "spread", "scaled", "resampled"]
WEIGHTLESS = ("none", "scaled", "resampled")  # maps of arrows with `map: identity`
MAIN_ROLES = (Role.ENCODER, Role.LATERAL, Role.DECODER)  # present at every t


class ShapeProblem(Problem):
    """A cell that cannot work in its place: shapes or arrows do not fit.

    Args:
        message: What does not fit. The place in the spec is added to it.
        hint: What would fit.
    """


@dataclass(frozen=True)
class Inlet:
    """One incoming arrow, as the cell at its head sees it.

    Attributes:
        key: Its name among the arrows of this cell: the role, or `skip_<source>_<delay>`.
        role: Its role.
        delay: How many iterations ago its value was computed.
        shape: The shape of its value, without the batch.
        filter: The filter that the spec gives to this arrow. None: the cell chooses.
        norm: The norm that the spec gives to this arrow. None: the cell chooses.
        stride: The stride of the rows between its ends, negative if it leads back down. None:
            unknown.
        gain: The initial gain of its norm, if the spec gives one.
        map: `identity` for an arrow without weights. None: a map with weights, if the cell has one.
        resample: How an identity between two sizes resamples.
        scale: The factor of an identity.
    """

    key: str
    role: Role
    delay: int
    shape: Shape
    filter: Pair | None = None
    norm: NormName | None = None
    stride: Pair | None = None
    gain: float | None = None
    map: Literal["identity"] | None = None
    resample: Literal["nearest", "bilinear"] | None = None
    scale: float | None = None

    @property
    def initial_gain(self) -> float:
        """The gain that the spec gives to the arrow, else a small one if its value is delayed.

        A norm makes what comes from the past as large as what is seen now. CHOICE: a state begins
        at 1/8, near the 0.1 of Cooijmans et al. 2016, and other delayed arrows at 1/64, since at
        first the decoder knows nothing. Small RLadders on occluded moving digits learned twice as
        fast with the first in their first 500 updates; with feedback of gain 1 into cells without
        a state, a small ladder learned the digits three times as slowly.
        """
        if self.gain is not None:
            return self.gain
        if self.role in MAIN_ROLES or not self.delay:
            return 1.0
        return 1 / 8 if self.role is Role.STATE else 1 / 64


@dataclass(frozen=True)
class Projection:
    """The computation of one edge: a map, then perhaps a norm with a gain.

    `scaled` and `resampled` have no weights;
    `dense` flattens; `conv` gives ceil(n / stride) outputs; `transposed` is the transpose of the
    convolution that leads back; `spread` repeats a value over its window; `none` changes nothing.

    Attributes:
        kind: The kind of map.
        source: The shape of the value that the edge carries, without the batch.
        target: The shape of the result.
        filter: Height and width of the filter of a convolution.
        stride: The stride of a convolution, or the window of `spread`.
        norm: The name of the norm that follows the map.
        gain: The initial value of the norm's gain.
        groups: The number of groups of channels that the norm normalises separately.
        scale: A factor of the initial variance of the weight.
        dilation: The dilation of a convolution.
        channel_groups: The number of blocks of channels that a convolution maps separately.
        factor: The factor of a map without weights.
        mode: How `resampled` interpolates: `nearest` or `bilinear`.
        even_phases: Whether all phases of a strided transposed filter start with equal weights.
        extra: Further parameters of the edge, by name.
        options: The arguments of the function of the map, besides value and weight.

    Raises:
        ShapeProblem: if no edge can map `source` to `target` like this.
    """

    kind: MapKind
    source: Shape
    target: Shape
    filter: Pair = (1, 1)
    stride: Pair = (1, 1)
    norm: NormName = "none"
    gain: float = 1.0
    groups: int = 1
    scale: float = 1.0
    dilation: Pair = (1, 1)
    channel_groups: int = 1
    factor: float = 1.0
    mode: str = "nearest"
    even_phases: bool = False
    extra: Mapping[str, Parameter] = field(default_factory=dict)

    options: dict[str, Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check(self)
        options = {name: getattr(self, name) for name in _options(self.function)}
        object.__setattr__(self, "options", options)

    @property
    def has_weight(self) -> bool:
        return self.kind in ("dense", "conv", "transposed")

    @property
    def parameters(self) -> Parameters:
        """The parameters that the edge owns."""
        found = dict(self.extra)
        if self.has_weight:
            found["weight"] = self._weight()
        if self.norm != "none":
            found["gain"] = blocks(self.target[0], values=(self.gain,))
        return found

    def _weight(self) -> Parameter:
        """Its fan_in: how many source values one target value sums, on average."""
        if self.kind == "dense":
            return weight(size_of(self.target), size_of(self.source), scale=self.scale)
        target, source = self.target[0], self.source[0] // self.channel_groups
        if self.kind == "conv":
            return weight(target, source, *self.filter, scale=self.scale)
        fan_in = source * size_of(self.filter) / size_of(self.stride)
        found = weight(source, target, *self.filter, scale=self.scale, fan_in=fan_in)
        return replace(found, taps=self.stride) if self.even_phases else found

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the map for one value."""
        if not self.has_weight:
            return 0
        coarse = self.source if self.kind == "transposed" else self.target
        places = size_of(coarse[1:]) if self.kind != "dense" else 1
        return size_of(self._weight().shape) * places

    @property
    def size(self) -> Pair:
        """Height and width of the maps that come out."""
        return (self.target[1], self.target[2])

    def compute(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The map alone, plus `bias` (by channel)."""
        if weight is not None:
            return self.function(x, weight, bias, **self.options)
        y = self.function(x, **self.options)
        return y if bias is None else y + per_channel(bias, y)

    @property
    def function(self) -> Callable[..., Tensor]:
        """The function of the map."""
        if self.kind == "dense" and len(self.target) == 3:
            return dense_to_map
        if self.dilation != (1, 1) or self.channel_groups != 1:
            return general_convolve
        return _MAPS[self.kind]


def same(x: Tensor) -> Tensor:
    return x


_MAPS: dict[MapKind, Callable[..., Tensor]] = {
    "none": same,
    "dense": dense,
    "conv": convolve,
    "transposed": convolve_transposed,
    "spread": spread,
    "scaled": scaled,
    "resampled": resampled,
}


@cache
def _options(function: Callable[..., Tensor]) -> tuple[str, ...]:
    """The arguments of the function of a map besides value, weight and bias."""
    names = inspect.signature(function).parameters
    return tuple(name for name in names if name not in ("x", "weight", "bias"))


def _check(p: Projection) -> None:
    """Refuse what no edge can do: the cell of a user may ask for it."""
    names = (("edge", p.kind, get_args(MapKind)), ("norm", p.norm, norm_names()))
    for what, name, known in names:
        if name not in known:
            hint = did_you_mean(name, known) or one_of(known)
            raise ShapeProblem(f"there is no {what} {name!r}", hint)
    ends = f"from {show_shape(p.source)} to {show_shape(p.target)}"
    if p.kind in ("none", "scaled") and p.source != p.target:
        raise ShapeProblem(f"an edge without a map cannot lead {ends}")
    check_norm(p.norm, p.target, p.groups)
    if p.kind not in ("conv", "transposed"):
        return
    if len(p.source) != 3 or len(p.target) != 3:
        raise ShapeProblem(f"a {p.kind} edge leads from maps to maps, not {ends}")
    for what, pair in (("filter", p.filter), ("stride", p.stride)):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ShapeProblem(f"the `{what}` of an edge is (height, width), not {pair!r}")
    fine, coarse = (p.source, p.target) if p.kind == "conv" else (p.target, p.source)
    found = strided(fine, p.stride)
    if coarse[1:] != found:
        inverse = "" if p.kind == "conv" else "the inverse of "
        raise ShapeProblem(
            f"a {p.kind} edge {ends} cannot have stride {p.stride}:"
            f" it is {inverse}{show_shape(fine[1:])} to {show_shape(found)}"
        )


def unused_options(inlet: Inlet, projection: Projection) -> list[str]:
    """The options that a spec gives to an arrow, but that its cell does not follow."""
    p, gained = projection, projection.gain if projection.norm != "none" else None
    follows = {"filter": p.filter, "norm": p.norm, "gain": gained}
    found = [name for name, own in follows.items() if getattr(inlet, name) not in (None, own)]
    if p.kind in WEIGHTLESS and inlet.scale in (None, p.factor):
        return found
    weightless = [name for name in ("map", "resample", "scale") if getattr(inlet, name) is not None]
    return found + weightless[:1]


def check_norm(kind: str, shape: Shape, groups: int) -> None:
    """Refuse a norm that cannot normalise a pre-activation of this shape."""
    if kind != "none" and (problem := NORMS[kind].problem(shape, groups)):
        raise ShapeProblem(*problem)


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

    Args:
        source: The shape of the value, without the batch. Vectors are mapped by a dense map.
        target: The shape of the result.
        filter: Height and width of the filter between maps.
        same_filter: The filter to use instead if both have the same height and width.
        stride: The stride of the rows in between, if it is known, like `Inlet.stride`. Default: the
            smallest that leads from one size to the other.

    Raises:
        ShapeProblem: if no stride leads from one size to the other.
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
    """s > 0 with m = ceil(n / s), or s < 0 with n = ceil(m / -s); None if there is none.

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


def pre_activation(
    inlet: Inlet,
    target: Shape,
    filter: Pair,
    norm: NormChoice,
    default: str,
    *,
    stride: Pair | None = None,
    groups: int = 1,
    scale: float = 1.0,
    dilation: Pair = (1, 1),
    channel_groups: int = 1,
) -> Projection:
    """A term of a pre-activation: a map to `target`, normalised by itself unless `norm` is joint.

    Args:
        inlet: The edge. Its own filter, norm and gain replace those below.
        target: The shape of the pre-activation.
        filter: The filter between maps. If it is even, edges of other roles than encoder, lateral
            and decoder use one tap less between maps of one size.
        norm: The norm of the cell.
        default: The name of the norm if `norm` names none.
        stride: The stride of the row, for the edge from below. Other edges resample as needed.
        groups: The number of parts of the pre-activation that are normalised separately.
        scale: A factor of the initial variance of weights that no norm follows.
        dilation: The dilation of the edge from below and of a state.
        channel_groups: The channel groups of the edge from below.

    Raises:
        ShapeProblem: if no map leads from the shape of the edge to `target`.
    """
    if inlet.map == "identity":
        return identity(inlet, target)
    main = inlet.role in MAIN_ROLES
    own = inlet.filter or filter
    if stride and main and len(inlet.shape) == 3:
        check_channel_groups(inlet.shape[0], target[0], channel_groups)
        projection = Projection(
            "conv", inlet.shape, target, own, stride, channel_groups=channel_groups
        )
    else:
        same = own if main or inlet.filter else odd(filter)
        projection = between(inlet.shape, target, own, same, inlet.stride)
    if projection.kind == "conv" and (main or inlet.role is Role.STATE):
        projection = replace(projection, dilation=dilation)
    kind = inlet.norm or ("none" if norm.terms == "joint" else norm.kind or default)
    scale = scale if kind == "none" and norm.terms != "joint" else 1.0
    gain, groups = inlet.initial_gain, group_count(kind, norm, groups)
    return replace(projection, norm=kind, gain=gain, groups=groups, scale=scale)


def identity(inlet: Inlet, target: Shape, resample: str | None = None) -> Projection:
    """An edge without weights: the value times its `scale`, resampled if sizes differ.

    Only a norm that the edge itself names follows. `resample` is what the cell says.
    """
    source, mode = inlet.shape, inlet.resample or resample
    factor = 1.0 if inlet.scale is None else inlet.scale
    if len(source) != len(target) or source[0] != target[0]:
        raise ShapeProblem(
            f"an arrow without weights keeps its channels: {show_shape(source)} cannot be added to"
            f" {show_shape(target)}",
            f"give the source {target[0]} channels, or let the arrow have weights",
        )
    if source == target:
        kind: MapKind = "none" if factor == 1 else "scaled"
        found = Projection(kind, source, target, factor=factor)
    elif mode is None:
        message = f"an arrow without weights leads from {show_shape(source)} to"
        hint = "add `resample: nearest` or `resample: bilinear`"
        raise ShapeProblem(f"{message} {show_shape(target)}", hint)
    else:
        found = Projection("resampled", source, target, factor=factor, mode=mode)
    return replace(found, norm=inlet.norm or "none", gain=inlet.initial_gain)


def check_channel_groups(source: int, target: int, groups: int) -> None:
    """Both ends of a convolution are divided into as many blocks of channels."""
    for channels, end in ((source, "arrive"), (target, "leave")):
        if channels % groups:
            raise ShapeProblem(
                f"`channel_groups: {groups}` does not divide the {channels} channels that {end}",
                "a number that divides both; as many as channels is a depthwise convolution",
            )


def group_count(kind: str, norm: NormChoice, parts: int) -> int:
    """Groups of channels that a norm normalises separately, in `parts` parts of its cell."""
    if kind != "group":
        return parts
    return parts * norm.groups if norm.groups else 1  # which group norm refuses
