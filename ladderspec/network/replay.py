"""Replay of `iterate`: the torch calls of one iteration, captured once as plain code.

A stream makes the same torch calls at every frame, and at batch 1 the Python code around them takes
a tenth of the time (benchmarks/RESULTS.md). A captured program is the sequence of calls, as a
function of everything that is given, of all parameters and of all buffers; the only tensors that it
holds are constants, like the Fourier bases of FFT convolution. It is used only while `Guard` finds
the same modules, parameters and buffers, with the same shapes, types and devices, in the same mode.
Networks with hooks, parametrizations or cells of users run without it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import chain
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ladderspec.network.history import Carry
from ladderspec.network.inputs import Given
from ladderspec.network.modules import TaskReadout
from ladderspec.nn import BatchNorm, CellModule, Edge
from ladderspec.nn.modules import Declared
from ladderspec.nn.norms import Stateless
from ladderspec.ops.transforms import has_global_hooks, is_transformed

if TYPE_CHECKING:
    from ladderspec.network.net import Net

AFTER = 3  # calls of a kind before it is captured
MOST = 32  # programs at a time

Iterated = tuple[dict[str, Any], Carry]
Program = Callable[..., tuple[dict[str, Any], dict[str, tuple[Tensor, ...]]]]

_form = attrgetter("shape", "dtype", "device")


class Replay:
    """The captured programs of one network, under their guard."""

    def __init__(self) -> None:
        self.guard: Guard | None = None

    def __reduce__(self) -> tuple[type[Replay], tuple[()]]:
        return Replay, ()  # a copy of a network captures its own

    def iterate(self, net: Net, plain: Callable[[], Iterated], shown: Given) -> Iterated:
        """`plain()`, one iteration of what is shown; captured if it comes again."""
        t, past = shown.carry or Carry(0, {})
        given = [*shown.values.values(), *(x for slot in net.executor.carried for x in past[slot])]
        if not isinstance(t, int) or not _is_usual(given):
            return plain()
        guard = self.guard
        if guard is None or not guard.holds():
            guard = self.guard = Guard(net)
        if not guard.usable:
            return plain()
        ids = [*map(id, given)]
        key = (
            min(t, guard.last),  # later iterations use the last row of running statistics
            tuple(map(_form, given)),
            tuple(map(ids.index, ids)),  # which of them are one tensor
        )
        if key in guard.programs:
            outputs, values = guard.programs[key](*given, *guard.tensors)
            return outputs, Carry(t + 1, values)
        guard.calls[key] += 1
        if guard.calls[key] != AFTER or len(guard.programs) >= MOST:  # a failed capture stays so
            return plain()
        with Recorder(given, guard.tensors) as recorder:
            outputs, after = plain()
        if not recorder.failed:
            guard.programs[key] = recorder.program((outputs, after.values))
        return outputs, after


def _is_usual(given: list[Tensor]) -> bool:
    """Whether torch computes the call as it stands, without gradients."""
    return (
        not torch.is_grad_enabled()
        and not is_transformed()
        and not torch.is_autocast_enabled(given[0].device.type)
        and not has_global_hooks()
        and all(type(x) is Tensor for x in given)
    )


class Guard:
    """The assumptions of captured programs: everything about a network except its numbers."""

    def __init__(self, net: nn.Module) -> None:
        self.programs: dict[Any, Program] = {}
        self.calls = Counter[Any]()  # by kind
        modules = list(net.modules())
        self.tables: list[dict[str, Any]] = []  # an empty one may be filled later
        for m in modules:
            self.tables += [vars(m), m._modules, m._parameters, m._buffers]
            self.tables += [m._forward_hooks, m._forward_pre_hooks]  # type: ignore[list-item]
        self.tensors = [*net.parameters(), *net.buffers()]
        self.parts, self.forms = self._parts(), [*map(_form, self.tensors)]
        self.usable = all(map(_is_plain, modules[1:])) and not net.training
        norms = (m for m in modules if isinstance(m, BatchNorm))
        self.last = max((norm.iterations for norm in norms), default=1) - 1

    def _parts(self) -> list[Any]:
        """Objects that must stay the same objects: modules, their tensors and attributes."""
        return [*chain.from_iterable(map(dict.values, self.tables))]

    def holds(self) -> bool:
        """Whether all is as it was."""
        parts = self._parts()
        same = len(parts) == len(self.parts) and all(map(is_, parts, self.parts))
        return same and [*map(_form, self.tensors)] == self.forms


def _is_plain(module: nn.Module) -> bool:
    """Whether a module is one of this library in evaluation, without hooks or other changes."""
    kinds = nn.Module, CellModule, Edge, Declared, Stateless, BatchNorm, TaskReadout
    changed = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    if type(module) not in kinds or module.training or changed:
        return False
    if isinstance(module, CellModule) and module.checked:
        return False
    return all(type(x) is nn.Parameter for x in module.parameters(recurse=False))


# Properties and methods of tensors that tell no numbers.
_METADATA = frozenset(
    {"__get__", "__len__", "size", "dim", "numel", "stride", "is_contiguous", "is_floating_point"}
)


_NAME = re.compile(r"\bv\d+_\d+\b")


class Recorder(TorchFunctionMode):
    """Writes down every torch call as a line of code."""

    def __init__(self, given: list[Tensor], tensors: list[Tensor]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}  # functions and other objects
        self.kept: list[Any] = []  # so that no id is used twice
        self.arguments = [f"x{i}" for i in range(len(given) + len(tensors))]
        self.names = {id(x): f"x{i}" for i, x in enumerate([*given, *tensors])}
        self.failed = not {*map(id, given)}.isdisjoint(map(id, tensors))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        several = isinstance(result, tuple | list) and not isinstance(result, torch.Size)
        found = list(result) if several else [result]
        if any(isinstance(value, Tensor) for value in found):
            given = [self._text(arg) for arg in args]
            given += [f"{key}={self._text(value)}" for key, value in (kwargs or {}).items()]
            names = [f"v{len(self.lines)}_{i}" for i in range(len(found))]
            left = ", ".join(names) + ("," if several else "")
            self.lines.append(f"{left} = {self._text(func)}({', '.join(given)})")
            self.names |= {id(value): name for value, name in zip(found, names, strict=True)}
            self.kept += found
        elif func.__name__ not in _METADATA:
            self.failed = True  # it is not written down, or numbers decide
        return result

    def _text(self, value: Any) -> str:
        if isinstance(value, Tensor) and id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, dict):
            return "{" + "".join(f"{k!r}: {self._text(v)}, " for k, v in value.items()) + "}"
        if type(value) in (tuple, list):
            items = "".join(f"{self._text(item)}, " for item in value)
            return f"[{items}]" if isinstance(value, list) else f"({items})"
        name = f"c{id(value)}"
        self.constants[name] = value
        return name

    def program(self, result: Any) -> Program:
        """All calls as one function of the tensors that were given."""
        body = [f"return {self._text(result)}"]
        used = {*_NAME.findall(body[0])}
        for line in reversed(self.lines):  # which lets go of values after their last use
            last = {*_NAME.findall(line)} - used
            used |= last
            body.append(f"{line}; del {', '.join(last)}" if last else line)
        text = "\n    ".join(reversed(body))
        exec(f"def program({', '.join(self.arguments)}):\n    {text}", self.constants)
        program: Program = self.constants["program"]
        return program
