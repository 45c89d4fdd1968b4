"""Groups of the pixels of one image by k-means, scored like those of a network.

It needs no training, and is a reference for networks with groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ladderspec.data.batching import Indices
from ladderspec.data.dataset import DataError, DataSet
from ladderspec.grouping_scores import grouping_scores

Floats = NDArray[np.float64]
KMEANS_ITERATIONS = 30


def kmeans_baselines(
    data: DataSet, split: str = "test", items: int = 1000, size: int = 250
) -> dict[str, float]:
    """Mean AMI of k-means on the pixels of each image, by the name of the baseline.

    `brightness` is the image, blurred by a box of 3x3. `texture energy` is the mean absolute
    gradient in a box of 5x5 and the standard deviation in a box of 5x5. Frames of a sequence are
    separate images. Images without any pixel that counts are left out.

    Args:
        data: A data set with the field `groups`, like `textured_mnist`.
        items: Number of items, from the first one.
        size: Number of items that are computed together.
    """
    data.form("groups")
    count = min(items, data.size(split))
    scores: dict[str, list[Floats]] = {}
    for start in range(0, count, size):
        batch = data.batch(split, 0, np.arange(start, min(start + size, count)),
                           [data.config.input, "groups"])  # fmt: skip
        images, truth = _as_maps(batch[data.config.input]), _as_maps(batch["groups"])
        for feature, values in (
            ("brightness", box_blur(images, 3)[..., None]),
            ("texture energy", texture_energy(images)),
        ):
            for k in (2, 3):
                found = kmeans(values.reshape(len(images), -1, values.shape[-1]), k)
                each = grouping_scores(truth, found.reshape(truth.shape))
                scores.setdefault(f"{k}-means of {feature}", []).append(each)
    return {name: float(np.nanmean(np.concatenate(parts))) for name, parts in scores.items()}


def _as_maps(values: NDArray[Any]) -> NDArray[Any]:
    """Images or frames of one channel, also flattened ones, as (n, H, W)."""
    if values.ndim == 2:
        side = int(np.sqrt(values.shape[1]))
        return values.reshape(-1, side, side)
    if values.shape[-3] != 1:
        raise DataError(f"k-means needs images of one channel, but these have {values.shape[-3]}")
    return values.reshape(-1, *values.shape[-2:])


def box_blur(images: NDArray[Any], width: int) -> Floats:
    """The mean over a box of width x width (odd); borders are repeated outwards."""
    reach = width // 2
    wide = np.pad(images, [(0, 0), (reach, reach), (reach, reach)], "edge")
    for axis in (1, 2):
        wide = sliding_window_view(wide, width, axis).mean(-1)
    return wide.astype(np.float64)


def texture_energy(images: NDArray[Any], width: int = 5) -> Floats:
    """Local contrast of every pixel, (n, H, W, 2), each feature with unit variance per image."""
    wide = images.astype(np.float64)
    # Differences of neighbours: a gradient by central differences misses patterns of two pixels.
    down, across = (np.diff(wide, axis=a, append=wide.take([-1], a)) for a in (1, 2))
    mean = box_blur(wide, width)
    variance = np.maximum(box_blur(wide**2, width) - mean**2, 0)
    found = np.stack([box_blur(np.abs(down) + np.abs(across), width), np.sqrt(variance)], -1)
    spread = found.std((1, 2), keepdims=True)
    return np.asarray(found / np.where(spread > 0, spread, 1))


def kmeans(points: Floats, k: int) -> Indices:
    """Lloyd's algorithm on the points of each item: (n, points, features) -> groups (n, points).

    The centres start at the middles of k equal parts of the points, sorted along the first
    principal component of their item.
    """
    centred = points - points.mean(1, keepdims=True)
    _, vectors = np.linalg.eigh(centred.swapaxes(1, 2) @ centred)
    order = np.argsort((centred @ vectors[..., -1:])[..., 0], axis=1)
    middles = ((np.arange(k) + 0.5) * points.shape[1] / k).astype(np.int64)
    centres = np.take_along_axis(points, order[:, middles, None], 1)
    for _ in range(KMEANS_ITERATIONS):
        groups = _nearest(points, centres)
        members = groups[..., None] == np.arange(k)  # (n, points, k)
        counts = members.sum(1)[..., None]
        sums = members.swapaxes(1, 2).astype(np.float64) @ points
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
    return _nearest(points, centres)


def _nearest(points: Floats, centres: Floats) -> Indices:
    distances = np.square(points[:, :, None] - centres[:, None]).sum(-1)
    return np.asarray(distances.argmin(-1))
