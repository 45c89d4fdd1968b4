"""Configuration of training, evaluation and the machine: `training`, `evaluation`, `machine`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema

from ladderspec.cells import Config
from ladderspec.cells.fields import AS_TUPLE, Noise, by_form, refusal
from ladderspec.errors import UsageError, tick
from ladderspec.experiments.schedules import (
    Constant,
    NotNegative,
    Positive,
    Schedule,
    ScheduleField,
    Share,
    schedules,
)
from ladderspec.tasks import Metric, Task
from ladderspec.wiring.graph import Graph
from ladderspec.wording import first_error

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]

TEACHER = "teacher."  # prefix of the metrics of a Mean Teacher
CLEAN = "clean_"  # `denoise.clean_error`: on clean input, beside `denoise.error` on noisy input


# --- optimiser ------------------------------------------------------------------------------------


class ClipConfig(Config):
    """Gradient-norm clipping."""

    norm: Positive | None = Field(
        None, description="Gradient-norm clipping threshold, over all parameters. Default: none."
    )
    tasks: dict[str, Positive] = Field(
        default_factory=dict,
        description="Gradient-norm clipping threshold for the cost of a single task, by task."
        " Takes one backward pass for each task.",
    )


def _clip(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"norm": value} if number else value


def _optimiser(value: Any) -> Any:
    if isinstance(value, str):  # not taken for `kind`: rows that set `lr` would replace it
        hint = f"like `optimiser: {{kind: {value}, lr: 0.001}}`"
        raise refusal("S104", f"expected a mapping, got {tick(value)}", hint)
    return value


def _optimiser_name(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class OptimiserConfig(Config):
    """The optimiser and its learning-rate schedule."""

    kind: Annotated[str, BeforeValidator(_optimiser_name)] = Field(
        "adam",
        description="Optimiser: the name of a class of torch.optim in lower case, like adam, adamw,"
        " sgd or rmsprop. Not supported: lbfgs (needs a closure), sparseadam (needs sparse"
        " gradients) and muon (for matrices only).",
    )
    lr: Positive = Field(0.001, description="Learning rate.")
    betas: Annotated[tuple[Share, Share], AS_TUPLE] = Field(
        (0.9, 0.999),
        description="Decay rates of the averages of gradients and their squares, of Adam and its"
        " relatives.",
    )
    eps: Positive = Field(
        1e-8, description="Epsilon in the denominator of the update, of Adam and its relatives."
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="Further arguments of the optimiser, as in torch.optim: {momentum: 0.9}. They"
        " are checked when training starts.",
    )
    weight_decay: NotNegative = Field(
        0.0,
        description="Weight decay of the weights of linear maps. Biases, gains of norms, initial"
        " values and the coefficients of combinators do not decay.",
    )
    probe: Positive | None = Field(None, description="Learning rate of probes. Default: `lr`.")
    schedule: ScheduleField = Field(
        Constant(kind="constant"),
        description="Learning-rate schedule: constant, halve, cosine, linear, or one of torch.",
    )
    warm_up: Whole = Field(
        0, description="Warm-up: updates over which the learning rate rises to `lr`."
    )
    clip: Annotated[ClipConfig, BeforeValidator(_clip)] = Field(
        ClipConfig(), description="Gradient-norm clipping: a threshold, or {norm, tasks}."
    )


# --- training -------------------------------------------------------------------------------------


class Epochs(Config):
    """A number of passes over the training data."""

    epochs: Positive = Field(description="Number of passes over the training data.")


if TYPE_CHECKING:
    Span = int | Epochs
else:
    Span = by_form(word=Count, mapping=Epochs)


class StopConfig(Config):
    """Early stopping."""

    patience: Count = Field(description="Evaluations without improvement before training stops.")
    watch: str | None = Field(
        None,
        description="Validation metric to watch, like `digit.error`. Default: that of"
        " `schedule: halve`, or of the first task.",
    )


def _stop(value: Any) -> Any:
    return {"patience": value} if isinstance(value, int) else value


class TrainingConfig(Config):
    """Training: every setting that the trained weights depend on."""

    updates: Count | None = Field(None, description="Number of updates (optimiser steps).")
    epochs: Positive | None = Field(None, description="Number of passes over the training data.")
    batch: Count = Field(50, description="Batch size in sequences, over all processes.")
    optimiser: Annotated[OptimiserConfig, BeforeValidator(_optimiser)] = Field(
        OptimiserConfig(),
        description="Optimiser and its schedule: {kind: adam, lr: 0.001}.",
    )
    stop: Annotated[StopConfig, BeforeValidator(_stop)] | None = Field(
        None, description="Early stopping: {patience: 5}."
    )
    retrain: Literal["no", "train+valid"] = Field(
        "no",
        description="Train a second time, on training and validation data together, with the same"
        " learning rates and for as many updates as the reported weights had (the best ones with"
        " `stop`).",
    )
    drop: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="Dropout probability of the values between two cells, drawn for every arrow"
        " and iteration. The input, the state of a cell and heads of tasks are not dropped.",
    )
    steps: Count | None = Field(
        None,
        description="Frames of truncated back-propagation through time. The state is carried from"
        " one piece of a sequence to the next.",
    )
    recompute: bool | Count = Field(
        False,
        description="Activation checkpointing: keep this many iterations and recompute the rest in"
        " the backward pass, to save memory.",
    )
    precision: Literal["float32", "float64", "bf16"] = Field(
        "float32", description="Precision. bf16: float32 weights with bfloat16 autocast."
    )
    explode: Positive = Field(
        1000.0,
        description="Divergence threshold: stop if the cost exceeds this multiple of the first"
        " cost.",
    )


_built_for: set[type[Schedule]] = set(schedules().values())


def refresh() -> None:
    """Rebuild the models if schedules were registered since they were built."""
    known = set(schedules().values())
    if known != _built_for:
        for model in (OptimiserConfig, TrainingConfig):
            model.model_rebuild(force=True)
        _built_for.clear()
        _built_for.update(known)


# --- evaluation -----------------------------------------------------------------------------------


def _noise(value: Any) -> Any:
    """Whether there is noise; its kind and strength are set in the spec."""
    if value is None or isinstance(value, bool):
        return value
    shown = tick(value) if isinstance(value, str) else value
    got = "" if isinstance(value, dict | list) else f", got {shown}"
    hint = "`true` adds the noise that the spec sets under `input.noise`"
    raise refusal("S104", f"expected true or false{got}", hint)


class EvaluationConfig(Config):
    """When and how a network is evaluated."""

    every: Span = Field(
        Epochs(epochs=1), description="Interval between evaluations: updates, or {epochs: 1}."
    )
    statistics: Whole = Field(
        20,
        description="Training batches on which batch norm is recalibrated before an evaluation."
        " 0: use the running averages.",
    )
    batch: Count | None = Field(
        None, description="Batch size in sequences. Default: that of training."
    )
    items: Count | None = Field(
        None,
        description="Number of validation items evaluated during training. Default: all.",
    )
    report: Literal["last", "best"] | None = Field(
        None, description="Weights that are tested. Default: best with `stop`, else last."
    )
    split: Literal["test", "valid"] = Field(
        "test",
        description="Data on which a trained network is measured. valid: validation data alone, to"
        " compare settings without looking at the test data.",
    )
    noise: Annotated[bool | None, BeforeValidator(_noise)] = Field(
        None,
        description="Input noise in evaluation. true: all tasks are measured on input with the"
        " spec's `input.noise`; false: all on clean input. Default: denoising tasks on both,"
        " all others on clean input.",
    )


@dataclass(frozen=True)
class EvaluationNoise:
    """Which tasks are measured on noisy input.

    Args:
        choice: `evaluation.noise` of the experiment.
        noise: `input.noise` of the network.
    """

    choice: bool | None
    noise: Noise | None

    def inputs(self, task: Task) -> dict[str, bool]:
        """Whether noise is added, by the prefix of the metrics.

        >>> from ladderspec.tasks import Denoising
        >>> task = Denoising(kind="denoising", at="decoder.input")
        >>> EvaluationNoise(None, Noise(gaussian=0.3)).inputs(task)
        {'': True, 'clean_': False}
        """
        if self.noise is None or not self.noise.active or self.choice is False:
            return {"": False}
        if self.choice:
            return {"": True}
        return {"": True, CLEAN: False} if task.denoises else {"": False}

    def any_noisy(self, tasks: Mapping[str, Task]) -> bool:
        """Whether any task is measured on noisy input."""
        return any(noisy for task in tasks.values() for noisy in self.inputs(task).values())

    def passes(self, tasks: Mapping[str, Task]) -> dict[bool, dict[str, str]]:
        """The passes over the data, on noisy input and then on clean input.

        Each measures some tasks: the prefix of their metrics, by task.
        """
        found: dict[bool, dict[str, str]] = {True: {}, False: {}}
        for name, task in tasks.items():
            for prefix, noisy in self.inputs(task).items():
                found[noisy][name] = prefix
        return {noisy: prefixes for noisy, prefixes in found.items() if prefixes} or {False: {}}

    def metrics(self, tasks: Mapping[str, Task]) -> dict[str, Metric]:
        """All metrics, task by task."""
        return {
            f"{name}.{prefix}{metric}": each
            for name, task in tasks.items()
            for prefix in self.inputs(task)
            for metric, each in task.metrics.items()
        }


def noise_of(graph: Graph) -> Noise | None:
    """`input.noise` of a network."""
    noise: Noise | None = graph.nodes["encoder.input"]["cell"].noise
    return noise


def tasks_of(graph: Graph) -> dict[str, Task]:
    """The tasks of a network."""
    return {name: entry["task"] for name, entry in graph.graph["tasks"].items()}


# --- the machine ----------------------------------------------------------------------------------


class SavingConfig(Config):
    """When checkpoints are written."""

    seconds: NotNegative = Field(60.0, description="Minimum time between checkpoints, in seconds.")
    updates: Count | None = Field(
        None, description="Updates between checkpoints, instead of a time."
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.01, description="Largest fraction of the time that may be spent on writing checkpoints."
    )


class ClusterConfig(Config):
    """Resources of each run on Ray (`--engine ray`) or SLURM (`--engine slurm`)."""

    hours: Annotated[float, Field(gt=0, le=8760)] = Field(
        24.0,
        description="Time limit of a job of SLURM. A run that exceeds it is queued again and"
        " resumed.",
    )
    gpus: Whole | None = Field(None, description="GPUs. Default: 1 if `device` is cuda, else 0.")
    cpus: Count | None = Field(
        None, description="CPU cores. Default: `threads`, or 1, and `workers` together."
    )
    memory: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Memory in gigabytes. Default: 16 with SLURM, not reserved with Ray."
    )


class MachineConfig(Config):
    """Settings of the machine: where and how a run is computed. Results do not depend on them."""

    device: Annotated[str, WithJsonSchema({"type": "string"})] = Field(
        "auto", description="Device: cpu, cuda, cuda:1, mps. auto: cuda if available, else cpu."
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="CPU threads of one process. Default: torch decides."
    )
    workers: Annotated[int, Field(ge=0, le=256)] = Field(
        0, description="Threads that prepare batches in advance."
    )
    checkpoint: SavingConfig = Field(
        SavingConfig(), description="Interval between checkpoints: {seconds: 60}, {updates: 500}."
    )
    cluster: ClusterConfig = Field(
        ClusterConfig(), description="Resources of each run on a cluster."
    )
    log: Count = Field(50, description="Logging interval in updates.")
    check: Count | None = Field(
        None,
        description="Number of updates between checks that costs are finite. A GPU waits for each"
        " check. Default: 1 on a CPU, else `log`. Costs are always checked before a checkpoint.",
    )
    pictures: Whole = Field(
        4, description="Number of sequences drawn at every evaluation. 0: none."
    )
    keep_freed_memory: bool = Field(
        False,
        description="Keep freed memory with the process instead of returning it to the system"
        " (mallopt of glibc). Large batches on a CPU may train faster.",
    )
    track: bool = Field(False, description="Also write metrics for TensorBoard (extra `track`).")

    def changed(self, changes: Mapping[str, Any]) -> MachineConfig:
        """The section with other values. Raises UsageError if they are unknown or wrong."""
        for name in changes:
            if name not in type(self).model_fields:
                known = ", ".join(type(self).model_fields)
                raise UsageError(f"`machine` has no field `{name}`; there are {known}")
        try:
            return type(self).model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise UsageError(f"machine.{first_error(error)}") from None
