"""Counter-based random numbers: bits = f(key, index), without any state.

The function is the finaliser of SplitMix64, applied once to the index and once to the draw.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _mix(x: Bits) -> Bits:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def key_of(*parts: int | str) -> int:
    """One key from a seed, a purpose, an epoch, ...

    >>> key_of(0, "flight", 1) != key_of(0, "flight", 2) != key_of(1, "flight", 1)
    True
    """
    key = 0
    for part in parts:
        if isinstance(part, str):
            part = int.from_bytes(hashlib.sha256(part.encode()).digest()[:8], "little")
        key = int(_mix(np.array([((key ^ part) + _GOLDEN) & _MASK], np.uint64))[0])
    return key


def draws(key: int, indices: NDArray[np.int64], count: int) -> Bits:
    """`count` independent draws of 64 bits for every index, (n, count)."""
    golden = np.uint64(_GOLDEN)
    item = _mix(np.asarray(indices).astype(np.uint64) * golden + np.uint64(key))
    return _mix(item[:, None] + np.arange(1, count + 1, dtype=np.uint64) * golden)


def below(bits: Bits, n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers from 0 to n - 1, uniform to within 2^-32 n."""
    high = bits >> np.uint64(32)
    return ((high * np.asarray(n).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def uniform(bits: Bits) -> NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2^-53."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(key: int, indices: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """`count` independent standard normal numbers for every index, (n, count), by Box-Muller.

    A larger `count` appends numbers and leaves the first ones as they are.
    """
    bits = draws(key, indices, (count + 1) // 2)
    high, low = bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)
    radius = np.sqrt(-2 * np.log((high + 0.5) / 2.0**32))  # never the logarithm of 0
    angle = low * (2 * np.pi / 2.0**32)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return pairs.reshape(len(bits), bits.shape[1] * 2)[:, :count].astype(np.float32)


def permutation(key: int, n: int) -> NDArray[np.int64]:
    """A uniform permutation of 0 .. n - 1."""
    return np.argsort(draws(key, np.arange(n), 1)[:, 0], kind="stable").astype(np.int64)
