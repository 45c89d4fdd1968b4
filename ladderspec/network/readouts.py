"""What a task owns in a network: its read-outs and the offset of its output."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from ladderspec.cells.parameters import weight, zeros
from ladderspec.names import Shape
from ladderspec.nn.modules import Declared
from ladderspec.wiring.graph import Graph


class TaskReadout(Declared):
    """seen = W x + b + offset; without a head of its own, x + offset.

    The offset is the mean of what is to be seen, a buffer set from data.
    """

    weight: Tensor
    bias: Tensor
    offset: Tensor

    def __init__(
        self,
        own: Mapping[str, Shape],
        shape: Shape,
        offset: bool,
        teaches: bool,
        draw: bool = True,
    ) -> None:
        super().__init__()
        self.teaches = teaches
        self.headed = bool(own)
        if own:
            head = {"weight": weight(*own["weight"], fan_in=own["weight"][1])}
            self.declare({**head, "bias": zeros(*own["bias"])}, draw)
            shape = (own["weight"][0], *shape[1:])
        self.shape = shape
        self.register_buffer("offset", torch.zeros(shape) if offset else None)

    def forward(self, x: Tensor) -> Tensor:
        """Of values (B, ...), or of several t, (n, B, ...)."""
        x = x if self.teaches else x.detach()
        if self.headed:
            flat = x.reshape(-1, *x.shape[x.dim() - len(self.shape) :])
            linear = functional.linear if len(self.shape) == 1 else functional.conv2d
            x = linear(flat, self.weight, self.bias).view(*x.shape[: -len(self.shape)], *self.shape)
        return x if self.offset is None else x + self.offset

    def start_at(self, mean: Tensor | float, logits: bool) -> None:
        """Set the offset, where there is one, from the mean of the data: a number, or a frame.

        A head may make a frame as a vector.
        """
        if self.offset is None:
            return
        try:
            wide = torch.promote_types(self.offset.dtype, torch.float32)  # 1 - 1e-6 is 1 in halves
            value = torch.as_tensor(mean, dtype=wide)
            if _wide(value) == _wide(self.offset):
                value = value.reshape(self.offset.shape)
            value = value.expand_as(self.offset)
        except (TypeError, ValueError, RuntimeError):
            given = tuple(mean.shape) if isinstance(mean, Tensor) else repr(mean)
            shape = tuple(self.offset.shape)
            raise ValueError(f"a mean is a number or a frame {shape}, not {given}") from None
        self.offset.copy_(value.logit(1e-6) if logits else value)


def _wide(value: Tensor) -> list[int]:
    """Its shape but for what is 1 wide: a vector may also be a map."""
    return [n for n in value.shape if n != 1]


def readouts_of(graph: Graph, name: str) -> dict[str, TaskReadout]:
    """What a task owns, by the node that it reads."""
    entry = graph.graph["tasks"][name]
    task, several = entry["task"], len(entry["at"]) > 1
    found = {}
    for node in entry["at"]:
        prefix = f"{node}." if several else ""
        own = {key: entry["own"][prefix + key] for key in ("weight", "bias") if entry["own"]}
        offset = task.starts_at_mean and not several
        found[node] = TaskReadout(own, graph.nodes[node]["shape"], offset, task.teaches, draw=False)
    return found


def readout_name(task: str, node: str, several: bool) -> str:
    """`task.NAME`, or `task.NAME.NODE` if a task reads several nodes."""
    return f"task.{task}.{node}" if several else f"task.{task}"
