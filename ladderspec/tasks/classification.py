"""Tasks on class scores: classification, and consistency with a Mean Teacher."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from ladderspec.names import Shape, show_shape
from ladderspec.tasks.base import Metric, Reading, Task, When, register

if TYPE_CHECKING:
    from torch import Tensor

Decay = Annotated[float, Field(ge=0, lt=1)]


class ClassScores(Task):
    """A task that reads the logits of a SoftMax; groups give one probability of each class."""

    when: When = Field(
        "last", description="Iterations that count: `last`, `all`, or a weight for each."
    )
    none: Literal["last"] | None = Field(
        None,
        description="With groups: the class for `no object`, which is left out when groups are"
        " combined.",
    )

    def _check_none(self, reading: Reading) -> tuple[str, str] | None:
        if self.none is not None and reading.groups is None:
            return (
                "`none` is the class of groups without an object, but there are no groups",
                "leave it out, or add `groups: {count: 3}`",
            )
        return None

    def combine(self, seen: Tensor) -> Tensor:
        """log p(c), p(c) = sum_k P_k(c) / sum_k sum_c' P_k(c'), without the class `none`."""
        import torch

        scores = seen.log_softmax(2)
        if self.none == "last":
            scores = scores[:, :, :-1]
        return torch.logsumexp(scores, dim=1).log_softmax(1)

    def present(self, seen: Tensor) -> Tensor:
        """Class probabilities."""
        return seen.softmax(1)

    def pictures(self, name: str, seen: Tensor) -> dict[str, Tensor]:
        return {}


@register
class Classification(ClassScores):
    """Cross-entropy of a class label under the logits of a SoftMax, by default at the last
    iteration. On maps, the mean over places, each with a label of its own.
    """

    kind: Literal["classification"]
    target: str = Field("label", description="Field of the data with the class label.")

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if self.head is None and len(reading.shape) != 1 and not reading.has_logits:
            return (
                f"classification reads class scores, but {reading.node} is"
                f" {show_shape(reading.shape)}",
                "read a SoftMax, or give the task a `head` with the number of classes",
            )
        return self._check_none(reading)

    def note(self, reading: Reading, limits: str) -> str:
        if self.head is not None or reading.has_logits:
            return ""
        limited = f", {limits}," if limits else ""
        return (
            f"{reading.node} is not a SoftMax: the output of its {reading.cell}{limited} is taken"
            " as logits; give it `cell: SoftMax`, or the task a `head`"
        )

    def target_shape(self, seen: Shape) -> Shape:
        return seen[1:]

    def classes(self, seen: Shape) -> int:
        return seen[0]

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

    @property
    def metrics(self) -> dict[str, Metric]:
        return {"error": Metric("%"), "nll": Metric("nats")}

    def measure(self, seen: Tensor, target: Tensor, **further: Tensor) -> dict[str, Tensor]:
        wrong = (seen.argmax(1) != target).to(seen.dtype) * 100
        return {"error": wrong if wrong.dim() == 1 else wrong.flatten(1).mean(1),
                "nll": self.compare(seen, target)}  # fmt: skip

    def known(self, target: Tensor) -> Tensor:
        """Samples whose label is not missing (-1)."""
        known: Tensor = target.reshape(len(target), -1).ge(0).all(1)
        return known

    @property
    def cost_label(self) -> str:
        return "CE"


@register
class Consistency(ClassScores):
    """Squared distance between the class probabilities of the network and of a Mean Teacher.

    The teacher is a running average of the network and sees the same input with noise of its own.
    The weight of the task ramps up as exp(-5 (1 - t/T)^2).
    """

    kind: Literal["consistency"]
    decay: Decay = Field(0.999, description="Decay of the teacher's average after the ramp.")
    ramp_decay: Decay = Field(0.99, description="Decay of the teacher's average during the ramp.")
    ramp: Annotated[float, Field(ge=0, le=1)] = Field(
        0.25, description="Length of the ramp, as a fraction of training."
    )

    taught: ClassVar = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if not reading.has_logits:
            return (
                f"consistency compares probabilities, but {reading.node} is made by {reading.cell}",
                "read a SoftMax",
            )
        return self._check_none(reading)

    @property
    def field(self) -> str:
        return self.target or "teacher"

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """Mean squared error between probabilities; `target` are those of the teacher."""
        from torch.nn import functional

        distance = functional.mse_loss(seen.softmax(1), target.detach(), reduction="none")
        return distance.flatten(1).mean(1)

    def ramp_at(self, update: int, total: int) -> float:
        """exp(-5 (1 - t/T)^2) over the first `ramp` of training, then 1.

        >>> task = Consistency(kind="consistency", at="encoder.class", ramp=0.5)
        >>> [round(task.ramp_at(update, 80_000), 10) for update in (0, 10_000, 20_000, 40_000)]
        [0.006737947, 0.0600546679, 0.2865047969, 1.0]
        """
        length = self.ramp * total
        return math.exp(-5 * (1 - min(1.0, update / length)) ** 2) if length > 0 else 1.0

    def weight_at(self, update: int | None = None, total: int | None = None) -> float:
        weight = super().weight_at(update, total)
        if update is None or total is None:
            return weight
        return weight * self.ramp_at(update, total)

    def teacher_decay(self, update: int, total: int) -> float:
        """CHOICE: two decays with a hard switch at the end of the ramp."""
        return self.ramp_decay if self.ramp_at(update, total) < 1 else self.decay

    @property
    def cost_label(self) -> str:
        return "MT"
