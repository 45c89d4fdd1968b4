"""digits: images of handwritten digits, from MNIST or from scikit-learn (no download)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from ladderspec.data.batching import Indices
from ladderspec.data.dataset import DataError, Form, register
from ladderspec.data.digits import CLASSES, LABELS, DigitData, Fields, LabelledDigitConfig
from ladderspec.names import Shape

if TYPE_CHECKING:
    from ladderspec.data.sheet import ImageSheet


@register
class Digits(LabelledDigitConfig):
    """Handwritten digits, one image each, for networks with a single input."""

    set: Literal["digits"] = "digits"
    input: str = Field("image", description="Input field: the one that the network sees.")
    digits: Literal["embedded", "mnist"] = Field(
        "embedded",
        description="Source of the images: the 1,797 digits of 8x8 in scikit-learn, or MNIST.",
    )
    side: Annotated[int, Field(ge=4, le=512)] | None = Field(
        None, description="Side of an image in pixels; default: 8 (scikit-learn) or 28 (MNIST)."
    )
    flat: bool = Field(False, description="Flatten each image to a vector of pixels.")

    about: ClassVar[str] = "still digits; nothing to download"

    @property
    def image_side(self) -> int:
        return self.side or {"embedded": 8, "mnist": 28}[self.digits]

    def advice(self, shape: Shape) -> str:
        if len(shape) == 1:
            return f"write `flat: true` and `side:` with side * side = {shape[0]}"
        return f"write `side: {shape[-1]}`"

    def open(self, seed: int = 0, folder: Path | None = None) -> DigitsData:
        return DigitsData(self, seed, folder)


class DigitsData(DigitData):
    config: Digits
    classes = CLASSES

    def __init__(self, config: Digits, seed: int, folder: Path | None) -> None:
        side = config.image_side
        super().__init__(config, seed, folder, side)
        self.forms = {
            "image": Form((side * side,) if config.flat else (1, side, side), False, "0 is paper"),
            **LABELS,
        }

    def compute(self, split: str, epoch: int, indices: Indices) -> Fields:
        images = self.digits.images[self.chosen(split, indices)[0]]
        return {"image": lambda: images.reshape(len(images), *self.forms["image"].shape)}

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        """A column for each class, with the first items of the class from the first index on."""
        from ladderspec.data import sheet

        batch = self.batch(split, 0, np.arange(indices[0], self.size(split)))
        classes = range(CLASSES)
        found = [np.flatnonzero(batch["label"] == label)[: len(indices)] for label in classes]
        if not all(map(len, found)):
            raise DataError(f"from item {indices[0]} on, {split} has no item of some classes")
        rows = [
            sheet.Strip("", [sheet.as_image(batch["image"][items[i]]) for items in found])
            for i in range(min(map(len, found)))
        ]
        return sheet.strips(title, [str(label) for label in classes], [("", rows)])
