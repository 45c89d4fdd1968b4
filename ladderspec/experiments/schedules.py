"""Learning-rate schedules: one registered class each, with its fields and its rate."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from ladderspec.cells import Config
from ladderspec.cells.fields import ChosenByKind, refusal
from ladderspec.errors import UsageError, did_you_mean, one_of, tick
from ladderspec.plugins import admit, literal_name

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Schedule(Config):
    """The base class of learning-rate schedules.

    A subclass defines `rate`; one that follows a validation metric defines `watched` and `worse`.
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
    if schedule.rate is Schedule.rate:
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
