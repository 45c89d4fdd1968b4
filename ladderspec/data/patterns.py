"""The built-in textures: 24 computed patterns, so that everything runs without a download.

No two differ by a rotation alone, because textures are turned for training. Lengths are in pixels
of a picture of 512x512; with the default `shrink` of `textured_mnist`, a canvas shows 96 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.counter_rng import key_of, normal

Floats = NDArray[np.float64]
Image = NDArray[np.float32]

SIDE = 512


def _grid() -> Floats:
    """Row and column of every pixel, (2, SIDE, SIDE)."""
    return np.indices((SIDE, SIDE)).astype(np.float64)


def _wave(position: Floats, period: float) -> Floats:
    """A sine wave between 0 and 1."""
    return np.asarray(0.5 + 0.5 * np.sin(2 * np.pi * position / period))


def _edge(distance: Floats) -> Floats:
    """1 where a signed distance in pixels is positive, with an edge one pixel wide."""
    return np.clip(distance + 0.5, 0, 1)


def _to_stripe(position: Floats, period: float, width: float) -> Floats:
    """Signed distance to the stripes of a width that repeat with a period; positive inside."""
    return width / 2 - np.abs((position + period / 2) % period - period / 2)


def grating(period: float) -> Floats:
    """A sine wave."""
    return _wave(_grid()[0], period)


def stripes(period: float, width: float) -> Floats:
    """Bright stripes."""
    return _edge(_to_stripe(_grid()[0], period, width))


def checks(cell: float) -> Floats:
    """A chessboard."""
    down, across = _to_stripe(_grid(), 2 * cell, cell)
    return _edge(np.where(np.abs(down) < np.abs(across), down * np.sign(across),
                          across * np.sign(down)))  # fmt: skip


def grid(period: float, width: float) -> Floats:
    """Two crossing sets of bright lines."""
    down, across = _to_stripe(_grid(), period, width)
    return _edge(np.maximum(down, across))


def dots(period: float, radius: float, staggered: bool = False) -> Floats:
    """Bright discs on a square lattice; staggered: every other row is shifted by half a period."""
    rows, columns = _grid()
    if staggered:
        columns = columns + (rows // period % 2) * period / 2
    down, across = (each % period - period / 2 for each in (rows, columns))
    return _edge(radius - np.hypot(down, across))


def bricks(height: float, length: float, joint: float) -> Floats:
    """Bricks with dark joints; every other row is shifted by half a brick."""
    rows, columns = _grid()
    columns = columns + (rows // height % 2) * length / 2
    return 1 - _edge(
        np.maximum(_to_stripe(rows, height, joint), _to_stripe(columns, length, joint))
    )


def zigzag(period: float) -> Floats:
    """A sine wave along zigzag lines."""
    rows, columns = _grid()
    bent = rows + np.abs(columns % (2 * period) - period)
    return _wave(bent, period)


def weave(width: float) -> Floats:
    """Threads that pass over and under each other."""
    rows, columns = _grid()
    over = (rows // width + columns // width) % 2 == 0
    along = np.where(over, rows, columns)
    return np.asarray(np.sin(np.pi * (along % width) / width) * np.where(over, 1.0, 0.6))


def noise(name: str, rows: float, columns: float) -> Floats:
    """Gaussian noise, smoothed over these lengths, with mean 1/2 and standard deviation 1/5."""
    white = normal(key_of(0, name), np.arange(SIDE), SIDE).astype(np.float64)
    frequency = np.fft.fftfreq(SIDE)
    gain = np.exp(-((frequency[:, None] * rows) ** 2) - (frequency * columns) ** 2)
    smooth = np.fft.ifft2(np.fft.fft2(white) * gain).real
    return np.asarray(0.5 + 0.2 * (smooth - smooth.mean()) / smooth.std())


def blobs(name: str, size: float) -> Floats:
    """Noise with two values."""
    return _edge((noise(name, size, size) - 0.5) * size)


def _image(make: Callable[..., Floats], *arguments: float | str | bool) -> Image:
    return np.clip(make(*arguments), 0, 1).astype(np.float32)


PATTERNS: dict[str, Callable[[], Image]] = {
    name: partial(_image, make, *arguments)
    for name, make, *arguments in (
        ("grating-8", grating, 8.0),
        ("grating-16", grating, 16.0),
        ("grating-30", grating, 30.0),
        ("stripes-24", stripes, 24.0, 12.0),
        ("lines-12", stripes, 12.0, 3.0),
        ("lines-28", stripes, 28.0, 6.0),
        ("checks-6", checks, 6.0),
        ("checks-12", checks, 12.0),
        ("checks-24", checks, 24.0),
        ("grid-14", grid, 14.0, 3.0),
        ("grid-30", grid, 30.0, 8.0),
        ("dots-12", dots, 12.0, 4.0),
        ("dots-26", dots, 26.0, 8.0),
        ("dots-32", dots, 32.0, 13.0, True),
        ("bricks", bricks, 16.0, 36.0, 4.0),
        ("zigzag", zigzag, 22.0),
        ("weave", weave, 14.0),
        ("noise-4", noise, "noise-4", 4.0, 4.0),
        ("noise-10", noise, "noise-10", 10.0, 10.0),
        ("noise-24", noise, "noise-24", 24.0, 24.0),
        ("grain-fine", noise, "grain-fine", 4.0, 40.0),
        ("grain-coarse", noise, "grain-coarse", 10.0, 80.0),
        ("blobs-10", blobs, "blobs-10", 10.0),
        ("blobs-20", blobs, "blobs-20", 20.0),
    )
}
