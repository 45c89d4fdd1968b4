"""Tasks on class scores: classification, and consistency with a Mean Teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ladderspec.names import Shape, show_shape
from ladderspec.tasks.base import Reading, Task, When

if TYPE_CHECKING:
    from torch import Tensor

Decay = Annotated[float, Field(ge=0, lt=1)]


class Classification(Task):
    """Cross-entropy of a class label under the logits of a SoftMax, by default at the last
    iteration.
    """

    kind: Literal["classification"]
    when: When = Field(
        "last", description="Iterations that count: `last`, `all`, or a weight for each."
    )
    target: str = Field("label", description="Field of the data with the class label.")
    none: Literal["last"] | None = Field(
        None,
        description="With groups: the class `no object`, which is left out when the groups are"
        " combined.",
    )

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if self.none is not None and reading.groups is None:
            return (
                "`none` is the class of groups without an object, but there are no groups",
                "leave it out, or add `groups: {count: 3}`",
            )
        if self.head is None and len(reading.shape) != 1:
            return (
                f"classification reads class scores, but {reading.node} is"
                f" {show_shape(reading.shape)}",
                "read a SoftMax, or give the task a `head` with the number of classes",
            )
        return None

    def target_shape(self, seen: Shape) -> Shape:
        return seen[1:]

    def combine(self, seen: Tensor) -> Tensor:
        """log p(c), p(c) = sum_k P_k(c) / sum_k sum_c' P_k(c'), without the class `none`."""
        import torch

        scores = seen.log_softmax(2)
        if self.none == "last":
            scores = scores[:, :, :-1]
        return torch.logsumexp(scores, dim=1).log_softmax(1)

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy. Missing labels (-1) cost nothing, but count in the mean over the batch."""
        from torch.nn import functional

        if target.is_floating_point():
            raise ValueError(f"labels are whole numbers, not {target.dtype}")
        try:
            cost = functional.cross_entropy(seen, target.long(), reduction="none", ignore_index=-1)
        except IndexError:
            raise ValueError(
                f"labels are from 0 to {seen.shape[1] - 1}, or -1 where missing; these go from"
                f" {int(target.min())} to {int(target.max())}"
            ) from None
        return cost if cost.dim() == 1 else cost.flatten(1).mean(1)

    def present(self, seen: Tensor) -> Tensor:
        """Class probabilities."""
        return seen.softmax(1)

    @property
    def units(self) -> dict[str, str]:
        return {"error": "%", "nll": "nats"}

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        wrong = (seen.argmax(1) != target).to(seen.dtype) * 100
        return {"error": wrong if wrong.dim() == 1 else wrong.flatten(1).mean(1),
                "nll": self.compare(seen, target)}  # fmt: skip

    def known(self, target: Tensor) -> Tensor:
        """Samples whose label is not missing (-1)."""
        known: Tensor = target.reshape(len(target), -1).ge(0).all(1)
        return known


class Consistency(Task):
    """Squared distance between the class probabilities of the network and of a Mean Teacher.

    The teacher is a running average of the network and sees the same input with noise of its own.
    The weight of the task ramps up as exp(-5 (1 - t/T)^2).
    """

    kind: Literal["consistency"]
    when: When = Field(
        "last", description="Iterations that count: `last`, `all`, or a weight for each."
    )
    decay: Decay = Field(0.999, description="Decay of the teacher's average after the ramp.")
    ramp_decay: Decay = Field(0.99, description="Decay of the teacher's average during the ramp.")
    ramp: Annotated[float, Field(ge=0, le=1)] = Field(
        0.25, description="Length of the ramp, as a fraction of training."
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
        """Mean squared error between probabilities; `target` are those of the teacher."""
        from torch.nn import functional

        distance = functional.mse_loss(seen.softmax(1), target.detach(), reduction="none")
        return distance.flatten(1).mean(1)

    def present(self, seen: Tensor) -> Tensor:
        """Class probabilities."""
        return seen.softmax(1)
