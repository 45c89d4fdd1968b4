"""Replay of `iterate`: the calls of torch that one iteration makes, captured once as plain code.

A stream makes the same calls of torch at every frame, and at batch 1 finding them in Python takes a
tenth of the time (benchmarks/RESULTS.md). A captured program holds the sequence of calls, nothing
that was computed: parameters and buffers are fetched from their modules at every call. It is used
only while the modules, parameters and buffers are the same objects with the same shapes, types and
devices in the same mode; networks with hooks, parametrisations or cells of users run without it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ladderspec.network.carry import Carry
from ladderspec.network.executor import Values
from ladderspec.network.readouts import TaskReadout
from ladderspec.nn import BatchNorm, CellModule, Edge
from ladderspec.nn.modules import Declared
from ladderspec.nn.norms import Stateless
from ladderspec.ops.transforms import has_global_hooks, is_transformed

AFTER = 3  # calls of a kind before it is captured
MOST = 32  # programs at a time

Iterated = tuple[dict[str, Any], Carry]


class Replay:
    """The captured programs of one network."""

    def __init__(self) -> None:
        self.programs: dict[Any, Callable[..., Any]] = {}
        self.seen: dict[Any, int] = {}
        self.guard: Guard | None = None

    def __reduce__(self) -> tuple[type[Replay], tuple[()]]:
        return Replay, ()  # a copy of a network captures its own

    def iterate(
        self, net: nn.Module, plain: Callable[[], Iterated], frames: Values, carry: Carry
    ) -> Iterated:
        """`plain()`, one iteration from these frames and this carry; captured if it comes again."""
        given = (*frames.values(), *chain.from_iterable(carry.values.values()))
        if torch.is_grad_enabled() or not isinstance(carry.t, int) or not _is_usual(given):
            return plain()
        if self.guard is None or not self.guard.holds():
            self.guard = Guard(net)
            self.programs.clear()
            self.seen.clear()
        if not self.guard.is_usable():
            return plain()
        ids = [id(x) for x in given]
        key = (
            min(carry.t, self.guard.last),
            tuple((name, len(kept)) for name, kept in carry.values.items()),
            tuple([(x.shape, x.dtype, x.device) for x in given]),
            tuple(map(ids.index, ids)),  # which of them are one tensor
        )
        program = self.programs.get(key)
        if program is not None:
            outputs, values = program(*given)
            return outputs, Carry(carry.t + 1, values)
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] != AFTER or len(self.programs) >= MOST:  # a failed capture stays so
            return plain()
        with Recorder(given, self.guard.rows) as recorder:
            outputs, after = plain()
        if not recorder.failed:
            self.programs[key] = recorder.program((outputs, after.values))
        return outputs, after


def _is_usual(given: tuple[Tensor, ...]) -> bool:
    """Whether torch computes the call as it stands."""
    return (
        not is_transformed()
        and not torch.is_autocast_enabled(given[0].device.type)
        and not has_global_hooks()
        and all(type(x) is Tensor for x in given)
    )


class Guard:
    """What the programs of a network rely on."""

    def __init__(self, net: nn.Module) -> None:
        self.modules = list(net.modules())
        inside = self.modules[1:]
        self.ours = all(map(_is_ours, inside))
        tables = [(m._modules, m._parameters, m._buffers) for m in self.modules]
        self.rows: list[dict[str, Any]] = [row for each in tables for row in each if row]
        self.own = [vars(m) for m in inside]
        self.hooks = [h for m in inside for h in (m._forward_hooks, m._forward_pre_hooks)]
        self.parts = self._parts()
        self.forms = self._forms()
        # Later iterations use the last row of running statistics.
        rows = [m.iterations for m in inside if isinstance(m, BatchNorm)]
        self.last = max(rows, default=1) - 1

    def _parts(self) -> list[Any]:
        """Modules, parameters and buffers, and what else decides how a module computes."""
        found = [part for row in self.rows for part in row.values()]
        return found + [own[name] for own in self.own for name in _DECIDES if name in own]

    def _forms(self) -> list[Any]:
        tensors = [part for part in self.parts if isinstance(part, Tensor)]
        return [(x.shape, x.dtype, x.device) for x in tensors]

    def holds(self) -> bool:
        """Whether everything is as it was, but for the numbers."""
        parts = self._parts()
        same = len(parts) == len(self.parts) and all(map(operator.is_, parts, self.parts))
        return same and self._forms() == self.forms

    def is_usable(self) -> bool:
        """Whether the network is in evaluation, and calls its modules as they were written."""
        return (
            self.ours
            and not any(self.hooks)
            and not any([m.training for m in self.modules])  # noqa: C419 (faster)
            and not any(["forward" in own for own in self.own])  # noqa: C419
        )


_DECIDES = ("cell", "projection", "norm_name", "groups", "iterations", "teaches", "headed")


def _is_ours(module: nn.Module) -> bool:
    """Whether a module is one of this library."""
    if type(module) is nn.Module:  # the name of a side, or of a task
        return not module._parameters
    if type(module) not in (CellModule, Edge, Declared, Stateless, BatchNorm, TaskReadout):
        return False
    if isinstance(module, CellModule) and module.checked:
        return False
    return all(type(x) is nn.Parameter for x in module._parameters.values() if x is not None)


# Properties and methods of tensors that tell no numbers.
_METADATA = frozenset(
    {"__get__", "__len__", "size", "dim", "numel", "stride", "is_contiguous", "is_floating_point"}
)


class Recorder(TorchFunctionMode):
    """Writes down every call of torch as a line of code."""

    def __init__(self, given: tuple[Tensor, ...], rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self.failed = False
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}  # functions, tables of modules and other objects
        self.kept: list[Any] = []  # so that no id is used twice
        self.names = {id(x): f"x{i}" for i, x in enumerate(given)}
        self.count = len(given)
        for number, row in enumerate(rows):
            for key, value in row.items():
                if isinstance(value, Tensor):
                    self.names[id(value)] = f"row{number}[{key!r}]"
                    self.constants[f"row{number}"] = row

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        several = isinstance(result, tuple | list) and not isinstance(result, torch.Size)
        found = list(result) if several else [result]
        if any(isinstance(value, Tensor) for value in found):
            given = [self._text(arg) for arg in args]
            given += [f"{key}={self._text(value)}" for key, value in (kwargs or {}).items()]
            names = [f"v{len(self.lines)}_{i}" for i in range(len(found))]
            left = f"{', '.join(names)}{',' if several else ''}"
            self.lines.append(f"{left} = {self._text(func)}({', '.join(given)})")
            self.names |= {id(value): name for value, name in zip(found, names, strict=True)}
            self.kept += found
        elif func.__name__ not in _METADATA:
            self.failed = True  # not written down, or numbers decide
        return result

    def _text(self, value: Any) -> str:
        if isinstance(value, Tensor) and id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self._text(v)}" for k, v in value.items()) + "}"
        if type(value) in (tuple, list):
            items = ", ".join(map(self._text, value))
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' if value else ''})"
        if value is None or type(value) in (bool, int, float, str):
            return repr(value)
        name = f"c{id(value)}"
        self.constants[name] = value
        return name

    def program(self, result: Any) -> Callable[..., Any]:
        """All calls as one function of what came in."""
        arguments = ", ".join(f"x{i}" for i in range(self.count))
        body = "\n    ".join([*self.lines, f"return {self._text(result)}"])
        names = {"inf": torch.inf, "nan": torch.nan, **self.constants}  # as `repr` writes them
        exec(f"def program({arguments}):\n    {body}", names)
        program: Callable[..., Any] = names["program"]
        return program
