"""A network as modules that torch.export can trace and write down.

    torch.export.export(ls.Iteration(net.eval()), (frame, net.initial_carry(2)), ...)

The traced program reaches each weight by an attribute, but the name of a level may be a keyword of
Python, like `class`, or a method of modules, like `half`. So the weights, which are the network's
own, are registered here under one flat name each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from ladderspec.arguments import checked
from ladderspec.network.history import Carry
from ladderspec.network.inputs import Frames
from ladderspec.network.net import Net


class _Portable(nn.Module):
    """A network and its own weights, kept as `weights.encoder/class/bias`."""

    @checked
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.nets = (net,)  # in a tuple, so that weights are not counted twice
        self.weights = nn.Module()
        for key, parameter in net.named_parameters():
            self.weights.register_parameter(key.replace(".", "/"), parameter)
        for key, buffer in net.named_buffers():
            self.weights.register_buffer(key.replace(".", "/"), buffer)

    @contextmanager
    def _with_weights(self) -> Iterator[Net]:
        """The network with the weights that stand here, which a tracer replaces.

        As torch.func.functional_call, which finds no level `half`.
        """
        (net,) = self.nets
        parts = dict(net.named_modules())
        places = []
        for key in [*self.weights._parameters, *self.weights._buffers]:
            owner, _, name = key.replace("/", ".").rpartition(".")
            part = parts[owner]
            table = part._parameters if name in part._parameters else part._buffers
            places.append((table, name, table[name]))
            table[name] = getattr(self.weights, key)
        try:
            yield net
        finally:
            for table, name, own in places:
                table[name] = own


class Unrolled(_Portable):
    """All t at once, for torch.export: frames -> what each task reads.

    The number of frames is fixed by the example that is traced.

    Args:
        net: The network. Its weights are shared, not copied.
    """

    def forward(self, frames: Frames) -> dict[str, Any]:
        with self._with_weights() as net:
            return dict(net(frames))


class Iteration(_Portable):
    """One t, for torch.export: `net.iterate`.

    If batch norms keep statistics for every t, or an input is shown `until` some t, `carry.t` must
    be a tensor.

    Args:
        net: The network. Its weights are shared, not copied.
    """

    def forward(self, frame: Frames, carry: Carry) -> tuple[dict[str, Any], Carry]:
        with self._with_weights() as net:
            return net.iterate(frame, carry)
