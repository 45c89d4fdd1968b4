"""Words -> module: the computation of a cell that a spec has named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol, cast, runtime_checkable

import torch
from torch import nn

from ladderspec import cells
from ladderspec.cells import Projection, Site
from ladderspec.cells._fields import Norm
from ladderspec.errors import UsageError
from ladderspec.names import Shape
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._norms import NormKind
from ladderspec.nn._own import ZEROS, Owner, hashed
from ladderspec.nn._promises import check_parameters, watch
from ladderspec.nn.average import Average
from ladderspec.nn.conv import Conv
from ladderspec.nn.conv_g1 import ConvG1
from ladderspec.nn.conv_g2 import ConvG2
from ladderspec.nn.conv_g3 import ConvG3
from ladderspec.nn.conv_gru import ConvGRU
from ladderspec.nn.conv_lstm import ConvLSTM
from ladderspec.nn.fc import FC
from ladderspec.nn.g1 import G1
from ladderspec.nn.gru import GRU
from ladderspec.nn.identity import Identity
from ladderspec.nn.lstm import LSTM
from ladderspec.nn.pool import Pool
from ladderspec.nn.softmax import SoftMax


@runtime_checkable
class BuildsItself(Protocol):
    """Words of a user's own cell: they make their module, called like every `Cell`.

    It takes the raw values by arrow; its parameters bear the names and shapes that the words'
    `join` (`name`) and `project` (`<arrow>.name`) promise.
    """

    def build(self, site: Site, out: Shape) -> nn.Module: ...


@dataclass(frozen=True)
class Place:
    """Where a module is built: what arrives, what shape leaves, how many iterations differ."""

    arrows: dict[str, Arrow]
    out: Shape
    iterations: int

    def joint(self, norm: Norm, default: NormKind) -> NormKind:
        """The norm that stands on the node."""
        return (norm.kind or default) if norm.terms == "joint" else "none"


def build_cell(
    words: cells.Cell,
    site: Site,
    out: Shape,
    own: Mapping[str, Shape],
    projections: Mapping[str, Projection],
    iterations: int | None = None,
    name: str = "",
    seed: int = 0,
) -> nn.Module:
    """The module of a cell: `projections` by arrow key, `own` the parameters of its node.

    `iterations` is how many frames or iterations there are, where that is fixed: so many running
    statistics are kept, unless the words ask to share them. The module of a user's own cell draws
    from `seed` and the `name` of its node; those of others wait for `initialise`.
    """
    who = f"{name} ({words.cell})" if name else words.cell
    if isinstance(words, BuildsItself):
        module = _built_by_itself(words, site, out, who, hashed(seed, name))
        watch(module, who, words, out)
    else:
        kept = _kept(words, iterations)
        arrows = {key: _arrow(projection, kept) for key, projection in projections.items()}
        module = _module(words, Place(arrows, out, kept))
        for key, projection in projections.items():
            arrows[key].start_gain(projection.gain)
    for key, shape in own.items():
        if key.startswith("initial"):
            _own_initial(module, key, shape)
    check_parameters(module, who, own, projections)
    return module


def _built_by_itself(words: BuildsItself, site: Site, out: Shape, who: str, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        module = words.build(site, out)
    if not isinstance(module, nn.Module):
        raise UsageError(f"{who}: `build` must return a module, not {type(module).__name__}")
    return module


def nest(root: nn.Module, modules: Mapping[str, nn.Module]) -> None:
    """Put modules under their dotted names, so that parameter keys are the names of the diagram."""
    for name, module in modules.items():
        *path, last = name.split(".")
        parent = root
        # Not get_submodule, nor add_module: a level or a task may be called `train`.
        for part in path:
            parent = cast(nn.Module, parent._modules.setdefault(part, nn.Module()))
        parent._modules[last] = module


def _kept(words: cells.Cell, iterations: int | None) -> int:
    asked = getattr(words, "statistics", None)
    if asked == "per_iteration" and iterations is None:
        raise ValueError(
            f"{words.cell} keeps statistics per iteration, but their number is not fixed:"
            " say `time: {frames: 5}`, or `statistics: shared`"
        )
    return 1 if asked == "shared" else iterations or 1


def _arrow(projection: Projection, iterations: int) -> Arrow:
    return Arrow(
        projection.kind,
        projection.source,
        projection.target,
        projection.filter,
        projection.stride,
        projection.norm,
        projection.groups,
        iterations,
    )


def _own_initial(module: nn.Module, name: str, shape: Shape) -> None:
    """`initial: learned`. CHOICE: starts at zero, like an initial value that is not learned."""
    if isinstance(module, Owner):
        module.own(name, shape, ZEROS)
    else:
        module.register_parameter(name, nn.Parameter(torch.zeros(shape)))


# --- one constructor per cell --------------------------------------------------------------------


@singledispatch
def _module(words: cells.Cell, place: Place) -> nn.Module:
    raise NotImplementedError(f"the cell {words.cell} has no `build`")


@_module.register
def _(words: cells.input.Input, place: Place) -> nn.Module:
    return Identity({"frame": Arrow("none", place.out, place.out)})


@_module.register
def _(words: cells.conv.Conv | cells.conv.DecoderConv, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.conv.DEFAULT_NORM)
    return Conv(place.arrows, words.activation, joint, place.iterations)


@_module.register
def _(words: cells.fc.FC | cells.fc.DecoderFC, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.fc.DEFAULT_NORM)
    return FC(place.arrows, place.out, words.activation, joint, place.iterations)


@_module.register
def _(words: cells.conv_lstm.ConvLSTM, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.conv_lstm.DEFAULT_NORM)
    return ConvLSTM(place.arrows, words.forget_bias, joint, place.iterations, words.gate_bias)


@_module.register
def _(words: cells.lstm.LSTM, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.lstm.DEFAULT_NORM)
    return LSTM(place.arrows, words.forget_bias, joint, place.iterations, words.gate_bias)


@_module.register
def _(words: cells.conv_gru.ConvGRU, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.conv_gru.DEFAULT_NORM)
    return ConvGRU(place.arrows, joint, place.iterations)


@_module.register
def _(words: cells.gru.GRU, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.gru.DEFAULT_NORM)
    return GRU(place.arrows, joint, place.iterations)


@_module.register
def _(words: cells.pool.Pool, place: Place) -> nn.Module:
    if words.filter == "global":
        return Pool(place.arrows, words.mode, None)
    return Pool(place.arrows, words.mode, words.filter, words.stride)


@_module.register
def _(words: cells.softmax.SoftMax, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.softmax.DEFAULT_NORM)
    return SoftMax(place.arrows, joint, place.iterations)


@_module.register
def _(words: cells.g1.G1, place: Place) -> nn.Module:
    return G1(place.arrows, place.out, words.norm, words.w, words.w_s, place.iterations)


@_module.register
def _(words: cells.conv_g1.ConvG1, place: Place) -> nn.Module:
    return ConvG1(place.arrows, words.norm, words.w, words.w_s, place.iterations)


@_module.register
def _(words: cells.conv_g2.ConvG2, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.conv_g2.DEFAULT_NORM)
    channels = place.out[0] if words.inner else None
    return ConvG2(place.arrows, channels, joint, words.w, place.iterations)


@_module.register
def _(words: cells.conv_g3.ConvG3, place: Place) -> nn.Module:
    joint = place.joint(words.norm, cells.conv_g3.DEFAULT_NORM)
    return ConvG3(place.arrows, place.out[0], words.inner_filter, joint, place.iterations)


@_module.register
def _(words: cells.identity.Identity, place: Place) -> nn.Module:
    return Identity(place.arrows)


@_module.register
def _(words: cells.average.Average, place: Place) -> nn.Module:
    (arrow,) = place.arrows.values()
    return Average(place.arrows, place.out, arrow.stride)
