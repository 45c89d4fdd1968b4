"""Cells that pass Gaussian messages: the appendices of the paper as ladders.

Your own cell in one file: three of them, without any learned weight.

    ladderspec show examples/message_passing/static_chain.yaml --plugin <this file>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.cells import Cell, Site, register
from ladderspec.names import Role, Shape, Side

if TYPE_CHECKING:
    from torch import Tensor


class Message(Cell):
    """What the three cells share: values as they arrive, in the shape that arrives."""

    sides: ClassVar = frozenset({Side.ENCODER, Side.DECODER})
    takes: ClassVar = frozenset(Role)

    def out_shape(self, site: Site) -> Shape:
        return site.inlets[0].shape


@register
class Gaussian(Message):
    """The mean-field update of one variable of a static chain [app:iterative].

    m = S . below / w + (1 - S) . above,  S = sigmoid(log(variance w^2 / noise));  sends `send` . m
    """

    cell: Literal["Gaussian"] = "Gaussian"
    w: float = Field(1.0, description="What is below is w times this variable, plus noise.")
    noise: float = Field(gt=0, description="Variance of what is below, given this variable.")
    variance: float = Field(gt=0, description="Variance of this variable, given what is above.")
    mean: float = Field(0.0, description="Prior mean, if no arrow comes from above.")
    send: float = Field(1.0, description="Factor of the message: the units of the level below.")

    @property
    def s(self) -> float:
        """S: how much the level below counts against the level above."""
        return self.variance * self.w**2 / (self.variance * self.w**2 + self.noise)

    @staticmethod
    def compute(
        encoder: Tensor | None = None,
        decoder_to_encoder: Tensor | None = None,
        lateral: Tensor | None = None,
        decoder: Tensor | None = None,
        *,
        s: float,
        w: float,
        mean: float,
        send: float,
    ) -> Tensor:
        # The first two arrive at an encoder, the others at a decoder.
        below = lateral if encoder is None else encoder
        above = decoder if decoder_to_encoder is None else decoder_to_encoder
        assert below is not None
        return send * (s * below / w + (1 - s) * (mean if above is None else above))


@register
class Correct(Message):
    """Encoder of a temporal chain: the mean after seeing x_t [eq:temp_mtilde, corrected].

    m~_l = m'_l + gain / (w gain_below) . (m~_{l-1} - m'_{l-1})
    """

    cell: Literal["Correct"] = "Correct"
    w: float = Field(description="w_{l-1,l}: the level below follows this one with this factor.")
    gain: float = Field(description="s_l.")
    gain_below: float = Field(1.0, description="1 in the paper; s_{l-1} makes one sweep exact.")

    sides: ClassVar = frozenset({Side.ENCODER})

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.ENCODER, Role.DECODER_TO_ENCODER, Role.UPWARD_DIAGONAL})

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    @property
    def factor(self) -> float:
        return self.gain / (self.w * self.gain_below)

    @staticmethod
    def compute(
        encoder: Tensor, decoder_to_encoder: Tensor, upward_diagonal: Tensor, *, factor: float
    ) -> Tensor:
        expected = decoder_to_encoder[:, 1:]  # m'_l, made at t-1
        expected_below = upward_diagonal[:, -1:]  # m'_{l-1}
        return expected + factor * (encoder - expected_below)


@register
class Settle(Message):
    """Decoder of a temporal chain: the mean (m_l), and the mean expected next (m'_l) [app:temp].

    m_l = m~_l + (1 - gain) w_above . (m_{l+1} - m'_{l+1});  at the top m = m~
    m'_l(t+1) = w m_l(t) + w_above m'_{l+1}(t+1)
    At the input nothing is left to settle: m = x_t, and only the expectation is sent.
    """

    cell: Literal["Settle"] = "Settle"
    w: float = Field(description="w_l: how the variable follows itself.")
    w_above: float = Field(0.0, description="w_{l,l+1}: how it follows the variable above.")
    gain: float = Field(1.0, description="s_l; 1 for what is observed.")
    channels: int = Field(2, description="2: m and m'; 1 at the input: the expectation alone.")

    sides: ClassVar = frozenset({Side.DECODER})

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.LATERAL})

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)

    @staticmethod
    def compute(
        lateral: Tensor,
        decoder: Tensor | None = None,
        downward_diagonal: Tensor | None = None,
        *,
        w: float,
        w_above: float,
        gain: float,
        channels: int,
    ) -> Tensor:
        import torch

        m = lateral
        if decoder is None:
            expected = w * m
        else:
            above, next_above = decoder[:, :1], decoder[:, 1:]
            if downward_diagonal is not None:
                surprise = above - downward_diagonal[:, 1:]
                m = m + (1 - gain) * w_above * surprise
            expected = w_above * next_above + w * m
        return expected if channels == 1 else torch.cat([m, expected], dim=1)
