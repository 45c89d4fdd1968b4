"""Counter-based random numbers: fixed for ever, and uniform."""

import numpy as np

from ladderspec.data.counter_rng import draws, key_of, normal, permutation


def test_the_draws_never_change():
    """Old runs must resume: these numbers are part of the contract."""
    assert key_of(0, "flight", "train", 1) == 6306405622640511562
    assert draws(7, np.array([0, 1]), 2).tolist() == DRAWS


DRAWS = [
    [9672475392221035855, 5573481420429128725],
    [13309476754707697221, 11984929618412882174],
]


def test_normal_numbers_never_change():
    """Old runs must resume; a longer draw starts with the same numbers."""
    found = normal(7, np.array([0, 1]), 3)
    np.testing.assert_allclose(found, NORMAL, rtol=1e-6)
    np.testing.assert_array_equal(normal(7, np.array([0, 1]), 4)[:, :3], found)


NORMAL = [[-0.33097368, 1.08704352, -1.54320467], [-0.80754501, 0.026348, 0.27921641]]


def test_permutations_are_even():
    """Every item comes first equally often."""
    firsts = [permutation(key_of("test", k), 6)[0] for k in range(3000)]
    counts = np.bincount(firsts, minlength=6)
    assert ((counts - 500) ** 2 / 500).sum() < 20.5  # 5 degrees, p = 0.001
