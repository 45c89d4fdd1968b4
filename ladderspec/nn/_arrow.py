"""One incoming arrow of a cell: a linear map, then perhaps a norm with a gain."""

from __future__ import annotations

import operator
from typing import Literal, cast, get_args

import torch
from torch import Tensor
from torch.nn import functional

from ladderspec.names import Shape, show_shape, size_of
from ladderspec.nn import _tiles, _wide
from ladderspec.nn._checks import check_sizes, check_word, pair
from ladderspec.nn._few import layer_norm_of_conv, makes_many_of_few, pays
from ladderspec.nn._norms import EPS, NOW, BatchNorm, LayerNorm, NormKind, When, make_norm
from ladderspec.nn._own import ONES, Blocks, Normal, Owner, watched
from ladderspec.nn._parts import Pair, convolve, convolve_transposed, margins, per_channel
from ladderspec.nn._tally import HEAVY, SMALL, Conv, Tally
from ladderspec.nn._ways import is_better

Kept = tuple[tuple[Tensor, ...], list[int], tuple[Tensor, Tensor]]  # made of, and then
Kind = Literal["none", "dense", "conv", "transposed"]
KINDS = get_args(Kind)


class Arrow(Owner):
    """What one arrow does to what it carries, from shape `source` to shape `target`.

    `conv` gives ceil(n / stride) outputs, `transposed` is the transpose of the convolution that
    leads back, `dense` flattens, `none` carries the value as it is.

    >>> arrow = Arrow("transposed", (8, 6, 6), (4, 11, 11), filter=(3, 3), stride=(2, 2))
    >>> {name: tuple(parameter.shape) for name, parameter in arrow.named_parameters()}
    {'weight': (8, 4, 3, 3)}

    One number stands for a filter or stride of two alike. A `target` that the stride does not lead
    to is refused.
    """

    weight: Tensor
    gain: Tensor
    w_s: Tensor  # where the cell at its head puts a gate on it
    drop: float = 0.0  # share of the numbers that are left out in training (Srivastava et al. 2014)

    def __init__(
        self,
        kind: Kind,
        source: Shape,
        target: Shape,
        filter: Pair | int = (1, 1),
        stride: Pair | int = (1, 1),
        norm: NormKind = "none",
        groups: int = 1,
        iterations: int = 1,
    ) -> None:
        super().__init__()
        check_word("arrow", kind, KINDS)
        self.kind, self.source, self.target = kind, source, target
        self.filter, self.stride = pair("filter", filter), pair("stride", stride)
        check_sizes(kind, source, target, self.stride)
        self.conv = _as_torch_has_it(kind, source, target, self.filter, self.stride)
        if kind != "none":
            # CHOICE: variance 1 / fan_in, so that a drive is about as large as what arrives.
            self.own("weight", self._weight_shape(), Normal(1 / self.fan_in))
        self.norm = make_norm(norm, target[0], groups, iterations)
        if self.norm is not None:
            self.own("gain", target[:1], ONES)
        by_channel = kind in ("conv", "transposed") or (kind == "dense" and len(target) == 1)
        self.folds = by_channel and isinstance(self.norm, BatchNorm)
        self.sees_few = kind == "conv" and self.conv is not None and makes_many_of_few(self.weight)
        self.way = None
        if kind == "conv" and len(source) == 3:
            sizes = source, target, self.filter, self.stride
            self.way = _wide.way_of(*sizes) or _tiles.way_of(*sizes)
        self.kept: dict[int, Kept] = {}

    def _weight_shape(self) -> Shape:
        if self.kind == "dense":
            return (size_of(self.target), size_of(self.source))
        channels = self.target[0], self.source[0]
        return (*(channels if self.kind == "conv" else channels[::-1]), *self.filter)

    @property
    def fan_in(self) -> float:
        """How many source values one target value sums, on average."""
        if self.kind == "dense":
            return size_of(self.source)
        field = self.source[0] * size_of(self.filter)
        return field / size_of(self.stride) if self.kind == "transposed" else field

    def start_for_relu(self) -> None:
        """Twice the variance, where an activation halves it and no norm mends that (He et al.)."""
        if self.kind != "none" and self.norm is None:
            self.start("weight", Normal(2 / self.fan_in))

    def start_gain(self, gain: float) -> None:
        """Where the gain of its norm starts, if it has one."""
        if self.norm is not None:
            self.start("gain", Blocks((gain,)))

    @property
    def silent(self) -> bool:
        """Whether zeros come out where zeros go in; batch norm would shift them."""
        return not isinstance(self.norm, BatchNorm)

    def forward(self, x: Tensor, when: When = NOW, bias: Tensor | None = None) -> Tensor:
        """The drive, with `bias` (by channel) added on the way."""
        x = self.thinned(x)
        if self.folds and not torch.compiler.is_compiling():
            norm = cast(BatchNorm, self.norm)
            if torch.is_grad_enabled():
                if self.kept:  # who learns in evaluation may change weights without a trace
                    self.turn()
            elif when.streams and (row := norm.row(when)) is not None:
                return _MAPS[self.kind](self, x, *self._folded(norm, row, bias))
        if self.norm is None:
            return self.linear(x, bias)
        if self.sees_few and x.shape[1:] == self.source and self._as_written():
            gain = self.gain
            if pays(x, gain.dtype, self.target):
                conv = cast(Conv, self.conv)
                return layer_norm_of_conv(x, self.weight, conv, gain, bias, self.target)
        return self.normalise(self.linear(x, tally=when.tally), when, bias)

    def thinned(self, x: Tensor) -> Tensor:
        """What is left of x in training; its sum stays the same on average."""
        return functional.dropout(x, self.drop) if self.drop and self.training else x

    def _as_written(self) -> bool:
        """Whether map and norm are this library's and nobody waits between them."""
        norm = self.norm
        return (
            type(self) is Arrow
            and type(norm) is LayerNorm
            and norm.groups == 1
            and not watched(norm)
            and not vars(self).keys() & {"linear", "normalise"}
            and "forward" not in vars(norm)
        )

    def linear(self, x: Tensor, bias: Tensor | None = None, tally: Tally | None = None) -> Tensor:
        """The linear map alone; with a `tally`, its weight may learn from several calls at once."""
        if self.kind == "none":
            assert bias is None, "an arrow without a map adds nothing"
            return x
        if tally is not None and self.conv is not None and self._is_narrow(x):
            assert bias is None, "a norm follows, which adds it"
            return tally.convolve(x, self.weight, self.conv)
        return _MAPS[self.kind](self, x, self.weight, bias)

    def _is_narrow(self, x: Tensor) -> bool:
        """One-dimensional maps, and few of them: where a tally was measured to be faster."""
        field = self.target[1:]
        few = x.shape[0] * size_of(field) < SMALL and self.weight.numel() >= HEAVY
        return few and min(field) == 1 and x.shape[1:] == self.source

    def _folded(self, norm: BatchNorm, row: int, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Evaluation: weights with the scale of the norm in them, and its shift.

        Kept as long as nothing that they are made of changes.
        """
        weight, gain, means, variances = self.weight, self.gain, norm.running_mean, norm.running_var
        parts = (weight, gain, means, variances) + (() if bias is None else (bias,))
        counted = not any(part.is_inference() for part in parts)
        versions = [norm.turns, *(part._version for part in parts)] if counted else []
        kept = self.kept.get(row)
        if kept is None or kept[1] != versions or not all(map(operator.is_, kept[0], parts)):
            scale = gain * torch.rsqrt(variances[row] + EPS)
            shift = -means[row] * scale
            wide = [1] * weight.dim()
            wide[1 if self.kind == "transposed" else 0] = -1
            folded = weight * scale.view(wide), shift if bias is None else bias + shift
            if not counted:
                return folded
            kept = self.kept[row] = parts, versions, folded
        return kept[2]

    def turn(self) -> None:
        """Whoever changes weights by way of `data` leaves no other trace."""
        self.kept.clear()
        super().turn()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "kept": {}}  # what a copy keeps, it computes itself

    def normalise(self, drive: Tensor, when: When = NOW, bias: Tensor | None = None) -> Tensor:
        """The norm alone."""
        assert self.norm is not None
        normal: Tensor = self.norm(drive, self.gain, bias, when)
        return normal

    def extra_repr(self) -> str:
        size = "" if self.kind in ("none", "dense") else f", {self.filter}, stride {self.stride}"
        drop = f", drop {self.drop:g}" if self.drop else ""
        return f"{self.kind}, {show_shape(self.source)} -> {show_shape(self.target)}{size}{drop}"


def _dense(arrow: Arrow, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if len(arrow.target) == 1:
        return functional.linear(x.flatten(1), weight, bias)
    y = functional.linear(x.flatten(1), weight).view(x.shape[0], *arrow.target)
    return y if bias is None else y + per_channel(bias, y)


def _conv(arrow: Arrow, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    way = arrow.way
    if way is not None and is_better(way, x, weight, bias) and x.shape[1:] == arrow.source:
        y = way.conv(x, weight)
        return y if bias is None else y + per_channel(bias, y)
    if arrow.conv is None:
        return convolve(x, weight, bias, arrow.stride)
    return functional.conv2d(x, weight, bias, arrow.stride, arrow.conv.padding)


def _transposed(arrow: Arrow, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return convolve_transposed(x, weight, arrow.target[1:], bias, arrow.stride)


def _as_torch_has_it(
    kind: Kind, source: Shape, target: Shape, filter: Pair, stride: Pair
) -> Conv | None:
    """None where there is no convolution, or zeros to be added or places to be cut besides."""
    if kind == "conv" and all(k % 2 for k in filter):
        return Conv(stride, (filter[0] // 2, filter[1] // 2))
    if kind == "transposed":
        before, natural = margins(source[1:], filter, stride)
        beyond = tuple(m - n for m, n in zip(target[1:], natural, strict=True))
        if min(beyond) >= 0:
            return Conv(stride, before, True, beyond)
    return None


_MAPS = {"dense": _dense, "conv": _conv, "transposed": _transposed}
