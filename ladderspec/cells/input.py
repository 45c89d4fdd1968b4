"""Inputs: the bottom of the ladder, which emits the data, and further inputs beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from ladderspec.cells.base import Cell, Site
from ladderspec.cells.fields import Count, Noise, PairField, refusal
from ladderspec.names import Shape, Side

if TYPE_CHECKING:
    from torch import Tensor


class InputCell(Cell):
    """The input of a network: frames, or a further input."""

    cell: Literal["Input"] = Field("Input", exclude=True)
    channels: Count = Field(1, description="Channels of a frame, or values of a vector.")
    size: PairField | None = Field(
        None, description="Size: [height, width], or one number for a square."
    )
    until: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        None, description="Last t at which the input is shown; zeros follow. Default: all t."
    )

    takes: ClassVar = frozenset[Any]()

    def out_shape(self, site: Site) -> Shape:
        return (self.channels, *(self.size or ()))

    @staticmethod
    def compute(a: Tensor) -> Tensor:
        return a


class Input(InputCell):
    """Channels and size of a frame. Without a size, a frame is a vector."""

    noise: Noise | None = Field(
        None, description="Noise on the input: {gaussian: 0.15} or {flip: 0.2}."
    )

    sides: ClassVar = frozenset({Side.ENCODER})


class FurtherInput(InputCell):
    """An input beside the frames, read by arrows like `input.action -> encoder.lstm`."""

    per: Literal["frame", "sequence"] | None = Field(
        None,
        description="Time axis. `frame`: a value for each t; `sequence`: one value, constant over"
        " t. Default: frame, if time runs over frames.",
    )
    field: str | None = Field(
        None, description="Field of the data to read. Default: the name of the input."
    )

    sides: ClassVar = frozenset({Side.INPUT})

    @field_validator("noise", mode="before")
    @classmethod
    def _no_noise(cls, value: Any) -> Any:
        if value is not None:
            raise refusal("S101", "an input beside the frames has no `noise`", "leave it out")
        return value
