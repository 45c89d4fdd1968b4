"""probe: read out what a node knows, without teaching it."""

from typing import ClassVar, Literal

from pydantic import Field

from ladderspec.tasks._contract import Cost, Reading, Task


class Probe(Task):
    """A read-out trained on the values of a node; no gradient flows into the network."""

    kind: Literal["probe"]
    cost: Cost = Field("mse", description="mse: squared error; bce: cross-entropy of logits.")
    target: str = Field(description="Field of the data to read out.")

    counted_apart: ClassVar = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return None
