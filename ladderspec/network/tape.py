"""Calls that come again and again, written down: torch's part of them, without Python in between.

Streaming and training make the same calls of torch frame after frame and update after update, and
so do the t of a long sequence. Where networks or batches are small, the Python that finds them
takes as long as some of them; so after a few times they are recorded once, by torch.fx, and from
then on repeated as plain code.

That is right as long as nothing but tensors decides what is computed. So only cells of this library
are recorded, as they were written and without hooks; and all tapes are thrown away when a module
or an attribute that they were made from is no longer the same. Those of streams may hold what was
made from weights: a changed number is enough.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from itertools import chain, islice
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from ladderspec.network.carry import Carry
from ladderspec.network.recording import Plain, Tape, record
from ladderspec.nn import Arrow, BatchNorm
from ladderspec.nn._fused import transformed
from ladderspec.nn._own import Edited
from ladderspec.nn._parts import ACTIVATIONS

OFTEN = 16  # calls of a kind before one is written down, which takes as long as 5 to 15 of them
MOST = 64  # tapes at a time

Iterated = tuple[dict[str, Any], Carry]
Iterate = Callable[[Tensor, Carry], Iterated]


class Tapes:
    """What a network has written down."""

    def __init__(self) -> None:
        self.make: Make | None = None

    def __reduce__(self) -> tuple[type[Tapes], tuple[()]]:
        return Tapes, ()  # a copy of a network writes its own

    def iterate(self, net: nn.Module, plain: Iterate, frame: Tensor, carry: Carry) -> Iterated:
        """`plain(frame, carry)`, one iteration."""
        t, names = carry.t, tuple(carry.values)
        if torch.is_grad_enabled() or not isinstance(t, int):
            return plain(frame, carry)
        given = (frame, *chain.from_iterable(carry.values.values()))
        player = self.player(net, *given, streams=True)
        if player is None:
            return plain(frame, carry)

        def flat(frame: Tensor, *kept: Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
            later = iter(kept)
            values = {name: tuple(islice(later, len(carry.values[name]))) for name in names}
            outputs, after = plain(frame, Carry(t, values))
            return outputs, after.values

        outputs, values = player.repeat(names, t, flat, given)
        return outputs, Carry(t + 1, values)

    def player(self, net: nn.Module, *given: Tensor, streams: bool = False) -> Player | None:
        """For a call with these tensors, of which the first has their size; None: all plainly."""
        learns = torch.is_grad_enabled()
        if learns is not net.training or not _steady(given):
            return None
        make = self.make
        if make is None or not make.holds():
            make = self.make = Make(net)
        if not make.ours:
            return None
        modes = make.modes()
        if not learns and any(modes):
            return None
        make.calls += 1
        first = given[0]
        alike = (modes, first.shape, first.dtype, first.device)
        if not learns:
            return Player(make, alike, make.numbers() if streams else ())
        make.turn_folded()
        # Norms of frozen arrows are computed in another way, and gradients with several threads.
        ways = torch.get_num_threads(), *[x.requires_grad for x in make.tensors]
        return Player(make, (*alike, ways), ())


class Player:
    """Repeats parts of one call from tapes where there are some, and writes down what is not."""

    def __init__(self, make: Make, alike: Hashable, numbers: tuple[int, ...]) -> None:
        self.make, self.alike, self.numbers = make, alike, numbers

    def repeat(self, kind: Hashable, t: int, plain: Plain, given: tuple[Any, ...]) -> Any:
        """`plain(*given)`. `kind` is all else that decides, besides t."""
        make = self.make
        key = (kind, min(t, make.last), self.alike)
        tape = make.tapes.get(key)
        if tape is not None and tape.numbers == self.numbers:
            return tape(*given)
        if not make.comes_often(key, self.numbers):
            return plain(*given)
        found, make.tapes[key] = record(plain, given, self.numbers)
        return found


def _steady(given: tuple[Tensor, ...]) -> bool:
    """Whether a call is one of many alike: not where torch rewrites it, or processes share it."""
    return (
        not transformed()
        and not torch.is_anomaly_enabled()
        and not torch._C._is_torch_function_all_disabled()  # nobody could listen
        and all(type(each) is Tensor and not each.requires_grad for each in given)
        and not torch.is_autocast_enabled(given[0].device.type)
        and not _has_any_global_hook()  # type: ignore[no-untyped-call]
        and not (torch.distributed.is_available() and torch.distributed.is_initialized())
    )


# --- what tapes are made from --------------------------------------------------------------------


class Make:
    """All that calls of a network are made from, besides tensors that come in; and their tapes."""

    def __init__(self, net: nn.Module) -> None:
        self.tapes: dict[Hashable, Tape] = {}
        self.seen: dict[Hashable, tuple[tuple[int, ...], int]] = {}  # with which numbers, how often
        self.often = OFTEN
        self.calls = 0
        modules = list(net.modules())
        inside = modules[1:]
        self.ours = all(map(_is_ours, inside))
        if not self.ours:
            self.patience = OFTEN  # calls before it looks again
            return
        self.hooks = [hooks for part in inside for hooks in _hooks_of(part)]
        self.edited = [part for part in inside if isinstance(part, Edited)]
        self.edits = [part.edits for part in self.edited]
        self.folding = [part for part in inside if isinstance(part, Arrow) and part.folds]
        self.rows: list[dict[str, Any]] = [
            row for p in modules for row in (p._modules, p._parameters, p._buffers) if row
        ]
        self.parts = list(self._parts())
        self.tensors = [part for part in self.parts if isinstance(part, Tensor)]
        # The t from which on batch norms use the same statistics.
        self.last = max((p.iterations for p in modules if isinstance(p, BatchNorm)), default=1) - 1

    def _parts(self) -> Iterator[Any]:
        return chain.from_iterable(map(_VALUES, self.rows))

    def holds(self) -> bool:
        """Whether everything is as it was, but for the numbers."""
        if not self.ours:
            self.patience -= 1
            return self.patience > 0
        parts = list(self._parts())
        return (
            not any(self.hooks)
            and [part.edits for part in self.edited] == self.edits
            and len(parts) == len(self.parts)
            and all(map(operator.is_, parts, self.parts))
        )

    def modes(self) -> tuple[bool, ...]:
        """Which modules are in training."""
        return tuple([part.training for part in self.edited])

    def numbers(self) -> tuple[int, ...]:
        """How often each weight and statistic has changed."""
        return (*[x._version for x in self.tensors], *[part.turns for part in self.edited])

    def turn_folded(self) -> None:
        """As arrows do that learn: weights may change without a trace."""
        for arrow in self.folding:
            if arrow.kept:
                arrow.turn()

    def comes_often(self, key: Hashable, numbers: tuple[int, ...]) -> bool:
        """Whether it is time to write it down; then there is room for it."""
        before, count = self.seen.get(key, ((), 0))
        count = count + 1 if before == numbers else 1
        if len(self.seen) > 64 * MOST:
            self.seen.clear()
        self.seen[key] = numbers, count
        if count <= self.often or self.calls == 1:  # who changes at every call writes nothing down
            return False
        del self.seen[key]
        while len(self.tapes) >= MOST:
            del self.tapes[next(iter(self.tapes))]
            self.often += 1  # where there are too many kinds, writing them down does not pay
        return True


_VALUES = operator.methodcaller("values")


def _is_ours(part: nn.Module) -> bool:
    """Whether it is a module of this library, as it was written."""
    if type(part) is nn.Module and not part._parameters:  # the name of a side, or of a task
        return True
    if not isinstance(part, Edited) or not type(part).__module__.startswith("ladderspec."):
        return False
    if any(_hooks_of(part)):
        return False
    weights = [x for x in part._parameters.values() if x is not None]
    rows = weights + [x for x in part._buffers.values() if x is not None]
    # Made in inference mode they have no versions; others in their place are there for one call.
    odd = any(x.is_inference() or x.grad_fn is not None for x in rows)
    odd = odd or not all(isinstance(x, nn.Parameter) for x in weights)
    return not odd and not any(_is_strange(part, *each) for each in vars(part).items())


def _hooks_of(part: nn.Module) -> tuple[dict[int, Any], ...]:
    return (
        part._forward_hooks,
        part._forward_pre_hooks,
        part._backward_hooks,
        part._backward_pre_hooks,
    )


def _is_strange(part: nn.Module, name: str, value: object) -> bool:
    """A method of its own, a function of a user, or a weight that is none."""
    return (
        callable(getattr(type(part), name, None))
        or isinstance(value, Tensor)
        or (callable(value) and value not in _KNOWN)
    )


_KNOWN = tuple(ACTIVATIONS.values())
