"""Activations and norms of plug-ins: what they return is checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ladderspec.errors import UsageError
from ladderspec.plugins import is_built_in


def returning_its_form(what: str, compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`compute`; if it comes from a plug-in, it is refused unless it returns the form it gets."""
    return compute if is_built_in(compute) else partial(_checked, what, compute)


def _checked(what: str, compute: Callable[..., Any], x: Tensor, *others: Any) -> Tensor:
    y = compute(x, *others)
    if not isinstance(y, Tensor):
        found = "None" if y is None else f"a {type(y).__name__}"
        raise UsageError(f"{what} returned {found}, not a tensor")
    if y.shape != x.shape:
        raise UsageError(f"{what} got {tuple(x.shape)}, but returned {tuple(y.shape)}")
    if y.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):  # which chooses types
        raise UsageError(f"{what} got {x.dtype}, but returned {y.dtype}")
    return y
