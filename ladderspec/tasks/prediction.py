"""prediction: the next frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ladderspec.tasks._contract import (
    UNITS,
    Cost,
    Reading,
    Task,
    compare_by,
    measure_by,
    present_by,
    same_as_input,
)

if TYPE_CHECKING:
    from torch import Tensor


class Prediction(Task):
    """Squared error (mse) or cross-entropy of logits (bce) against the frame that comes next."""

    kind: Literal["prediction"]
    cost: Cost = Field("mse", description="mse: squared error; bce: cross-entropy of logits.")
    ahead: Annotated[int, Field(ge=1)] = Field(1, description="How many frames ahead.")

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if not reading.frames:
            return (
                "`kind: prediction` needs frames, but time runs over iterations on one input",
                "`time: {frames: 5}` or `{frames: any}`; or `kind: denoising`",
            )
        if reading.steps is not None and self.ahead >= reading.steps:
            frames = f"there are only {reading.steps} frames"
            return (f"`ahead` is {self.ahead}, but {frames}", "less than the number of frames")
        return same_as_input(self, reading)

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        return compare_by(self.cost, seen, target)

    def present(self, seen: Tensor) -> Tensor:
        return present_by(self.cost, seen)

    @property
    def units(self) -> dict[str, str]:
        return UNITS[self.cost]

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        return measure_by(self.cost, seen, target)
