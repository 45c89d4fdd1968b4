"""One process or many, through torch's own process groups: `torchrun ... -m ladderspec train`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn

from ladderspec.errors import UsageError, one_of


def world() -> int:
    return distributed.get_world_size() if _joined() else 1


def rank() -> int:
    return distributed.get_rank() if _joined() else 0


def _joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def joined(device: str) -> Iterator[torch.device]:
    """The device of this process; with others, where torchrun has started several."""
    chosen = _device(device)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1 and not _joined()
    if several:
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        distributed.init_process_group(backend)
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
    """The device that is meant, if it is here; under torchrun each process has a GPU of its own."""
    there = ["cpu", *(["mps"] if torch.backends.mps.is_available() else [])]
    if torch.cuda.is_available():
        there += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    exact = name
    if name == "auto":
        exact = "cuda" if torch.cuda.is_available() else "cpu"
    if exact == "cuda":
        exact = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if exact not in there:
        what = "CUDA" if name == "cuda" and not torch.cuda.is_available() else f"device `{exact}`"
        hint = f"there {'is' if len(there) == 1 else 'are'} {one_of(there, 'and')}"
        raise UsageError(f"no {what} here; {hint}")
    return torch.device(exact)


def summed(value: Tensor) -> Tensor:
    """The sum over all processes."""
    if world() > 1:
        value = value.clone()
        distributed.all_reduce(value)
    return value


def summed_tables(tables: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Sums of vectors by name, float64; a process may have nothing to add to some of them."""
    if world() == 1:
        return dict(tables)
    device = torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
    sizes = torch.tensor([tables[n].numel() if n in tables else 0 for n in names], device=device)
    distributed.all_reduce(sizes, distributed.ReduceOp.MAX)
    whole = [torch.zeros(size, dtype=torch.float64, device=device) for size in sizes.tolist()]
    for name, vector in zip(names, whole, strict=True):
        if name in tables:
            vector[: tables[name].numel()] = tables[name].flatten()
    flat = summed(torch.cat(whole)).split(sizes.tolist())  # type: ignore[no-untyped-call]
    return {name: vector for name, vector in zip(names, flat, strict=True) if vector.numel()}


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether it holds in any process."""
    if world() == 1:
        return flag
    return bool(summed(torch.tensor(float(flag), device=device)) > 0)


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Gradients of the whole batch: one exchange for all parameters of a type."""
    if world() == 1:
        return
    kept = list(parameters)
    for parameter in kept:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for dtype in sorted({parameter.dtype for parameter in kept}, key=str):
        gradients = [p.grad for p in kept if p.dtype == dtype and p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))


def wait() -> None:
    """Until all processes are here."""
    if world() > 1:
        distributed.barrier()
