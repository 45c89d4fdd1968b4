"""Mean Teacher: a running average of the network, which agrees with it on the classes."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from ladderspec.learn.feed import Feed
from ladderspec.learn.schedule import ramp
from ladderspec.network.net import Net
from ladderspec.tasks import Consistency, Task


def pupils(tasks: Mapping[str, Task]) -> dict[str, Consistency]:
    """The tasks that ask for a teacher."""
    return {name: task for name, task in tasks.items() if isinstance(task, Consistency)}


def teacher_of(net: Net) -> Net | None:
    """A copy to begin with, where a task asks for one."""
    if not pupils(net.tasks):
        return None
    teacher = copy.deepcopy(net)
    return teacher.requires_grad_(False)


@torch.no_grad()
def teach(teacher: Net, feed: Feed) -> dict[str, Tensor]:
    """What the teacher says, (B, T, classes): on the same input, with noise of its own.

    It runs as in training, so batch norms use the batch and keep statistics of their own.
    """
    teacher.train()
    outputs = teacher(feed.frames, feed.lengths)
    return {name: task.present(outputs[name].flatten(0, 1)).view_as(outputs[name])
            for name, task in pupils(teacher.tasks).items()}  # fmt: skip


@torch.no_grad()
def average(teacher: Net, net: Net, update: int, total: int) -> None:
    """teacher = decay * teacher + (1 - decay) * network, over what learns.

    CHOICE: two decays with a hard switch at the end of the ramp.
    """
    task = next(iter(pupils(net.tasks).values()))
    decay = task.ramp_decay if ramp(task, update, total) < 1 else task.decay
    pairs = zip(teacher.parameters(), net.parameters(), strict=True)
    learning: list[tuple[Tensor, Tensor]] = [(t, p) for t, p in pairs if p.requires_grad]
    following, leading = ([pair[i] for pair in learning] for i in range(2))
    torch._foreach_lerp_(following, leading, 1 - decay)
