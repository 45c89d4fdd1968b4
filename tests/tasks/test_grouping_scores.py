"""Adjusted mutual information: vectors, scikit-learn, all permutations, pixels that count."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladderspec.grouping_scores import adjusted_mutual_information, grouping_scores

# Truth, prediction, and AMI to 12 digits.
VECTORS = [
    ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], 0.225042283198),
    ([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 2, 2, 2, 3], 0.390765584152),
    ([0, 0, 1, 1], [0, 1, 0, 1], -0.5),
    ([0, 0, 1, 1], [3, 3, 3, 3], 0),
    ([0, 0, 0, 0], [3, 3, 3, 3], 1),
    ([0, 0, 1, 1, 2], [5, 5, 0, 0, 9], 1),
    ([0, 0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2, 2], 0.477289990001),
]


@pytest.mark.parametrize(("truth", "predicted", "score"), VECTORS)
def test_vectors(truth, predicted, score):
    assert adjusted_mutual_information(truth, predicted) == pytest.approx(score, abs=1e-9)
    assert adjusted_mutual_information(predicted, truth) == pytest.approx(score, abs=1e-9)


def test_the_expected_information_is_that_of_all_permutations():
    """The definition of chance: the mean over every order of the predicted groups."""
    truth, predicted = [0, 0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 1, 0, 2]

    def information(other):
        n, pairs = len(truth), list(zip(truth, other, strict=True))
        return sum(
            pairs.count((a, b)) / n
            * math.log(n * pairs.count((a, b)) / (truth.count(a) * other.count(b)))
            for a, b in set(pairs)
        )  # fmt: skip

    def entropy(groups):
        shares = [groups.count(a) / len(groups) for a in set(groups)]
        return -sum(p * math.log(p) for p in shares)

    orders = list(itertools.permutations(predicted))
    expected = sum(map(information, orders)) / len(orders)
    norm = max(entropy(truth), entropy(predicted))
    wanted = (information(predicted) - expected) / (norm - expected)
    assert adjusted_mutual_information(truth, predicted) == pytest.approx(wanted, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60))
def test_random_groupings_against_scikit_learn(pairs):
    metrics = pytest.importorskip("sklearn.metrics")
    truth, predicted = map(list, zip(*pairs, strict=True))
    wanted = metrics.adjusted_mutual_info_score(truth, predicted, average_method="max")
    assert adjusted_mutual_information(truth, predicted) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("side", [24, 96])
def test_groupings_of_images_against_scikit_learn(side):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(side)
    for noise in (0.0, 0.3, 1.0):
        truth = rng.integers(0, 2, side * side)
        predicted = np.where(rng.random(side * side) < noise, rng.integers(0, 3, side**2), truth)
        wanted = metrics.adjusted_mutual_info_score(truth, predicted, average_method="max")
        assert adjusted_mutual_information(truth, predicted) == pytest.approx(wanted, abs=1e-9)


def test_unrelated_groupings_score_nothing_on_average():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 2, (400, 60)), rng.integers(0, 3, (400, 60))
    scores = grouping_scores(truth, predicted)
    assert abs(scores.mean()) < 4 * scores.std() / 20
    assert scores.std() > 0.01


def test_pixels_of_no_group_do_not_count():
    truth = np.array([[[0, 0, -1], [1, 1, -1]], [[-1, -1, -1], [-1, -1, -1]]])
    right = np.array([[[4, 4, 2], [2, 2, 4]], [[0, 1, 0], [0, 0, 0]]])
    found = grouping_scores(truth, right)
    assert found[0] == 1.0
    assert np.isnan(found[1])
    assert grouping_scores(np.where(truth < 0, 5, truth), right)[0] < 1


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"truth is \(2, 3\), but the predicted groups are \(2,\)"):
        grouping_scores(np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(ValueError, match="3 items have a true group, but 2 a predicted"):
        adjusted_mutual_information([0, 1, 1], [0, 1])


def test_thousands_of_images_take_seconds():
    """About 0.16 ms for 24x24; the limit is ten times that."""
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(-1, 2, (500, 24, 24)), rng.integers(0, 3, (500, 24, 24))
    start = time.process_time()
    grouping_scores(truth, predicted)
    assert time.process_time() - start < 1.0
