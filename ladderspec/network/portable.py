"""A network as modules that torch.export can trace and write down.

    torch.export.export(ls.Iteration(net.eval()), (frame, net.initial_carry(2)), ...)

The traced program reaches each weight by an attribute, but the name of a level may be a keyword of
Python, like `class`, or a method of modules, like `half`. So the weights, which are the network's
own, are registered here under one flat name each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from ladderspec.arguments import checked
from ladderspec.network.history import Carry
from ladderspec.network.inputs import Frames
from ladderspec.network.net import Net


class Unrolled(nn.Module):
    """All t at once, for torch.export: frames -> what each task reads.

    The number of frames is fixed by the example that is traced.

    Args:
        net: The network. Its weights are shared, not copied.
    """

    @checked
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.weights = _Weights(net, Net.__call__)

    def forward(self, frames: Frames) -> dict[str, Any]:
        return dict(self.weights(frames))


class Iteration(nn.Module):
    """One t, for torch.export: `net.iterate`.

    If batch norms keep statistics for every t, or an input is shown `until` some t, `carry.t` must
    be a tensor.

    Args:
        net: The network. Its weights are shared, not copied.
    """

    @checked
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.weights = _Weights(net, Net.iterate)

    def forward(self, frame: Frames, carry: Carry) -> tuple[dict[str, Any], Carry]:
        outputs: tuple[dict[str, Any], Carry] = self.weights(frame, carry)
        return outputs


class _Weights(nn.Module):
    """Calls a function of a network with its own weights, kept as `encoder/class/bias`."""

    def __init__(self, net: Net, function: Callable[..., Any]) -> None:
        super().__init__()
        self.called = net, function  # in a tuple, so that weights are not counted twice
        self.names = {}
        for key, parameter in net.named_parameters():
            self.names[key] = key.replace(".", "/")
            self.register_parameter(self.names[key], parameter)
        for key, buffer in net.named_buffers():
            self.names[key] = key.replace(".", "/")
            self.register_buffer(self.names[key], buffer)

    def forward(self, *inputs: Any) -> Any:
        net, function = self.called
        with _holding(net, {key: getattr(self, name) for key, name in self.names.items()}):
            return function(net, *inputs)


@contextmanager
def _holding(module: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """The module with other weights. As torch.func.functional_call, which finds no level `half`."""
    parts = dict(module.named_modules())
    places = []
    for key, weight in weights.items():
        owner, _, name = key.rpartition(".")
        part = parts[owner]
        table = part._parameters if name in part._parameters else part._buffers
        places.append((table, name, table[name]))
        table[name] = weight
    try:
        yield
    finally:
        for table, name, own in places:
            table[name] = own
