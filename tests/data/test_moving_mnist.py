"""Moving MNIST: trajectories, frames, groups, purity."""

import math
import pickle

import numpy as np
import pytest

from ladderspec.data import DataError, data_config
from ladderspec.data.counter_rng import draws, key_of, uniform
from ladderspec.data.sets.moving_mnist import bounce

SMALL = {"digits": "embedded", "canvas": 32, "digit": 14}


def moving(seed=0, **words):
    return data_config("moving_mnist", **{**SMALL, **words}).open(seed)


@pytest.fixture(scope="module")
def data():
    return moving()


def some(count, start=0):
    return np.arange(start, start + count)


# --- trajectories ---------------------------------------------------------------------------------


def by_hand(y, x, turn, frames, step):
    """The original generator, one digit at a time."""
    v_y, v_x = step * math.sin(2 * math.pi * turn), step * math.cos(2 * math.pi * turn)
    places = []
    for _ in range(frames):
        y, x = y + v_y, x + v_x
        if x <= 0:
            x, v_x = 0.0, -v_x
        if x >= 1:
            x, v_x = 1.0, -v_x
        if y <= 0:
            y, v_y = 0.0, -v_y
        if y >= 1:
            y, v_y = 1.0, -v_y
        places.append((y, x))
    return places


@pytest.mark.parametrize("speed", [0.0, 0.1, 0.6])
def test_trajectories_are_those_of_the_original_generator(speed):
    bits = draws(key_of(3, "some"), some(40), 3)
    expected = [by_hand(*numbers, 50, speed) for numbers in uniform(bits).tolist()]
    np.testing.assert_allclose(bounce(bits, 50, speed), expected, atol=1e-12)


def test_a_digit_moves_a_tenth_of_its_range_and_turns_at_walls():
    places = bounce(draws(key_of(0, "some"), some(2000), 3), 20, 0.1)
    assert places.min() == 0
    assert places.max() == 1
    steps = np.diff(places, axis=1)
    free = ((places > 0) & (places < 1)).all(-1)
    between = free[:, 1:] & free[:, :-1]
    assert 0.5 < between.mean() < 0.9
    np.testing.assert_allclose(np.hypot(*steps[between].T), 0.1, atol=1e-12)
    # After each contact with a wall, the component changes its sign; elsewhere it never does.
    contact = (places[:, 1:-1] == 0) | (places[:, 1:-1] == 1)
    assert contact.any()
    assert (steps[:, :-1] * steps[:, 1:] <= 0)[contact].all()
    assert (steps[:, :-1] * steps[:, 1:] >= 0)[~contact].all()
    angles = np.arctan2(*steps[between][::7].T)
    assert np.histogram(angles, 8, (-np.pi, np.pi))[0].min() > 100


def test_positions_are_whole_and_reach_the_whole_canvas(data):
    positions = data.batch("train", 0, some(1000), ["positions"])["positions"]
    assert positions.shape == (1000, 20, 2, 2)
    assert positions.dtype == np.int64
    assert np.unique(positions).tolist() == list(range(19))
    steps = np.hypot(*np.moveaxis(np.diff(positions, axis=1), -1, 0))
    assert steps.mean() == pytest.approx(1.8, abs=0.2)  # walls shorten, truncation does not
    assert steps.max() < 1.8 + math.sqrt(2)


# --- frames and groups ----------------------------------------------------------------------------


def test_frames_and_groups_follow_from_the_digits(data):
    motion, batch = data.motion("test", 0, some(6)), data.batch("test", 0, some(6))
    for i in range(6):
        for t in (0, 7, 19):
            layers = np.zeros((2, 32, 32), np.float32)
            for k in range(2):
                row, column = batch["positions"][i, t, k]
                layers[k, row : row + 14, column : column + 14] = motion.images[i, k]
            np.testing.assert_array_equal(batch["frames"][i, t, 0], layers.max(0))
            one, two = layers > 0
            groups = np.where(one & ~two, 0, np.where(two & ~one, 1, -1))
            np.testing.assert_array_equal(batch["groups"][i, t, 0], groups)


def test_shares_of_the_groups(data):
    batch = data.batch("test", 0, some(300), ["frames", "groups"])
    shares = [(batch["groups"] == k).mean() for k in (-1, 0, 1)]
    assert sum(shares) == 1
    assert shares[1] == pytest.approx(shares[2], rel=0.1)
    overlap = ((batch["groups"] < 0) & (batch["frames"] > 0)).mean()
    assert 0.03 < overlap / (shares[1] + shares[2]) < 0.2


def test_every_digit_is_used_and_the_second_is_drawn(data):
    labels = data.batch("test", 0, some(300), ["labels"])["labels"]
    rows = data.digits.rows("test")
    np.testing.assert_array_equal(labels[:, 0], data.digits.labels[rows.start : rows.stop])
    assert np.bincount(labels[:, 1], minlength=10).min() > 10
    assert abs((labels[:, 0] == labels[:, 1]).mean() - 0.1) < 0.06


@pytest.mark.parametrize("count", [1, 3])
def test_other_numbers_of_digits(count):
    batch = moving(count=count, frames=4).batch("train", 0, some(50))
    assert batch["frames"].shape == batch["groups"].shape == (50, 4, 1, 32, 32)
    assert batch["labels"].shape == (50, count)
    assert np.unique(batch["groups"]).tolist() == list(range(-1, count))


def test_binary_frames_are_the_grey_ones_cut_at_a_half(data):
    grey, binary = (d.batch("test", 0, some(5))["frames"] for d in (data, moving(binary=True)))
    np.testing.assert_array_equal(binary, (grey >= 0.5).astype(np.float32))
    assert 0 < binary.mean() < 0.5


def test_the_defaults_are_the_papers():
    config = data_config("moving_mnist")
    assert (config.canvas, config.digit_size, config.count, config.frames) == (64, 28, 2, 20)
    assert len(config.files()) == 4
    data = data_config("moving_mnist", digits="embedded").open()
    data.check_input((1, 64, 64), 20)
    assert data.batch("test", 0, some(2))["frames"].shape == (2, 20, 1, 64, 64)
    large = data_config("moving_mnist", digits="embedded", canvas=128, frames=2).open()
    assert large.batch("test", 0, some(2))["frames"].shape == (2, 2, 1, 128, 128)


# --- purity ---------------------------------------------------------------------------------------


def test_a_sequence_is_a_pure_function_of_seed_split_epoch_and_index():
    def frames(split="train", epoch=0, indices=range(6), **words):
        return moving(**words).batch(split, epoch, np.array(indices))["frames"]

    first = frames()
    np.testing.assert_array_equal(frames(), first)
    np.testing.assert_array_equal(frames(indices=[4, 1]), first[[4, 1]])
    np.testing.assert_array_equal(frames(frames=5), first[:, :5])
    for other in (frames(seed=1), frames(epoch=1), frames(indices=some(6, 6)), frames("valid")):
        assert not any((a == b).all() for a, b in zip(other, first, strict=True))
    for split in ("valid", "test"):
        np.testing.assert_array_equal(frames(split, 9), frames(split, 0))


def test_an_index_beyond_the_end_is_the_same_digit_on_another_way(data):
    size = data.size("train")
    first, again = (data.batch("train", 0, some(9, start)) for start in (0, size))
    np.testing.assert_array_equal(first["labels"][:, 0], again["labels"][:, 0])
    assert (first["positions"] != again["positions"]).any((1, 2, 3)).all()


def test_an_opened_set_is_pickled_as_its_config(data):
    text = pickle.dumps(data)
    assert len(text) < 2000
    again = pickle.loads(text).batch("train", 1, some(5))
    for name, values in data.batch("train", 1, some(5)).items():
        np.testing.assert_array_equal(again[name], values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"digit": 32}, r"a digit of 32 cannot move in a canvas of 32 \(write `digit:` below 32"),
        ({"speed": 1.5}, "`speed` is 1.5: it must be at most 1"),
        ({"count": 0}, "`count` is 0: it must be at least 1"),
        ({"digts": "mnist"}, r"unknown field `digts` \(did you mean `digits`\?\)"),
        ({"valid": 2000}, "`valid: 2000` leaves no training digits"),
    ],
)
def test_wrong_fields_are_named(words, message):
    with pytest.raises(DataError, match=message):
        moving(**words)


def test_a_network_of_another_size_gets_advice(data):
    with pytest.raises(DataError, match="write `canvas: 64`"):
        data.check_input((1, 64, 64), 20)
    with pytest.raises(DataError, match="square, of one channel"):
        data.check_input((3, 64, 64), 20)
