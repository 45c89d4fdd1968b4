"""Agreement of two groupings of the same pixels: adjusted mutual information (AMI).

AMI = (I(U, V) - E) / (max(H(U), H(V)) - E), where I is the mutual information, H the entropy, and E
the expected I of two random groupings with these group sizes (Vinh, Epps and Bailey 2010). It is 1
for equal groupings, whatever the groups are called, and 0 on average for unrelated ones. Published
scores of Tagger and RTagger have the maximum too; scikit-learn takes the mean of the entropies
unless it is called with `average_method="max"`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

IGNORED = -1  # pixels of no group, in the truth


def grouping_scores(truth: ArrayLike, predicted: ArrayLike) -> Floats:
    """The AMI of each of n images, (n,).

    Args:
        truth: Group of every pixel, (n, ...); -1 if the pixel does not count.
        predicted: Group of every pixel, of the same shape.

    Returns:
        One score per image; NaN if no pixel of the image counts.
    """
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    if truth.shape != predicted.shape:
        raise ValueError(f"truth is {truth.shape}, but the predicted groups are {predicted.shape}")
    scores = np.full(len(truth), np.nan)
    for i, (wanted, found) in enumerate(zip(truth, predicted, strict=True)):
        counts = wanted != IGNORED
        if counts.any():
            scores[i] = adjusted_mutual_information(wanted[counts], found[counts])
    return scores


def adjusted_mutual_information(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The AMI of two groupings of the same n items.

    Args:
        truth: Group of every item; any integers.
        predicted: Group of every item, in the same order.

    >>> round(adjusted_mutual_information([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]), 6)
    0.225042
    >>> adjusted_mutual_information([0, 0, 1, 1], [7, 7, 3, 3])
    1.0
    """
    truth, predicted = np.ravel(truth), np.ravel(predicted)
    if len(truth) != len(predicted):
        raise ValueError(f"{len(truth)} items have a true group, but {len(predicted)} a predicted")
    table = _contingency(truth, predicted)
    rows, columns = table.sum(1), table.sum(0)
    # Equal groupings: each row and each column has one entry. The quotient could be 0 / 0.
    if np.count_nonzero(table) == len(rows) == len(columns):
        return 1.0
    entropies = _entropy(rows), _entropy(columns)
    information = sum(entropies) - _entropy(table)
    expected = _expected_information(rows, columns)
    gap = max(entropies) - expected
    # I and E are 0 if one side is a single group; H and E are equal if all items are alone.
    smallest = float(np.finfo(np.float64).eps)
    gap = min(gap, -smallest) if gap < 0 else max(gap, smallest)
    return (information - expected) / gap


def _contingency(truth: NDArray[Any], predicted: NDArray[Any]) -> NDArray[np.int64]:
    """Number of items in each pair of groups, (true groups, predicted groups)."""
    first, rows = np.unique(truth, return_inverse=True)
    second, columns = np.unique(predicted, return_inverse=True)
    pairs = np.bincount(rows * len(second) + columns, minlength=len(first) * len(second))
    return pairs.reshape(len(first), len(second)).astype(np.int64)


def _entropy(counts: NDArray[np.int64]) -> float:
    """In nats, of the distribution that is proportional to these counts."""
    found = counts[counts > 0]
    total = int(found.sum())
    return math.log(total) - float((found * np.log(found)).sum()) / total if total else 0.0


def _expected_information(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> float:
    """E = sum over pairs of groups of sizes a, b and over k of  k/n log(n k / (a b)) P(k).

    P is hypergeometric: the probability that k of the b items of one group are among the a items
    of the other.
    """
    n = int(rows.sum())
    log_factorial = _log_factorials(1 << n.bit_length())
    total = 0.0
    sizes, times = np.unique(rows, return_counts=True)
    others, other_times = np.unique(columns, return_counts=True)
    for a, how_often in zip(sizes.tolist(), times.tolist(), strict=True):
        for b, how_often_too in zip(others.tolist(), other_times.tolist(), strict=True):
            k = np.arange(max(1, a + b - n), min(a, b) + 1)
            log_p = (
                log_factorial[a] + log_factorial[b] + log_factorial[n - a] + log_factorial[n - b]
                - log_factorial[n] - log_factorial[k] - log_factorial[a - k]
                - log_factorial[b - k] - log_factorial[n - a - b + k]
            )  # fmt: skip
            each = k / n * np.log(n * k / (a * b)) * np.exp(log_p)
            total += float(each.sum()) * how_often * how_often_too
    return total


@lru_cache(maxsize=4)
def _log_factorials(size: int) -> Floats:
    """log 0!, log 1!, ..., log size!"""
    return np.array([math.lgamma(i + 1) for i in range(size + 1)])
