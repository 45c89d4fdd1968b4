"""Replay of `iterate`: the torch calls of one iteration, captured once as plain code.

A stream makes the same torch calls at every frame, and at batch 1 the Python code around them takes
a tenth of the time (benchmarks/RESULTS.md). A captured program holds the sequence of calls and
nothing that was computed: parameters and buffers are fetched from their modules at every call. It
is used only while `Guard` finds the same modules, parameters and buffers, with the same shapes,
types and devices, in the same mode. Networks with hooks, parametrizations or cells of users run
without it.
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
from ladderspec.network.modules import TaskReadout
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
        self,
        net: nn.Module,
        plain: Callable[[], Iterated],
        frames: dict[str, Tensor],
        carry: Carry,
    ) -> Iterated:
        """`plain()`, one iteration from these frames and this carry; captured if it comes again."""
        given = (*frames.values(), *chain.from_iterable(carry.values.values()))
        if torch.is_grad_enabled() or not isinstance(carry.t, int) or not _is_usual(given):
            return plain()
        if self.guard is None or not self.guard.holds():
            self.guard, self.programs, self.seen = Guard(net), {}, {}
        if not self.guard.usable:
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
        with Recorder(given, self.guard.tables) as recorder:
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
    """What captured programs rely on: everything about a network except its numbers."""

    def __init__(self, net: nn.Module) -> None:
        modules = list(net.modules())
        tables = [t for m in modules for t in (m._modules, m._parameters, m._buffers) if t]
        self.tables: list[dict[str, Any]] = tables
        self.own = [vars(m) for m in modules]
        self.decisive = [(own, name) for own in self.own for name in _DECISIVE if name in own]
        self.hooks = [h for m in modules[1:] for h in (m._forward_hooks, m._forward_pre_hooks)]
        self.parts, self.values = self._state()
        self.usable = not net.training and all(map(_is_plain, modules[1:]))
        # Later iterations use the last row of running statistics.
        rows = [m.iterations for m in modules if isinstance(m, BatchNorm)]
        self.last = max(rows, default=1) - 1

    def _state(self) -> tuple[list[Any], list[Any]]:
        """Objects that must stay the same objects, and values that must stay equal."""
        parts = [part for table in self.tables for part in table.values()]
        values: list[Any] = [(x.shape, x.dtype, x.device) for x in parts if isinstance(x, Tensor)]
        values += map(bool, self.hooks)
        values += ["forward" in own for own in self.own]
        return parts + [own[name] for own, name in self.decisive], values

    def holds(self) -> bool:
        """Whether all is as it was."""
        parts, values = self._state()
        same = len(parts) == len(self.parts) and all(map(operator.is_, parts, self.parts))
        return same and values == self.values


# Attributes of modules that decide what they compute.
_DECISIVE = (
    "training", "cell", "projection", "norm_name", "groups", "nearest", "teaches", "headed"
)  # fmt: skip


def _is_plain(module: nn.Module) -> bool:
    """Whether a module is one of this library in evaluation, without hooks or other changes."""
    changed = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    if module.training or changed:
        return False
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
    """Writes down every torch call as a line of code."""

    def __init__(self, given: tuple[Tensor, ...], tables: list[dict[str, Any]]) -> None:
        super().__init__()
        self.failed = False
        self.lines: list[str] = []
        # As `repr` writes them; then functions, tables of modules and other objects.
        self.constants: dict[str, Any] = {"inf": torch.inf, "nan": torch.nan}
        self.kept: list[Any] = []  # so that no id is used twice
        self.arguments = [f"x{i}" for i in range(len(given))]
        self.names = {id(x): name for x, name in zip(given, self.arguments, strict=True)}
        for number, table in enumerate(tables):
            for key, value in table.items():
                if isinstance(value, Tensor):
                    self.names[id(value)] = f"table{number}[{key!r}]"
                    self.constants[f"table{number}"] = table

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
            return "{" + ", ".join(f"{k!r}: {self._text(v)}" for k, v in value.items()) + "}"
        if type(value) in (tuple, list):
            items = "".join(f"{self._text(item)}, " for item in value)
            return f"[{items}]" if isinstance(value, list) else f"({items})"
        if value is None or type(value) in (bool, int, float, str):
            return repr(value)
        name = f"c{id(value)}"
        self.constants[name] = value
        return name

    def program(self, result: Any) -> Callable[..., Any]:
        """All calls as one function of the tensors that were given."""
        body = "\n    ".join([*self.lines, f"return {self._text(result)}"])
        exec(f"def program({', '.join(self.arguments)}):\n    {body}", self.constants)
        program: Callable[..., Any] = self.constants["program"]
        return program
