"""consistency: agree with a Mean Teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ladderspec.tasks._contract import Reading, Task, When

if TYPE_CHECKING:
    from torch import Tensor

Decay = Annotated[float, Field(ge=0, lt=1)]


class Consistency(Task):
    """Squared distance between the class probabilities of the network and of its running average.

    The teacher sees the same input with its own noise; the weight ramps up as exp(-5 (1 - t/T)^2).
    """

    kind: Literal["consistency"]
    when: When = Field("last", description="`last`, `all`, or a weight for each iteration.")
    decay: Decay = Field(0.999, description="Of the teacher's average, after the ramp.")
    ramp_decay: Decay = Field(0.99, description="Of the teacher's average, during the ramp.")
    ramp: Annotated[float, Field(ge=0, le=1)] = Field(
        0.25, description="Share of training it takes."
    )

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if reading.cell != "SoftMax":
            return (
                f"consistency compares probabilities, but {reading.node} is made by {reading.cell}",
                "read a SoftMax",
            )
        return None

    @property
    def field(self) -> str:
        return self.target or "teacher"

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """`target` are the probabilities of the teacher."""
        from torch.nn import functional

        distance = functional.mse_loss(seen.softmax(1), target.detach(), reduction="none")
        return distance.flatten(1).mean(1)

    def present(self, seen: Tensor) -> Tensor:
        return seen.softmax(1)
