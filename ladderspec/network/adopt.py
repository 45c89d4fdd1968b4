"""Weights of one variant for another: what both have is kept, what they do not share is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Adopted(NamedTuple):
    """What happened, by the names of parameters and buffers."""

    kept: tuple[str, ...]
    missing: tuple[str, ...]  # not in what was given: left as they were
    unknown: tuple[str, ...]  # given, but not here
    reshaped: tuple[str, ...]  # in both, but of another shape: left as they were


def adopt(module: nn.Module, weights: Mapping[str, Tensor]) -> Adopted:
    """Copy what has the same name and shape."""
    own = module.state_dict()
    shared = [name for name in own if name in weights]
    kept = [name for name in shared if own[name].shape == weights[name].shape]
    with torch.no_grad():
        for name in kept:
            own[name].copy_(weights[name])
    return Adopted(
        tuple(kept),
        tuple(name for name in own if name not in weights),
        tuple(name for name in weights if name not in own),
        tuple(name for name in shared if name not in kept),
    )
