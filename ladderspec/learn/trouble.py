"""When a cost is no number or explodes: where it began."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ladderspec.errors import LadderspecError
from ladderspec.learn.feed import Feed
from ladderspec.learn.learner import Learner
from ladderspec.network.carry import Carry
from ladderspec.network.net import Net


class Diverged(LadderspecError):
    """Training cannot go on."""


@torch.no_grad()
def blame(net: Net, feed: Feed, carry: Carry | None) -> str:
    """The first node, in time and then in the order of the plan, that gives something not finite.

    Where all are finite, the largest value.
    """
    nodes = list(net.plan.equations)
    found = net.values(feed.frames, *nodes, lengths=feed.lengths, carry=carry)
    values = {nodes[0]: found} if isinstance(found, Tensor) else found
    steps = next(iter(values.values())).shape[1]
    ends = torch.tensor(feed.lengths or (steps,) * len(feed), device=feed.frames.device)
    for t in range(steps):
        for node in nodes:
            alive = values[node][ends > t, t]
            if not bool(alive.isfinite().all()):
                own = _wrong_parameter(net, node)
                return f"first at {node}, t = {feed.start + t + 1}" + (f" ({own})" if own else "")
    largest = max(nodes, key=lambda node: float(values[node].abs().max()))
    size = float(values[largest].abs().max())
    return f"all values are finite; the largest is {size:.3g}, at {largest}"


def _wrong_parameter(net: Net, node: str) -> str:
    for name, parameter in net.named_parameters():
        if name.startswith(f"{node}.") and not bool(parameter.isfinite().all()):
            return f"its {name} is not finite"
    return ""


def blame_data(learner: Learner, feed: Feed) -> str:
    """What is not finite of that which the network is given, or compared with."""
    tasks, input = learner.net.tasks, learner.diet.input
    for name, values in {input: feed.frames, **feed.targets}.items():
        wrong = ~values.isfinite().reshape(len(values), -1).all(1)
        if bool(wrong.any()):
            field = learner.diet.field(tasks[name]) if name in tasks else name
            return not_finite(str(field), _item(learner, int(wrong.nonzero()[0])))
    return ""


def not_finite(field: str, item: int) -> str:
    return f"the data are not finite: `{field}` of training item {item} (the first is 0)"


def _item(learner: Learner, row: int) -> int:
    """Which item of the data is a row of the batch that was just handed out."""
    order = learner.order
    number = max(0, learner.number - (learner.piece == 0))
    items = order.epoch(learner.epoch)[number][order.rank :: order.world]
    return int(items[row]) % learner.diet.data.size(order.split)


def blame_gradient(net: Net) -> str:
    """The parameters whose gradient is not finite, by name."""
    wrong = [
        name
        for name, parameter in net.named_parameters()
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
    ]
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f"the values are finite, but not the gradient of {wrong[-1]}{more}" if wrong else ""


def diverges(cost: float, first: float | None, limit: float) -> str:
    """What is wrong with a cost; empty where nothing is."""
    if not math.isfinite(cost):
        return f"the cost is {cost}"
    if first is not None and cost > limit * max(first, 1e-12):
        return f"the cost is {cost:.4g}, {cost / first:.0f} times that of the first update"
    return ""
