"""Processes of a training: devices, threads, signals, and sums over a process group.

Several processes are started by `torchrun ... -m ladderspec train`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ladderspec.errors import UsageError, one_of
from ladderspec.nn.norms import world as world


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if _joined() else 0


def _joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def joined(device: str) -> Iterator[torch.device]:
    """Join the process group if torchrun has started several processes. Yields the device."""
    chosen = _device(device)
    several = (os.environ.get("WORLD_SIZE") or "1") != "1" and not _joined()
    if several:
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        try:
            distributed.init_process_group(backend)
        except (ValueError, RuntimeError) as error:
            size = f"WORLD_SIZE={os.environ['WORLD_SIZE']}"
            first = str(error).partition("\n")[0]
            raise UsageError(
                f"{size}, but there is no process group: {first}; start several processes with"
                " torchrun, or unset WORLD_SIZE"
            ) from None
    try:
        yield chosen
    finally:
        if several:
            distributed.destroy_process_group()


def _device(name: str) -> torch.device:
    device = device_of(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def device_of(name: str) -> torch.device:
    """The device of this name, if there is one. Under torchrun each process has its own GPU."""
    known = ["cpu", *(["mps"] if torch.backends.mps.is_available() else [])]
    if torch.cuda.is_available():
        known += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    exact = name
    if name == "auto":
        exact = "cuda" if torch.cuda.is_available() else "cpu"
    if exact == "cuda":
        exact = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if exact not in known:
        what = "CUDA" if name == "cuda" and not torch.cuda.is_available() else f"device `{exact}`"
        hint = f"there {'is' if len(known) == 1 else 'are'} {one_of(known, 'and')}"
        raise UsageError(f"no {what} here; {hint}")
    return torch.device(exact)


def sum_dtype(device: torch.device) -> torch.dtype:
    """The type of sums and means: float64, which MPS does not have."""
    return torch.float32 if device.type == "mps" else torch.float64


def summed(value: Tensor) -> Tensor:
    """The sum over all processes."""
    if world() > 1:
        value = value.clone()
        distributed.all_reduce(value)
    return value


def summed_tables(tables: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Sums of vectors by name. A process may lack some of the names."""
    if world() == 1:
        return dict(tables)
    device = torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
    sizes = torch.tensor([tables[n].numel() if n in tables else 0 for n in names], device=device)
    distributed.all_reduce(sizes, distributed.ReduceOp.MAX)
    kind = sum_dtype(device)
    totals = [torch.zeros(size, dtype=kind, device=device) for size in sizes.tolist()]
    for name, vector in zip(names, totals, strict=True):
        if name in tables:
            vector[: tables[name].numel()] = tables[name].flatten()
    flat = summed(torch.cat(totals)).split(sizes.tolist())  # type: ignore[no-untyped-call]
    return {name: vector for name, vector in zip(names, flat, strict=True) if vector.numel()}


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set in any process."""
    if world() == 1:
        return flag
    return bool(summed(torch.tensor(float(flag), device=device)) > 0)


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum gradients over all processes: one all-reduce for all parameters of a type."""
    if world() == 1:
        return
    found = list(parameters)
    for parameter in found:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for dtype in sorted({parameter.dtype for parameter in found}, key=str):
        gradients = [p.grad for p in found if p.dtype == dtype and p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))


def wait() -> None:
    """Wait for all processes."""
    if world() > 1:
        distributed.barrier()


# --- this process ---------------------------------------------------------------------------------


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Set the number of CPU threads, if given. Restores it and the state of torch's generator."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(before)


class Interrupted(KeyboardInterrupt):
    """Training was interrupted, and its state saved."""


class SignalGuard:
    """Delays SIGINT and SIGTERM while a loop runs; a second SIGINT interrupts at once.

    Args:
        on_signal: called when the first of them arrives.
    """

    def __init__(self, on_signal: Callable[[], object] = lambda: None) -> None:
        self.received = False
        self._on_signal = on_signal
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalGuard:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *args: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = True
        self._on_signal()
