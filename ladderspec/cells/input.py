"""Input: the bottom of the ladder, which emits the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.base import Cell, Site
from ladderspec.cells.fields import Count, Noise, PairField
from ladderspec.names import Shape, Side

if TYPE_CHECKING:
    from torch import Tensor


class Input(Cell):
    """What a frame is: its channels and size; without a size, a vector."""

    cell: Literal["Input"] = Field("Input", exclude=True)
    channels: Count = Field(1, description="Maps of a frame, or numbers of a vector.")
    size: PairField | None = Field(None, description="[height, width], or one number for a square.")
    noise: Noise | None = Field(None, description="{gaussian: 0.15} or {flip: 0.2}.")

    sides: ClassVar = frozenset({Side.ENCODER})
    takes: ClassVar = frozenset[Any]()

    def out_shape(self, site: Site) -> Shape:
        return (self.channels, *(self.size or ()))

    @staticmethod
    def compute(a: Tensor) -> Tensor:
        return a
