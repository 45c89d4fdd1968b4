"""A task: one class with its fields, target, cost, metrics and what drawings show of it.

A task reads a node, through a head of its own if it has one, and compares what it sees with a
target. Nothing outside of a class knows its kind by name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from ladderspec.cells import Config as Config
from ladderspec.cells.fields import AS_TUPLE, OneLine, by_form
from ladderspec.errors import UsageError
from ladderspec.names import Shape
from ladderspec.plugins import admit, literal_name
from ladderspec.text.notation import matches

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

NonNegative = Annotated[float, Field(ge=0)]


class Ramp(Config):
    """A weight that changes linearly over the first updates of training."""

    start: NonNegative = Field(0.0, description="Weight at the first update.")
    to: NonNegative = Field(description="Weight at the end of the ramp and after it.")
    updates: Annotated[int, Field(ge=1)] = Field(description="Length of the ramp in updates.")

    def at(self, update: int) -> float:
        """
        >>> Ramp(start=0.0, to=2.0, updates=4).at(1)
        0.5
        """
        return self.start + (self.to - self.start) * min(update / self.updates, 1.0)


ELSE = "else"  # the weight of all nodes that `weight` does not name


def _form_of_weight(value: Any) -> str:
    """A number, a ramp, or numbers by node, whose names have a dot."""
    if not isinstance(value, dict):
        return "ramp" if isinstance(value, Ramp) else "number"
    return "nodes" if any(key == ELSE or "." in str(key) for key in value) else "ramp"


_WHEN_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": ["last", "all"]},
        {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
    ]
}
# Names of nodes have a dot; without this, editors would take a ramp for such a mapping too.
_NODES_SCHEMA = Field(json_schema_extra={"propertyNames": {"pattern": f"\\.|^{ELSE}$"}})
# The iterations that count: the last, all equally, or a weight for each.
if TYPE_CHECKING:
    When = Literal["last", "all"] | tuple[float, ...]
    Weight = float | Ramp | dict[str, float]
else:
    When = Annotated[
        by_form(word=Literal["last", "all"], list=tuple[NonNegative, ...]),
        AS_TUPLE,
        WithJsonSchema(_WHEN_SCHEMA),
    ]
    Weight = Annotated[
        Annotated[NonNegative, Tag("number")]
        | Annotated[Ramp, Tag("ramp")]
        | Annotated[dict[str, NonNegative], Tag("nodes"), _NODES_SCHEMA],
        Discriminator(_form_of_weight),
    ]


class Metric(NamedTuple):
    """A metric of a task: its unit, its direction, and what follows from its mean.

    Values of samples are averaged over samples and iterations, with the weights of `when`. If
    `last` is set, only the last iteration on a single input counts: the final answer, whatever the
    cost weights. Frames of a sequence still count by `when`.
    """

    unit: str = ""
    better: Literal["lower", "higher"] = "lower"
    finish: Callable[[Tensor], Tensor] | None = None  # applied to the mean: `torch.sqrt`
    last: bool = False  # of several iterations on a single input, the last one counts


if TYPE_CHECKING:
    Measured = Mapping[str, Tensor | tuple[Tensor, Tensor]]


class Panel(NamedTuple):
    """Frames of a picture that have to do with groups.

    Args:
        frames: (n, C, H, W) or (n, C); of `shares`: (n, K, H, W) or (n, K, N).
        shares: Whether they are the shares of K groups in each pixel, drawn in their colours.
        group: The group that the frames belong to: their caption has its colour.
    """

    frames: Tensor
    shares: bool = False
    group: int | None = None


class Reading(Config):
    """The node that a task reads, as far as shapes and cells go."""

    node: str
    shape: Shape
    cell: str
    input: Shape
    frames: bool  # time runs over frames, not over iterations on one input
    steps: int | None  # number of iterations, if it is fixed
    groups: int | None = None  # number of groups that the node exists for
    level: Shape | None = None  # shape of the level that a decoder estimates
    has_logits: bool = False  # its cell returns logits, as a SoftMax does; the task reads these

    def check_ahead(self, ahead: int) -> tuple[str, str] | None:
        """A message and a hint if a target lies behind the last frame."""
        if self.steps is None or ahead < self.steps:
            return None
        frames = f"there are only {self.steps} frames"
        return f"`ahead` is {ahead}, but {frames}", "less than the number of frames"


class Task(Config):
    """One cost: a node is compared with a target, and the result is weighted.

    docs/own_tasks.md describes what a subclass defines: `check_shape`, `target_shape`, `compare`,
    `metrics`, `measure` and further members.
    """

    kind: str
    at: str = Field(
        description="Node to read, or a pattern of nodes: `encoder.class`, `decoder.*`."
    )
    weight: Weight = Field(
        1.0,
        description="Weight in the sum of costs; a ramp: {start, to, updates}; or the weight of"
        " each node: {decoder.input: 1000, else: 0.1}.",
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
    label: OneLine | None = Field(
        None, description="Label in drawings, instead of the task's name."
    )

    # Part of the identity of a run: raised if a default or the computation of the task changes.
    revision: ClassVar[int] = 1
    counted_apart: ClassVar[bool] = False  # its head does not count as part of the network
    teaches: ClassVar[bool] = True  # gradients of the cost reach the network
    explains: ClassVar[bool] = False  # its cost reads the likelihood of the groups
    compares: ClassVar[bool] = True  # it has a target
    taught: ClassVar[bool] = False  # its target is what a Mean Teacher presents, not data

    @property
    def denoises(self) -> bool:
        """Whether it is measured on noisy input by default."""
        return False

    @property
    def starts_at_mean(self) -> bool:
        """Whether its output has an offset: the mean of the target."""
        return False

    @property
    def clean(self) -> bool:
        """Whether its target is what a pass without noise gives, not data."""
        return False

    @property
    def stops(self) -> bool:
        """Whether no gradient flows into the pass without noise."""
        return False

    # --- what it reads ----------------------------------------------------------------------------

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

    def note(self, reading: Reading, limits: str) -> str:
        """A note if the task can read this node, but probably should not; empty if there is none.

        Args:
            reading: The node.
            limits: How its values are limited: `rectified by relu`, or empty.
        """
        return ""

    def head_parameters(self, shape: Shape) -> dict[str, Shape]:
        """Parameters of the head: a dense layer on vectors, a 1x1 convolution on maps."""
        if self.head is None:
            return {}
        weight = (self.head, shape[0], *(1 for _ in shape[1:]))
        return {"weight": weight, "bias": (self.head,)}

    # --- its target -------------------------------------------------------------------------------

    @property
    def field(self) -> str | None:
        """The field of the data that is the target. None: the frames themselves."""
        return self.target

    @property
    def horizon(self) -> int:
        """How many frames later the target is."""
        return 0

    @property
    def further_fields(self) -> dict[str, str]:
        """Fields of the data that `measure` reads besides the target, by argument of `measure`."""
        return {}

    def target_shape(self, seen: Shape) -> Shape:
        """The shape of the target of one sample."""
        return seen

    def check_further(self, given: Shape, seen: Shape) -> str:
        """Check the shape of a further field. Returns the problem, or an empty text."""
        return ""

    def check_values(self, values: NDArray[Any]) -> str:
        """Check values of a further field. Returns the problem, or an empty text."""
        return ""

    def classes(self, seen: Shape) -> int | None:
        """The number of classes, if the target is a class."""
        return None

    # --- its cost ---------------------------------------------------------------------------------

    def weight_at(self, update: int | None = None, total: int | None = None) -> float:
        """The weight in the sum of costs. Without `update`: that after the ramp.

        Args:
            update: the number of updates before this one.
            total: the number of all updates.
        """
        if isinstance(self.weight, dict):
            return 1.0  # `node_weights` are part of its cost
        if not isinstance(self.weight, Ramp):
            return float(self.weight)
        return self.weight.to if update is None else self.weight.at(update)

    def node_weights(self, nodes: Iterable[str]) -> dict[str, float] | None:
        """The weights of nodes, if `weight` is by node: that of the first pattern that fits.

        >>> from ladderspec.tasks import Activity
        >>> task = Activity(kind="activity", at="*", weight={"decoder.*": 2.0, "else": 0.5})
        >>> task.node_weights(["encoder.a", "decoder.a"])
        {'encoder.a': 0.5, 'decoder.a': 2.0}
        """
        if not isinstance(self.weight, dict):
            return None
        given = {pattern: weight for pattern, weight in self.weight.items() if pattern != ELSE}
        found = {}
        for node in nodes:
            fits = [weight for pattern, weight in given.items() if matches(node, pattern)]
            fits += [self.weight[ELSE]] if ELSE in self.weight else []
            if fits:
                found[node] = fits[0]
        return found

    @abstractmethod
    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """The cost of each of n samples, (n,): `seen` (n, ...) against `target`.

        Costs are averaged over samples and iterations, with the weights of `when`.
        """

    def combine(self, seen: Tensor) -> Tensor:
        """Combine the values of K groups, (n, K, ...) -> (n, ...). CHOICE: their mean."""
        return seen.mean(1)

    def teacher_decay(self, update: int, total: int) -> float:
        """The decay of the Mean Teacher's average of the network, if the task is `taught`."""
        return 0.999

    # --- its metrics ------------------------------------------------------------------------------

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of the task, the main one first: `{"error": Metric("%")}`."""
        return {}

    def measure(self, seen: Tensor, target: Tensor, **further: Tensor) -> Measured:
        """The metrics of each of n samples, (n,), by the names of `metrics`.

        With a pair, (n,) and (n,), the second are the weights of the samples in the mean.
        """
        return {}

    def known(self, target: Tensor) -> Tensor | None:
        """The samples that can be measured, as a mask (n,). None: all."""
        return None

    def decide(self, seen: Tensor) -> Tensor:
        """The class of each of n samples, (n,), if the target of a sample is a class.

        Evaluation counts confusions of classes, and pictures of samples name them.
        """
        return seen.argmax(1)

    # --- what is shown of it ----------------------------------------------------------------------

    @property
    def cost_label(self) -> str:
        """The name of its cost in drawings."""
        return self.kind.upper()

    def present(self, seen: Tensor) -> Tensor:
        """Convert what the task reads to the units of the data."""
        return seen

    def pictures(self, name: str, seen: Tensor) -> Mapping[str, Tensor | Panel]:
        """Frames (n, C, H, W) or (n, C) that pictures of samples show, by their captions.

        Args:
            name: the name of the task.
            seen: its output, (n, ...), after `combine` if the network has groups.
        """
        return {name: self.present(seen)}

    def generated_pictures(self, name: str, seen: Tensor) -> Mapping[str, Tensor | Panel]:
        """As `pictures`, for rows below the frames that the network generates. Default: none."""
        return {}

    @property
    def logits(self) -> bool:
        """Whether it sees logits: `present` then gives the probability of a one at each place."""
        return False

    @property
    def feeds_back(self) -> bool:
        """Whether what it presents can be the next input of the network (`net.generate`)."""
        return False


# --- registry -------------------------------------------------------------------------------------

_TASKS: dict[str, type[Task]] = {}
T = TypeVar("T", bound=type[Task])


def register(task: T) -> T:
    """Make a task known under the name in its `kind` field. Use it as a class decorator.

    Args:
        task: A subclass of `Task` with `check_shape` and `compare`.

    Returns:
        The same class.

    Raises:
        UsageError: if a method is missing, or if ladderspec has a task of that name.
    """
    name = literal_name(task, "kind")
    for method in sorted(getattr(task, "__abstractmethods__", ())):
        raise UsageError(f"the task {name} has no `{method}`, see docs/own_tasks.md")
    admit("task", name, _TASKS.get(name), task)
    _TASKS[name] = task
    return task


def registered() -> dict[str, type[Task]]:
    """The tasks by their names, in alphabetical order."""
    return dict(sorted(_TASKS.items()))
