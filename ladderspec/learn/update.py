"""One update: costs, gradients, a step of the optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from ladderspec.data._counter import key_of
from ladderspec.learn import processes
from ladderspec.learn.feed import Feed
from ladderspec.learn.learner import Learner
from ladderspec.learn.measure import trimmed
from ladderspec.learn.schedule import weights
from ladderspec.learn.teacher import average, teach
from ladderspec.learn.trouble import Diverged, blame, blame_data, blame_gradient, diverges
from ladderspec.network.carry import Carry
from ladderspec.network.costs import Costs


def update(learner: Learner, feed: Feed, share: float = 1.0) -> dict[str, float]:
    """Learn from a feed, which is this `share` of a batch; what is said of it, by name.

    Noise is a pure function of (seed, update, process), so that no generator has to be kept.
    """
    net = learner.net
    learner.set_rates()
    carry = _carry_for(learner, feed)
    weigh = weights(net.tasks, learner.update, learner.total)
    shared = {name: share * weight for name, weight in weigh.items()}
    costs = _costs(learner, feed, carry, shared)
    said = _said(costs, weigh, share)
    _refuse(learner, said["cost"], feed, carry)
    learner.optimiser.zero_grad(set_to_none=True)
    _backward(learner, costs, shared)
    said["gradient"] = _clip(learner)
    if not math.isfinite(said["gradient"]):
        where = blame_data(learner, feed) or blame_gradient(net) or blame(net, feed, carry)
        raise Diverged(f"update {learner.update + 1}: {where}")
    learner.optimiser.step()
    if learner.teacher is not None:
        average(learner.teacher, net, learner.update, learner.total)
    learner.first_cost = said["cost"] if learner.first_cost is None else learner.first_cost
    learner.carry = costs.carry.detach() if costs.carry is not None else None
    learner.update += 1
    return said


def _costs(learner: Learner, feed: Feed, carry: Carry | None, weigh: Mapping[str, float]) -> Costs:
    """The costs of the tasks; the teacher speaks first, where there is one."""
    with _precision(learner):
        targets = feed.targets
        if learner.teacher is not None:
            _seed_noise(learner, "teacher")
            targets = targets | teach(learner.teacher, feed)
        _seed_noise(learner, "noise")
        return learner.net.cost(
            feed.frames,
            targets,
            feed.lengths,
            carry=carry,
            weights=weigh,
            checkpoint=learner.words.recompute,
        )


def _carry_for(learner: Learner, feed: Feed) -> Carry | None:
    """What the piece before has left; None where sequences are not cut."""
    if not learner.diet.cuts:
        return None
    if feed.first or learner.carry is None:
        return learner.net.initial_carry(len(feed))
    return trimmed(learner.carry, len(feed))


def _precision(learner: Learner) -> AbstractContextManager[object]:
    if learner.words.precision == "bf16":
        return torch.autocast(learner.diet.device.type, torch.bfloat16)
    return nullcontext()


def _seed_noise(learner: Learner, what: str) -> None:
    if learner.net.noise is not None or learner.words.drop:
        key = key_of(learner.seed, what, learner.update, processes.rank())
        torch.manual_seed(key & (2**63 - 1))


def _said(costs: Costs, weigh: Mapping[str, float], share: float) -> dict[str, float]:
    """The costs of the whole batch: each task's, and their weighted sum."""
    each = torch.stack([costs[name].detach().double() * share for name in costs])
    values = processes.summed(each).tolist()
    found = {f"{name}.cost": value for name, value in zip(costs, values, strict=True)}
    total = sum(weigh[name] * value for name, value in zip(costs, values, strict=True))
    return {"cost": total, **found}


def _refuse(learner: Learner, cost: float, feed: Feed, carry: Carry | None) -> None:
    wrong = diverges(cost, learner.first_cost, learner.words.explode)
    if wrong:
        _seed_noise(learner, "noise")
        where = blame_data(learner, feed) or blame(learner.net, feed, carry)
        raise Diverged(f"update {learner.update + 1}: {wrong}; {where}")


# --- gradients ------------------------------------------------------------------------------------


def _backward(learner: Learner, costs: Costs, weigh: Mapping[str, float]) -> None:
    """Gradients of the whole batch; where asked, those of a task shortened by themselves."""
    limits = learner.words.optimiser.clip.tasks
    parameters = [parameter for _, parameter in learner.names]
    if not any(name in limits for name in costs):
        if costs.total.requires_grad:
            costs.total.backward()  # type: ignore[no-untyped-call]
        processes.sum_gradients(parameters)
        return
    whole: list[Tensor | None] = [None] * len(parameters)
    for name in costs:
        learner.optimiser.zero_grad(set_to_none=True)
        if costs[name].requires_grad:
            (weigh[name] * costs[name]).backward(retain_graph=True)  # type: ignore[no-untyped-call]
        processes.sum_gradients(parameters)
        _shorten(parameters, limits.get(name))
        for i, parameter in enumerate(parameters):
            if (own := parameter.grad) is not None:
                before = whole[i]
                whole[i] = own if before is None else before + own
    for parameter, gradient in zip(parameters, whole, strict=True):
        parameter.grad = gradient


def _clip(learner: Learner) -> float:
    """The length of the network's gradient before it is shortened; probes never count in it."""
    limit = learner.words.optimiser.clip.norm
    lengths = [
        _shorten(group["params"], limit, group["probe"]) for group in learner.optimiser.param_groups
    ]
    return float(lengths[0])


def _shorten(
    parameters: Iterable[nn.Parameter], limit: float | None, probe: bool = False
) -> Tensor:
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    length = nn.utils.get_total_norm(gradients)
    if limit is not None and not probe:
        scale = (limit / (length + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale)
    return length
