"""The state of a training: everything that changes from update to update, and its checkpoints."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import AliasChoices, BaseModel, Field, ValidationError
from torch import Tensor, nn

from ladderspec.experiments.training import OptimiserConfig, SavingConfig, TrainingConfig
from ladderspec.files import sync
from ladderspec.learn import checkpoint, processes
from ladderspec.learn.batches import Collator, Sampler
from ladderspec.learn.checkpoint import OWNER, Checkpoint, CheckpointError, restore
from ladderspec.learn.log import CHECKSUM, METRICS, Count, metrics_checksum
from ladderspec.learn.optimiser import Optimiser, load_state, make_optimiser, state_of
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.wording import first_error

UPDATES_BETWEEN = 500  # between checkpoints of several processes, whose clocks differ


# --- learning rate and early stopping -------------------------------------------------------------


def learning_rate(config: OptimiserConfig, update: int, total: int, factor: float = 1.0) -> float:
    """The learning rate of an update.

    Args:
        config: the optimiser.
        update: the number of updates before this one.
        total: the number of all updates.
        factor: the product of all halvings so far (`schedule: halve`).

    >>> from ladderspec.experiments.schedules import Cosine
    >>> adam = OptimiserConfig(lr=1.0, schedule=Cosine(kind="cosine"), warm_up=2)
    >>> [round(learning_rate(adam, update, 4), 3) for update in range(4)]
    [0.5, 0.854, 0.5, 0.146]
    """
    lr = config.schedule.rate_at(config.lr, update, total, factor)
    return lr * min(1.0, (update + 1) / max(1, config.warm_up))


@dataclass
class ScheduleState:
    """The state of schedules after the evaluations so far: learning rate, best, early stopping."""

    factor: float = 1.0  # of the learning rate
    last: float | None = None  # the metric that the learning rate follows, at the last evaluation
    best: float | None = None  # with the sign changed if higher is better, as `last`
    best_update: int = 0
    waited: int = 0  # evaluations since the best
    stopped: str = ""  # the reason
    changes: list[tuple[int, float]] = field(default_factory=list)  # (update, factor from then on)

    def adjust_rate(self, config: TrainingConfig, update: int, value: float) -> None:
        """Ask the schedule for another factor if the metric has risen."""
        optimiser = config.optimiser
        if self.last is not None and value > self.last:
            factor, reason = optimiser.schedule.worse(optimiser.lr, self.factor)
            self.stopped = reason or self.stopped
            if factor != self.factor:
                self.factor = factor
                self.changes.append((update, factor))
        self.last = value

    def record(self, config: TrainingConfig, update: int, value: float) -> bool:
        """Take note of a metric, for early stopping. Returns whether it is the best so far."""
        better = self.best is None or value < self.best
        self.waited = 0 if better else self.waited + 1
        if better:
            self.best, self.best_update = value, update
        if config.stop is not None and self.waited >= config.stop.patience:
            self.stopped = f"no better one in {self.waited} evaluations"
        return better

    def replay(self, update: int) -> None:
        """Take the learning rate that the first training had at this update."""
        for start, factor in self.changes:
            if start <= update:
                self.factor = factor


# --- the state ------------------------------------------------------------------------------------


class CarryRecord(BaseModel):
    """The record of a carried state in a checkpoint, without tensors."""

    t: Count | None
    depths: dict[str, Count]


class StateRecord(BaseModel):
    """The record of a train state in a checkpoint, without tensors, as in `TrainState`."""

    update: Count
    epoch: Count
    number: Count
    piece: Count
    summed: Count
    written: Count
    first_cost: float | None
    sums: dict[str, float]
    schedule: ScheduleState = Field(validation_alias=AliasChoices("schedule", "course"))  # older
    carry: CarryRecord | None


@dataclass
class TrainState:
    """A network in training with its optimiser, its schedules and its position in the data."""

    seed: int
    config: TrainingConfig
    total: int  # updates
    collator: Collator
    sampler: Sampler
    net: Net
    teacher: Net | None  # Mean Teacher
    optimiser: Optimiser
    schedule: ScheduleState = field(default_factory=ScheduleState)
    replays: bool = False  # whether the learning rates are those of an earlier training
    owner: str | None = None  # the run that its checkpoints name
    update: int = 0  # updates so far
    epoch: int = 0  # position of the next piece: epoch, batch of the epoch, piece of the batch
    number: int = 0
    piece: int = 0
    carry: Carry | None = None
    first_cost: float | None = None
    sums: dict[str, float] = field(default_factory=dict)  # since the last row of metrics
    summed: int = 0
    written: int = 0  # bytes of metrics.jsonl
    check: int = 1  # updates between two reads of their costs
    latest: Mapping[str, float] = field(default_factory=dict)  # costs that were read
    unread: list[tuple[dict[str, float], Tensor]] = field(default_factory=list)  # weights, costs

    @property
    def trained_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """All parameters that are not frozen, by name."""
        return [(name, p) for name, p in self.net.named_parameters() if p.requires_grad]

    def set_learning_rates(self) -> None:
        """Set the learning rates of the next update."""
        config = self.config.optimiser
        if self.replays:
            self.schedule.replay(self.update)
        lr = learning_rate(config, self.update, self.total, self.schedule.factor)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * (config.probe or config.lr) / config.lr if group["probe"] else lr

    def add(self, values: Mapping[str, float]) -> None:
        """Add the costs of an update to the next row of metrics."""
        self.latest = values
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.summed += 1

    def means(self) -> dict[str, float]:
        """The next row of metrics: means since the last one."""
        found = {name: value / self.summed for name, value in self.sums.items()}
        self.sums, self.summed = {}, 0
        return found | {"lr": self.optimiser.param_groups[0]["lr"]}

    # --- checkpoints -----------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        found = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        if self.teacher is not None:
            states = self.teacher.state_dict()
            found |= {f"teacher.{name}": value for name, value in states.items()}
        states = state_of(self.optimiser, self.trained_parameters)
        found |= {f"optimiser.{name}": value for name, value in states.items()}
        if self.carry is not None:
            for name, values in self.carry.values.items():
                found |= {f"carry.{name}.{i}": value.clone() for i, value in enumerate(values)}
            if isinstance(self.carry.t, Tensor):
                found["carry.t"] = self.carry.t
        return found

    def attributes(self) -> dict[str, Any]:
        """Everything else, as JSON."""
        found = {name: getattr(self, name) for name in StateRecord.model_fields}
        found |= {OWNER: self.owner, "schedule": dict(vars(self.schedule))}
        found["carry"] = None if self.carry is None else _carry_attributes(self.carry)
        return found

    def load(self, found: Checkpoint) -> None:
        """Continue from a checkpoint."""
        try:
            self._load(found, StateRecord.model_validate(found.attributes))
        except ValidationError as error:
            raise CheckpointError(
                f"the checkpoint does not fit this version: {first_error(error)}"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this version: {error!r}") from None

    def _load(self, found: Checkpoint, record: StateRecord) -> None:
        restore(self.net, found.under("net."), "the checkpoint")
        if self.teacher is not None:
            restore(self.teacher, found.under("teacher."), "the teacher of the checkpoint")
        load_state(self.optimiser, self.trained_parameters, found.under("optimiser."))
        for name, value in record:
            setattr(self, name, value)
        self.carry = _carry(record.carry, found.under("carry."), self.collator.device)


def _carry_attributes(carry: Carry) -> dict[str, Any]:
    return {
        "t": carry.t if isinstance(carry.t, int) else None,
        "depths": {name: len(values) for name, values in carry.values.items()},
    }


def _carry(
    record: CarryRecord | None, tensors: Mapping[str, Tensor], device: torch.device
) -> Carry | None:
    if record is None:
        return None
    values = {
        name: tuple(tensors[f"{name}.{i}"].to(device) for i in range(depth))
        for name, depth in record.depths.items()
    }
    return Carry(tensors["t"].to(device) if record.t is None else record.t, values)


def new_train_state(
    net: Net, collator: Collator, sampler: Sampler, config: TrainingConfig, seed: int, total: int
) -> TrainState:
    """The state before the first update."""
    optimiser = make_optimiser(config.optimiser, net)
    has_teacher = any(task.taught for task in net.tasks.values())
    teacher = copy.deepcopy(net).requires_grad_(False) if has_teacher else None
    return TrainState(seed, config, total, collator, sampler, net, teacher, optimiser)


# --- when checkpoints are written -----------------------------------------------------------------


def save(state: TrainState, folder: Path) -> float:
    """Write the checkpoint `last`. Returns the seconds that took."""
    start = time.monotonic()
    if processes.rank() == 0:
        sync(folder / METRICS)  # first: a checkpoint names only rows that are on the disk
        attributes = {**state.attributes(), CHECKSUM: metrics_checksum(folder)}
        checkpoint.write(folder, "last", state.tensors(), attributes)
    processes.wait()
    return time.monotonic() - start


@dataclass
class CheckpointTimer:
    """Decides when to write a checkpoint, from the configuration and the cost of writing one."""

    config: SavingConfig
    last: float = field(default_factory=time.monotonic)
    cost: float = 0.0  # seconds

    def due(self, update: int) -> bool:
        every = self.config.updates or (UPDATES_BETWEEN if processes.world() > 1 else None)
        if every is not None:
            return update % every == 0
        pause = max(self.config.seconds, self.cost / self.config.share)
        return time.monotonic() - self.last >= pause

    def save(self, state: TrainState, folder: Path) -> None:
        self.cost = save(state, folder)
        self.last = time.monotonic()
