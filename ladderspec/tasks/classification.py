"""classification: cross-entropy of a class label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ladderspec.names import Shape, show_shape
from ladderspec.tasks._contract import Reading, Task, When

if TYPE_CHECKING:
    from torch import Tensor


class Classification(Task):
    """Cross-entropy of the label under the logits of a SoftMax, by default at the last t."""

    kind: Literal["classification"]
    when: When = Field("last", description="`last`, `all`, or a weight for each iteration.")
    target: str = Field("label", description="Field of the data with the class.")

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if self.head is None and len(reading.shape) != 1:
            return (
                f"classification reads class scores, but {reading.node} is"
                f" {show_shape(reading.shape)}",
                "read a SoftMax, or give the task a `head` with the number of classes",
            )
        return None

    def target_shape(self, seen: Shape) -> Shape:
        return seen[1:]

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """Labels of -1 are missing: they cost nothing, but count in the mean over the batch."""
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
        return seen.softmax(1)

    @property
    def units(self) -> dict[str, str]:
        return {"error": "%", "nll": "nats"}

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        wrong = (seen.argmax(1) != target).to(seen.dtype) * 100
        return {"error": wrong if wrong.dim() == 1 else wrong.flatten(1).mean(1),
                "nll": self.compare(seen, target)}  # fmt: skip

    def known(self, target: Tensor) -> Tensor:
        """Labels of -1 are missing."""
        known: Tensor = target.reshape(len(target), -1).ge(0).all(1)
        return known
