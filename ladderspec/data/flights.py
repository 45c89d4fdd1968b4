"""Digits that move behind bars: positions, visible pixels, and frames.

A position is that of the top left pixel of a digit's box, always inside the canvas.
Shapes: n digits, T frames, digits of d x d pixels, frames of H x W pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.counter_rng import Bits, below

Positions = NDArray[np.int64]  # (n, T, 2)
Images = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Canvas:
    """A square canvas: `visible` pixels, then `bar` hidden ones, repeated in both directions.

    >>> Canvas(32, 14, 8, 4, (1, 2)).hidden.nonzero()[0].tolist()
    [8, 9, 10, 11, 20, 21, 22, 23]
    """

    side: int
    digit: int
    visible: int
    bar: int
    velocity: tuple[int, int]
    grid: bool = False  # all velocities with components -b, -a, 0, a, b instead of the pairs (a, b)

    @property
    def reach(self) -> int:
        """The largest coordinate of a digit."""
        return self.side - self.digit

    @cached_property
    def hidden(self) -> Mask:
        """(H,): rows, and columns, that are hidden by a bar."""
        return np.arange(self.side) % (self.visible + self.bar) >= self.visible

    @cached_property
    def mask(self) -> Mask:
        """(H, W): visible pixels."""
        return ~(self.hidden[:, None] | self.hidden[None, :])

    @cached_property
    def velocities(self) -> NDArray[np.int64]:
        """(8, 2): (a, +-b), (-a, +-b), (b, +-a), (-b, +-a); a grid: (25, 2), or (9, 2) if a = b.

        >>> Canvas(32, 14, 8, 4, (1, 1), grid=True).velocities[:4].tolist()
        [[-1, -1], [-1, 0], [-1, 1], [0, -1]]
        """
        a, b = self.velocity
        if self.grid:
            components = sorted({-b, -a, 0, a, b})
            return np.array([(x, y) for x in components for y in components])
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        return np.array([(s * x, r * y) for x, y in ((a, b), (b, a)) for s, r in signs])

    def contains(self, positions: Positions) -> Mask:
        """Whether a digit at each position is inside the canvas."""
        inside: Mask = np.all((positions >= 0) & (positions <= self.reach), axis=-1)
        return inside

    def fly(self, bits: Bits, frames: int, bounce: str) -> Positions:
        """Positions over time, (n, frames, 2), from 3 + frames draws for each digit."""
        start = below(bits[:, :2], self.reach + 1)
        velocity = self.velocities[below(bits[:, 2], len(self.velocities))]
        if bounce == "reflect":
            times = np.arange(frames)[:, None]
            return reflect(start[:, None] + times * velocity[:, None], self.reach)
        positions = [start]
        for t in range(1, frames):
            velocity = self._resample(positions[-1], velocity, bits[:, 2 + t])
            positions.append(positions[-1] + velocity)
        return np.stack(positions, 1)

    def _resample(
        self, position: NDArray[np.int64], velocity: NDArray[np.int64], bits: Bits
    ) -> NDArray[np.int64]:
        """At a wall, a velocity drawn from those that stay inside; elsewhere the same velocity."""
        inside = self.contains(position[:, None] + self.velocities)  # (n, k)
        chosen = below(bits, inside.sum(1))
        drawn = np.argmax(inside.cumsum(1) > chosen[:, None], axis=1)
        stays = self.contains(position + velocity)[:, None]
        return np.where(stays, velocity, self.velocities[drawn])

    def visible_pixels(self, positions: Positions) -> Mask:
        """(n, T, d, d): which pixels of the digit are visible in each frame."""
        lines = ~self.hidden[positions[..., None] + np.arange(self.digit)]  # (n, T, 2, d)
        found: Mask = lines[..., 0, :, None] & lines[..., 1, None, :]
        return found


def draw(digits: Images, positions: Positions, side: int) -> Images:
    """Digits (n, T, d, d) at their positions in empty frames, (n, T, 1, side, side).

    >>> draw(np.ones((1, 1, 1, 2)), np.array([[[1, 0]]]), 3)[0, 0, 0].tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    n, frames = positions.shape[:2]
    rows, columns = (np.arange(size) for size in digits.shape[2:])
    corner = positions[..., 0] * side + positions[..., 1]
    corner += np.arange(n * frames).reshape(n, frames) * side**2
    pixels = np.zeros(n * frames * side**2, np.float32)
    pixels[corner[..., None, None] + rows[:, None] * side + columns] = digits
    return pixels.reshape(n, frames, 1, side, side)


def reflect(position: Positions, reach: int) -> Positions:
    """Mirrored at both walls: -p becomes p, reach + p becomes reach - p.

    >>> reflect(np.array([-2, 0, 17, 18, 20]), 18).tolist()
    [2, 0, 17, 18, 16]
    """
    found: Positions = reach - np.abs(position % (2 * reach) - reach)
    return found


class Flight:
    """Moving digits and the fields that show them, each computed on request."""

    def __init__(self, canvas: Canvas, digits: Images, positions: Positions) -> None:
        self.canvas, self.positions = canvas, positions
        self.digits = digits[:, None]  # (n, 1, d, d)

    @cached_property
    def visible(self) -> Mask:
        """(n, T, d, d): pixels of the digit that are visible in frame t."""
        return self.canvas.visible_pixels(self.positions)

    @cached_property
    def seen(self) -> Mask:
        """(n, T, d, d): pixels of the digit that were visible in some frame up to t."""
        return np.logical_or.accumulate(self.visible, axis=1)

    def frames(self) -> Images:
        """The digit behind the bars."""
        return self._draw(self.digits * self.visible)

    def clean(self) -> Images:
        """The digit without bars."""
        return self._draw(self.digits)

    def reconstruction(self) -> Images:
        """Every pixel seen up to t, at its place at t."""
        return self._draw(self.digits * self.seen)

    def optimal(self, last: int) -> Images:
        """The reconstruction at one frame, (n, 1, H, W)."""
        at = slice(last, last + 1)
        return draw(self.digits * self.seen[:, at], self.positions[:, at], self.canvas.side)[:, 0]

    def _draw(self, digits: Images) -> Images:
        return draw(digits, self.positions, self.canvas.side)
