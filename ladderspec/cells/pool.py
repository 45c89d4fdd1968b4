"""Pool: the largest or the mean value of each window."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells._contract import (
    PAIR_SCHEMA,
    EncoderCell,
    Inlet,
    Pair,
    PairField,
    Projection,
    Role,
    Shape,
    Side,
    Site,
    need_map,
    pair,
    register,
    strided,
)

_SCHEMA = {"anyOf": [{"const": "global"}, *PAIR_SCHEMA["anyOf"]]}
Window = Annotated[Pair | Literal["global"], BeforeValidator(pair), WithJsonSchema(_SCHEMA)]


@register
class Pool(EncoderCell):
    """Pooling without weights. CHOICE: not normalised, and windows over the border are kept."""

    cell: Literal["Pool"] = "Pool"
    mode: Literal["max", "average"] = Field("max", description="What a window gives.")
    filter: Window = Field(
        (2, 2), description="Window, one number or [height, width]; or `global`."
    )
    stride: PairField | None = Field(None, description="Default: the window itself.")

    takes: ClassVar = frozenset({Role.ENCODER, Role.LATERAL})
    sides: ClassVar = frozenset({Side.ENCODER})

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, "Pool", "no pool on vectors")
        if self.filter == "global":
            return below[:1]
        return (below[0], *strided(below, self.window_stride))

    @property
    def window_stride(self) -> Pair:
        assert self.filter != "global"
        return self.stride or self.filter

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)
