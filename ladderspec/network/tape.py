"""One iteration, written down: the calls of torch that it consists of, without Python in between.

In evaluation, `net.iterate` makes the same calls frame after frame. At small batches the Python
that finds them takes as long as some of them; so after a few iterations they are recorded once, by
torch.fx, and from then on repeated as plain code.

That is right as long as nothing but tensors decides what is computed. So only cells of this library
are recorded, without hooks; and a tape is thrown away when a module, a weight, a statistic or an
attribute that it was made from is no longer the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.overrides import TorchFunctionMode, is_tensor_method_or_property

from ladderspec.network.carry import Carry
from ladderspec.nn import BatchNorm
from ladderspec.nn._fused import transformed
from ladderspec.nn._own import Edited

OFTEN = 8  # iterations of a kind before one is written down, which takes about as long
MOST = 16  # tapes at a time

Iterated = tuple[dict[str, Any], Carry]
Iterate = Callable[[Tensor, Carry], Iterated]


class Tapes:
    """What a network has written down, by the shape and the t that it is for."""

    def __init__(self) -> None:
        self.tapes: dict[Hashable, Tape] = {}
        self.seen: dict[Hashable, int] = {}
        self.make: Make | None = None

    def __reduce__(self) -> tuple[type[Tapes], tuple[()]]:
        return Tapes, ()  # a copy of a network writes its own

    def iterate(self, net: nn.Module, plain: Iterate, frame: Tensor, carry: Carry) -> Iterated:
        """One iteration: from a tape where there is one, else by `plain`."""
        if not _steady(frame, carry):
            return plain(frame, carry)
        if self.make is None or not self.make.holds():
            self.tapes.clear()
            self.seen.clear()
            self.make = Make(net)
        if not self.make.ours:
            return plain(frame, carry)
        key = (frame.shape, frame.dtype, frame.device, min(int(carry.t), self.make.last))
        tape = self.tapes.get(key)
        if tape is not None:
            return tape(frame, carry)
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] > OFTEN and len(self.tapes) < MOST:
            self.tapes[key] = Tape(plain, frame, carry)
        return plain(frame, carry)


def _steady(frame: Tensor, carry: Carry) -> bool:
    """Whether a call is one of many alike: not where it learns, nor where torch rewrites it."""
    return (
        not torch.is_grad_enabled()
        and not transformed()
        and isinstance(carry.t, int)
        and type(frame) is Tensor
        and not torch.is_autocast_enabled(frame.device.type)
        and not _has_any_global_hook()  # type: ignore[no-untyped-call]
    )


# --- what a tape depends on ----------------------------------------------------------------------


class Make:
    """All that an iteration is made from, besides tensors that come in, as it was."""

    def __init__(self, net: nn.Module) -> None:
        modules = list(net.modules())
        self.inside = modules[1:]
        self.ours = self._is_ours()
        self.last = max((p.iterations for p in modules if isinstance(p, BatchNorm)), default=1) - 1
        self.hooks = [h for p in self.inside for h in (p._forward_hooks, p._forward_pre_hooks)]
        self.edited = [part for part in self.inside if isinstance(part, Edited)]
        self.edits = [part.edits for part in self.edited]
        self.rows: list[dict[str, Any]] = [
            row for p in modules for row in (p._modules, p._parameters, p._buffers) if row
        ]
        self.parts = [part for row in self.rows for part in row.values()]
        self.tensors = [part for part in self.parts if isinstance(part, Tensor)]
        self.versions = [x._version for x in self.tensors] if self.ours else []

    def holds(self) -> bool:
        """Whether everything is as it was."""
        if not self.ours:
            return not self._is_ours()
        parts = list(chain.from_iterable(map(_VALUES, self.rows)))
        return (
            not any(self.hooks)
            and [part.edits for part in self.edited] == self.edits
            and len(parts) == len(self.parts)
            and all(map(operator.is_, parts, self.parts))
            and [x._version for x in self.tensors] == self.versions
        )

    def _is_ours(self) -> bool:
        """Whether all are modules of this library as they were written, and in evaluation."""
        return all(map(_is_ours, self.inside))


_VALUES = operator.methodcaller("values")


def _is_ours(part: nn.Module) -> bool:
    if type(part) is nn.Module and not part._parameters:  # the name of a side, or of a task
        return True
    hooked = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
    own = isinstance(part, Edited) and type(part).__module__.startswith("ladderspec.")
    tensors = (*part._parameters.values(), *part._buffers.values())
    tracked = not any(x is not None and x.is_inference() for x in tensors)  # have versions
    return own and tracked and not part.training and not hooked


# --- a tape --------------------------------------------------------------------------------------


class Tape:
    """The calls of one iteration, to be repeated with other frames and carries alike."""

    def __init__(self, plain: Iterate, frame: Tensor, carry: Carry) -> None:
        recorder = _Recorder()
        # Each under an identity of its own: the same tensor may come in twice.
        frame = recorder.enters(frame)
        values = {
            name: tuple(recorder.enters(value) for value in kept)
            for name, kept in carry.values.items()
        }
        with recorder:
            outputs, after = plain(frame, Carry(carry.t, values))
        self.names = tuple(values)
        self.constants = recorder.constants
        self.call = recorder.code((outputs, after.values))

    def __call__(self, frame: Tensor, carry: Carry) -> Iterated:
        before = [value for name in self.names for value in carry.values[name]]
        outputs, values = self.call(frame, *before, *self.constants)
        return outputs, Carry(carry.t + 1, values)


class _Recorder(TorchFunctionMode):
    """Notes every call of torch that gives tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[Tensor] = []  # so that no two have the same id
        self.constants: list[Tensor] = []

    def enters(self, value: Tensor) -> Tensor:
        """A tensor that comes in, under a new identity."""
        alias = value.detach()
        self._keep(alias, self.graph.placeholder(f"x{len(self.alive)}"))
        return alias

    def _keep(self, value: Tensor, node: fx.Node) -> None:
        self.nodes[id(value)] = node
        self.alive.append(value)

    def _node(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self.nodes:
            last = next(node for node in reversed(self.graph.nodes) if node.op == "placeholder")
            with self.graph.inserting_after(last):
                self._keep(value, self.graph.placeholder(f"w{len(self.constants)}"))
            self.constants.append(value)
        return self.nodes[id(value)]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        several = isinstance(result, tuple | list) and not isinstance(result, torch.Size)
        found = list(result) if several else [result]
        if any(isinstance(value, Tensor) for value in found):
            given = fx.node.map_aggregate((tuple(args), dict(kwargs or {})), self._node)
            if is_tensor_method_or_property(func):
                call = self.graph.call_method(func.__name__, *given)
            else:
                call = self.graph.call_function(func, *given)
            for i, value in enumerate(found):
                part = self.graph.call_function(operator.getitem, (call, i)) if several else call
                self._keep(value, part)
        return result

    def code(self, result: Any) -> Callable[..., Any]:
        """All that was noted, as one function of what came in and of the constants."""
        self.graph.output(fx.node.map_aggregate(result, self._node))
        return fx.GraphModule({}, self.graph).forward
