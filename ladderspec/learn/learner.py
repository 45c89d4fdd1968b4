"""A network in training and everything that goes on with it: what a checkpoint must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ladderspec.learn.checkpoint import Checkpoint, CheckpointError, restore
from ladderspec.learn.feed import Diet
from ladderspec.learn.sampler import Order
from ladderspec.learn.schedule import Course, rate
from ladderspec.learn.teacher import teacher_of
from ladderspec.learn.words import Training
from ladderspec.network.carry import Carry
from ladderspec.network.net import Net


@dataclass
class Learner:
    """State that changes from update to update."""

    seed: int
    words: Training
    total: int  # updates
    diet: Diet
    order: Order
    net: Net
    teacher: Net | None
    optimiser: torch.optim.Adam
    course: Course = field(default_factory=Course)
    replays: bool = False  # the learning rates of an earlier training
    update: int = 0  # done so far
    epoch: int = 0  # where the next piece is: epoch, batch in it, piece of that
    number: int = 0
    piece: int = 0
    carry: Carry | None = None
    first_cost: float | None = None
    sums: dict[str, float] = field(default_factory=dict)  # since the last row of metrics
    summed: int = 0
    written: int = 0  # bytes of metrics

    @property
    def names(self) -> list[tuple[str, nn.Parameter]]:
        """What learns, by name."""
        return [(name, p) for name, p in self.net.named_parameters() if p.requires_grad]

    def set_rates(self) -> None:
        """The learning rates of the next update."""
        words = self.words.optimiser
        if self.replays:
            self.course.replay(self.update)
        lr = rate(words, self.update, self.total, self.course.factor)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * (words.probe or words.lr) / words.lr if group["probe"] else lr

    def add(self, values: Mapping[str, float]) -> None:
        """Take the numbers of an update into the next row of metrics."""
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.summed += 1

    def means(self) -> dict[str, float]:
        """The next row of metrics."""
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
        for name, parameter in self.names:
            for key, value in self.optimiser.state.get(parameter, {}).items():
                found[f"optimiser.{name}.{key}"] = value
        if self.carry is not None:
            for name, kept in self.carry.values.items():
                found |= {f"carry.{name}.{i}": value.clone() for i, value in enumerate(kept)}
            if isinstance(self.carry.t, Tensor):
                found["carry.t"] = self.carry.t
        return found

    def facts(self) -> dict[str, Any]:
        """All that is no tensor."""
        words = ("update", "epoch", "number", "piece", "first_cost", "sums", "summed", "written")
        facts: dict[str, Any] = {word: getattr(self, word) for word in words}
        facts["course"] = self.course.dump()
        facts["carry"] = None if self.carry is None else _lengths(self.carry)
        return facts

    def load(self, found: Checkpoint) -> None:
        """Go on where a checkpoint was written."""
        restore(self.net, found.under("net."), "the checkpoint")
        if self.teacher is not None:
            restore(self.teacher, found.under("teacher."), "the teacher of the checkpoint")
        _load_optimiser(self, found.under("optimiser."))
        facts = found.facts
        for word in ("update", "epoch", "number", "piece", "summed", "written"):
            setattr(self, word, int(facts[word]))
        self.first_cost, self.sums = facts["first_cost"], dict(facts["sums"])
        self.course = Course.load(facts["course"])
        self.carry = _carry(facts["carry"], found.under("carry."), self.diet.device)


def _lengths(carry: Carry) -> dict[str, Any]:
    return {
        "t": carry.t if isinstance(carry.t, int) else None,
        "depths": {name: len(kept) for name, kept in carry.values.items()},
    }


def _carry(
    facts: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], device: torch.device
) -> Carry | None:
    if facts is None:
        return None
    values = {
        name: tuple(tensors[f"{name}.{i}"].to(device) for i in range(depth))
        for name, depth in facts["depths"].items()
    }
    return Carry(tensors["t"].to(device) if facts["t"] is None else int(facts["t"]), values)


def _load_optimiser(learner: Learner, tensors: Mapping[str, Tensor]) -> None:
    """Averages are laid out in memory as their parameters are: so they round alike."""
    for name, parameter in learner.names:
        for key in ("step", "exp_avg", "exp_avg_sq"):
            value = tensors.get(f"{name}.{key}")
            if value is None:
                continue
            if key != "step" and value.shape != parameter.shape:
                raise CheckpointError(
                    f"the optimiser's {key} of {name} is {tuple(value.shape)},"
                    f" not {tuple(parameter.shape)}"
                )
            own = value.clone() if key == "step" else torch.empty_like(parameter).copy_(value)
            device = parameter.device if key != "step" or _fused(learner) else own.device
            learner.optimiser.state[parameter][key] = own.to(device).detach()


def _fused(learner: Learner) -> bool:
    return bool(learner.optimiser.defaults.get("fused"))


def learner_of(
    net: Net, diet: Diet, order: Order, words: Training, seed: int, total: int
) -> Learner:
    """A learner before its first update."""
    probes = {
        id(parameter)
        for name, readouts in net.readouts.items()
        if not net.tasks[name].teaches
        for readout in readouts.values()
        for parameter in readout.parameters()
    }
    learning = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learning if id(p) not in probes], "probe": False},
        {"params": [p for p in learning if id(p) in probes], "probe": True},
    ]
    adam = words.optimiser
    optimiser = torch.optim.Adam(
        [group for group in groups if group["params"]],
        lr=adam.lr,
        betas=adam.betas,
        eps=adam.eps,
        fused=True,
    )
    return Learner(seed, words, total, diet, order, net, teacher_of(net), optimiser)
