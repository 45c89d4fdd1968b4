"""classification: cross-entropy of a class label."""

from typing import Literal

from pydantic import Field

from ladderspec.names import show_shape
from ladderspec.tasks._contract import Reading, Task, When


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
