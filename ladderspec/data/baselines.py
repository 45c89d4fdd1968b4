"""Reference methods that need no training, for `baselines` of an experiment.

`prediction` scores the next frame of `occluded_mnist`, `kmeans` the groups of pixels of
`textured_mnist` and `moving_mnist`, and `notes` the next step of `music`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ladderspec.data.batching import Indices
from ladderspec.data.dataset import DataError, DataSet, Split
from ladderspec.data.flights import Flight, Images, Positions, draw, reflect
from ladderspec.grouping_scores import grouping_scores

if TYPE_CHECKING:  # these modules import this one
    from ladderspec.data.sets.music import MusicData, Rolls
    from ladderspec.data.sets.occluded_mnist import OccludedMnistData

Floats = NDArray[np.float64]
KMEANS_ITERATIONS = 30


# --- the next frame of occluded_mnist -------------------------------------------------------------


def prediction_bounds(
    data: OccludedMnistData, split: str = "test", items: int = 2000, size: int = 250
) -> dict[str, float]:
    """Mean squared errors of the next frame, per pixel, by the name of the predictor.

    The error is averaged over the predicted frames; pixels are in [0, 1], and frames are those
    before noise. A tracker knows the position of the digit and, from the second frame on, its
    velocity; after the first frame all velocities are equally likely. Trackers differ in how they
    fill in the pixels that no frame has shown.

    Args:
        items: Number of items, from the first one.
        size: Number of items that are computed together.
    """
    rows = data.digits.rows(Split.TRAIN)
    mean = data.digits.images[rows.start : rows.stop].mean(0)
    count = min(items, data.size(split))
    sums: dict[str, float] = {}
    for start in range(0, count, size):
        flight = data.flight(split, 0, np.arange(start, min(start + size, count)))
        for name, value in _errors(flight, mean, data.config.bounce).items():
            sums[name] = sums.get(name, 0.0) + value
    return {name: value / count for name, value in sums.items()}


def prediction_baselines(data: Any, split: str, items: int) -> dict[str, float]:
    """Three of the bounds, x 1e-5 like the error of prediction tasks [t:ommnist]."""
    bounds = prediction_bounds(data, split, items)
    names = {
        "empty frame": "background",
        "copy of the last frame": "copy of the last frame",
        "tracker with the mean digit": "tracker, unseen pixels of the mean digit",
    }
    return {title: 1e5 * bounds[name] for title, name in names.items()}


def _errors(flight: Flight, mean: Images, bounce: str) -> dict[str, float]:
    """Summed over the digits, averaged over pixels and predicted frames."""
    frames, digits = flight.frames(), flight.digits[:, 0]
    steps = frames.shape[1] - 1
    found: dict[str, float] = {}
    for t in range(steps):
        ahead = _next_positions(flight, t, bounce)
        seen = flight.seen[:, t]
        filled = np.where(seen, digits, mean)
        predictions = {
            "background": np.zeros_like(frames[:, 0]),
            "copy of the last frame": frames[:, t],
            "tracker, unseen pixels 0": _expected(flight, digits * seen, *ahead),
            "tracker, unseen pixels of the mean digit": _expected(flight, filled, *ahead),
            "tracker that knows the digit": _expected(flight, digits, *ahead),
        }
        for name, predicted in predictions.items():
            error = np.square(predicted - frames[:, t + 1], dtype=np.float64).mean((1, 2, 3)).sum()
            found[name] = found.get(name, 0.0) + float(error) / steps
    return found


def _next_positions(flight: Flight, t: int, bounce: str) -> tuple[Positions, Floats]:
    """The possible next positions of a digit, (n, k, 2), and their probabilities, (n, k)."""
    canvas, now = flight.canvas, flight.positions[:, t]
    ahead = now[:, None] + canvas.velocities
    if bounce == "reflect":
        known = t > 0
        found = flight.positions[:, t + 1 : t + 2] if known else reflect(ahead, canvas.reach)
        return found, np.full(found.shape[:2], 1 / found.shape[1])
    inside = canvas.contains(ahead)
    likely = inside / inside.sum(1, keepdims=True)
    if t > 0:
        same = (ahead == (2 * now - flight.positions[:, t - 1])[:, None]).all(-1)
        goes_on = (same & inside).any(1, keepdims=True)
        likely = np.where(goes_on, same, likely)
    return np.clip(ahead, 0, canvas.reach), likely  # positions outside have probability 0


def _expected(flight: Flight, digits: Images, positions: Positions, likely: Floats) -> Images:
    """The expected frame over the possible positions."""
    shown = digits[:, None] * flight.canvas.visible_pixels(positions)
    shown = shown * likely[:, :, None, None].astype(np.float32)
    return sum(  # type: ignore[return-value]  # never empty
        draw(shown[:, k : k + 1], positions[:, k : k + 1], flight.canvas.side)[:, 0]
        for k in range(positions.shape[1])
    )


# --- groups of pixels ----------------------------------------------------------------------------


def kmeans_baselines(
    data: DataSet, split: str = "test", items: int = 1000, size: int = 250
) -> dict[str, float]:
    """Mean AMI of k-means on the pixels of each image, by the name of the method.

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


# --- the next step of music -----------------------------------------------------------------------


def note_baselines(data: Any, split: str, items: int) -> dict[str, float]:
    """Negative log-likelihood of a step in nats, summed over the notes, by the name of the method.

    It is averaged over all steps of all sequences together but the first of each [t:midires]. Both
    methods count in the training data: how often a note sounds, and how often it sounds after
    silence and after sound, with five pseudo-counts at the rate of all notes.
    """
    music: MusicData = data
    train = music.rolls(Split.TRAIN)
    before, after = _transitions(train, len(train))
    on, both = before.sum(0), (before & after).sum(0)
    steps = np.stack([len(before) - on, on]).astype(np.float64)
    sounds = np.stack([after.sum(0) - both, both]).astype(np.float64)
    rate = sounds.sum(1, keepdims=True) / steps.sum(1, keepdims=True)
    silent, sounding = (sounds + 5 * rate) / (steps + 5)
    notes = np.concatenate(train)
    constant = (notes.sum(0) + 0.5) / (len(notes) + 1)
    before, after = _transitions(music.rolls(split), items)
    return {
        "constant rate of every note": nats(constant, after),
        "Markov chain of every note": nats(np.where(before, sounding, silent), after),
    }


def _transitions(rolls: Rolls, items: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The notes before and after every transition of the first sequences, (transitions, 88)."""
    chosen = rolls[:items]
    return np.concatenate([r[:-1] for r in chosen]), np.concatenate([r[1:] for r in chosen])


def nats(p: Floats, notes: NDArray[np.uint8]) -> float:
    """Mean negative log-likelihood of steps (n, 88) of independent notes with probabilities `p`."""
    return float(-np.where(notes > 0, np.log(p), np.log1p(-p)).sum(-1).mean())
