"""What every task says: where it reads, when, against which target, and how much it weighs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells import Words
from ladderspec.cells._contract import by_form
from ladderspec.names import Shape, show_shape

Positive = Annotated[float, Field(ge=0)]


class Ramp(Words):
    """A weight that changes over the updates of training."""

    start: Positive = Field(0.0, description="At the first update.")
    to: Positive = Field(description="From `updates` on.")
    updates: Annotated[int, Field(ge=1)] = Field(description="How long the change takes.")


def _when(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_WHEN_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": ["last", "all"]},
        {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
    ]
}
# Which iterations count: the last, all alike, or a weight for each.
When = Annotated[
    by_form(word=Literal["last", "all"], list=tuple[Positive, ...]),
    BeforeValidator(_when),
    WithJsonSchema(_WHEN_SCHEMA),
]
Weight = by_form(word=Positive, mapping=Ramp)
Cost = Literal["mse", "bce"]


class Reading(Words):
    """What a task sees of the network: shapes and cells, no tensors."""

    node: str
    shape: Shape
    cell: str
    input: Shape
    frames: bool  # time runs over frames, not over iterations on one input
    steps: int | None  # how many, where that is fixed


class Task(Words):
    """One cost: read a node, compare it with a target, weigh it."""

    kind: str
    at: str = Field(description="The node it reads, or a pattern: `encoder.class`, `decoder.*`.")
    weight: Weight = Field(1.0, description="Weight in the sum of costs; or {start, to, updates}.")
    when: When = Field("all", description="`last`, `all`, or a weight for each iteration.")
    target: str | None = Field(None, description="Field of the data to compare with.")
    head: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Channels of a read-out of its own between node and cost."
    )
    label: str | None = Field(None, description="Drawn instead of the task's name.")

    counted_apart: ClassVar[bool] = False  # its read-out is no part of the network

    def check(self, reading: Reading) -> tuple[str, str] | None:
        """What is wrong with reading this node, and what would be right."""
        if not isinstance(self.when, str) and reading.steps not in (None, len(self.when)):
            return (
                f"`when` has {len(self.when)} weights, but there are {reading.steps} iterations",
                f"give {reading.steps} numbers, or `last` or `all`",
            )
        return self.check_shape(reading)

    @abstractmethod
    def check_shape(self, reading: Reading) -> tuple[str, str] | None: ...

    def head_parameters(self, shape: Shape) -> dict[str, Shape]:
        """A read-out of its own: a dense layer on vectors, a 1x1 convolution on maps."""
        if self.head is None:
            return {}
        weight = (self.head, shape[0], *(1 for _ in shape[1:]))
        return {"weight": weight, "bias": (self.head,)}


def same_as_input(task: Task, reading: Reading) -> tuple[str, str] | None:
    """Costs per pixel compare a node with something of the input's shape."""
    if task.head is None and task.target is None and reading.shape != reading.input:
        return (
            f"{task.kind} compares {reading.node} ({show_shape(reading.shape)}) with the input"
            f" ({show_shape(reading.input)})",
            "read `decoder.input`, or name a `target` of that shape, or give a `head`",
        )
    return None
