"""Pool: the largest or the mean value of each window."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells._arrows import Inlet, Projection, need_map, strided
from ladderspec.cells._contract import EncoderCell, Site, register
from ladderspec.cells._fields import PAIR_SCHEMA, Pair, PairField, Size, by_form, pair, refusal
from ladderspec.errors import tick
from ladderspec.names import Role, Shape, Side


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
    """Pooling without weights. CHOICE: not normalised, and windows over the border are kept."""

    cell: Literal["Pool"] = "Pool"
    mode: Literal["max", "average"] = Field("max", description="What a window gives.")
    filter: Window = Field(
        (2, 2), description="Window, one number or [height, width]; or `global`."
    )
    stride: PairField | None = Field(None, description="Default: the window itself.")

    takes: ClassVar = frozenset({Role.ENCODER, Role.LATERAL})
    sides: ClassVar = frozenset({Side.ENCODER})

    @property
    def row_stride(self) -> Pair | None:
        return None if self.filter == "global" else self.window_stride

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, "Pool", "Pool on maps only")
        if self.filter == "global":
            return below[:1]
        return (below[0], *strided(below, self.window_stride))

    @property
    def window_stride(self) -> Pair:
        assert self.filter != "global"
        return self.stride or self.filter

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)
