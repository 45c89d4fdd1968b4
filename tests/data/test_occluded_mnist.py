"""Occluded Moving MNIST: bars, flights, reconstruction, purity, labelled subsets, order."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from ladderspec.data import DataError, data_config
from ladderspec.data.baselines import prediction_bounds
from ladderspec.data.counter_rng import key_of, permutation
from ladderspec.data.flights import Canvas, reflect
from ladderspec.data.sets.digits import resize
from ladderspec.data.sets.occluded_mnist import OccludedMnist
from ladderspec.learn.batches import Collator
from ladderspec.tasks import Prediction


def occluded(seed=0, **words):
    return data_config("occluded_mnist", **{"digits": "embedded", "canvas": 16, **words}).open(seed)


@pytest.fixture(scope="module")
def data():
    return occluded()


def some(count, start=0):
    return np.arange(start, start + count)


# --- the canvas -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("canvas", "digit", "hidden"),
    [
        (32, 14, [8, 9, 10, 11, 20, 21, 22, 23]),
        (24, 10, [6, 7, 8, 15, 16, 17]),
        (16, 7, [4, 5, 10, 11]),
    ],
)
def test_bars_keep_the_papers_proportions(canvas, digit, hidden):
    words = OccludedMnist(canvas=canvas)
    assert words.digit_size == digit
    found = Canvas(canvas, digit, *words.bars, words.velocity)
    assert found.hidden.nonzero()[0].tolist() == hidden
    assert found.mask.mean() == 0.5625


def test_a_bar_of_0_hides_nothing():
    batch = occluded(bar=0).batch("test", 0, some(20))
    np.testing.assert_array_equal(batch["frames"], batch["clean"])


def test_embedded_digits_are_never_shrunk_by_default():
    sizes = {canvas: occluded(canvas=canvas).config.digit_size for canvas in (16, 24, 32)}
    assert sizes == {16: 8, 24: 10, 32: 14}


def test_resizing_28_to_14_takes_means_of_2x2():
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), np.uint8)
    expected = images.reshape(5, 14, 2, 14, 2).mean((2, 4), dtype=np.float32)
    np.testing.assert_array_equal(resize(images, 14), expected)
    np.testing.assert_allclose(resize(images, 11).mean(), images.mean(), rtol=1e-5)


# --- flights --------------------------------------------------------------------------------------


def test_the_eight_velocities_are_the_papers():
    expected = {(a, b) for a in (1, -1) for b in (2, -2)} | {
        (a, b) for a in (2, -2) for b in (1, -1)
    }
    assert set(map(tuple, Canvas(32, 14, 8, 4, (1, 2)).velocities.tolist())) == expected


def test_reflection_equals_bouncing_step_by_step():
    for start in range(19):
        for velocity in (-2, -1, 1, 2):
            p, v = start, velocity
            for t in range(1, 40):
                p += v
                if p < 0:
                    p, v = -p, -v
                elif p > 18:
                    p, v = 36 - p, -v
                assert reflect(np.array(start + velocity * t), 18) == p


def test_starts_and_velocities_are_uniform():
    data = occluded(valid=0, extra=0, bar=0)
    positions = np.concatenate(
        [data.batch("train", epoch, some(1400), ["position"])["position"] for epoch in range(20)]
    )
    for axis in (0, 1):
        counts = np.bincount(positions[:, 0, axis], minlength=9)
        expected = len(positions) / 9
        assert ((counts - expected) ** 2 / expected).sum() < 26  # chi-square, 8 degrees, p = 0.001
    inside = (positions[:, 0] >= 2).all(1) & (positions[:, 0] <= 6).all(1)
    steps = (positions[:, 1] - positions[:, 0])[inside]
    velocities, counts = np.unique(steps, axis=0, return_counts=True)
    assert len(velocities) == 8
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 24  # 7 degrees, p = 0.001


@pytest.mark.parametrize("bounce", ["reflect", "resample"])
def test_digits_stay_inside_and_keep_their_speed(bounce):
    data = occluded(bounce=bounce, frames=30)
    positions = data.batch("test", 0, some(200), ["position"])["position"]
    assert positions.min() == 0
    assert positions.max() == data.canvas.reach
    steps = np.abs(np.diff(positions, axis=1))
    assert steps.max() == 2
    if bounce == "resample":  # every step is one of the eight velocities
        assert set(map(tuple, np.sort(steps.reshape(-1, 2)).tolist())) == {(1, 2)}


def test_resampling_keeps_the_velocity_while_the_digit_stays_inside():
    data = occluded(bounce="resample", frames=30)
    positions = data.batch("test", 0, some(200), ["position"])["position"]
    velocity = np.diff(positions, axis=1)
    ahead = positions[:, 1:-1] + velocity[:, :-1]
    inside = ((ahead >= 0) & (ahead <= data.canvas.reach)).all(-1)
    same = (velocity[:, 1:] == velocity[:, :-1]).all(-1)
    assert same[inside].all()
    assert not same[~inside].any()
    assert (~inside).any()


def test_frames_equal_a_plain_loop(data):
    batch = data.batch("test", 0, some(12, 5))
    flight = data.flight("test", 0, some(12, 5))
    mask, size = data.canvas.mask, data.config.digit_size
    for i in range(12):
        seen = np.zeros((size, size), bool)
        for t in range(5):
            row, column = batch["position"][i, t]
            box = (slice(row, row + size), slice(column, column + size))
            clean, reconstruction = np.zeros((2, 16, 16), np.float32)
            clean[box] = flight.digits[i, 0]
            seen |= mask[box]
            reconstruction[box] = flight.digits[i, 0] * seen
            np.testing.assert_array_equal(batch["clean"][i, t, 0], clean)
            np.testing.assert_array_equal(batch["frames"][i, t, 0], clean * mask)
            np.testing.assert_array_equal(batch["reconstruction"][i, t, 0], reconstruction)
        np.testing.assert_array_equal(batch["optimal"][i, 0], reconstruction)


def test_fields_have_the_forms_that_are_promised(data):
    batch = data.batch("train", 3, some(7))
    assert list(batch) == list(data.forms)
    for name, form in data.forms.items():
        time = (data.steps,) if form.time else ()
        assert batch[name].shape == (7, *time, *form.shape), name
    assert batch["frames"].dtype == np.float32
    assert batch["label"].dtype == np.int64
    assert batch["labelled"].dtype == bool
    assert 0 <= batch["frames"].min() < batch["frames"].max() <= 1


def test_extra_frames_are_targets_only(data):
    longer = occluded(extra=1)
    assert longer.steps == 5
    ours, theirs = data.batch("test", 0, some(9)), longer.batch("test", 0, some(9))
    assert theirs["frames"].shape[1] == 6
    np.testing.assert_array_equal(ours["frames"], theirs["frames"][:, :5])
    np.testing.assert_array_equal(ours["optimal"], theirs["optimal"])


# --- beyond the paper: a grid of velocities, flights of the test, noise ---------------------------


@pytest.mark.parametrize(("velocity", "count"), [([1, 2], 25), (2, 9)])
def test_a_grid_of_velocities_is_uniform_and_has_zero_components(velocity, count):
    data = occluded(velocities="grid", velocity=velocity, valid=0)
    positions = np.concatenate(
        [data.batch("train", epoch, some(1400), ["position"])["position"] for epoch in range(20)]
    )
    inside = ((positions[:, 0] >= 2) & (positions[:, 0] <= 6)).all(1)
    steps = (positions[:, 1] - positions[:, 0])[inside]
    velocities, counts = np.unique(steps, axis=0, return_counts=True)
    assert len(velocities) == count
    assert [0, 0] in velocities.tolist()
    bound = {25: 51.2, 9: 26.1}[count]  # chi-square, p = 0.001
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < bound


@pytest.mark.parametrize("bounce", ["reflect", "resample"])
def test_digits_of_a_grid_stay_inside_and_some_stand_still(bounce):
    data = occluded(velocities="grid", bounce=bounce, frames=30)
    positions = data.batch("test", 0, some(300), ["position"])["position"]
    assert (positions.min(), positions.max()) == (0, data.canvas.reach)
    still = (positions == positions[:, :1]).all((1, 2)).mean()
    assert 0.01 < still < 0.08  # 1 of 25
    bounds = prediction_bounds(data, items=100)
    assert bounds["tracker that knows the digit"] < bounds["background"]


def test_test_flights_repeat_the_digits_on_other_flights(data):
    many = occluded(test_flights=3)
    sizes = {split: many.size(split) for split in ("train", "valid", "train+valid", "test")}
    assert sizes == {"train": 1197, "valid": 300, "train+valid": 1497, "test": 900}
    assert np.concatenate(many.batches("test", 0, 64)).tolist() == list(range(900))
    batch = many.batch("test", 0, some(900), ["label", "position", "labelled"])
    once = data.batch("test", 0, some(300), ["label", "position"])
    assert batch["labelled"].all()
    np.testing.assert_array_equal(batch["label"], np.tile(once["label"], 3))
    flights = batch["position"].reshape(3, 300, 5, 2)
    np.testing.assert_array_equal(flights[0], once["position"])  # the first flight is as before
    for one, two in ((0, 1), (0, 2), (1, 2)):
        same = (flights[one] == flights[two]).all((1, 2)).mean()
        assert same < 0.02  # one of 81 starts and 8 velocities


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_noise_has_the_standard_deviation_that_is_asked_for(split):
    batch = occluded(noise=0.3).batch(split, 0, some(300))
    noise = (batch["frames"] - batch["noiseless"]).astype(np.float64)
    count = noise.size  # 384,000
    assert batch["frames"].dtype == np.float32
    assert abs(noise.mean()) < 4 * 0.3 / np.sqrt(count)
    assert noise.std() == pytest.approx(0.3, abs=4 * 0.3 / np.sqrt(2 * count))
    unit = noise / 0.3
    assert (unit**4).mean() == pytest.approx(3, abs=4 * np.sqrt(96 / count))
    assert (np.abs(unit) < 1).mean() == pytest.approx(0.6827, abs=0.004)
    for axis in (0, 1, 3, 4):  # no correlation between items, frames, rows and columns
        length = unit.shape[axis] - 1
        pairs = np.take(unit, range(length), axis) * np.take(unit, range(1, length + 1), axis)
        assert abs(pairs.mean()) < 4 / np.sqrt(pairs.size)


def test_noise_changes_the_frames_alone(data):
    noisy = occluded(noise=0.2)
    ours, theirs = data.batch("train", 1, some(20)), noisy.batch("train", 1, some(20))
    assert not np.array_equal(ours["frames"], theirs["frames"])
    np.testing.assert_array_equal(ours["frames"], ours["noiseless"])
    for name in set(data.forms) - {"frames"}:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    twice = occluded(noise=0.4).batch("train", 1, some(20))["frames"] - ours["frames"]
    np.testing.assert_allclose(twice, 2 * (theirs["frames"] - ours["frames"]), atol=1e-6)


def test_noise_is_a_pure_function_of_seed_split_epoch_and_index():
    def noise(split="train", epoch=0, indices=range(6), **words):
        batch = occluded(**{"noise": 0.2, **words}).batch(split, epoch, np.array(indices))
        return batch["frames"] - batch["noiseless"]

    first = noise()
    np.testing.assert_array_equal(noise(), first)
    np.testing.assert_array_equal(noise(indices=np.array([4, 1])), first[[4, 1]])
    np.testing.assert_array_equal(noise("train+valid"), first)
    np.testing.assert_array_equal(noise(extra=1)[:, :5], first)
    for other in (noise(seed=1), noise(epoch=1), noise(indices=some(6, 6)), noise("valid")):
        assert (np.abs(other - first) > 1e-3).mean() > 0.9
    for split in ("valid", "test"):
        np.testing.assert_array_equal(noise(split, 9), noise(split, 0))
    np.testing.assert_array_equal(noise(epoch=5, flights="fixed"), noise(flights="fixed"))
    flights = noise("test", indices=np.array([3, 303]), test_flights=2)
    assert (np.abs(flights[0] - flights[1]) > 1e-3).mean() > 0.9


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("input", ["frames", "noiseless"])
@pytest.mark.parametrize("target", [None, "noiseless"])
def test_predictions_are_compared_with_noisy_frames_or_with_those_before_noise(
    extra, input, target
):
    data = occluded(noise=0.2, extra=extra, input=input)
    task = Prediction(kind="prediction", at="decoder.input", target=target)
    diet = Collator(data, {"next_frame": task})
    (feed,) = diet.pieces(diet.take("valid", 0, some(8)))
    field = target or input
    whole = data.batch("valid", 0, some(8), [input, field])
    np.testing.assert_array_equal(feed.frames, whole[input][:, :5])
    # With a frame after the last one, targets are the next frames; else the network aligns them.
    expected = whole[field][:, 1:] if extra else whole[field]
    np.testing.assert_array_equal(feed.target("next_frame", field), expected)


# --- a pure function ------------------------------------------------------------------------------


def test_a_batch_does_not_depend_on_its_company(data):
    whole = data.batch("train", 2, some(60))
    order = permutation(key_of("any"), 60)
    parts = [data.batch("train", 2, order[k : k + 7]) for k in range(0, 60, 7)]
    for name, values in whole.items():
        again = np.concatenate([part[name] for part in parts])
        np.testing.assert_array_equal(again, values[order], err_msg=name)


def test_training_flights_change_with_the_epoch_and_the_others_do_not(data):
    def positions(data, split, epoch):
        return data.batch(split, epoch, some(50), ["position"])["position"].tolist()

    assert positions(data, "train", 0) != positions(data, "train", 1)
    for split in ("valid", "test"):
        assert positions(data, split, 0) == positions(data, split, 9)
    fixed = occluded(flights="fixed")
    assert positions(fixed, "train", 0) == positions(fixed, "train", 5)
    assert positions(data, "test", 0) != positions(occluded(seed=1), "test", 0)
    pinned = data_config("occluded_mnist", digits="embedded", canvas=16, seed=1).open(99)
    assert positions(pinned, "test", 0) == positions(occluded(seed=1), "test", 0)


def test_a_digit_flies_the_same_way_with_and_without_the_validation_digits(data):
    few = data.batch("train", 4, some(50), ["frames"])["frames"]
    many = data.batch("train+valid", 4, some(50), ["frames"])["frames"]
    np.testing.assert_array_equal(few, many)
    assert data.size("train+valid") == data.size("train") + data.size("valid")


def test_flights_never_change():
    """Old runs must resume: these numbers are part of the contract."""
    batch = occluded().batch("train", 1, some(3), ["position", "label"])
    assert batch["position"][:, :2].tolist() == POSITIONS
    assert batch["label"].tolist() == [0, 1, 2]


POSITIONS = [[[4, 0], [6, 1]], [[5, 5], [4, 3]], [[2, 4], [4, 5]]]

PROGRAM = """
import hashlib, sys
import numpy as np
from ladderspec.data import data_config
data = data_config("occluded_mnist", digits="embedded", canvas=16, bounce="resample").open(3)
batch = data.batch("train", 7, np.arange(40))
print(hashlib.sha256(b"".join(batch[name].tobytes() for name in sorted(batch))).hexdigest())
"""


def test_another_process_makes_the_same_batch():
    import hashlib

    batch = occluded(seed=3, bounce="resample").batch("train", 7, some(40))
    here = hashlib.sha256(b"".join(batch[name].tobytes() for name in sorted(batch))).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here


def test_an_opened_set_is_pickled_as_its_config(data):
    text = pickle.dumps(data)
    assert len(text) < 2000
    again = pickle.loads(text)
    for name, values in data.batch("train", 1, some(5)).items():
        np.testing.assert_array_equal(again.batch("train", 1, some(5))[name], values)


# --- labelled subsets -----------------------------------------------------------------------------


def test_a_labelled_subset_has_as_many_of_each_class():
    data = occluded(labelled=100)
    batch = data.batch("train", 0, some(data.size("train")), ["label", "labelled"])
    chosen = batch["label"][batch["labelled"]]
    assert np.bincount(chosen).tolist() == [10] * 10
    np.testing.assert_array_equal(data.labelled("train"), np.flatnonzero(batch["labelled"]))
    assert data.batch("test", 0, some(50), ["labelled"])["labelled"].all()
    other = occluded(seed=1, labelled=100)
    assert other.labelled("train").tolist() != data.labelled("train").tolist()


def test_only_the_labelled_digits_are_kept_on_request():
    whole, kept = occluded(labelled=100), occluded(labelled=100, keep="labelled")
    assert kept.size("train") == 100
    assert kept.labelled("train") is None
    expected = whole.batch("train", 2, whole.labelled("train"))
    for name, values in kept.batch("train", 2, some(100)).items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_batch_holds_the_asked_number_of_labelled_digits():
    data = occluded(labelled=100, labelled_per_batch=10)
    batches = data.batches("train", 0, 50)
    assert len(batches) == -(-data.size("train") // 40)
    fresh = np.concatenate([batch[10:] for batch in batches])
    assert sorted(fresh.tolist()) == list(range(data.size("train")))
    known = np.concatenate([batch[:10] for batch in batches])
    assert data.batch("train", 0, known, ["labelled"])["labelled"].all()
    assert len(set(known.tolist())) == len(known)  # repeated digits fly anew
    assert np.bincount(known[:100] % data.size("train")).max() == 1
    frames = data.batch("train", 0, known[known % data.size("train") == known[0] % 1197])["frames"]
    assert len(frames) > 1
    assert not np.array_equal(frames[0], frames[1])
    only = data.batches("train", 0, 50, labelled=50)
    assert sorted(np.concatenate(only).tolist()) == data.labelled("train").tolist()


# --- order ----------------------------------------------------------------------------------------


def test_an_epoch_is_a_permutation_that_depends_on_seed_and_epoch_alone(data):
    first, second = data.batches("train", 0, 50), data.batches("train", 1, 50)
    for batches in (first, second):
        assert sorted(np.concatenate(batches).tolist()) == list(range(data.size("train")))
    assert first[0].tolist() != second[0].tolist()
    assert [b.tolist() for b in occluded().batches("train", 1, 50)] == [b.tolist() for b in second]
    assert [len(b) for b in data.batches("train", 0, 50, drop_last=True)] == [50] * 23
    assert np.concatenate(data.batches("test", 3, 64)).tolist() == list(range(300))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"canvas": 12, "digit": 10}, "2 pixels to fly"),
        ({"velocity": [3, 5], "canvas": 16}, "at least 10 are needed"),
        ({"labelled": 1005}, "multiple of 10"),
        ({"canvs": 16}, "did you mean `canvas`"),
        ({"bounce": "stop"}, "`bounce` is 'stop': expected `reflect` or `resample`"),
        ({"frames": 0}, "`frames` is 0: it must be at least 1"),
        ({"keep": "labelled"}, "`keep: labelled` needs `labelled`"),
        ({"noise": -0.1}, "`noise` is -0.1: it must be at least 0"),
        ({"noise": 25}, "`noise` is 25: it must be at most 10"),
        ({"noise": float("nan")}, "`noise` is nan: expected a finite number"),
        ({"noise": "0.1"}, "`noise` is '0.1': expected a number"),
        ({"test_flights": 0}, "`test_flights` is 0: it must be at least 1"),
        ({"test_flights": 1.5}, "`test_flights` is 1.5: expected a whole number"),
        ({"velocities": "gird"}, "`velocities` is 'gird': expected `pairs` or `grid`"),
    ],
)
def test_invalid_fields_are_refused(words, message):
    with pytest.raises(DataError, match=message):
        data_config("occluded_mnist", **words)


def test_a_network_that_does_not_fit_is_refused(data):
    data.check_input((1, 16, 16), 5)
    data.check_input((1, 16, 16), "any")
    optimal = occluded(input="optimal")
    optimal.check_input((1, 16, 16), None)
    with pytest.raises(DataError, match="`frames` of occluded_mnist has a time axis, but"):
        data.check_input((1, 16, 16), None)
    with pytest.raises(DataError, match="`optimal` of occluded_mnist has no time axis"):
        optimal.check_input((1, 16, 16), 5)
    with pytest.raises(
        DataError, match=r"is 1x16x16, but the network's input is 1x32x32.*canvas: 32"
    ):
        data.check_input((1, 32, 32), 5)
    with pytest.raises(DataError, match="has 5 frames, but the network runs over 7"):
        data.check_input((1, 16, 16), 7)
    with pytest.raises(DataError, match="no field `framse`; did you mean `frames`"):
        data.batch("train", 0, some(2), ["framse"])


def test_too_many_labels_or_validation_digits_are_refused():
    with pytest.raises(DataError, match="training digits are a"):
        occluded(labelled=5000).size("train")
    with pytest.raises(DataError, match="leaves no training digits"):
        occluded(valid=1497)
    with pytest.raises(DataError, match="cannot hold 60 labelled"):
        occluded().batches("train", 0, 50, labelled=60)


# --- bounds ---------------------------------------------------------------------------------------


def test_the_mean_frame_is_that_of_training(data):
    frames = data.batch("train", 0, some(1000), ["frames"])["frames"]
    np.testing.assert_allclose(data.mean(), frames.mean((0, 1)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bounce", ["reflect", "resample"])
def test_who_knows_more_predicts_better(bounce):
    bounds = prediction_bounds(occluded(canvas=32, bounce=bounce), items=300)
    names = [
        "tracker that knows the digit",
        "tracker, unseen pixels of the mean digit",
        "tracker, unseen pixels 0",
        "background",
    ]
    values = [bounds[name] for name in names]
    assert values == sorted(values)


def test_more_is_seen_with_every_frame():
    shares = occluded(canvas=32).flight("test", 0, np.arange(300)).seen.mean((0, 2, 3))
    assert (np.diff(shares) > 0).all()
    np.testing.assert_allclose(shares, [0.466, 0.612, 0.753, 0.833, 0.908], atol=0.015)
