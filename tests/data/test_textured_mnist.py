"""Textured MNIST: textures, brightness, groups, purity, labelled subsets, k-means."""

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from ladderspec.data import DataError, config_of_run, data_config
from ladderspec.data.baselines import box_blur, kmeans, kmeans_baselines, texture_energy
from ladderspec.data.dataset import Split
from ladderspec.data.sets.digits import load_digits
from ladderspec.data.sets.textured_mnist import dilate
from ladderspec.data.textures import (
    PATTERNS,
    Textures,
    equalise,
    largest_view,
    load_textures,
    turned,
)
from ladderspec.experiments.identity import data_identity

SMALL = {"digits": "embedded", "textures": "builtin", "canvas": 24}


def textured(seed=0, folder=None, **words):
    return data_config("textured_mnist", **{**SMALL, **words}).open(seed, folder)


@pytest.fixture(scope="module")
def data():
    return textured()


def some(count, start=0):
    return np.arange(start, start + count)


# --- textures -------------------------------------------------------------------------------------


def test_built_in_textures_are_many_and_differ_however_they_are_turned():
    found = load_textures("builtin", 1)
    assert found.images.shape == (24, 512, 512)
    assert len(set(found.names)) == len(PATTERNS) == 24
    assert found.images.min() == 0
    assert found.images.max() == 1
    # The share of the variance at each spatial frequency does not depend on the rotation.
    power = np.abs(np.fft.fft2(equalise(found.images) - 0.5)) ** 2
    frequency = np.fft.fftfreq(512)
    ring = (np.hypot(frequency[:, None], frequency) * 64).astype(int)
    spectra = np.array([np.bincount(ring.ravel(), each.ravel()) for each in power])
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    levels = [sorted(each.ravel()[::64]) for each in found.images]
    for i in range(24):
        for j in range(i):
            alike = spectra[i] @ spectra[j] > 0.99
            assert not alike or np.abs(np.subtract(levels[i], levels[j])).mean() > 0.05


def test_shrinking_takes_means():
    whole, small = load_textures("builtin", 1).images, load_textures("builtin", 4).images
    np.testing.assert_allclose(small, whole.reshape(24, 128, 4, 128, 4).mean((2, 4)), atol=1e-6)
    assert load_textures("builtin", 3.5).side == 146


def test_views_are_turned_by_all_angles_and_scaled_within_their_range():
    """A plane stays a plane: its slope says the angle and the scale."""
    rows, columns = np.indices((200, 200)) / 500
    plane = Textures(("plane",), (0.3 * rows + 0.4 * columns).astype(np.float32)[None])
    views = turned(plane, 400, (0.75, 1.33), largest_view(200, 0.75), 5)[0].astype(np.float64)
    down, across = np.gradient(views, axis=(1, 2))
    np.testing.assert_allclose(
        down, down.mean((1, 2), keepdims=True) * np.ones_like(down), atol=1e-6
    )
    down, across = down.mean((1, 2)), across.mean((1, 2))
    scale = 0.5 / 500 / np.hypot(down, across)
    assert 0.75 <= scale.min() < 0.77
    assert 1.31 < scale.max() <= 1.33 + 1e-6
    assert np.log(scale).mean() == pytest.approx(np.log(0.75 * 1.33) / 2, abs=0.03)
    angles = np.histogram(np.arctan2(down, across), 8, (-np.pi, np.pi))[0]
    assert angles.min() > 25


def test_validation_and_test_show_textures_as_they_are_and_training_turns_them():
    data = textured(textures="builtin", brightness="raw")
    windows = np.lib.stride_tricks.sliding_window_view

    def as_it_is(split, count=12):
        layers = data.layers(split, 0, some(count))
        images = data.textures.images[layers.textures[:, 1]]
        return [
            (windows(image, (24, 24)) == patch).all((2, 3)).any()
            for image, patch in zip(images, layers.ground, strict=True)
        ]

    assert all(as_it_is("test"))
    assert all(as_it_is("valid"))
    assert not any(as_it_is("train"))
    data = textured(views=0)
    assert all(as_it_is("train"))


def test_every_texture_is_used_and_digit_and_ground_never_share_one(data):
    found = data.batch("train", 0, some(2000, 0) % data.size("train") + 5, ["textures"])["textures"]
    assert (found[:, 0] != found[:, 1]).all()
    for role in (0, 1):
        assert np.bincount(found[:, role], minlength=24).min() > 40
    difference = np.bincount((found[:, 1] - found[:, 0]) % 24, minlength=24)
    assert difference[0] == 0
    assert difference[1:].min() > 40


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape in {"a.png": (90, 70, 3), "b.PNG": (64, 64, 3)}.items():
        pixels = rng.integers(0, 256, shape).astype(np.uint8)
        (tmp_path / "mine").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "mine" / name)
    (tmp_path / "mine" / "notes.txt").write_text("no picture")
    return tmp_path


def test_textures_of_a_folder(pictures):
    pytest.importorskip("PIL.Image")
    for name in (str(pictures / "mine"), "mine"):
        data = textured(textures=name, folder=pictures, shrink=1, views=2)
        assert data.textures.names == ("a.png", "b.PNG")
        assert data.textures.images.shape == (2, 64, 64)
        assert data.batch("train", 0, some(3))["image"].shape == (3, 1, 24, 24)


def test_folders_that_do_not_serve_are_named(pictures):
    pytest.importorskip("PIL.Image")
    with pytest.raises(DataError, match=r"no folder of textures `none`, here or in .*builtin, bro"):
        textured(textures="none", folder=pictures)
    with pytest.raises(DataError, match=r"textures are 16x16 after `shrink: 4`; they do not fill"):
        textured(textures="mine", folder=pictures, views=0)
    with pytest.raises(DataError, match=r"64x64 .*, turned and scaled, they do not fill a canvas"):
        textured(textures="mine", folder=pictures, canvas=40, shrink=1)
    (pictures / "mine" / "b.PNG").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    with pytest.raises(DataError, match=r"cannot read .*b\.PNG"):
        textured(textures="mine", folder=pictures, shrink=1)
    (pictures / "mine" / "b.PNG").unlink()
    with pytest.raises(DataError, match=r"has 1 pictures .* need two different textures"):
        textured(textures="mine", folder=pictures, shrink=2, canvas=8)


def test_missing_files_say_how_to_get_them(tmp_path):
    for name in ("brodatz", "cc0"):
        with pytest.raises(DataError, match=r"is missing\n[^$]*sha256"):
            textured(textures=name, folder=tmp_path)
    files = data_config("textured_mnist").files()
    assert len([path for path in files if path.startswith("brodatz/")]) == 20
    assert len(files) == 24
    assert data_config("textured_mnist", **SMALL).files() == ()


# --- brightness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", [False, True])
def test_equal_textures_have_one_mean_and_spread(turned):
    views = textured(brightness="equal")._views(turned).astype(np.float64)
    assert views.shape[:2] == (24, 16 if turned else 1)
    np.testing.assert_allclose(views.mean((2, 3)), 0.5, atol=1e-6)
    np.testing.assert_allclose(views.std((2, 3)), 0.2, atol=1e-6)
    raw = textured()._views(turned)
    assert np.ptp(raw.mean((2, 3))) > 0.4
    assert np.ptp(raw.std((2, 3))) > 0.2
    shift = (
        views - 0.5 - 0.2 * (raw - raw.mean((2, 3), keepdims=True)) / raw.std((2, 3), keepdims=True)
    )
    assert np.abs(shift).max() < 1e-4


@pytest.mark.parametrize("split", ["train", "test"])
def test_apart_textures_are_equal_ones_of_less_contrast_on_two_means(split):
    equal = textured(brightness="equal").layers(split, 0, some(300))
    apart = textured(brightness="apart", contrast=0.5).layers(split, 0, some(300))
    means = []
    for name in ("digit", "ground"):
        rest = getattr(apart, name) - 0.5 * (getattr(equal, name) - 0.5)
        np.testing.assert_allclose(np.ptp(rest, axis=(1, 2)), 0, atol=1e-6)
        means.append(rest.mean((1, 2)))
    digit, ground = means
    difference = np.abs(digit - ground)
    assert difference.min() >= 0.3 - 1e-6
    assert difference.mean() == pytest.approx(0.4, abs=0.02)  # 0.3 + a third of what is left
    assert 0.4 < (digit > ground).mean() < 0.6
    assert min(digit.min(), ground.min()) >= 0.2 - 1e-6
    assert max(digit.max(), ground.max()) <= 0.8 + 1e-6
    flat = textured(brightness="apart", contrast=0.0).batch(split, 0, some(300))
    inside = np.where(flat["groups"] == 1, flat["alpha"], 0) == 1
    for image, which, mean in zip(flat["image"], inside, digit, strict=True):
        np.testing.assert_allclose(image[which], mean, atol=1e-6)


# --- digits and groups ----------------------------------------------------------------------------


def test_the_image_blends_two_textures_and_blended_pixels_have_no_group(data):
    layers, batch = data.layers("test", 0, some(50)), data.batch("test", 0, some(50))
    alpha = layers.alpha
    np.testing.assert_array_equal(batch["alpha"][:, 0], alpha)
    image = np.where(alpha == 1, layers.digit, np.where(alpha == 0, layers.ground, np.nan))
    pure = (alpha == 0) | (alpha == 1)
    np.testing.assert_allclose(batch["image"][:, 0][pure], image[pure], atol=1e-6)
    half = layers.ground + alpha * (layers.digit - layers.ground)
    np.testing.assert_allclose(batch["image"][:, 0], half, atol=1e-5)
    groups = batch["groups"][:, 0]
    np.testing.assert_array_equal(groups == 1, alpha > 0.9)
    np.testing.assert_array_equal(groups == 0, 1 - alpha > 0.9)
    np.testing.assert_array_equal(groups == -1, np.maximum(alpha, 1 - alpha) <= 0.9)
    assert groups.dtype == np.int64


def test_shares_of_the_groups(data):
    groups = data.batch("test", 0, some(300), ["groups"])["groups"]
    shares = [(groups == k).mean() for k in (-1, 0, 1)]
    assert sum(shares) == 1
    assert 0.2 < shares[0] < 0.35  # scikit-learn's digits are blurred; MNIST has 0.115
    assert 0.45 < shares[1] < 0.6
    assert 0.15 < shares[2] < 0.25
    assert (groups == 1).any((1, 2, 3)).all()
    assert (groups == 0).any((1, 2, 3)).all()


@pytest.mark.parametrize("pixels", [0, 1, 3])
def test_digits_are_dilated(pixels):
    ndimage = pytest.importorskip("scipy.ndimage")
    images = np.random.default_rng(0).random((4, 20, 20)).astype(np.float32) ** 8
    width = 2 * pixels + 1
    expected = [ndimage.grey_dilation(image, (width, width), mode="constant") for image in images]
    np.testing.assert_array_equal(dilate(images, pixels), expected)


def test_the_digit_is_the_centre_of_28x28_by_default(data):
    digits = load_digits("embedded", 28, None, None)
    rows = digits.rows(Split.TEST)
    centre = dilate(digits.images[rows.start : rows.start + 9], 1)[:, 2:26, 2:26]
    np.testing.assert_array_equal(data.layers("test", 0, some(9)).alpha, centre)


def test_random_places_reach_the_whole_canvas():
    words = {"digit": 12, "thicken": 0}
    centred = textured(**words).layers("train", 0, some(900)).alpha
    placed = textured(place="random", **words).layers("train", 0, some(900)).alpha
    corners = []
    for one, other in zip(centred, placed, strict=True):
        assert np.array_equal(one[one > 0], other[other > 0])
        corners.append([np.argwhere(x > 0).min(0) for x in (other, one)])
    places = np.diff(np.array(corners)[:, ::-1], axis=1)[:, 0] + 6
    for axis in (0, 1):
        counts = np.bincount(places[:, axis], minlength=13)
        assert len(counts) == 13
        assert counts.min() > 40


@pytest.mark.parametrize(
    ("canvas", "digit", "dilation", "shrink"), [(24, 28, 1, 4), (48, 56, 2, 2), (96, 112, 4, 1)]
)
def test_other_canvases_keep_the_proportions(canvas, digit, dilation, shrink):
    config = data_config("textured_mnist", **{**SMALL, "canvas": canvas})
    assert (config.digit_size, config.dilation, config.shrink_factor) == (digit, dilation, shrink)
    data = config.open()
    batch = data.batch("test", 0, some(3))
    assert batch["image"].shape == batch["groups"].shape == (3, 1, canvas, canvas)
    assert batch["image"].dtype == np.float32
    small = textured().batch("test", 0, some(3))["alpha"]
    block = canvas // 24
    coarse = batch["alpha"].reshape(3, 24, block, 24, block).mean((2, 4))
    assert np.corrcoef(coarse.ravel(), small.ravel())[0, 1] > 0.95


def test_still_images_go_to_a_network_with_iterations(data):
    data.check_input((1, 24, 24), None)
    assert data.steps is None
    with pytest.raises(DataError, match=r"has no time axis.*`time: \{iterations: 1\}`"):
        data.check_input((1, 24, 24), 3)
    with pytest.raises(DataError, match="write `canvas: 32`"):
        data.check_input((1, 32, 32), None)
    flat = textured(flat=True)
    flat.check_input((576,), None)
    for name in ("image", "groups"):
        expected = data.batch("test", 0, some(3))[name].reshape(3, 576)
        np.testing.assert_array_equal(flat.batch("test", 0, some(3))[name], expected)
    with pytest.raises(DataError, match=r"write `flat: true` and .* = 576"):
        data.check_input((576,), None)


# --- purity and labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [{}, {"brightness": "apart", "contrast": 0.5}])
def test_an_image_is_a_pure_function_of_seed_split_epoch_and_index(words):
    def images(split="train", epoch=0, indices=range(6), **more):
        return textured(**words, **more).batch(split, epoch, np.array(indices))["image"]

    first = images()
    np.testing.assert_array_equal(images(), first)
    np.testing.assert_array_equal(images(indices=[4, 1]), first[[4, 1]])
    np.testing.assert_array_equal(images("train+valid"), first)
    for other in (images(seed=1), images(epoch=1), images(indices=some(6, 6)), images("valid")):
        assert not any((a == b).all() for a, b in zip(other, first, strict=True))
    for split in ("valid", "test"):
        np.testing.assert_array_equal(images(split, 9), images(split, 0))


def test_an_index_beyond_the_end_is_the_same_digit_with_other_textures(data):
    size = data.size("train")
    first, again = (data.batch("train", 0, some(9, start)) for start in (0, size))
    np.testing.assert_array_equal(first["label"], again["label"])
    np.testing.assert_array_equal(first["alpha"], again["alpha"])
    assert (first["image"] != again["image"]).any((1, 2, 3)).all()


def test_an_opened_set_is_pickled_as_its_config(data):
    text = pickle.dumps(data)
    assert len(text) < 2000
    again = pickle.loads(text).batch("train", 1, some(5))
    for name, values in data.batch("train", 1, some(5)).items():
        np.testing.assert_array_equal(again[name], values)


def test_a_labelled_subset_has_as_many_of_each_class():
    data = textured(labelled=100)
    batch = data.batch("train", 0, some(data.size("train")), ["label", "labelled"])
    assert np.bincount(batch["label"][batch["labelled"]]).tolist() == [10] * 10
    np.testing.assert_array_equal(data.labelled("train"), np.flatnonzero(batch["labelled"]))
    assert data.batch("test", 0, some(50), ["labelled"])["labelled"].all()
    only = textured(labelled=100, keep="labelled")
    assert (only.size("train"), only.labelled("train")) == (100, None)
    chosen = data.batch("train", 0, data.labelled("train"), ["image"])["image"]
    np.testing.assert_array_equal(only.batch("train", 0, some(100), ["image"])["image"], chosen)


def test_a_config_is_found_again_from_the_identity_of_a_run():
    config = data_config("textured_mnist", **SMALL, scales=[0.8, 1.2], shrink=3)
    identity = json.loads(json.dumps(data_identity(config)))
    assert identity == {"set": "textured_mnist", **SMALL, "scales": [0.8, 1.2], "shrink": 3.0}
    assert config_of_run(identity) == config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"contrast": 0.5}, r"`brightness: raw` has no `contrast` \(leave out `contrast`, or"),
        ({"scales": [1.3, 0.8]}, r"`scales` go down from 1\.3 to 0\.8 \(write \[0\.8, 1\.3\]\)"),
        ({"scales": 2}, "`scales` is 2: expected a list"),
        ({"place": "random"}, "a digit of 28 has no room to move in a canvas of 24"),
        ({"keep": "labelled"}, "`keep: labelled` needs `labelled`"),
        ({"brightness": "same"}, "`brightness` is 'same': expected `raw`, `equal` or `apart`"),
        ({"shrink": 0.5}, "`shrink` is 0.5: it must be at least 1"),
        ({"shrink": 30}, r"textures are 17x17 after `shrink: 30`;"),
        ({"labelled": 15}, "`labelled` is 15: it must be a multiple of 10"),
        ({"texture": "cc0"}, r"unknown field `texture` \(did you mean `textures`\?\)"),
    ],
)
def test_wrong_fields_are_named(words, message):
    with pytest.raises(DataError, match=message):
        textured(**words)


# --- k-means --------------------------------------------------------------------------------------


def test_kmeans_finds_separate_clouds():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, (5, 200))
    centres = np.array([[0, 0], [6, 1], [0, 7]])
    points = centres[truth] + rng.normal(0, 0.5, (5, 200, 2))
    found = kmeans(points, 3)
    for true, group in zip(truth, found, strict=True):
        assert len({(a, b) for a, b in zip(true.tolist(), group.tolist(), strict=True)}) == 3


def test_kmeans_is_as_good_as_scikit_learns():
    cluster = pytest.importorskip("sklearn.cluster")
    points = np.random.default_rng(0).random((4, 300, 1)) ** 2
    for k in (2, 3):
        for each, found in zip(points, kmeans(points, k), strict=True):
            means = np.array([each[found == i].mean(0) for i in range(k)])
            cost = np.square(each - means[found]).sum()
            wanted = cluster.KMeans(k, n_init=10, random_state=0).fit(each).inertia_
            assert cost == pytest.approx(wanted, rel=0.01)


def test_blur_and_texture_energy():
    ndimage = pytest.importorskip("scipy.ndimage")
    images = np.random.default_rng(0).random((3, 10, 12))
    for width in (3, 5):
        expected = [ndimage.uniform_filter(image, width, mode="nearest") for image in images]
        np.testing.assert_allclose(box_blur(images, width), expected, atol=1e-12)
    striped = np.zeros((1, 16, 16))
    striped[:, :8] = np.indices((8, 16))[1] % 2  # a pattern above, nothing below
    energy = texture_energy(striped)
    assert energy.shape == (1, 16, 16, 2)
    assert energy[0, :6].min() > 0.5
    assert energy[0, 10:].max() == 0


def test_kmeans_separates_by_brightness_only_if_it_differs():
    found = {
        name: kmeans_baselines(textured(**words), items=60)
        for name, words in {
            "flat": {"brightness": "apart", "contrast": 0.0},
            "apart": {"brightness": "apart", "contrast": 0.5},
            "equal": {"brightness": "equal"},
        }.items()
    }
    by_brightness = {name: each["2-means of brightness"] for name, each in found.items()}
    assert by_brightness["flat"] > 0.95
    assert by_brightness["apart"] > 0.7
    assert by_brightness["equal"] < 0.3
    assert list(found["flat"]) == [
        f"{k}-means of {feature}" for feature in ("brightness", "texture energy") for k in (2, 3)
    ]
    flat = kmeans_baselines(textured(brightness="equal", flat=True), items=60)
    assert flat == pytest.approx(found["equal"])


def test_kmeans_on_frames_and_on_data_without_groups():
    moving = data_config("moving_mnist", digits="embedded", canvas=32, frames=2).open()
    assert kmeans_baselines(moving, items=5)["2-means of brightness"] < 0.3
    with pytest.raises(DataError, match="digits has no field `groups`"):
        kmeans_baselines(data_config("digits").open())
