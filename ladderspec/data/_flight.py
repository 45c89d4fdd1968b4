"""Digits that fly behind bars: where they are, what is seen of them, and the frames.

Positions are those of the top left pixel of a digit's box, always inside the canvas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ladderspec.data._counter import Bits, below

Ints = NDArray[np.int64]
Images = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Stage:
    """A square canvas with bars: `visible` pixels, then `bar` hidden ones, both ways, and again.

    >>> Stage(32, 14, 8, 4, (1, 2)).hidden.nonzero()[0].tolist()
    [8, 9, 10, 11, 20, 21, 22, 23]
    """

    canvas: int
    digit: int
    visible: int
    bar: int
    velocity: tuple[int, int]
    grid: bool = False  # velocities of all components -b, -a, 0, a, b, not only the pairs (a, b)

    @property
    def reach(self) -> int:
        """The largest coordinate of a digit."""
        return self.canvas - self.digit

    @cached_property
    def hidden(self) -> Mask:
        """Rows, and columns, that lie behind a bar."""
        return np.arange(self.canvas) % (self.visible + self.bar) >= self.visible

    @cached_property
    def mask(self) -> Mask:
        """(H, W): what is visible."""
        return ~(self.hidden[:, None] | self.hidden[None, :])

    @cached_property
    def velocities(self) -> Ints:
        """(8, 2): (a, +-b), (-a, +-b), (b, +-a), (-b, +-a); a grid: (25, 2), (9, 2) if a = b.

        >>> Stage(32, 14, 8, 4, (1, 1), grid=True).velocities[:4].tolist()
        [[-1, -1], [-1, 0], [-1, 1], [0, -1]]
        """
        a, b = self.velocity
        if self.grid:
            components = sorted({-b, -a, 0, a, b})
            return np.array([(x, y) for x in components for y in components])
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        return np.array([(s * x, r * y) for x, y in ((a, b), (b, a)) for s, r in signs])

    @cached_property
    def offsets(self) -> Ints:
        """(d, d): where a digit's pixels lie in the canvas, from its top left one."""
        line = np.arange(self.digit)
        return line[:, None] * self.canvas + line[None, :]


def fly(stage: Stage, bits: Bits, frames: int, bounce: str) -> Ints:
    """Positions over time, (n, frames, 2), from 3 + frames draws for each digit."""
    start = below(bits[:, :2], stage.reach + 1)
    velocity = stage.velocities[below(bits[:, 2], len(stage.velocities))]
    if bounce == "reflect":
        times = np.arange(frames)[:, None]
        return reflect(start[:, None] + times * velocity[:, None], stage.reach)
    positions = [start]
    for t in range(1, frames):
        velocity = _resampled(stage, positions[-1], velocity, bits[:, 2 + t])
        positions.append(positions[-1] + velocity)
    return np.stack(positions, 1)


def reflect(position: Ints, reach: int) -> Ints:
    """Mirrored at both walls: -p becomes p, reach + p becomes reach - p.

    >>> reflect(np.array([-2, 0, 17, 18, 20]), 18).tolist()
    [2, 0, 17, 18, 16]
    """
    found: Ints = reach - np.abs(position % (2 * reach) - reach)
    return found


def _resampled(stage: Stage, position: Ints, velocity: Ints, bits: Bits) -> Ints:
    """At a wall, a velocity drawn from those that stay inside; elsewhere the old one."""
    new = position[:, None] + stage.velocities  # (n, k, 2)
    inside = ((new >= 0) & (new <= stage.reach)).all(-1)
    chosen = below(bits, inside.sum(1))
    drawn = np.argmax(inside.cumsum(1) > chosen[:, None], axis=1)
    ahead = position + velocity
    stays = ((ahead >= 0) & (ahead <= stage.reach)).all(-1, keepdims=True)
    return np.where(stays, velocity, stage.velocities[drawn])


def visible(stage: Stage, positions: Ints) -> Mask:
    """(n, T, d, d): which pixels of the digit are seen in each frame."""
    lines = ~stage.hidden[positions[..., None] + np.arange(stage.digit)]  # (n, T, 2, d)
    found: Mask = lines[..., 0, :, None] & lines[..., 1, None, :]
    return found


def place(stage: Stage, digits: Images, positions: Ints) -> Images:
    """Digits (n, T, d, d) at their positions in empty frames, (n, T, 1, H, W)."""
    n, frames = positions.shape[:2]
    area = stage.canvas**2
    corner = positions[..., 0] * stage.canvas + positions[..., 1]
    corner += np.arange(n * frames).reshape(n, frames) * area
    canvas = np.zeros(n * frames * area, np.float32)
    canvas[corner[..., None, None] + stage.offsets] = digits
    return canvas.reshape(n, frames, 1, stage.canvas, stage.canvas)
