"""Textures: grey pictures that are shrunk, turned, scaled, and cut into patches.

There are 24 built-in textures, which are computed; 20 Brodatz textures and three photographs under
CC0, which are published files; and any folder of pictures. Values are from 0 (black) to 1 (white).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import sources
from ladderspec.data.counter_rng import below, draws, key_of, normal, uniform
from ladderspec.data.dataset import DataError
from ladderspec.data.formats import read_grey
from ladderspec.data.sets.digits import resize

Floats = NDArray[np.float64]
Images = NDArray[np.float32]
Indices = NDArray[np.int64]

MEAN, STD = 0.5, 0.2  # of equalised textures
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff")

# CHOICE: the paper does not name its 20 textures; these are homogeneous and unlike each other.
BRODATZ = sources.publish(
    "brodatz",
    [
        "https://raw.githubusercontent.com/ag-perception-wallis-lab/deadleaves/main/examples/"
        "textures/brodatz/{name}"
    ],
    """
D4.gif 415253 d5259894de647d0f6a68abb25bd4ba993b02b7c8d1bdc9453f3e997c606a4c87
D6.gif 325555 67abcbcd62e72678b1d4ae92facaf8a5bb41c6e65dc7d08bc8a6de70e9844c72
D9.gif 429522 28fdc145937cc04dadb7bbea2bafc2bfd128964246e463edf967adc00003291d
D11.gif 405299 f33b8716fb353671f15828b9c87cfb4da82a10d87a57ad12fa80d46dfc945825
D15.gif 397321 7563f9cee13f12607f916a0fa675326fdda8be023a00f748a1bb983d6af84c52
D17.gif 412189 8d5af2ded5975bc90a313bb64e1689335ccae7d6206998bd383c9273692a3d78
D20.gif 320156 f9baee1972ce081f47e04a75c45d06629020f630f5d8427f0267f02490302dd9
D21.gif 400997 d8f0890db61854730900c009e5eab2bc6ada9245a54f85fbbc50ae6cb326b153
D24.gif 424004 feaafc9e70e6fc8b745c7e10164b9c0dc50b3ac8e982cc68525dedeb58b4e1c0
D29.gif 392481 8a317ae948b350a3d0215b307d5d9f41e66f89adca00b9518bcf4897507101c4
D34.gif 236480 db1547b21c12da506b0f5f6842f6ad81760ea8a1080ed8c0c515afd63b568741
D37.gif 344704 d52a352d46e7cc3444d4cd2058558e35fba106a766c5e34c69fbba1882cbb473
D49.gif 231847 335639d78b8d00dbd79ea0df8b4fd2b85516d1389d77211cf97ff23ce9f43eb7
D52.gif 353183 d186b1903d6be904b9af6192f23e63bdc24b383d215243259ccab0a9e7c041af
D55.gif 359201 d302e22927368b45fffe3026e70b97ec87a845687cf340ed0e854824e3ed0b9d
D57.gif 407001 278149dac452753430b7dab88d0f1e00f1c941c39a3e0e4291c8157fa764e3be
D66.gif 295743 1745272560131a78fae530c0e457df33028a2e0027d386d93ab79d39dd75d7d6
D68.gif 392765 c6cae1ba3a34bd5df6d34e25b18d1d7ff4f8b09b1c22c68d4220f60dd448274e
D84.gif 395455 72c1054317b79be50a99410ba4fa7b1f57bea582f98ea8aba4ea34727aa043f4
D92.gif 382038 b2b6e58f0d57de9f60d0fc2e5f63bb26658be98be5a56295c5eafd2763751a20
""",
)
CC0 = sources.publish(
    "textures_cc0",
    ["https://raw.githubusercontent.com/scikit-image/scikit-image/v0.22.0/skimage/data/{name}"],
    """
brick.png 106634 7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf
grass.png 217893 b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89
gravel.png 194247 c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12
""",
)
PUBLISHED = {"brodatz": BRODATZ, "cc0": CC0}


# --- pictures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Textures:
    """Square pictures of n textures, all of one size."""

    names: tuple[str, ...]
    images: Images  # (n, side, side)

    @property
    def side(self) -> int:
        return int(self.images.shape[-1])


def load_textures(name: str, shrink: float, folder: Path | None = None) -> Textures:
    """Textures by name.

    Args:
        name: `builtin`, `brodatz`, `cc0`, or a folder of pictures, also inside the data folder.
        shrink: Factor by which the pictures are shrunk (area interpolation).
        folder: The data folder; default `sources.folder()`.
    """
    if name == "builtin":
        found = _built_in()
    elif name in PUBLISHED:
        places = sources.obtain(PUBLISHED[name], folder)
        found = {place.stem: read_grey(place) for place in places}
    else:
        found = {file.name: read_grey(file) for file in _own_files(name, sources.folder(folder))}
    side = min(min(image.shape) for image in found.values())
    small = int(side / shrink)
    if small < 1:
        raise DataError(f"textures of {side}x{side} cannot be shrunk by a factor of {shrink:g}")
    images = np.concatenate([resize(_centre(image, side)[None], small) for image in found.values()])
    return Textures(tuple(found), images)


@cache
def _built_in() -> dict[str, Images]:
    return {name: make() for name, make in PATTERNS.items()}


def content_of_textures(name: str, folder: Path | None = None) -> str | None:
    """A digest of a folder of pictures; None if the textures are built in or published."""
    if name == "builtin" or name in PUBLISHED:
        return None
    files = _own_files(name, sources.folder(folder))
    return sources.digest_of_files({file.name: file for file in files})


def _own_files(name: str, root: Path) -> list[Path]:
    places = [Path(name).expanduser(), root / name]
    place = next((each for each in places if os.path.isdir(each)), None)
    if place is None:
        raise DataError(
            f"no folder of textures `{name}`, here or in {root};"
            f" there are also {', '.join(('builtin', *PUBLISHED))}"
        )
    files = sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES)
    if len(files) < 2:
        raise DataError(
            f"{place} has {len(files)} pictures ({' '.join(SUFFIXES)}), but a digit and its ground"
            " need two different textures"
        )
    return files


def _centre(image: Images, side: int) -> Images:
    top, left = ((size - side) // 2 for size in image.shape)
    return image[top : top + side, left : left + side]


# --- views ----------------------------------------------------------------------------------------


def equalise(images: Images) -> Images:
    """Every picture (..., H, W) with mean 0.5 and standard deviation 0.2; not clipped."""
    found = np.empty_like(images)
    for index in np.ndindex(images.shape[:-2]):
        image = images[index].astype(np.float64)
        found[index] = MEAN + STD * (image - image.mean()) / (image.std() or 1)
    return found


def turned(
    textures: Textures, count: int, scales: tuple[float, float], side: int, seed: int
) -> Images:
    """Random views of every texture, (n, count, side, side): turned, scaled and cut out.

    The angle is uniform, and the scale is log-uniform in `scales`; above 1, textures get coarser.
    """
    n = len(textures.names)
    bits = draws(key_of(seed, "views"), np.arange(n * count), 4)
    draw = uniform(bits)
    angle = 2 * np.pi * draw[:, 0]
    scale = scales[0] * (scales[1] / scales[0]) ** draw[:, 1]
    views = np.empty((n * count, side, side), np.float32)
    line = np.arange(side) - (side - 1) / 2
    for i in range(n * count):
        cos, sin = math.cos(angle[i]) / scale[i], math.sin(angle[i]) / scale[i]
        margin = (side - 1) / 2 * (abs(cos) + abs(sin))  # of the turned square
        room = textures.side - 1 - 2 * margin
        row, column = margin + room * draw[i, 2:]
        rows = row + cos * line[:, None] + sin * line
        columns = column - sin * line[:, None] + cos * line
        views[i] = _interpolate(textures.images[i // count], rows, columns)
    return views.reshape(n, count, side, side)


def largest_view(side: int, smallest_scale: float) -> int:
    """Side of the largest square that fits into a texture, however it is turned.

    >>> largest_view(160, 0.75)
    85
    """
    return max(0, math.floor((side - 1) * smallest_scale / math.sqrt(2)) + 1)


def _interpolate(image: Images, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Images:
    """Bilinear interpolation at places inside the image."""
    last = len(image) - 2
    top = np.clip(np.floor(rows).astype(np.int64), 0, last)
    left = np.clip(np.floor(columns).astype(np.int64), 0, last)
    down, right = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
    upper = image[top, left] * (1 - right) + image[top, left + 1] * right
    lower = image[top + 1, left] * (1 - right) + image[top + 1, left + 1] * right
    return np.asarray(upper * (1 - down) + lower * down, np.float32)


def patches(views: Images, texture: Indices, bits: NDArray[np.uint64], side: int) -> Images:
    """A random patch of each chosen texture, (n, side, side).

    Args:
        views: Views of all textures, (textures, views, H, H).
        texture: Number of the texture of each patch, (n,).
        bits: Three draws for each patch, (n, 3): view, row and column.
        side: Side of a patch.
    """
    view = below(bits[:, 0], views.shape[1])
    corner = below(bits[:, 1:], views.shape[-1] - side + 1)
    line = np.arange(side)
    rows, columns = (corner[:, axis, None] + line for axis in (0, 1))
    one = (slice(None), None, None)
    found: Images = views[texture[one], view[one], rows[:, :, None], columns[:, None, :]]
    return found


# --- the built-in textures ------------------------------------------------------------------------

# No two differ by a rotation alone, because textures are turned for training. Lengths are in pixels
# of a picture of 512x512; with the default `shrink`, a canvas of `textured_mnist` shows 96 of them.
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


def _image(make: Callable[..., Floats], *arguments: float | str | bool) -> Images:
    return np.clip(make(*arguments), 0, 1).astype(np.float32)


PATTERNS: dict[str, Callable[[], Images]] = {
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
