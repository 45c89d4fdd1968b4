"""One update: costs, gradients, a step of the optimiser, the Mean Teacher; and divergence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from ladderspec.data import DataError
from ladderspec.data.counter_rng import key_of
from ladderspec.errors import LadderspecError
from ladderspec.learn import processes
from ladderspec.learn.batches import TensorBatch
from ladderspec.learn.metrics import combined, over_time, trimmed
from ladderspec.learn.train_state import TrainState
from ladderspec.network.costs import Costs
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.wording import first_of


class Diverged(LadderspecError):
    """Training cannot go on."""


def update(state: TrainState, batch: TensorBatch, share: float = 1.0) -> None:
    """Train on one batch.

    Noise is a function of (seed, update, process), so no state of a generator has to be saved.
    Costs stay on the device until they are read, every `state.check` updates: an accelerator does
    not wait for this process before.

    Args:
        state: the state of the training, which is changed.
        batch: the tensors of this process.
        share: their fraction of the batch of all processes.
    """
    net = state.net
    state.set_learning_rates()
    carry = _carry_for(state, batch)
    weights = {name: task.weight_at(state.update, state.total) for name, task in net.tasks.items()}
    shared = {name: share * weight for name, weight in weights.items()}
    costs = _costs(state, batch, carry, shared)
    state.optimiser.zero_grad(set_to_none=True)
    _backward(state, costs, shared)
    kind = processes.sum_dtype(state.collator.device)
    each = [costs[name].detach().to(kind) * share for name in costs]
    counted = {name: weights[name] for name in costs}
    state.unread.append((counted, torch.stack([*each, _clip(state).to(each[0])])))
    if len(state.unread) >= state.check:
        read_costs(state, batch, carry)  # before the step: the cause is in the weights
    state.optimiser.step()
    if state.teacher is not None:
        update_teacher(state.teacher, net, state.update, state.total)
    state.carry = costs.carry.detach() if costs.carry is not None else None
    state.update += 1


def read_costs(
    state: TrainState, batch: TensorBatch | None = None, carry: Carry | None = None
) -> None:
    """Read the costs of the last updates, check them, and add them to the next row of metrics.

    Args:
        state: the state of the training.
        batch: the batch of the last of these updates, if its step is still to be made.
        carry: what the network remembered before it.
    """
    if not state.unread:
        return
    table = torch.stack([values for _, values in state.unread])
    table[:, :-1] = processes.summed(table[:, :-1])
    last = state.update + (batch is not None)
    unread, state.unread = state.unread, []
    for i, ((weights, _), row) in enumerate(zip(unread, table.tolist(), strict=True)):
        *costs, gradient = row
        cost = sum(weight * each for weight, each in zip(weights.values(), costs, strict=True))
        number = last - len(unread) + 1 + i
        _check(state, number, cost, gradient, batch if number == last else None, carry)
        each = {f"{name}.cost": value for name, value in zip(weights, costs, strict=True)}
        state.add({"cost": cost, **each, "gradient": gradient})
        state.first_cost = cost if state.first_cost is None else state.first_cost


def _costs(
    state: TrainState, batch: TensorBatch, carry: Carry | None, weights: Mapping[str, float]
) -> Costs:
    """The costs of the tasks. A Mean Teacher computes its targets first."""
    with _autocast(state):
        targets = batch.targets
        if state.teacher is not None:
            _seed_noise(state, "teacher")
            targets = targets | teacher_targets(state.teacher, batch)
        _seed_noise(state, "noise")
        try:
            return state.net.cost(
                batch.given,
                targets,
                batch.lengths,
                carry=carry,
                weights=weights,
                checkpoint=state.config.recompute,
            )
        except ValueError as error:  # of items that were not looked at before the first update
            raise DataError(f"a batch does not fit the network: {error}") from error


def _carry_for(state: TrainState, batch: TensorBatch) -> Carry | None:
    """The state after the piece before this one. None if sequences are not truncated."""
    if not state.collator.truncates:
        return None
    if batch.first or state.carry is None:
        _seed_noise(state, "start")
        return state.net.initial_carry(len(batch))
    return trimmed(state.carry, len(batch))


def _autocast(state: TrainState) -> AbstractContextManager[object]:
    if state.config.precision == "bf16":
        return torch.autocast(state.collator.device.type, torch.bfloat16)
    return nullcontext()


def _seed_noise(state: TrainState, purpose: str) -> None:
    net = state.net
    if net.is_random or state.config.drop:
        key = key_of(state.seed, purpose, state.update, processes.rank())
        torch.manual_seed(key & (2**63 - 1))


# --- gradients ------------------------------------------------------------------------------------


def _backward(state: TrainState, costs: Costs, weights: Mapping[str, float]) -> None:
    """Gradients of the whole batch. With `clip.tasks`, those of each task are clipped first."""
    limits = state.config.optimiser.clip.tasks
    parameters = [parameter for _, parameter in state.trained_parameters]
    if not any(name in limits for name in costs):
        if costs.total.requires_grad:
            costs.total.backward()  # type: ignore[no-untyped-call]
        processes.sum_gradients(parameters)
        return
    sums: list[Tensor | None] = [None] * len(parameters)
    for name in costs:
        state.optimiser.zero_grad(set_to_none=True)
        if costs[name].requires_grad:
            (weights[name] * costs[name]).backward(retain_graph=True)  # type: ignore[no-untyped-call]
        processes.sum_gradients(parameters)
        _clip_norm(parameters, limits.get(name))
        for i, parameter in enumerate(parameters):
            if (gradient := parameter.grad) is not None:
                before = sums[i]
                sums[i] = gradient if before is None else before + gradient
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total


def _clip(state: TrainState) -> Tensor:
    """Clip the gradient norm of the network and return it. Probes are not clipped or counted."""
    groups = state.optimiser.param_groups
    taught = [p for group in groups if not group["probe"] for p in group["params"]]
    probes = [p for group in groups if group["probe"] for p in group["params"]]
    norm = _clip_norm(taught, state.config.optimiser.clip.norm)
    return norm if taught else _clip_norm(probes, None)


def _clip_norm(parameters: Sequence[nn.Parameter], limit: float | None) -> Tensor:
    """Clip gradients to a norm, if there is a limit. Returns the norm before."""
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if limit is not None:
        nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


# --- Mean Teacher ---------------------------------------------------------------------------------


@torch.no_grad()
def teacher_targets(teacher: Net, batch: TensorBatch) -> dict[str, Tensor]:
    """Targets from the teacher, (B, T, ...), on the same input with its own noise.

    The teacher is in training mode: its batch norms use the batch and keep their own statistics.
    """
    teacher.train()
    outputs = teacher(batch.given, batch.lengths)
    return {
        name: over_time(task.present, combined(teacher, task, outputs[name]))
        for name, task in teacher.tasks.items()
        if task.taught
    }


@torch.no_grad()
def update_teacher(teacher: Net, net: Net, update: int, total: int) -> None:
    """teacher = decay * teacher + (1 - decay) * network, for all trained parameters."""
    task = next(task for task in net.tasks.values() if task.taught)
    decay = task.teacher_decay(update, total)
    pairs = zip(teacher.parameters(), net.parameters(), strict=True)
    for average, parameter in pairs:
        if parameter.requires_grad:
            average.lerp_(parameter, 1 - decay)


# --- divergence -----------------------------------------------------------------------------------


def _check(
    state: TrainState,
    number: int,
    cost: float,
    gradient: float,
    batch: TensorBatch | None,
    carry: Carry | None,
) -> None:
    """Raise Diverged if a cost is not finite or too large, or a gradient not finite.

    `batch` is that of the update, if its step is still to be made: then the cause can be found.
    """
    first, message = state.first_cost, ""
    if not math.isfinite(cost):
        message = f"the cost is {cost}"
    elif first is not None and cost > state.config.explode * max(first, 1e-12):
        message = f"the cost is {cost:.4g}, {cost / first:.0f} times that of the first update"
    elif math.isfinite(gradient):
        return
    if batch is None:
        message = message or "the gradient is not finite"
        cause = "to find the cause, resume with `machine: {check: 1}`"
    else:
        _seed_noise(state, "noise")
        cause = not_finite_data(state, batch)
        cause = cause or ("" if message else not_finite_gradient(state.net))
        cause = cause or not_finite_node(state.net, batch, carry)
    raise Diverged(f"update {number}: {'; '.join(filter(None, (message, cause)))}")


@torch.no_grad()
def not_finite_node(net: Net, batch: TensorBatch, carry: Carry | None) -> str:
    """The first node with a value that is not finite, in time and then in the order of the plan.

    If all values are finite, the node with the largest one.
    """
    nodes = list(net.plan.equations)
    found = net.values(batch.given, *nodes, lengths=batch.lengths, carry=carry)
    values = {nodes[0]: found} if isinstance(found, Tensor) else found
    steps = next(iter(values.values())).shape[1]
    ends = torch.tensor(batch.lengths or (steps,) * len(batch), device=batch.frames.device)
    for t in range(steps):
        for node in nodes:
            alive = values[node][ends > t, t]
            if not bool(alive.isfinite().all()):
                parameter = _not_finite_parameter(net, node)
                return f"first at {node}, t = {batch.start + t + 1}{parameter}"
    largest = max(nodes, key=lambda node: float(values[node].abs().max()))
    size = float(values[largest].abs().max())
    return f"all values are finite; the largest is {size:.3g}, at {largest}"


def _not_finite_parameter(net: Net, node: str) -> str:
    for name, parameter in net.named_parameters():
        if name.startswith(f"{node}.") and not bool(parameter.isfinite().all()):
            return f" (its {name} is not finite)"
    return ""


def not_finite_data(state: TrainState, batch: TensorBatch) -> str:
    """The field and item of the data, input or target, that is not finite; else nothing."""
    tasks, collator = state.net.tasks, state.collator
    read = {str(form.field): batch.inputs[form.name] for form in collator.inputs}
    for name, values in {collator.input: batch.frames, **read, **batch.targets}.items():
        wrong = ~values.isfinite().reshape(len(values), -1).all(1)
        if bool(wrong.any()):
            field = collator.field(tasks[name]) if name in tasks else name
            return not_finite_message(str(field), _item(state, int(wrong.nonzero()[0])))
    return ""


def not_finite_message(field: str, item: int) -> str:
    return f"the data are not finite: `{field}` of training item {item} (the first is 0)"


def _item(state: TrainState, row: int) -> int:
    """The index in the data of a row of the current batch."""
    sampler = state.sampler
    number = max(0, state.number - (state.piece == 0))
    items = sampler.epoch(state.epoch)[number][sampler.rank :: sampler.world]
    return int(items[row]) % state.collator.data.size(sampler.split)


def not_finite_gradient(net: Net) -> str:
    """The parameters whose gradient is not finite, by name; else nothing."""
    wrong = [
        name
        for name, parameter in net.named_parameters()
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
    ]
    named = first_of(wrong[::-1], 1)
    return f"the values are finite, but not the gradient of {named}" if wrong else ""
