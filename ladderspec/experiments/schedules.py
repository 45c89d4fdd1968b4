"""Learning-rate schedules: one registered class each, with its fields and its rate."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from ladderspec.cells import Config
from ladderspec.cells.fields import refusal
from ladderspec.errors import UsageError, did_you_mean, one_of, tick
from ladderspec.language.spec import ChosenByKind
from ladderspec.plugins import admit, literal_name

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Schedule(Config):
    """The base class of learning-rate schedules.

    A subclass defines `rate`, or `rate_at` if it counts updates; one that follows a validation
    metric defines `watched` and `worse`.
    """

    kind: str

    def rate(self, lr: float, done: float, factor: float) -> float:
        """The learning rate.

        Args:
            lr: `lr` of the optimiser.
            done: the fraction of training that is done, from 0 to 1.
            factor: what `worse` returned last; 1 at first.
        """
        raise NotImplementedError

    def rate_at(self, lr: float, update: int, total: int, factor: float) -> float:
        """The learning rate of an update, by default `rate`.

        Args:
            lr: `lr` of the optimiser.
            update: the number of updates before this one.
            total: the number of all updates.
            factor: as for `rate`.
        """
        return self.rate(lr, min(1.0, update / max(1, total)), factor)

    @property
    def watched(self) -> str | None:
        """The validation metric to follow, like `digit.error`. None: that of early stopping."""
        return None

    def worse(self, lr: float, factor: float) -> tuple[float, str]:
        """After an evaluation in which the metric got worse: the next factor.

        Returns:
            The factor, and a reason if training stops here.
        """
        return factor, ""


# --- registry -------------------------------------------------------------------------------------

_SCHEDULES: dict[str, type[Schedule]] = {}
S = TypeVar("S", bound=Schedule)


def register_schedule(schedule: type[S]) -> type[S]:
    """Make a schedule known under the name in its `kind` field. Use it as a class decorator.

    Args:
        schedule: A subclass of `Schedule` with `rate`.

    Returns:
        The same class.

    Raises:
        UsageError: if it has no name or no `rate`, or if ladderspec has a schedule of that name.
    """
    name = literal_name(schedule, "kind")
    if schedule.rate is Schedule.rate and schedule.rate_at is Schedule.rate_at:
        raise UsageError(f"the schedule {name} has no `rate`")
    admit("schedule", name, _SCHEDULES.get(name), schedule)
    _SCHEDULES[name] = schedule
    return schedule


def schedules() -> dict[str, type[Schedule]]:
    """The schedules by name."""
    return dict(_SCHEDULES)


def _schedule(value: Any) -> Any:
    """`halve` for `{kind: halve}`."""
    kind = value.get("kind") if isinstance(value, dict) else value
    if isinstance(value, dict | str) and (not isinstance(kind, str) or kind not in _SCHEDULES):
        hint = did_you_mean(kind, _SCHEDULES) or one_of(_SCHEDULES)
        raise refusal("S105", f"no schedule {tick(kind)}" if kind else "`kind` is missing", hint)
    return {"kind": value} if isinstance(value, str) else value


ScheduleField = Annotated[Schedule, ChosenByKind(schedules), BeforeValidator(_schedule)]


# --- the schedules --------------------------------------------------------------------------------


@register_schedule
class Constant(Schedule):
    """Constant learning rate."""

    kind: Literal["constant"]

    def rate(self, lr: float, done: float, factor: float) -> float:
        return lr


@register_schedule
class Halve(Schedule):
    """Halves the learning rate whenever the validation error has risen, down to a floor
    [app:ommnist].
    """

    kind: Literal["halve"]
    floor: Positive = Field(1e-4, description="Smallest learning rate.")
    watch: str | None = Field(
        None,
        description="Validation metric to watch, like `digit.error`. Default: that of early"
        " stopping, or of the first task.",
    )
    stop: bool = Field(
        True, description="Stop training if the metric rises at the smallest learning rate."
    )

    @property
    def watched(self) -> str | None:
        return self.watch

    def rate(self, lr: float, done: float, factor: float) -> float:
        return max(lr * factor, min(self.floor, lr))

    def worse(self, lr: float, factor: float) -> tuple[float, str]:
        lowest = min(1.0, self.floor / lr)
        stops = factor <= lowest and self.stop
        reason = "the error rose at the smallest learning rate" if stops else ""
        return max(factor / 2, lowest), reason


@register_schedule
class Cosine(Schedule):
    """Cosine decay of the learning rate over all of training."""

    kind: Literal["cosine"]
    floor: NotNegative = Field(0.0, description="Learning rate at the end.")

    def rate(self, lr: float, done: float, factor: float) -> float:
        return self.floor + (lr - self.floor) * (1 + math.cos(math.pi * done)) / 2


@register_schedule
class Linear(Schedule):
    """Linear decay of the learning rate, from some point of training to its end."""

    kind: Literal["linear"]
    start: Share = Field(0.0, description="Start of the decay, as a fraction of training.")
    floor: NotNegative = Field(0.0, description="Learning rate at the end.")

    def rate(self, lr: float, done: float, factor: float) -> float:
        left = min(1.0, (1 - done) / max(1e-12, 1 - self.start))
        return self.floor + (lr - self.floor) * left


@register_schedule
class Torch(Schedule):
    """Any schedule of torch.optim.lr_scheduler that is a function of the number of updates."""

    kind: Literal["torch"]
    name: str = Field(
        description="Class of torch.optim.lr_scheduler: StepLR, MultiStepLR, OneCycleLR, ..."
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="Its arguments, as in torch: {step_size: 1000}. Steps are updates."
        " `total_steps` is that of training by default. They are checked when training starts.",
    )

    def rate_at(self, lr: float, update: int, total: int, factor: float) -> float:
        arguments = json.dumps(self.arguments, sort_keys=True)
        return _torch_rates(self.name, arguments, lr, max(1, total))[min(update, total - 1)]


_NO_FUNCTION_OF_UPDATES = {
    "LambdaLR": "needs a function: register a schedule of your own",
    "MultiplicativeLR": "needs a function: register a schedule of your own",
    "SequentialLR": "consists of other schedules: register a schedule of your own",
    "ChainedScheduler": "consists of other schedules: register a schedule of your own",
    "ReduceLROnPlateau": "follows a metric: use `schedule: halve`",
}


@lru_cache(maxsize=4)
def _torch_rates(name: str, arguments: str, lr: float, total: int) -> list[float]:
    """The learning rates of all updates."""
    import inspect

    import torch
    from torch.optim import lr_scheduler

    known = {
        each.__name__: each
        for each in vars(lr_scheduler).values()
        if isinstance(each, type) and issubclass(each, lr_scheduler.LRScheduler)
    }
    left = [each for each in sorted(known) if each not in ("LRScheduler", *_NO_FUNCTION_OF_UPDATES)]
    if name in _NO_FUNCTION_OF_UPDATES:
        raise UsageError(f"schedule {name} {_NO_FUNCTION_OF_UPDATES[name]}")
    if name not in left:
        hint = did_you_mean(name, left) or f"there are {one_of(left, 'and')}"
        raise UsageError(f"torch.optim.lr_scheduler has no schedule {tick(name)}: {hint}")
    given, taken = json.loads(arguments), inspect.signature(known[name]).parameters
    if given.get("cycle_momentum"):
        raise UsageError("`cycle_momentum` is not supported: the momentum stays as it is")
    given |= {"cycle_momentum": False} if "cycle_momentum" in taken else {}
    if "total_steps" in taken and not {"total_steps", "epochs"} & given.keys():
        given["total_steps"] = total
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=lr)
    rates = []
    try:
        schedule = known[name](optimiser, **given)
        for _ in range(total):
            rates.append(float(optimiser.param_groups[0]["lr"]))
            if len(rates) < total:
                optimiser.step()
                schedule.step()
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise UsageError(f"schedule {name} does not take these arguments: {error}") from None
    return rates
