"""Which way a convolution at stride 1 goes: place by place, or another with fewer products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.overrides import handle_torch_function, has_torch_function

from ladderspec.nn._fused import transformed
from ladderspec.nn._parts import convolve

Gradients = tuple[Tensor | None, Tensor | None]  # of x and weight


class Way(NamedTuple):
    """Another way to the numbers of `convolve`, and how many products each takes."""

    conv: Callable[[Tensor, Tensor], Tensor]
    is_open: Callable[[Tensor, Tensor, Tensor | None], bool]  # for x, weight and bias, now
    gain: float  # as many times fewer products pay for their passes over memory
    by_place: int  # products of one sample
    by_way: int
    of_filter: int  # once for all samples


def is_better(way: Way, x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether it is faster here, with the same precision."""
    return (
        not transformed()  # first: a compiler would remember that the batch was compared
        and way.is_open(x, weight, bias)
        and len(x) * way.by_place >= way.gain * (len(x) * way.by_way + way.of_filter)
        and x.dtype == weight.dtype in (torch.float32, torch.float64)
        and type(x) is Tensor  # not one without numbers, which only looks as if it was here
        and x.is_cpu
        and not torch.is_autocast_enabled("cpu")
    )


def as_one_call(
    conv: Callable[[Tensor, Tensor], Tensor], found_by: type[Function], x: Tensor, weight: Tensor
) -> Tensor:
    """On a tape, too, where it has gradients of its own."""
    if torch.is_grad_enabled() and has_torch_function((x, weight)):
        found: Tensor = handle_torch_function(conv, (x, weight), x, weight)
        return found
    y: Tensor = found_by.apply(x, weight)  # type: ignore[no-untyped-call]
    return y


def by_place(x: Tensor, weight: Tensor, dy: Tensor, wanted: tuple[bool, bool]) -> Gradients:
    """Gradients by torch's own, which have derivatives and are found many at a time."""
    with_derivatives = torch.is_grad_enabled()
    with torch.enable_grad():
        # Under names of their own: what x was made from is not asked.
        given = x.view_as(x), weight.view_as(weight)
        y = convolve(*given)
    inputs = [each for each, is_wanted in zip(given, wanted, strict=True) if is_wanted]
    found = iter(torch.autograd.grad(y, inputs, dy, create_graph=with_derivatives))
    return next(found) if wanted[0] else None, next(found) if wanted[1] else None
