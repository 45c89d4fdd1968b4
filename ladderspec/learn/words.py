"""What an experiment may say of its training: words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells import Words
from ladderspec.cells._fields import by_form, refusal
from ladderspec.errors import did_you_mean, one_of, tick

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]

TEACHER = "teacher."  # what the measures of a Mean Teacher begin with


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# --- how the learning rate changes ----------------------------------------------------------------


class Constant(Words):
    """The learning rate stays."""

    kind: Literal["constant"]


class Halve(Words):
    """Half of it whenever the validation error has risen, down to a floor [app:ommnist]."""

    kind: Literal["halve"]
    floor: Positive = Field(1e-4, description="The smallest learning rate.")
    watch: str | None = Field(
        None,
        description="The measure, like `digit.error`; default: that of early stopping, or of the"
        " first task.",
    )
    stop: bool = Field(True, description="Stop when it rises at the floor.")


class Cosine(Words):
    """Down along half a cosine."""

    kind: Literal["cosine"]
    floor: NotNegative = Field(0.0, description="The learning rate at the end.")


class Linear(Words):
    """Down along a line, from a share of training on."""

    kind: Literal["linear"]
    start: Share = Field(0.0, description="Where it begins to fall, as a share of training.")
    floor: NotNegative = Field(0.0, description="The learning rate at the end.")


_SCHEDULES = ("constant", "halve", "cosine", "linear")


def _schedule(value: Any) -> Any:
    """`halve` for `{kind: halve}`."""
    kind = value.get("kind") if isinstance(value, dict) else value
    if isinstance(value, dict | str) and kind not in _SCHEDULES:
        hint = did_you_mean(kind, _SCHEDULES) or one_of(_SCHEDULES)
        raise refusal("S105", f"no schedule {tick(kind)}" if kind else "which schedule?", hint)
    return {"kind": value} if isinstance(value, str) else value


Schedule = Annotated[
    Constant | Halve | Cosine | Linear, Field(discriminator="kind"), BeforeValidator(_schedule)
]


class Clip(Words):
    """Gradients that are too long are shortened."""

    norm: Positive | None = Field(None, description="Length of all gradients together, at most.")
    tasks: dict[str, Positive] = Field(
        default_factory=dict,
        description="By task: length of what its cost alone asks for; a backward pass for each.",
    )


def _clip(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"norm": value} if number else value


class Optimiser(Words):
    """Adam, and how its learning rate changes."""

    kind: Literal["adam"] = "adam"
    lr: Positive = Field(0.001, description="The learning rate.")
    betas: Annotated[tuple[Share, Share], BeforeValidator(_pair)] = Field(
        (0.9, 0.999), description="Decay of the averages of gradients and of their squares."
    )
    eps: Positive = Field(1e-8, description="Keeps the division from zero.")
    probe: Positive | None = Field(None, description="Learning rate of probes; default: `lr`.")
    schedule: Schedule = Field(
        Constant(kind="constant"), description="constant, halve, cosine or linear."
    )
    warm_up: Whole = Field(0, description="Updates over which the learning rate rises to `lr`.")
    clip: Annotated[Clip, BeforeValidator(_clip)] = Field(
        Clip(), description="Length of the gradient, at most: a number, or {norm, tasks}."
    )


# --- how long, how often --------------------------------------------------------------------------


class Epochs(Words):
    """So many passes over the data."""

    epochs: Positive


if TYPE_CHECKING:
    Span = int | Epochs
else:
    Span = by_form(word=Count, mapping=Epochs)


class Stop(Words):
    """Early stopping."""

    patience: Count = Field(description="Evaluations without a better one, before it stops.")
    watch: str | None = Field(
        None,
        description="The measure, like `digit.error`; default: that of `schedule: halve`, or of the"
        " first task.",
    )


def _stop(value: Any) -> Any:
    return {"patience": value} if isinstance(value, int) else value


class Training(Words):
    """How a network is trained: everything that its numbers depend on."""

    updates: Count | None = Field(None, description="How many updates.")
    epochs: Positive | None = Field(None, description="How many passes over the training data.")
    batch: Count = Field(50, description="Sequences in a batch, over all processes.")
    optimiser: Optimiser = Field(Optimiser(), description="Adam and its learning rate.")
    stop: Annotated[Stop, BeforeValidator(_stop)] | None = Field(
        None, description="Early stopping: {patience: 5}."
    )
    retrain: Literal["no", "train+valid"] = Field(
        "no",
        description="Train anew on both, with the same learning rates, for as many updates as the"
        " reported weights had: the best ones with `stop`.",
    )
    drop: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="Dropout: share of the numbers between two cells that weights do not see, drawn"
        " anew for every arrow and t. The input, a cell's own past and heads of tasks stay whole.",
    )
    steps: Count | None = Field(
        None, description="Frames of truncated back-propagation; the state is carried on."
    )
    recompute: bool | Count = Field(
        False, description="Save memory: keep so many t, and compute the rest a second time."
    )
    precision: Literal["float32", "float64", "bf16"] = Field(
        "float32", description="bf16: float32 weights, mixed computation."
    )
    explode: Positive = Field(
        1000.0, description="Stop where the cost is so many times that of the first update."
    )


def _noise(value: Any) -> Any:
    """Whether there is noise; its kind and strength are the spec's."""
    if value is None or isinstance(value, bool):
        return value
    shown = tick(value) if isinstance(value, str) else value
    got = "" if isinstance(value, dict | list) else f", got {shown}"
    hint = "`true` adds the noise that the spec sets under `input.noise`"
    raise refusal("S104", f"expected true or false{got}", hint)


class Evaluation(Words):
    """When and how a network is evaluated."""

    every: Span = Field(Epochs(epochs=1), description="Updates between; or {epochs: 1}.")
    statistics: Whole = Field(
        20,
        description="Training batches on which batch norms are measured anew before evaluating;"
        " 0: their running averages.",
    )
    batch: Count | None = Field(None, description="Sequences at once; default: as in training.")
    items: Count | None = Field(None, description="Of the validation data, so many; default: all.")
    report: Literal["last", "best"] | None = Field(
        None, description="Which weights are tested; default: best with `stop`, else last."
    )
    noise: Annotated[bool | None, BeforeValidator(_noise)] = Field(
        None,
        description="Input noise in evaluation. true: all tasks are measured on input with the"
        " spec's `input.noise`; false: all on clean input. Default: denoising tasks on both,"
        " all others on clean input.",
    )


class Saving(Words):
    """When checkpoints are written."""

    seconds: NotNegative = Field(60.0, description="Time between, at least.")
    updates: Count | None = Field(None, description="Updates between, instead.")
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.01, description="Of the time, at most; what a write takes decides how often."
    )


class Machine(Words):
    """Where and how it runs: nothing that the numbers depend on."""

    device: Annotated[str, WithJsonSchema({"type": "string"})] = Field(
        "auto", description="cpu, cuda, ...; auto: an accelerator where there is one."
    )
    threads: Count | None = Field(None, description="Of one process; default: as torch decides.")
    workers: Whole = Field(0, description="Threads that make batches ahead.")
    checkpoint: Saving = Field(Saving(), description="When checkpoints are written.")
    log: Count = Field(50, description="Updates between two rows of metrics.")
    pictures: Whole = Field(4, description="Sequences drawn at every evaluation; 0: none.")
    track: bool = Field(False, description="Also write for TensorBoard (extra `track`).")
