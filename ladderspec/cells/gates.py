"""The gating cells of the decoder: G1, convG1, convG2, convG3 [app:cells]."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.base import DecoderCell, Site, register
from ladderspec.cells.common import NORM_TEXT, STATISTICS, EstimateMaps, Filtered, Normed
from ladderspec.cells.fields import (
    Count,
    FunctionStart,
    NormChoice,
    NormField,
    NormName,
    PairField,
    Statistics,
)
from ladderspec.cells.functions import convolve, f, mix, per_unit
from ladderspec.cells.parameters import Parameters, blocks, weight, zeros
from ladderspec.cells.projections import (
    Inlet,
    Projection,
    ShapeProblem,
    between,
    need_map,
    odd,
)
from ladderspec.names import Role, Shape, Side, show_shape, size_of

if TYPE_CHECKING:
    from torch import Tensor

# CHOICE: maps that make a decoder's estimate start ten times smaller than others, so that the first
# estimate is near its offset. Tiny RLadders then predicted 10 to 30 % better after 150 updates, at
# learning rates from 1e-3 to 1e-2. Cells that read the estimate normalise it.
SMALL = 0.01

_W = Field((1, 1, 0, 0, 0), description="Initial w: `even`, `ladder` or five numbers.")
_LAYER_NORM = Field(NormChoice(), description=NORM_TEXT.format("layer"))


class _Gate(DecoderCell):
    """u = BN(A v_top + b);  y = s . h + (1 - s) . f(u, w),  s = f(u, w_s)

    With `gate: sigmoid`, s = sigmoid(f(u, w_s)). Without the lateral edge, y = f(u, w).
    """

    norm: NormName = Field("batch", description="Norm of u.")
    statistics: Statistics | None = STATISTICS
    w: FunctionStart = _W
    w_s: FunctionStart = Field(
        (1, 1, 0, 0, 0), description="Initial w_s: `even`, `ladder` or five numbers."
    )
    gate: Literal["none", "sigmoid"] = Field(
        "none",
        description="Squashing of the gate s: `none` (the paper), or `sigmoid` (Tagger's code).",
    )

    offset: ClassVar = "b"

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.DECODER})

    def node_norm(self) -> tuple[str, str, int]:
        return "norm", self.norm, 1

    def out_shape(self, site: Site) -> Shape:
        return site.estimate

    def units(self, out: Shape) -> int:
        """How many w there are."""
        raise NotImplementedError

    def parameters(self, site: Site, out: Shape) -> Parameters:
        units = self.units(out)
        return {"b": zeros(units), "w": blocks(5, units, values=self.w)}

    def _unchanged(self, inlet: Inlet, out: Shape) -> Projection:
        """An edge without a map: h with the w_s of its gate, or v_top with `weights: none`."""
        lateral = inlet.role is Role.LATERAL
        source, target = show_shape(inlet.shape), show_shape(out)
        if inlet.shape != out and lateral:
            raise ShapeProblem(
                f"{self.cell} mixes h into its output, so both need one shape;"
                f" h is {source}, the output {target}",
                "use convG3, which projects h",
            )
        if inlet.shape != out:
            raise ShapeProblem(
                f"{self.cell} with `weights: none` keeps the shape of what arrives, {source}, but"
                f" its level is {target}",
                "leave out `weights`",
            )
        extra = {"w_s": blocks(5, self.units(out), values=self.w_s)} if lateral else {}
        return Projection("none", inlet.shape, out, extra=extra)

    @staticmethod
    def compute(
        a: Tensor,
        lateral: Tensor | None = None,
        *,
        w: Tensor,
        w_s: Tensor | None = None,
        gate: str,
        out: Shape,
    ) -> Tensor:
        import torch

        u = a.view(a.shape[0], *out)
        y = f(u, per_unit(w, u))
        if lateral is None or w_s is None:
            return y
        s = f(u, per_unit(w_s, u))
        if gate == "sigmoid":
            s = torch.sigmoid(s)
        return mix(s, lateral, y)


@register
class ConvG1(_Gate, Filtered):
    """Convolutional gate: G1 with u = BN(A * v_top + b) and one w per channel.

    CHOICE: normalised like G1, although the printed formula has no BN.
    """

    cell: Literal["convG1"] = "convG1"
    weights: Literal["conv", "none"] = Field(
        "conv", description="Map A of v_top: a convolution (`conv`), or no map (`none`)."
    )

    def out_shape(self, site: Site) -> Shape:
        need_map(site.estimate, "convG1", "G1")
        return site.estimate

    def units(self, out: Shape) -> int:
        return out[0]

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        if inlet.role is Role.LATERAL or self.weights == "none":
            return self._unchanged(inlet, out)
        same = None if inlet.role is Role.DECODER or inlet.filter else odd(self.filter)
        return between(inlet.shape, out, inlet.filter or self.filter, same, inlet.stride)


@register
class G1(_Gate):
    """Dense gate: u = BN(A v_top + b), y = s . h + (1 - s) . f(u, w), s = f(u, w_s)."""

    cell: Literal["G1"] = "G1"
    weights: Literal["dense", "none"] = Field(
        "dense", description="Map A of v_top: a matrix (`dense`), or no map (`none`)."
    )

    def units(self, out: Shape) -> int:
        return size_of(out)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        if self.weights == "none" and inlet.role is not Role.LATERAL and len(out) != 1:
            raise ShapeProblem(
                f"G1 with `weights: none` works on vectors, not on maps of {show_shape(out)}",
                "use convG1",
            )
        if self.weights == "none" or inlet.role is Role.LATERAL:
            return self._unchanged(inlet, out)
        return between(inlet.shape, (size_of(out),), (1, 1))


@register
class ConvG2(Normed, EstimateMaps):
    """Gate of three branches f(LN(A * v_top) + LN(B * h) + c, w): y = s . mu_1 + (1 - s) . mu_2."""

    cell: Literal["convG2"] = "convG2"
    norm: NormField = _LAYER_NORM
    inner: Count | None = Field(
        None,
        description="Channels of the branches; a 1x1 read-out D follows. Default: no read-out.",
    )
    w: FunctionStart = _W

    offset: ClassVar = "c"
    default_norm: ClassVar = "layer"
    norm_parts: ClassVar = 3
    on_vectors: ClassVar = "G1"

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return self.term(inlet, (3 * (self.inner or out[0]), *out[1:]), self.filter)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        branches = 3 * (self.inner or out[0])
        found = {"c": zeros(branches), "w": blocks(5, branches, values=self.w)}
        if self.inner:
            found["D"] = weight(out[0], self.inner, 1, 1, scale=SMALL)
        return {**found, **self.gain(branches)}

    @staticmethod
    def compute(a: Tensor, *, w: Tensor, D: Tensor | None = None) -> Tensor:
        mu_1, mu_2, s = f(a, per_unit(w, a)).chunk(3, dim=1)
        y = mix(s, mu_1, mu_2)
        return y if D is None else convolve(y, D)


@register
class ConvG3(Normed, EstimateMaps):
    """Gate over a hidden layer u: y = s . D * u + (1 - s) . E * u, s = sigmoid(W_s * u).

    u = relu(LN(A * v_top) + LN(B * h) + c)
    """

    cell: Literal["convG3"] = "convG3"
    filter: PairField = Field(
        (3, 3), description="Filter of A and B, one number or [height, width]."
    )
    norm: NormField = _LAYER_NORM
    inner: Count | None = Field(None, description="Channels of u. Default: those of its row.")
    inner_filter: PairField = Field((1, 1), description="Filter of W_s, D and E.")

    offset: ClassVar = "c"
    default_norm: ClassVar = "layer"
    on_vectors: ClassVar = "G1"

    def width(self, site: Site) -> int:
        """The channels of u."""
        return self.inner or (site.row or site.estimate)[0]

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return self.term(inlet, (self.width(site), *out[1:]), self.filter)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        width = self.width(site)
        inner = (out[0], width, *self.inner_filter)
        # CHOICE: variance 1 / fan_in; relu halves that of u, but u sums two normalised terms.
        return {
            "c": zeros(width),
            "W_s": weight(*inner),
            "D": weight(*inner, scale=SMALL),
            "E": weight(*inner, scale=SMALL),
            **self.gain(width),
        }

    @staticmethod
    def compute(a: Tensor, *, W_s: Tensor, D: Tensor, E: Tensor) -> Tensor:
        import torch

        u = torch.relu(a)
        s, d, e = convolve(u, torch.cat([W_s, D, E])).chunk(3, dim=1)
        return mix(torch.sigmoid(s), d, e)
