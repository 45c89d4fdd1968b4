"""A network that feeds its prediction back to itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ladderspec.names import INPUT
from ladderspec.network.history import Carry
from ladderspec.network.inputs import Frames, Lengths, check_count
from ladderspec.tasks import Task

if TYPE_CHECKING:
    from ladderspec.network.net import Net

MOST_FRAMES = 100_000  # to generate: they are all in memory


def generate(
    net: Net, frames: Frames, n: int, sample: bool, lengths: Lengths, carry: Carry | None
) -> Tensor:
    """The next n frames, (B, n, ...), after those that are given."""
    name, task = predictor(net)
    if sample and not task.logits and not _is_binary(net, task):
        cost = task.cost_label.lower()
        raise ValueError(f"task `{name}` predicts by {cost}: there is no distribution to sample")
    check_count(n, 0, "the number of frames to generate is a whole number", MOST_FRAMES)
    frames, following = _divide(net, frames, n, lengths)
    before = net(frames, lengths, carry)
    seen, carry = _last(before[name], lengths), before.carry
    found: list[Tensor] = []
    while len(found) < n:
        combined = seen if net.groups is None else task.combine(seen)
        frame = task.present(combined).view(-1, *net.shape)
        found.append(torch.bernoulli(frame) if sample else frame)
        if len(found) < n:
            outputs, carry = net.iterate(following(found[-1], len(found) - 1), carry)
            seen = outputs[name]
    return torch.stack(found, 1) if found else seen.new_empty(len(seen), 0, *net.shape)


def _divide(
    net: Net, given: Frames, n: int, lengths: Lengths
) -> tuple[Frames, Callable[[Tensor, int], Frames]]:
    """The inputs of the given frames, and a function: a frame -> all inputs of the k-th t later."""
    further = {form.name: form for form in net.inputs.forms[1:]}
    if not further or not isinstance(given, Mapping):
        return given, lambda frame, k: frame
    values: dict[str, Any] = {name: torch.as_tensor(value) for name, value in given.items()}
    timed = {name for name in values if name in further and further[name].timed}
    if INPUT not in values or any(values[name].dim() < 2 for name in (INPUT, *timed)):
        return given, lambda frame, k: frame  # the network refuses it
    steps = values[INPUT].shape[1]
    for name in timed:
        if (has := values[name].shape[1]) < steps + n - 1:
            raise ValueError(
                f"input `{name}` has {has} frames, but generating {n} frames after {steps} reads"
                f" {steps + n - 1}: give its later values too"
                + (f", or generate {has - steps + 1}" if has >= steps else "")
            )

    def following(frame: Tensor, k: int) -> Frames:
        rows = torch.arange(len(frame), device=frame.device)
        ends = steps if lengths is None else torch.as_tensor(lengths, device=frame.device)
        return {n: v[rows, ends + k] if n in timed else v for n, v in values.items()} | {
            INPUT: frame
        }

    return {n: v[:, :steps] if n in timed else v for n, v in values.items()}, following


def _is_binary(net: Net, task: Task) -> bool:
    """Whether its groups have a Bernoulli likelihood."""
    return task.explains and net.likelihood()["likelihood"] == "bernoulli"


def predictor(net: Net) -> tuple[str, Task]:
    """The task whose output is fed back, and its name. ValueError if there is none."""
    for name, task in net.tasks.items():
        if task.feeds_back and len(net.readouts[name]) == 1:
            return name, task
    raise ValueError("no task predicts the next frame: nothing can be fed back")


def _last(seen: Tensor, lengths: Lengths) -> Tensor:
    """The value of every sequence at its own end."""
    if lengths is None:
        return seen[:, -1]
    ends = torch.as_tensor(lengths, device=seen.device)
    if int(ends.min()) < 1:
        raise ValueError("a sequence without a frame cannot be continued: lengths start at 1")
    return seen[torch.arange(len(seen), device=seen.device), ends - 1]
