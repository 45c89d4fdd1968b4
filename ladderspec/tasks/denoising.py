"""denoising: the clean input behind a noisy one."""

from typing import Literal

from pydantic import Field

from ladderspec.tasks._contract import Cost, Reading, Task, same_as_input


class Denoising(Task):
    """Squared error (mse) or cross-entropy of logits (bce) against the input without its noise."""

    kind: Literal["denoising"]
    cost: Cost = Field("mse", description="mse: squared error; bce: cross-entropy of logits.")

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return same_as_input(self, reading)
