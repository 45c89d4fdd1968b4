"""digits: still images of handwritten digits; scikit-learn's need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ladderspec.data._contract import DataSet, DataWords
from ladderspec.data._registry import register
from ladderspec.names import Shape


@register
class Digits(DataWords):
    """Handwritten digits, one image each: for networks that look at one input."""

    set: Literal["digits"] = "digits"
    input: str = Field("image", description="The field that the network sees.")
    digits: Literal["embedded", "mnist"] = Field(
        "embedded", description="scikit-learn's 1,797 digits of 8x8, or MNIST's files."
    )
    side: Annotated[int, Field(ge=4, le=512)] | None = Field(
        None, description="Side of an image; default: as they come, 8 or 28."
    )
    flat: bool = Field(False, description="A vector of pixels instead of a map.")
    valid: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Digits for validation, the last of the training ones."
    )
    labelled: Annotated[int, Field(ge=10, multiple_of=10)] | None = Field(
        None, description="Training digits with a label, as many of each class; default: all."
    )

    about: ClassVar[str] = "still digits; nothing to download"

    @property
    def image_side(self) -> int:
        return self.side or {"embedded": 8, "mnist": 28}[self.digits]

    def files(self) -> tuple[str, ...]:
        from ladderspec.data.sources import select

        return tuple(f.path for f in select(["mnist"])) if self.digits == "mnist" else ()

    def advice(self, shape: Shape) -> str:
        if len(shape) == 1:
            return f"say `flat: true` and `side:` with side * side = {shape[0]}"
        return f"say `side: {shape[-1]}`"

    def open(self, seed: int = 0, folder: Path | None = None) -> DataSet:
        from ladderspec.data._still import Still

        return Still(self, seed if self.seed is None else self.seed, folder)
