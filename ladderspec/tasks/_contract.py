"""What every task says: where it reads, when, against which target, and how much it weighs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells import Words
from ladderspec.cells._fields import by_form
from ladderspec.names import Shape, show_shape

if TYPE_CHECKING:
    from torch import Tensor

Positive = Annotated[float, Field(ge=0)]


class Ramp(Words):
    """A weight that changes over the updates of training."""

    start: Positive = Field(0.0, description="At the first update.")
    to: Positive = Field(description="From `updates` on.")
    updates: Annotated[int, Field(ge=1)] = Field(description="How long the change takes.")

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
# Which iterations count: the last, all alike, or a weight for each.
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
    teaches: ClassVar[bool] = True  # gradients of the cost reach the network
    denoises: ClassVar[bool] = False  # evaluated on noisy input by default

    def check(self, reading: Reading) -> tuple[str, str] | None:
        """What is wrong with reading this node, and what would be right."""
        if not isinstance(self.when, str) and reading.steps != len(self.when):
            many = f"there are {reading.steps} iterations"
            hint = f"give {reading.steps} numbers, or `last` or `all`"
            if reading.steps is None:
                many = "the number of frames may be any"
                hint = f"`time: {{frames: {len(self.when)}}}`, or `last` or `all`"
            return f"`when` has {len(self.when)} weights, but {many}", hint
        return self.check_shape(reading)

    @abstractmethod
    def check_shape(self, reading: Reading) -> tuple[str, str] | None: ...

    def weight_at(self, update: int | None = None) -> float:
        """The weight in the sum of costs; without `update`, that after any ramp."""
        if not isinstance(self.weight, Ramp):
            return float(self.weight)
        return self.weight.to if update is None else self.weight.at(update)

    @property
    def field(self) -> str | None:
        """The field of the data that it compares with; None: the frames themselves."""
        return self.target

    def target_shape(self, seen: Shape) -> Shape:
        """The shape of the target of one sample."""
        return seen

    @abstractmethod
    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """The cost of each of n samples, (n,): `seen` (n, ...) against the same part of the data.

        Costs are averaged over samples and iterations, with the weights of `when`.
        """

    def present(self, seen: Tensor) -> Tensor:
        """What is seen, in the units of the data: the next input of a closed loop."""
        return seen

    @property
    def units(self) -> dict[str, str]:
        """What it reports, the most telling first, in the paper's units: `{"error": "%"}`."""
        return {}

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        """What it reports of each of n samples, (n,), by the names of `units`."""
        return {}

    def known(self, target: Tensor) -> Tensor | None:
        """Which of n samples can be measured, (n,); None: all."""
        return None

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


def compare_by(cost: Cost, seen: Tensor, target: Tensor) -> Tensor:
    """mse: mean over the numbers of a sample; bce: sum over them, in nats."""
    from torch.nn import functional

    target = target.to(seen.dtype).reshape(seen.shape)
    if cost == "mse":
        return functional.mse_loss(seen, target, reduction="none").flatten(1).mean(1)
    each = functional.binary_cross_entropy_with_logits(seen, target, reduction="none")
    return each.flatten(1).sum(1)


UNITS: dict[Cost, dict[str, str]] = {"mse": {"error": "x 1e-5"}, "bce": {"nll": "nats"}}


def measure_by(cost: Cost, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
    """mse: of a number, x 1e-5 as in [t:ommnist]; bce: nats of a frame as in [t:midires]."""
    each = compare_by(cost, seen, target)
    return {"error": each * 1e5} if cost == "mse" else {"nll": each}


def present_by(cost: Cost, seen: Tensor) -> Tensor:
    """Under bce, probabilities."""
    return seen if cost == "mse" else seen.sigmoid()
