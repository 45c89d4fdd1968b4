"""The base class of tasks: node, target, weight, and the iterations that count."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells import Config as Config
from ladderspec.cells.fields import by_form
from ladderspec.names import Shape

if TYPE_CHECKING:
    from torch import Tensor

Positive = Annotated[float, Field(ge=0)]


class Ramp(Config):
    """A weight that changes linearly over the first updates of training."""

    start: Positive = Field(0.0, description="Weight at the first update.")
    to: Positive = Field(description="Weight at the end of the ramp and after it.")
    updates: Annotated[int, Field(ge=1)] = Field(description="Length of the ramp in updates.")

    def at(self, update: int) -> float:
        """
        >>> Ramp(start=0.0, to=2.0, updates=4).at(1)
        0.5
        """
        return self.start + (self.to - self.start) * min(update / self.updates, 1.0)


def _when(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_WHEN_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": ["last", "all"]},
        {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
    ]
}
# The iterations that count: the last, all equally, or a weight for each.
if TYPE_CHECKING:
    When = Literal["last", "all"] | tuple[float, ...]
    Weight = float | Ramp
else:
    When = Annotated[
        by_form(word=Literal["last", "all"], list=tuple[Positive, ...]),
        BeforeValidator(_when),
        WithJsonSchema(_WHEN_SCHEMA),
    ]
    Weight = by_form(word=Positive, mapping=Ramp)


class Reading(Config):
    """The node that a task reads, as far as shapes and cells go."""

    node: str
    shape: Shape
    cell: str
    input: Shape
    frames: bool  # time runs over frames, not over iterations on one input
    steps: int | None  # number of iterations, if it is fixed
    groups: int | None = None  # number of groups that the node exists for


class Task(Config):
    """One cost: a node is compared with a target, and the result is weighted."""

    kind: str
    at: str = Field(
        description="Node to read, or a pattern of nodes: `encoder.class`, `decoder.*`."
    )
    weight: Weight = Field(
        1.0, description="Weight in the sum of costs, or a ramp: {start, to, updates}."
    )
    when: When = Field(
        "all", description="Iterations that count: `last`, `all`, or a weight for each."
    )
    target: str | None = Field(
        None, description="Field of the data to compare with. Default: the input."
    )
    head: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Channels of a linear read-out (head) between node and cost. Default: none.",
    )
    label: str | None = Field(None, description="Label in drawings, instead of the task's name.")

    # Part of the identity of a run: raised if a default or the computation of the task changes.
    revision: ClassVar[int] = 1
    counted_apart: ClassVar[bool] = False  # its head does not count as part of the network
    teaches: ClassVar[bool] = True  # gradients of the cost reach the network
    denoises: ClassVar[bool] = False  # measured on noisy input by default
    explains: ClassVar[bool] = False  # its cost reads the likelihood of the groups

    def check(self, reading: Reading) -> tuple[str, str] | None:
        """A message and a hint if the task cannot read this node."""
        if not isinstance(self.when, str) and reading.steps != len(self.when):
            many = f"there are {reading.steps} iterations"
            hint = f"give {reading.steps} numbers, or `last` or `all`"
            if reading.steps is None:
                many = "the number of frames may be any"
                hint = f"`time: {{frames: {len(self.when)}}}`, or `last` or `all`"
            return f"`when` has {len(self.when)} weights, but {many}", hint
        return self.check_shape(reading)

    @abstractmethod
    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        """As `check`, for the shape of the node."""

    def weight_at(self, update: int | None = None) -> float:
        """The weight in the sum of costs. Without `update`: that after the ramp."""
        if not isinstance(self.weight, Ramp):
            return float(self.weight)
        return self.weight.to if update is None else self.weight.at(update)

    @property
    def field(self) -> str | None:
        """The field of the data that is the target. None: the frames themselves."""
        return self.target

    def target_shape(self, seen: Shape) -> Shape:
        """The shape of the target of one sample."""
        return seen

    @abstractmethod
    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """The cost of each of n samples, (n,): `seen` (n, ...) against `target`.

        Costs are averaged over samples and iterations, with the weights of `when`.
        """

    def combine(self, seen: Tensor) -> Tensor:
        """What K groups give together, (n, K, ...) -> (n, ...). CHOICE: their mean."""
        return seen.mean(1)

    def present(self, seen: Tensor) -> Tensor:
        """What is seen in the units of the data, as the next input of a closed loop."""
        return seen

    @property
    def units(self) -> dict[str, str]:
        """The metrics of the task in the paper's units, the main one first: `{"error": "%"}`."""
        return {}

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        """The metrics of each of n samples, (n,), by the names of `units`."""
        return {}

    def known(self, target: Tensor) -> Tensor | None:
        """The samples that can be measured, as a mask (n,). None: all."""
        return None

    def head_parameters(self, shape: Shape) -> dict[str, Shape]:
        """Parameters of the head: a dense layer on vectors, a 1x1 convolution on maps."""
        if self.head is None:
            return {}
        weight = (self.head, shape[0], *(1 for _ in shape[1:]))
        return {"weight": weight, "bias": (self.head,)}
