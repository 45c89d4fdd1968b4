"""Noise on the input, drawn before the plan runs."""

from __future__ import annotations

import torch
from torch import Tensor

from ladderspec.cells.input import Noise


def noisy(frames: Tensor, noise: Noise | None) -> Tensor:
    """Frames as a network in training gets them."""
    if noise is None:
        return frames
    if noise.gaussian:
        frames = frames + noise.gaussian * torch.randn_like(frames)
    if noise.flip:
        turned = torch.rand_like(frames) < noise.flip
        frames = torch.where(turned, 1 - frames, frames)
    return frames
