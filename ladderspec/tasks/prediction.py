"""prediction: the next frame."""

from typing import Annotated, Literal

from pydantic import Field

from ladderspec.tasks._contract import Cost, Reading, Task, same_as_input


class Prediction(Task):
    """Squared error (mse) or cross-entropy of logits (bce) against the frame that comes next."""

    kind: Literal["prediction"]
    cost: Cost = Field("mse", description="mse: squared error; bce: cross-entropy of logits.")
    ahead: Annotated[int, Field(ge=1)] = Field(1, description="How many frames ahead.")

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if not reading.frames:
            return (
                "prediction needs frames, but time runs over iterations on one input",
                "`time: {frames: 5}` or `{frames: any}`; or a denoising task",
            )
        return same_as_input(self, reading)
