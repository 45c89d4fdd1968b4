"""Cells that pass Gaussian messages: the appendices of the paper as ladders.

Your own cell in one file: three of them, without any learnt weight.

    ladderspec show examples/message_passing/static_chain.yaml --plugin <this file>
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from ladderspec.cells import Cell, Inlet, Projection, Site, register
from ladderspec.names import Role, Shape, Side


class Message(Cell):
    """What the three cells share: raw values by arrow, and the shape that arrives."""

    sides: ClassVar = frozenset({Side.ENCODER, Side.DECODER})
    takes: ClassVar = frozenset(Role)

    def out_shape(self, site: Site) -> Shape:
        return site.inlets[0].shape

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)


@register
class Gaussian(Message):
    """The mean-field update of one variable of a static chain [app:iterative].

    m = S . below / w + (1 - S) . above,  S = sigmoid(log(variance w^2 / noise));  sends `send` . m
    """

    cell: Literal["Gaussian"] = "Gaussian"
    w: float = Field(1.0, description="What is below is w times this variable, plus noise.")
    noise: float = Field(gt=0, description="Variance of what is below, given this variable.")
    variance: float = Field(gt=0, description="Variance of this variable, given what is above.")
    mean: float = Field(0.0, description="What stands above where no arrow comes down.")
    send: float = Field(1.0, description="Factor of the message: the units of the level below.")

    def build(self, site: Site, out: Shape) -> Any:
        from torch import nn

        s = self.variance * self.w**2 / (self.variance * self.w**2 + self.noise)
        w, mean, send = self.w, self.mean, self.send
        below = "encoder" if site.side is Side.ENCODER else "lateral"
        above = "decoder_to_encoder" if site.side is Side.ENCODER else "decoder"

        class Update(nn.Module):
            def forward(self, values: Any, previous: Any = None, when: Any = None) -> Any:
                m = s * values[below] / w + (1 - s) * values.get(above, mean)
                return send * m, {}

        return Update()


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

    def build(self, site: Site, out: Shape) -> Any:
        from torch import nn

        factor = self.gain / (self.w * self.gain_below)

        class Update(nn.Module):
            def forward(self, values: Any, previous: Any = None, when: Any = None) -> Any:
                expected = values["decoder_to_encoder"][:, 1:]  # m'_l, made at t-1
                expected_below = values["upward_diagonal"][:, -1:]  # m'_{l-1}
                return expected + factor * (values["encoder"] - expected_below), {}

        return Update()


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

    def build(self, site: Site, out: Shape) -> Any:
        import torch
        from torch import nn

        w, w_above, gain, channels = self.w, self.w_above, self.gain, self.channels

        class Update(nn.Module):
            def forward(self, values: Any, previous: Any = None, when: Any = None) -> Any:
                m, expected = values["lateral"], 0.0
                if "decoder" in values:
                    above, next_above = values["decoder"][:, :1], values["decoder"][:, 1:]
                    if "downward_diagonal" in values:
                        surprise = above - values["downward_diagonal"][:, 1:]
                        m = m + (1 - gain) * w_above * surprise
                    expected = w_above * next_above
                expected = expected + w * m
                return (expected if channels == 1 else torch.cat([m, expected], dim=1)), {}

        return Update()
