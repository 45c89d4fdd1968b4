"""Cells without weights: Pool, Average, Identity and Sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells.base import Cell, DecoderCell, EncoderCell, Site, register
from ladderspec.cells.fields import (
    PAIR_SCHEMA,
    ActivationName,
    Pair,
    PairField,
    Size,
    by_form,
    pair,
    refusal,
)
from ladderspec.cells.projections import (
    Inlet,
    Projection,
    ShapeProblem,
    between,
    identity,
    need_map,
    strided,
)
from ladderspec.errors import tick
from ladderspec.names import Role, Shape, Side, show_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _window(value: Any) -> Any:
    if isinstance(value, str) and value.isalpha() and value != "global":
        raise refusal("S104", f"there is no window {tick(value)}", "`global`, or like 2 or [2, 3]")
    return value if value == "global" else pair(value)


_SCHEMA = {"anyOf": [{"const": "global"}, *PAIR_SCHEMA["anyOf"]]}
if TYPE_CHECKING:
    Window = Pair | Literal["global"]
else:
    Window = Annotated[
        by_form(list=tuple[Size, Size], word=Literal["global"]),
        BeforeValidator(_window),
        WithJsonSchema(_SCHEMA),
    ]


@register
class Pool(EncoderCell):
    """Pooling without weights, to ceil(n / stride) windows centred on their blocks of `stride`."""

    # CHOICE: not normalised, and windows over the border are kept: `max` ignores what is outside,
    # `average` divides by the number of values inside.

    cell: Literal["Pool"] = "Pool"
    mode: Literal["max", "average"] = Field("max", description="Pooling operation.")
    filter: Window = Field(
        (2, 2), description="Window size, one number or [height, width]; or `global`."
    )
    stride: PairField | None = Field(None, description="Stride. Default: the size of the window.")

    takes: ClassVar = frozenset({Role.ENCODER, Role.LATERAL})
    sides: ClassVar = frozenset({Side.ENCODER})
    keeps_range: ClassVar = True

    @property
    def row_stride(self) -> Pair | None:
        return self.window_stride

    @property
    def window(self) -> Pair | None:
        """None: the whole map."""
        return None if self.filter == "global" else self.filter

    @property
    def window_stride(self) -> Pair | None:
        return self.stride or self.window if self.window else None

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, "Pool", "FC")
        if self.window_stride is None:
            return below[:1]
        return (below[0], *strided(below, self.window_stride))

    def constants(self, site: Site, out: Shape) -> dict[str, Any]:
        if self.window is None or self.window_stride is None:
            return {"pad": None}
        pad: list[int] = []  # left, right, top, bottom
        sides = zip(site.main().shape[1:], self.window, self.window_stride, strict=True)
        for n, k, s in sides:
            before = max(k - s, 0) // 2  # beyond its block, on the near side
            pad = [before, max((n - 1) // s * s + k - n - before, 0), *pad]
        return {"pad": tuple(pad) if any(pad) else None}

    @staticmethod
    def compute(
        a: Tensor,
        *,
        mode: str,
        window: Pair | None,
        window_stride: Pair | None,
        pad: tuple[int, ...] | None,
    ) -> Tensor:
        import torch
        from torch.nn import functional

        if mode == "max":
            if window is None:
                return functional.max_pool2d(a, a.shape[2:]).flatten(1)
            if pad is not None:
                a = functional.pad(a, pad, value=-torch.inf)
            return functional.max_pool2d(a, window, window_stride)
        if window is None:
            return functional.avg_pool2d(a, a.shape[2:]).flatten(1)
        if pad is None:
            return functional.avg_pool2d(a, window, window_stride)
        inside = functional.pad(torch.ones_like(a[:1, :1]), pad)
        inside = functional.avg_pool2d(inside, window, window_stride)
        a = functional.pad(a, pad)
        return functional.avg_pool2d(a, window, window_stride) / inside


@register
class Identity(DecoderCell):
    """A copy: the estimate of the level below is the value from above, in its own shape."""

    cell: Literal["Identity"] = "Identity"

    takes: ClassVar = frozenset({Role.DECODER, Role.LATERAL})
    single: ClassVar = True
    keeps_range: ClassVar = True

    def out_shape(self, site: Site) -> Shape:
        return site.inlets[0].shape

    @staticmethod
    def compute(a: Tensor) -> Tensor:
        return a


@register
class Average(DecoderCell):
    """Inverse of average pooling: each value is repeated over its block of `stride` places."""

    cell: Literal["Average"] = "Average"

    takes: ClassVar = frozenset({Role.DECODER})
    single: ClassVar = True
    keeps_range: ClassVar = True

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.DECODER})

    def out_shape(self, site: Site) -> Shape:
        return site.estimate

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        fits = inlet.shape[0] == out[0] and len(inlet.shape) <= len(out)
        # One value over the whole map; between maps, the sizes must be a whole stride apart.
        stride = (out[1], out[2]) if len(out) == 3 else (1, 1)
        if len(inlet.shape) == 3:
            stride = between(inlet.shape, out, (1, 1), stride=inlet.stride).stride
        if not fits:
            raise ShapeProblem(
                f"Average spreads {show_shape(inlet.shape)} over {show_shape(out)},"
                " but their channels differ",
                "Average belongs on a Pool row",
            )
        return Projection("spread" if len(out) == 3 else "none", inlet.shape, out, stride=stride)

    @staticmethod
    def compute(a: Tensor) -> Tensor:
        return a


class _Sum(Cell):
    """y = act(the sum of what arrives, each times its `scale`); crelu(a) = [relu(a), relu(-a)]"""

    resample: Literal["nearest", "bilinear"] | None = Field(
        None, description="Resampling of arrows from maps of another size."
    )
    activation: ActivationName = Field("none", description="Activation function of the sum.")
    crelu: bool = Field(
        False,
        description="Concatenated ReLU: positive and negative part of the sum as separate"
        " channels.",
    )

    def made(self, summed: Shape) -> Shape:
        """The shape of the output, from that of the sum."""
        return (2 * summed[0], *summed[1:]) if self.crelu else summed

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        summed = (out[0] // 2, *out[1:]) if self.crelu else out
        return identity(inlet, summed, self.resample)

    @staticmethod
    def compute(a: Tensor, *, activation: Callable[[Tensor], Tensor], crelu: bool) -> Tensor:
        import torch

        if crelu:
            a = torch.cat([a, -a], dim=1).relu()
        return activation(a)


@register
class Sum(_Sum, EncoderCell):
    """Sum of all incoming arrows, without weights: residual connections, prediction errors."""

    cell: Literal["Sum"] = "Sum"

    @property
    def row_stride(self) -> Pair:
        return (1, 1)

    def out_shape(self, site: Site) -> Shape:
        return self.made(site.main().shape)


@register
class DecoderSum(_Sum, DecoderCell):
    """Sum of all incoming arrows, without weights, in the shape of the level that it estimates."""

    cell: Literal["Sum"] = "Sum"

    def out_shape(self, site: Site) -> Shape:
        return self.made(site.estimate)
