"""What can be known of the next frame: bounds on the prediction error of `occluded_mnist`.

The error is the squared difference per pixel, in [0, 1], averaged over the predicted frames; the
paper prints it x 1e-5 [t:ommnist]. A tracker knows where the digit is and, from the second frame
on, how it moves; after the first frame all velocities are as likely. What it has not seen of the
digit it fills in. All frames are those before noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import _flight
from ladderspec.data._contract import Split
from ladderspec.data._moving import Flight, Moving

Images = NDArray[np.float32]
Weights = NDArray[np.float64]

BATCH = 250


def prediction_bounds(data: Moving, split: str = "test", items: int = 2000) -> dict[str, float]:
    """Mean squared errors per pixel, by the name of who predicts."""
    rows = data.digits.rows(Split.TRAIN)
    mean = data.digits.images[rows.start : rows.stop].mean(0)
    count = min(items, data.size(split))
    sums: dict[str, float] = {}
    for start in range(0, count, BATCH):
        flight = data.flight(split, 0, np.arange(start, min(start + BATCH, count)))
        for name, value in _errors(flight, mean, data.words.bounce).items():
            sums[name] = sums.get(name, 0.0) + value
    return {name: value / count for name, value in sums.items()}


def _errors(flight: Flight, mean: Images, bounce: str) -> dict[str, float]:
    """Summed over the digits, averaged over pixels and predicted frames."""
    frames = flight.frames()
    steps = frames.shape[1] - 1
    found: dict[str, float] = {}
    for t in range(steps):
        where = _next_positions(flight, t, bounce)
        seen = flight.seen[:, t]
        digits = flight.digits[:, 0]
        predictions = {
            "background": np.zeros_like(frames[:, 0]),
            "copy of the last frame": frames[:, t],
            "tracker, unseen pixels 0": _expected(flight, digits * seen, *where),
            "tracker, unseen pixels of the mean digit": _expected(
                flight, np.where(seen, digits, mean), *where
            ),
            "tracker that knows the digit": _expected(flight, digits, *where),
        }
        for name, predicted in predictions.items():
            error = np.square(predicted - frames[:, t + 1], dtype=np.float64).mean((1, 2, 3)).sum()
            found[name] = found.get(name, 0.0) + float(error) / steps
    return found


def _next_positions(flight: Flight, t: int, bounce: str) -> tuple[_flight.Ints, Weights]:
    """Where a digit can be next, (n, k, 2), and how likely, (n, k)."""
    stage, now = flight.stage, flight.positions[:, t]
    ahead = now[:, None] + stage.velocities
    inside = ((ahead >= 0) & (ahead <= stage.reach)).all(-1)
    if bounce == "reflect":
        certain = t > 0
        where = (
            flight.positions[:, t + 1 : t + 2] if certain else _flight.reflect(ahead, stage.reach)
        )
        return where, np.full(where.shape[:2], 1 / where.shape[1])
    likely = inside / inside.sum(1, keepdims=True)
    if t > 0:
        same = (ahead == (2 * now - flight.positions[:, t - 1])[:, None]).all(-1)
        goes_on = (same & inside).any(1, keepdims=True)
        likely = np.where(goes_on, same, likely)
    return np.clip(ahead, 0, stage.reach), likely  # those outside have no weight


def _expected(flight: Flight, digits: Images, where: _flight.Ints, likely: Weights) -> Images:
    """The mean frame over the positions where the digit may be."""
    shown = digits[:, None] * _flight.visible(flight.stage, where)
    shown = shown * likely[:, :, None, None].astype(np.float32)
    return sum(  # type: ignore[return-value]  # never empty
        _flight.place(flight.stage, shown[:, k : k + 1], where[:, k : k + 1])[:, 0]
        for k in range(where.shape[1])
    )


def seen_shares(data: Moving, split: str = "test", items: int = 2000) -> list[float]:
    """Which share of the digit's box has been seen by frame t = 1, 2, ..."""
    flight = data.flight(split, 0, np.arange(min(items, data.size(split))))
    return [float(share) for share in flight.seen.mean((0, 2, 3))]
