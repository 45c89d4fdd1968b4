"""G1: the gating cell of the original Ladder [app:cells]."""

from typing import Literal

from pydantic import Field

from ladderspec.cells._arrows import Inlet, Projection, ShapeProblem, between
from ladderspec.cells._contract import DecoderCell, Site, register
from ladderspec.cells._fields import FunctionStart, NormKind, Statistics
from ladderspec.names import Role, Shape, Side, show_shape, size_of


@register
class G1(DecoderCell):
    """Dense gate: u = BN(A v_top + b), y = s . h + (1 - s) . f(u, w), s = f(u, w_s)."""

    cell: Literal["G1"] = "G1"
    norm: NormKind = Field("batch", description="Norm of u.")
    statistics: Statistics | None = Field(None, description="What batch norm keeps for evaluation.")
    w: FunctionStart = Field(
        (1, 1, 0, 0, 0), description="Start of w: `even`, `ladder` or five numbers."
    )
    w_s: FunctionStart = Field((1, 1, 0, 0, 0), description="Start of the gate's w_s, likewise.")

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.DECODER})

    def out_shape(self, site: Site) -> Shape:
        assert site.level is not None
        return site.level

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        if inlet.role is Role.LATERAL:
            return gate(inlet, out, "G1", size_of(out))
        return between(inlet.shape, (size_of(out),), (1, 1))

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"b": (size_of(out),), "w": (5, size_of(out))}


def gate(inlet: Inlet, out: Shape, who: str, units: int) -> Projection:
    """The lateral arrow of G1 and convG1: h as it is, and the gate's own w_s."""
    if inlet.shape != out:
        raise ShapeProblem(
            f"{who} mixes h into its output, so both need one shape;"
            f" h is {show_shape(inlet.shape)}, the output {show_shape(out)}",
            "use convG3, which projects h",
        )
    return Projection("none", inlet.shape, out, own=(("w_s", (5, units)),))
