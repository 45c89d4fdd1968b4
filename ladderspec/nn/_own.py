"""Parameters and their initial values, drawn from (seed, parameter name)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from ladderspec.names import Shape


class Start(Protocol):
    """How a parameter starts."""

    def fill(self, parameter: Tensor, generator: torch.Generator | None = None) -> None: ...


@dataclass(frozen=True)
class Normal:
    """Gaussian with mean 0."""

    variance: float

    def fill(self, parameter: Tensor, generator: torch.Generator | None = None) -> None:
        # Drawn on the CPU in one precision: the same numbers on every device and in every dtype.
        if parameter.dtype == torch.float32 and parameter.is_contiguous() and parameter.is_cpu:
            parameter.normal_(0.0, self.variance**0.5, generator=generator)
            return
        drawn = torch.empty(parameter.shape, dtype=torch.float32)
        parameter.copy_(drawn.normal_(0.0, self.variance**0.5, generator=generator))


def read_out(fan_in: float) -> Normal:
    """Start of the maps that make a decoder's estimate.

    CHOICE: ten times smaller than elsewhere, so that the first estimate is near its offset. Tiny
    RLadders then predicted 10 to 30 % better after 150 updates, at learning rates from 1e-3 to
    1e-2. Cells that read the estimate normalise it, so that nothing fades on the way.
    """
    return Normal(0.01 / fan_in)


@dataclass(frozen=True)
class Blocks:
    """The first dimension in equal blocks, each filled with its own value."""

    values: Sequence[float]

    def fill(self, parameter: Tensor, generator: torch.Generator | None = None) -> None:
        for block, value in zip(parameter.chunk(len(self.values)), self.values, strict=True):
            block.fill_(value)


_LATER = ContextVar("later", default=False)


@contextmanager
def undrawn() -> Iterator[None]:
    """Parameters that are registered inside wait for `initialise`: drawing twice takes time."""
    before = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(before)


ZEROS = Blocks((0.0,))
ONES = Blocks((1.0,))


class Edited(nn.Module):
    """A module that counts what happens to it, for those who keep what was made from it.

    `edits` are attributes that were set; `turns` are ends and beginnings of training, and other
    occasions on which numbers change that torch does not count, such as running statistics.
    """

    edits = 0
    turns = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "training":
            self.turn()
        else:
            self.__dict__["edits"] = self.edits + 1

    def turn(self) -> None:
        self.__dict__["turns"] = self.turns + 1

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.turn()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]


def watched(module: nn.Module) -> bool:
    """Whether its calls have hooks, or those of all modules."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or _has_any_global_hook()  # type: ignore[no-untyped-call]
    )


class Owner(Edited):
    """A module that knows how its own parameters start."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: dict[str, Start] = {}

    def own(self, name: str, shape: Shape, start: Start) -> None:
        """Register a parameter at its start."""
        self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        self.start(name, start)

    def start(self, name: str, start: Start) -> None:
        """Let a parameter start like this."""
        self.starts[name] = start
        if not _LATER.get():
            with torch.no_grad():
                start.fill(self.get_parameter(name))


def initialise(module: nn.Module, seed: int) -> None:
    """Start every parameter anew, drawn from `seed` and its full name within `module`.

    Two networks thus agree on all that they share. Other modules inside, of a user's own cell,
    stay as they are: they were drawn when they were built.
    """
    for name, part in module.named_modules():
        if isinstance(part, Owner):
            for own, start in part.starts.items():
                full = f"{name}.{own}" if name else own
                generator = torch.Generator().manual_seed(hashed(seed, full))
                with torch.no_grad():
                    start.fill(part.get_parameter(own), generator)


def hashed(seed: int, name: str) -> int:
    """A seed of its own for every name, the same in every process and on every machine."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
