"""Losses on music that every model should beat, in nats per step; and the score they share.

The loss of a step is the negative log-likelihood summed over the 88 notes. `pooled`, the convention
of the results [t:midires], averages over all steps of all sequences together; `mean_of_means` first
inside each sequence. Whether the first step of a sequence counts is part of a baseline's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data._pieces import Pieces
from ladderspec.data._rolls import Rolls
from ladderspec.data._types import Indices
from ladderspec.data.chunks import chunks

Floats = NDArray[np.float64]
Predict = Callable[[NDArray[Any]], Floats]  # notes before (..., 88) -> probabilities (..., 88)


@dataclass
class Score:
    """Losses by sequence; steps may come in any order and in pieces."""

    totals: dict[int, float] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, sequences: Indices, losses: Floats, scored: NDArray[np.bool_]) -> None:
        """`losses` (rows, steps) of these sequences, where `scored`."""
        for row, sequence in enumerate(sequences.tolist()):
            kept = losses[row][scored[row]]
            self.totals[sequence] = self.totals.get(sequence, 0.0) + float(kept.sum())
            self.counts[sequence] = self.counts.get(sequence, 0) + len(kept)

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
    """-log p(x) of independent notes, summed over the last axis."""
    loss: Floats = -np.where(x > 0, np.log(p), np.log1p(-p)).sum(-1)
    return loss


def evaluate(
    data: Pieces, predict: Predict, split: str = "test", *, first: bool, size: int = 16
) -> Score:
    """Score a predictor from the notes before; `first`: also from silence before the first step."""
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


# --- predictors -----------------------------------------------------------------------------------


def constant(rolls: Rolls, count: float = 0.5) -> Predict:
    """p_j = (sum x_j + count) / (steps + 2 count), whatever came before."""
    p = (rolls.notes.sum(0) + count) / (len(rolls.notes) + 2 * count)
    return lambda before: np.broadcast_to(p, before.shape)


def markov(rolls: Rolls) -> Predict:
    """p(x_tj given x_t-1,j) with half a count each, and silence before the first step."""
    ends = np.cumsum(rolls.lengths)[:-1]
    before = np.concatenate([np.zeros_like(rolls.notes[:1]), rolls.notes[:-1]])
    before[ends] = 0
    steps, sounds = _transitions(before, rolls.notes)
    return _given_before((sounds + 0.5) / (steps + 1.0))


def markov_pooled(rolls: Rolls) -> Predict:
    """p(x_tj given x_t-1,j), and five steps at the rate that all notes share for that x_t-1."""
    inside = np.ones(len(rolls.notes), bool)
    inside[np.cumsum(rolls.lengths) - 1] = False  # no step follows the last of a sequence
    at = np.flatnonzero(inside)
    steps, sounds = _transitions(rolls.notes[at], rolls.notes[at + 1])
    rate = sounds.sum(1, keepdims=True) / steps.sum(1, keepdims=True)
    return _given_before((sounds + 5 * rate) / (steps + 5))


def _transitions(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """(2, 88) each, by silence or sound before: how many steps, and how many of them sound."""
    on, both = before.sum(0, dtype=np.int64), (before & after).sum(0, dtype=np.int64)
    steps = np.stack([len(before) - on, on]).astype(np.float64)
    sounds = np.stack([after.sum(0, dtype=np.int64) - both, both]).astype(np.float64)
    return steps, sounds


def _given_before(p: Floats) -> Predict:
    return lambda before: np.where(before > 0, p[1], p[0])


# --- by name --------------------------------------------------------------------------------------


def _table(data: Pieces, split: str) -> dict[str, Callable[[], float]]:
    train, both = data.rolls("train"), data.rolls("train+valid")

    def score(predict: Predict, first: bool) -> Score:
        return evaluate(data, predict, split, first=first)

    return {
        "constant, first step scored": lambda: score(constant(train), True).pooled,
        "constant, first step scored, mean of means": lambda: (
            score(constant(train), True).mean_of_means
        ),
        "constant, first step scored, fitted on train + valid": lambda: (
            score(constant(both), True).pooled
        ),
        "constant, first step not scored": lambda: score(constant(train), False).pooled,
        "constant of small counts, first step not scored": lambda: (
            score(constant(train, 0.001), False).pooled
        ),
        "note Markov, first step scored": lambda: score(markov(train), True).pooled,
        "note Markov, first step scored, mean of means": lambda: (
            score(markov(train), True).mean_of_means
        ),
        "note Markov of pooled rates, first step not scored": lambda: (
            score(markov_pooled(train), False).pooled
        ),
    }


def music_baselines(data: Pieces, split: str = "test") -> dict[str, float]:
    """All baselines by name."""
    return {name: value() for name, value in _table(data, split).items()}
