"""Noise on the input: drawn in training before the plan runs, in evaluation item by item."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ladderspec.cells.fields import Noise


def noisy(frames: Tensor, noise: Noise | None) -> Tensor:
    """Frames with the noise of the spec, as a network in training reads them."""
    if noise is None:
        return frames
    if noise.gaussian:
        frames = frames + noise.gaussian * torch.randn_like(frames)
    if noise.flip:
        flipped = torch.rand_like(frames) < noise.flip
        frames = torch.where(flipped, 1 - frames, frames)
    return frames


def noisy_items(
    frames: Tensor, noise: Noise, seeds: Sequence[int], lengths: Sequence[int] | None = None
) -> Tensor:
    """Frames (B, ...) with noise for evaluation, which follows from the seed of each item alone.

    The other items of a batch, their order and their padding change nothing; nor does the global
    random state change.
    """
    found = frames.clone()
    with torch.random.fork_rng(devices=[]):
        for i, seed in enumerate(seeds):
            item = frames[i] if lengths is None else frames[i, : lengths[i]]
            torch.default_generator.manual_seed(seed)
            found[i, : len(item)] = noisy(item, noise)
    return found
