"""Words -> use: the module of every cell. A user's own cell has none here, and is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from ladderspec import cells
from ladderspec.cells._fields import Five, Norm
from ladderspec.errors import UsageError
from ladderspec.export.arrows import arrow_use
from ladderspec.export.pools import pool_use
from ladderspec.export.uses import NOTHING, Arrow, Facts, Pair, Use
from ladderspec.names import Role, Shape, size_of
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.shapes import inlets

EVEN: Five = (1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Place:
    """Where a module stands: what arrives, what shape leaves, what its node owns."""

    arrows: tuple[Arrow, ...]
    below: Shape  # what the first arrow brings
    stride: Pair  # of the first arrow
    out: Shape
    own: dict[str, Shape]
    facts: Facts

    @property
    def channels(self) -> str:
        return str(self.out[0])

    @property
    def shape(self) -> tuple[str, ...]:
        return tuple(map(str, self.out))

    @property
    def map(self) -> frozenset[str]:
        return frozenset({"map"}) if len(self.out) > 1 else NOTHING

    def kind(self, words: Any, default: str) -> frozenset[str]:
        """How the drives of a cell are normalised: each by itself, or their sum."""
        norm: Norm = words.norm
        kind = (norm.kind or default) if norm.terms == "joint" else "none"
        joint = self.facts.norm(kind, words.statistics)
        each = {f"{norm}_drives" for arrow in self.arrows if arrow.use for norm in arrow.use.kind}
        return joint | each | ({"joint"} if joint else NOTHING)


def cell_use(graph: Graph, node: str, facts: Facts) -> Use:
    """The module of a node."""
    at = graph.nodes[node]
    statistics = getattr(at["cell"], "statistics", None)
    edges = {key: (source, e) for source, _, key, e in graph.in_edges(node, keys=True, data=True)}
    arrows, strides = [], []
    for inlet in inlets(graph, node):
        source, edge = edges[inlet.key]
        norm = facts.norm(edge["projection"].norm, statistics)
        use = arrow_use(edge["projection"], norm, facts)
        arrows.append(Arrow(inlet.key, inlet.role, inlet.delay, source, use))
        strides.append(edge["projection"].stride)
    below = graph.nodes[arrows[0].source]["shape"] if arrows else ()
    place = Place(tuple(arrows), below, (*strides, (1, 1))[0], at["shape"], at["own"], facts)
    try:
        return replace(_use(at["cell"], place), side=at["side"])
    except NotImplementedError:
        where = f" ({at['place']})" if at["place"] else ""
        raise UsageError(
            f"cannot export {node}{where}: `{at['cell'].cell}` is a cell of your own,"
            " and its code is not a part of ladderspec"
        ) from None


@singledispatch
def _use(words: cells.Cell, place: Place) -> Use:
    raise NotImplementedError


@_use.register
def _(words: cells.input.Input, place: Place) -> Use:
    return Use("", ("nn.Identity()",))


@_use.register
def _(words: cells.conv.Conv | cells.conv.DecoderConv, place: Place) -> Use:
    kind = place.kind(words, cells.conv.DEFAULT_NORM)
    return Use("conv", (place.channels,), kind, NOTHING, place.arrows, words.activation)


@_use.register
def _(words: cells.fc.FC | cells.fc.DecoderFC, place: Place) -> Use:
    kind = place.kind(words, cells.fc.DEFAULT_NORM)
    return Use("fc", place.shape, kind, place.map, place.arrows, words.activation)


@_use.register
def _(words: cells.conv_lstm.ConvLSTM, place: Place) -> Use:
    kind = place.kind(words, cells.conv_lstm.DEFAULT_NORM) | {"conv"}
    return _lstm(kind, words, place)


@_use.register
def _(words: cells.lstm.LSTM, place: Place) -> Use:
    return _lstm(place.kind(words, cells.lstm.DEFAULT_NORM), words, place)


@_use.register
def _(words: cells.conv_gru.ConvGRU, place: Place) -> Use:
    kind = place.kind(words, cells.conv_gru.DEFAULT_NORM) | {"conv"}
    return Use("gru", (place.channels,), kind, NOTHING, place.arrows)


@_use.register
def _(words: cells.gru.GRU, place: Place) -> Use:
    kind = place.kind(words, cells.gru.DEFAULT_NORM)
    return Use("gru", (place.channels,), kind, NOTHING, place.arrows)


@_use.register
def _(words: cells.pool.Pool, place: Place) -> Use:
    return pool_use(words, place.below, place.arrows)


@_use.register
def _(words: cells.softmax.SoftMax, place: Place) -> Use:
    if words.weights == "none":
        return Use("", ("nn.Softmax(dim=1)",), arrows=place.arrows)
    kind = place.kind(words, cells.softmax.DEFAULT_NORM)
    return Use("softmax", (place.channels,), kind, NOTHING, place.arrows)


@_use.register
def _(words: cells.g1.G1, place: Place) -> Use:
    kind, arrows, asks = _gated(words, place, size_of(place.out))
    if "lateral" in kind:  # whose shape is that of the output
        units = str(size_of(place.out))
        return Use("g1", (units, *_start(words.w)), kind, asks, arrows)
    return Use("g1", (*place.shape, *_start(words.w)), kind, asks | place.map, arrows)


@_use.register
def _(words: cells.conv_g1.ConvG1, place: Place) -> Use:
    kind, arrows, asks = _gated(words, place, place.out[0])
    return Use("conv_g1", (place.channels, *_start(words.w)), kind, asks, arrows)


@_use.register
def _(words: cells.conv_g2.ConvG2, place: Place) -> Use:
    kind = place.kind(words, cells.conv_g2.DEFAULT_NORM)
    width: tuple[str, ...] = ()
    asks = _started(words.w)
    if words.inner:
        kind |= {"read_out"}
        width, asks = (str(words.inner),), asks | {"scaled"}
    return Use("conv_g2", (place.channels, *width, *_start(words.w)), kind, asks, place.arrows)


@_use.register
def _(words: cells.conv_g3.ConvG3, place: Place) -> Use:
    kind = place.kind(words, cells.conv_g3.DEFAULT_NORM)
    arguments: tuple[str, ...] = (place.channels, str(place.own["c"][0]))
    asks = {"scaled"}
    if words.inner_filter != (1, 1):
        arguments = (*arguments, f"inner_filter={place.facts.size(words.inner_filter)}")
        asks |= {"filtered", *({"even"} if any(k % 2 == 0 for k in words.inner_filter) else ())}
    return Use("conv_g3", arguments, kind, frozenset(asks), place.arrows)


@_use.register
def _(words: cells.identity.Identity, place: Place) -> Use:
    return Use("", ("nn.Identity()",), arrows=place.arrows)


@_use.register
def _(words: cells.average.Average, place: Place) -> Use:
    if place.below == place.out:
        return Use("", ("nn.Identity()",), arrows=place.arrows)
    asks = frozenset({"vector"}) if len(place.below) == 1 else NOTHING
    sizes = (str(place.out[1:]), str(place.stride))
    return Use("average", sizes, asks=asks, arrows=place.arrows)


# --- what several cells share ---------------------------------------------------------------------


def _lstm(
    kind: frozenset[str], words: cells.conv_lstm.ConvLSTM | cells.lstm.LSTM, place: Place
) -> Use:
    starts = {
        name: f"{name}_bias={float(start)}"
        for name, start, usual in (("forget", words.forget_bias, 1), ("gate", words.gate_bias, 0))
        if start != usual
    }
    return Use("lstm", (place.channels, *starts.values()), kind, frozenset(starts), place.arrows)


def _start(w: Five) -> tuple[str, ...]:
    """Where the coefficients of f(u, w) start."""
    return () if w == EVEN else (f"start={w}",)


def _started(w: Five) -> frozenset[str]:
    return NOTHING if w == EVEN else frozenset({"started"})


def _gated(
    words: cells.g1.G1 | cells.conv_g1.ConvG1, place: Place, units: int
) -> tuple[frozenset[str], tuple[Arrow, ...], frozenset[str]]:
    """G1 and convG1: their norm is on the node, their lateral arrow is a gate."""
    kind = place.facts.norm(words.norm, words.statistics)
    gate = Use("gate", (str(units), *_start(words.w_s)), asks=_started(words.w_s))
    arrows = tuple(
        replace(arrow, use=gate) if arrow.role is Role.LATERAL else arrow for arrow in place.arrows
    )
    if arrows != place.arrows:
        kind |= {"lateral"}
    return kind, arrows, _started(words.w)
