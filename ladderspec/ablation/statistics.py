"""Statistics over seeds: mean, standard deviation, paired differences with their interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds. One seed has no deviation."""

    mean: float
    deviation: float | None
    count: int


@dataclass(frozen=True)
class PairedDifference:
    """The mean of paired differences and its confidence interval. One pair has no interval."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and self.low * self.high > 0


def spread(numbers: Iterable[float]) -> Spread | None:
    """
    >>> spread([1.0, 2.0, 3.0])
    Spread(mean=2.0, deviation=1.0, count=3)
    """
    values = list(numbers)
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], None, 1)
    try:
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
    except (OverflowError, ValueError):  # huge values, infinities of both signs
        return Spread(math.nan, math.nan, len(values))
    return Spread(mean, math.sqrt(squares / (len(values) - 1)), len(values))


def difference(values: Mapping[int, float], base: Mapping[int, float]) -> PairedDifference | None:
    """Differences paired by seed: what the runs of a seed have in common cancels."""
    found = spread(values[seed] - base[seed] for seed in values if seed in base)
    if found is None:
        return None
    if found.deviation is None:
        return PairedDifference(found.mean, None, None, 1)
    half = student(CONFIDENCE, found.count - 1) * found.deviation / math.sqrt(found.count)
    return PairedDifference(found.mean, found.mean - half, found.mean + half, found.count)


def student(confidence: float, freedom: int) -> float:
    """The t with P(|T| < t) = confidence under Student's t distribution.

    >>> round(student(0.95, 2), 3)
    4.303
    """
    low, high = 0.0, 1.0
    while within(high, freedom) < confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < confidence else (low, middle)
    return high


def within(t: float, freedom: int) -> float:
    """P(|T| < t): the finite sums in cos^2 of the angle [Abramowitz and Stegun 26.7.3-4]."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    if not odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
