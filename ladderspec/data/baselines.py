"""Predictors without training, as a reference for trained networks.

`prediction_bounds`: errors on the next frame of `occluded_mnist`. The error is the squared
difference per pixel, in [0, 1], averaged over the predicted frames; the paper prints it x 1e-5
[t:ommnist]. A tracker knows the position of the digit and, from the second frame on, its velocity;
after the first frame all velocities are equally likely. The predictors differ in how they fill in
the pixels that no frame has shown. All frames are those before noise.

`music_baselines`: losses on `music` in nats per step, the negative log-likelihood summed over the
88 notes. `pooled`, the convention of the results [t:midires], averages over all steps of all
sequences together; `mean_of_means` first averages within each sequence. The name of a baseline
says whether the first step of a sequence is scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.batching import Indices, chunks
from ladderspec.data.dataset import DataError, DataSet, Split
from ladderspec.data.flights import Flight, Images, Positions, reflect
from ladderspec.data.sets.music import MusicData, Rolls
from ladderspec.data.sets.occluded_mnist import OccludedMnistData

Floats = NDArray[np.float64]
Predict = Callable[[NDArray[Any]], Floats]  # notes before (..., 88) -> probabilities (..., 88)


# --- occluded_mnist -------------------------------------------------------------------------------


def prediction_bounds(
    data: OccludedMnistData, split: str = "test", items: int = 2000, size: int = 250
) -> dict[str, float]:
    """Mean squared errors per pixel by the name of the predictor.

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


def prediction_baselines(data: DataSet, split: str, items: int) -> dict[str, float]:
    """Three of the bounds, x 1e-5 like the error of prediction tasks."""
    if not isinstance(data, OccludedMnistData):
        raise DataError("`prediction` is a reference method for occluded_mnist")
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
        flight.canvas.draw(shown[:, k : k + 1], positions[:, k : k + 1])[:, 0]
        for k in range(positions.shape[1])
    )


# --- music: scores --------------------------------------------------------------------------------


@dataclass
class Score:
    """Losses by sequence; steps may be added in any order and in parts."""

    totals: dict[int, float] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, sequences: Indices, losses: Floats, scored: NDArray[np.bool_]) -> None:
        """Add `losses` (rows, steps) of these sequences at the steps that are `scored`."""
        for row, sequence in enumerate(sequences.tolist()):
            chosen = losses[row][scored[row]]
            self.totals[sequence] = self.totals.get(sequence, 0.0) + float(chosen.sum())
            self.counts[sequence] = self.counts.get(sequence, 0) + len(chosen)

    @property
    def steps(self) -> int:
        return sum(self.counts.values())

    @property
    def pooled(self) -> float:
        return sum(self.totals.values()) / max(1, self.steps)

    @property
    def mean_of_means(self) -> float:
        means = [self.totals[i] / count for i, count in self.counts.items() if count]
        return sum(means) / max(1, len(means))


def nats(p: Floats, x: NDArray[Any]) -> Floats:
    """Negative log-likelihood of independent notes, summed over the last axis."""
    loss: Floats = -np.where(x > 0, np.log(p), np.log1p(-p)).sum(-1)
    return loss


def evaluate(
    data: MusicData, predict: Predict, split: str = "test", *, first: bool, size: int = 16
) -> Score:
    """Score a predictor; `first`: also the first step of each sequence, predicted from silence."""
    score = Score()
    for indices in data.batches(split, 0, size):
        whole = data.batch(split, 0, indices)
        if first:
            opening = whole["frames"][:, :1, 0, 0]
            score.add(indices, nats(predict(np.zeros_like(opening)), opening), whole["mask"][:, :1])
        for chunk in chunks(whole, data.forms, 200):
            notes, mask = chunk.batch["frames"][:, :, 0, 0], chunk.batch["mask"]
            losses = nats(predict(notes[:, :-1]), notes[:, 1:])
            score.add(indices[: chunk.rows], losses, mask[:, 1:])
    return score


# --- music: predictors ----------------------------------------------------------------------------


def constant(rolls: Rolls, count: float = 0.5) -> Predict:
    """p_j = (sum x_j + count) / (steps + 2 count), independent of the notes before."""
    p = (rolls.notes.sum(0) + count) / (len(rolls.notes) + 2 * count)
    return lambda before: np.broadcast_to(p, before.shape)


def markov(rolls: Rolls) -> Predict:
    """p(x_tj given x_t-1,j) with pseudo-counts of 1/2, and silence before the first step."""
    ends = np.cumsum(rolls.lengths)[:-1]
    before = np.concatenate([np.zeros_like(rolls.notes[:1]), rolls.notes[:-1]])
    before[ends] = 0
    steps, sounds = _transitions(before, rolls.notes)
    return _given_before((sounds + 0.5) / (steps + 1.0))


def markov_pooled(rolls: Rolls) -> Predict:
    """p(x_tj given x_t-1,j) with five pseudo-counts at the rate pooled over all notes."""
    inside = np.ones(len(rolls.notes), bool)
    inside[np.cumsum(rolls.lengths) - 1] = False  # no step follows the last of a sequence
    at = np.flatnonzero(inside)
    steps, sounds = _transitions(rolls.notes[at], rolls.notes[at + 1])
    rate = sounds.sum(1, keepdims=True) / steps.sum(1, keepdims=True)
    return _given_before((sounds + 5 * rate) / (steps + 5))


def _transitions(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """(2, 88) each, after silence and after sound: number of steps, and of those that sound."""
    on, both = before.sum(0, dtype=np.int64), (before & after).sum(0, dtype=np.int64)
    steps = np.stack([len(before) - on, on]).astype(np.float64)
    sounds = np.stack([after.sum(0, dtype=np.int64) - both, both]).astype(np.float64)
    return steps, sounds


def _given_before(p: Floats) -> Predict:
    return lambda before: np.where(before > 0, p[1], p[0])


def music_baselines(data: MusicData, split: str = "test") -> dict[str, float]:
    """Losses of all baselines by name."""
    train, both = data.rolls("train"), data.rolls("train+valid")

    def score(predict: Predict, first: bool) -> Score:
        return evaluate(data, predict, split, first=first)

    constant_first, markov_first = score(constant(train), True), score(markov(train), True)
    return {
        "constant, first step scored": constant_first.pooled,
        "constant, first step scored, mean of means": constant_first.mean_of_means,
        "constant, first step scored, fitted on train + valid": score(constant(both), True).pooled,
        "constant, first step not scored": score(constant(train), False).pooled,
        "constant of small counts, first step not scored": (
            score(constant(train, 0.001), False).pooled
        ),
        "note Markov, first step scored": markov_first.pooled,
        "note Markov, first step scored, mean of means": markov_first.mean_of_means,
        "note Markov of pooled rates, first step not scored": (
            score(markov_pooled(train), False).pooled
        ),
    }
