"""LSTM, GRU and their convolutional twins: every edge contributes to all gates at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.base import (
    STATEFUL_TAKES,
    Cell,
    DecoderCell,
    EncoderCell,
    Site,
    register,
)
from ladderspec.cells.fields import Count, NormChoice, NormField, Pair, PairField, Statistics
from ladderspec.cells.functions import mix, per_channel
from ladderspec.cells.parameters import Parameters, blocks, zeros
from ladderspec.cells.projections import (
    Inlet,
    Projection,
    joint_gain,
    joint_norm,
    need_map,
    pre_activation,
    strided,
)
from ladderspec.names import Role, Shape, Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class _Recurrent(Cell):
    """What all share: `gates` blocks of channels in the pre-activation."""

    stateful: ClassVar = True
    offset: ClassVar = "bias"
    gates: ClassVar[int]
    default_norm: ClassVar[str]

    if TYPE_CHECKING:  # fields, which each cell declares in its own order
        channels: int | None
        norm: NormChoice

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        gates = (self.gates * out[0], *out[1:])
        return pre_activation(inlet, gates, (1, 1), self.norm, self.default_norm)

    def node_norm(self) -> tuple[str, str, int]:
        return joint_norm(self.norm, self.default_norm)

    def _gain(self, out: Shape) -> Parameters:
        return joint_gain(self.norm, self.default_norm, self.gates * out[0])


class _Dense(_Recurrent, EncoderCell):
    """An encoder on vectors."""

    takes: ClassVar = STATEFUL_TAKES
    if TYPE_CHECKING:
        channels: int

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)


class _OnMaps(_Recurrent):
    """What encoders and decoders on maps share."""

    dense_twin: ClassVar[str]
    if TYPE_CHECKING:
        filter: Pair
        dilation: Pair

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return pre_activation(
            inlet,
            (self.gates * out[0], *out[1:]),
            self.filter,
            self.norm,
            self.default_norm,
            stride=self.row_stride,
            dilation=self.dilation,
        )


class _Convolutional(_OnMaps, EncoderCell):
    """An encoder on maps."""

    takes: ClassVar = STATEFUL_TAKES
    if TYPE_CHECKING:
        channels: int
        stride: Pair

    @property
    def row_stride(self) -> Pair:
        return self.stride

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, self.cell, self.dense_twin)
        return (self.channels, *strided(below, self.stride))


class _ConvolutionalDecoder(_OnMaps, DecoderCell):
    """A decoder on maps: what comes from above is resampled to the level that it estimates."""

    takes: ClassVar = DecoderCell.takes - {Role.RECURRENT_DECODER} | {Role.STATE}
    dense_twin: ClassVar = "FC"

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.STATE})

    def out_shape(self, site: Site) -> Shape:
        need_map(site.estimate, self.cell, self.dense_twin)
        return (self.channels or site.estimate[0], *site.estimate[1:])


class _LSTM(_Recurrent):
    """c = sigmoid(a_f) . c(t-1) + sigmoid(a_i) . tanh(a_g);  h = sigmoid(a_o) . tanh(c)"""

    gates: ClassVar = 4
    returns: ClassVar = ("c",)

    if TYPE_CHECKING:
        forget_bias: float
        gate_bias: float

    def parameters(self, site: Site, out: Shape) -> Parameters:
        starts = (self.gate_bias, self.forget_bias, self.gate_bias, 0.0)
        return {"bias": blocks(4 * out[0], values=starts), **self._gain(out)}

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        return {"c": out}

    @staticmethod
    def compute(a: Tensor, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
        import torch

        i, f, o, g = a.chunk(4, dim=1)
        new = torch.sigmoid(i) * torch.tanh(g)
        if c is None:  # a gate without a gradient would cost the others their memory format
            c = torch.zeros_like(new)
        new = torch.addcmul(new, torch.sigmoid(f), c)
        return torch.sigmoid(o) * torch.tanh(new), new


class _GRU(_Recurrent):
    """r, z = sigmoid(a + s);  n = tanh(a_n + r . (s_n + b));  h = (1 - z) . n + z . h(t-1)

    CHOICE: `norm: joint` normalises the sum a + (s_r, s_z, 0); r scales s_n as it is.
    """

    gates: ClassVar = 3

    def parameters(self, site: Site, out: Shape) -> Parameters:
        # Two sums: that of the inputs, and the state's part of n, which the reset gate scales.
        return {"bias": zeros(3 * out[0]), "state_bias": zeros(out[0]), **self._gain(out)}

    @staticmethod
    def compute(
        a: Tensor,
        state: Tensor | None = None,
        h: Tensor | None = None,
        *,
        state_bias: Tensor,
        norm: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        import torch

        channels = a.shape[1] // 3
        gates, n = a.split_with_sizes((2 * channels, channels), dim=1)
        s_n = per_channel(state_bias, n)
        if state is not None:
            s_gates, s = state.split_with_sizes((2 * channels, channels), dim=1)
            gates, s_n = gates + s_gates, s + s_n
        if norm is not None:
            whole = norm(torch.cat([gates, n], dim=1))
            gates, n = whole.split_with_sizes((2 * channels, channels), dim=1)
        r, z = torch.sigmoid(gates).chunk(2, dim=1)
        n = torch.tanh(torch.addcmul(n, r, s_n))
        return n - z * n if h is None else mix(z, h, n)


_CHANNELS = Field(None, description="Output channels. Default: those of the level it estimates.")
_DILATION = Field((1, 1), description="Dilation of the main filter and of the state filter.")
_UNITS = Field(description="Number of units.")
_FILTER = Field((3, 3), description="Filter size, one number or [height, width].")
_STRIDE = Field((1, 1), description="Stride: output size = input size / stride, rounded up.")
_DENSE_NORM = Field(NormChoice(), description="Norm: none (default) or a norm; joint or separate.")
_CONV_NORM = Field(
    NormChoice(), description="Norm: layer (default) or another norm; joint or separate."
)
_STATISTICS = Field(None, description="Statistics that batch norm keeps for evaluation.")
_FORGET_BIAS = Field(1.0, description="Initial bias of the forget gate.")
_GATE_BIAS = Field(0.0, description="Initial bias of the input gate and the output gate.")


@register
class ConvLSTM(_LSTM, _Convolutional):
    """Convolutional LSTM; the term of every edge is layer-normalised.

    a = LN(W_x * e_below) + LN(W_d * d(t-1)) + LN(W_h * h(t-1)) + b
    """

    cell: Literal["ConvLSTM"] = "ConvLSTM"
    channels: Count = Field(description="Output channels, also those of the state.")
    filter: PairField = _FILTER
    stride: PairField = _STRIDE
    norm: NormField = _CONV_NORM
    statistics: Statistics | None = _STATISTICS
    forget_bias: float = _FORGET_BIAS
    gate_bias: float = _GATE_BIAS
    dilation: PairField = _DILATION

    default_norm: ClassVar = "layer"
    dense_twin: ClassVar = "LSTM"


@register
class DecoderConvLSTM(_LSTM, _ConvolutionalDecoder):
    """Convolutional LSTM as a decoder; the term of every edge is layer-normalised.

    a = LN(A * v_top) + LN(B * h) + LN(W_h * d(t-1)) + b
    """

    cell: Literal["ConvLSTM"] = "ConvLSTM"
    channels: Count | None = _CHANNELS
    filter: PairField = _FILTER
    norm: NormField = _CONV_NORM
    statistics: Statistics | None = _STATISTICS
    forget_bias: float = _FORGET_BIAS
    gate_bias: float = _GATE_BIAS
    dilation: PairField = _DILATION

    default_norm: ClassVar = "layer"


@register
class LSTM(_LSTM, _Dense):
    """Dense LSTM with one bias vector; maps that arrive are flattened.

    a = W_x e_below + W_d d(t-1) + W_h h(t-1) + b
    """

    cell: Literal["LSTM"] = "LSTM"
    channels: Count = _UNITS
    norm: NormField = _DENSE_NORM
    statistics: Statistics | None = _STATISTICS
    forget_bias: float = _FORGET_BIAS
    gate_bias: float = _GATE_BIAS

    default_norm: ClassVar = "none"


@register
class ConvGRU(_GRU, _Convolutional):
    """Convolutional GRU; the term of every edge is layer-normalised."""

    cell: Literal["ConvGRU"] = "ConvGRU"
    channels: Count = Field(description="Output channels; the output is the state.")
    filter: PairField = _FILTER
    stride: PairField = _STRIDE
    norm: NormField = _CONV_NORM
    statistics: Statistics | None = _STATISTICS
    dilation: PairField = _DILATION

    default_norm: ClassVar = "layer"
    dense_twin: ClassVar = "GRU"


@register
class DecoderConvGRU(_GRU, _ConvolutionalDecoder):
    """Convolutional GRU as a decoder; the term of every edge is layer-normalised."""

    cell: Literal["ConvGRU"] = "ConvGRU"
    channels: Count | None = _CHANNELS
    filter: PairField = _FILTER
    norm: NormField = _CONV_NORM
    statistics: Statistics | None = _STATISTICS
    dilation: PairField = _DILATION

    default_norm: ClassVar = "layer"


@register
class GRU(_GRU, _Dense):
    """Dense GRU; maps that arrive are flattened."""

    cell: Literal["GRU"] = "GRU"
    channels: Count = _UNITS
    norm: NormField = _DENSE_NORM
    statistics: Statistics | None = _STATISTICS

    default_norm: ClassVar = "none"
