"""LSTM, GRU and their convolutional twins: every edge contributes to all gates at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.base import STATEFUL_TAKES, DecoderCell, Site, register
from ladderspec.cells.common import NORM_TEXT, EncoderMaps, EncoderUnits, EstimateMaps, Normed
from ladderspec.cells.fields import Count, NormChoice, NormField, Pair, PairField
from ladderspec.cells.functions import mix, per_channel
from ladderspec.cells.parameters import Parameters, blocks, zeros
from ladderspec.cells.projections import Inlet, Projection
from ladderspec.names import Role, Shape, Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class _Recurrent(Normed):
    """A cell with `gates` blocks of channels in its pre-activation."""

    stateful: ClassVar = True
    offset: ClassVar = "bias"
    gates: ClassVar[int]

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return self.term(inlet, (self.gates * out[0], *out[1:]))


class _Dense(_Recurrent, EncoderUnits):
    """On vectors."""

    norm: NormField = Field(
        NormChoice(), description="Norm: none (default) or a norm; joint or separate."
    )

    takes: ClassVar = STATEFUL_TAKES
    default_norm: ClassVar = "none"


class _Convolutional(_Recurrent):
    """On maps."""

    norm: NormField = Field(NormChoice(), description=NORM_TEXT.format("layer"))
    dilation: PairField = Field(
        (1, 1), description="Dilation of the main filter and of the state filter."
    )

    default_norm: ClassVar = "layer"
    if TYPE_CHECKING:
        filter: Pair

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        gates, stride = (self.gates * out[0], *out[1:]), self.row_stride
        return self.term(inlet, gates, self.filter, stride=stride, dilation=self.dilation)


class _Encoder(_Convolutional, EncoderMaps):
    takes: ClassVar = STATEFUL_TAKES


class _Decoder(_Convolutional, EstimateMaps):
    takes: ClassVar = DecoderCell.takes - {Role.RECURRENT_DECODER} | {Role.STATE}
    on_vectors: ClassVar = "FC"

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.STATE})


class _LSTM(_Recurrent):
    """c = sigmoid(a_f) . c(t-1) + sigmoid(a_i) . tanh(a_g);  h = sigmoid(a_o) . tanh(c)"""

    gates: ClassVar = 4
    returns: ClassVar = ("c",)

    forget_bias: float = Field(1.0, description="Initial bias of the forget gate.")
    gate_bias: float = Field(0.0, description="Initial bias of the input gate and the output gate.")

    def parameters(self, site: Site, out: Shape) -> Parameters:
        starts = (self.gate_bias, self.forget_bias, self.gate_bias, 0.0)
        return {"bias": blocks(4 * out[0], values=starts), **self.gain(4 * out[0])}

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
        channels = 3 * out[0]
        return {"bias": zeros(channels), "state_bias": zeros(out[0]), **self.gain(channels)}

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


@register
class ConvLSTM(_Encoder, _LSTM):
    """Convolutional LSTM; the term of every edge is layer-normalised.

    a = LN(W_x * e_below) + LN(W_d * d(t-1)) + LN(W_h * h(t-1)) + b
    """

    cell: Literal["ConvLSTM"] = "ConvLSTM"
    channels: Count = Field(description="Output channels, also those of the state.")

    on_vectors: ClassVar = "LSTM"


@register
class DecoderConvLSTM(_Decoder, _LSTM):
    """Convolutional LSTM as a decoder; the term of every edge is layer-normalised.

    a = LN(A * v_top) + LN(B * h) + LN(W_h * d(t-1)) + b
    """

    cell: Literal["ConvLSTM"] = "ConvLSTM"


@register
class LSTM(_Dense, _LSTM):
    """Dense LSTM with one bias vector; incoming maps are flattened.

    a = W_x e_below + W_d d(t-1) + W_h h(t-1) + b
    """

    cell: Literal["LSTM"] = "LSTM"


@register
class ConvGRU(_Encoder, _GRU):
    """Convolutional GRU; the term of every edge is layer-normalised."""

    cell: Literal["ConvGRU"] = "ConvGRU"
    channels: Count = Field(description="Output channels; the output is the state.")

    on_vectors: ClassVar = "GRU"


@register
class DecoderConvGRU(_Decoder, _GRU):
    """Convolutional GRU as a decoder; the term of every edge is layer-normalised."""

    cell: Literal["ConvGRU"] = "ConvGRU"


@register
class GRU(_Dense, _GRU):
    """Dense GRU; incoming maps are flattened."""

    cell: Literal["GRU"] = "GRU"
