"""The user's own data: .npz files and folders of .npy files, with and without time and lengths."""

import pickle

import numpy as np
import pytest

from ladderspec.data import DataError, data_config
from ladderspec.data.formats import read_arrays
from ladderspec.learn.batches import Collator
from ladderspec.tasks import Classification

RNG = np.random.default_rng(0)


def arrays(path, **words):
    return data_config("arrays", path=str(path), **words).open()


def frames(n=20, t=4, shape=(1, 6, 6)):
    return RNG.random((n, t, *shape), np.float32)


def some(count):
    return np.arange(count)


@pytest.mark.parametrize("form", ["npz", "compressed", "folder"])
def test_named_arrays_come_back(tmp_path, form):
    content = {"frames": frames(), "label": np.arange(20) % 3, "speed": RNG.random((20, 2))}
    path = tmp_path / ("mine" if form == "folder" else "mine.npz")
    if form == "folder":
        path.mkdir()
        for name, array in content.items():
            np.save(path / f"{name}.npy", array)
    else:
        {"npz": np.savez, "compressed": np.savez_compressed}[form](path, **content)
    data = arrays(path, valid=0.2, test=0.25)
    assert [data.size(split) for split in ("train", "valid", "test")] == [11, 4, 5]
    assert (data.classes, data.steps) == (3, 4)
    data.check_input((1, 6, 6), 4)
    rows = np.concatenate(
        [data.batch(split, 0, some(data.size(split)))["speed"] for split in ("train+valid", "test")]
    )
    assert sorted(rows[:, 0].tolist()) == sorted(content["speed"][:, 0].astype("f4").tolist())
    batch = data.batch("train", 0, some(11))
    for i in range(11):
        row = np.flatnonzero(content["speed"][:, 0].astype("f4") == batch["speed"][i, 0])[0]
        np.testing.assert_array_equal(batch["frames"][i], content["frames"][row])
        assert batch["label"][i] == content["label"][row]
    assert batch["labelled"].all()
    assert batch["frames"].dtype == np.float32


def test_arrays_are_mapped_where_they_lie(tmp_path):
    content = {"frames": frames(), "label": np.arange(20)}
    np.savez(tmp_path / "a.npz", **content)
    np.savez_compressed(tmp_path / "b.npz", **content)
    np.save(tmp_path / "frames.npy", content["frames"])
    assert not read_arrays(tmp_path / "a.npz")["frames"].flags.writeable
    assert not read_arrays(tmp_path)["frames"].flags.writeable
    assert isinstance(read_arrays(tmp_path / "a.npz")["frames"].base, np.memmap)
    for name in ("a.npz", "b.npz"):
        np.testing.assert_array_equal(read_arrays(tmp_path / name)["label"], content["label"])


def test_splits_may_be_folders_or_files(tmp_path):
    for split, count in {"train": 8, "test": 3}.items():
        np.savez(tmp_path / f"{split}.npz", frames=frames(count), label=np.arange(count))
    (tmp_path / "valid").mkdir()
    np.save(tmp_path / "valid/frames.npy", frames(2))
    np.save(tmp_path / "valid/label.npy", np.array([5, 6]))
    data = arrays(tmp_path)
    assert [data.size(s) for s in ("train", "valid", "test", "train+valid")] == [8, 2, 3, 10]
    both = data.batch("train+valid", 0, some(10), ["label"])["label"]
    assert both.tolist() == [*range(8), 5, 6]
    assert data.classes == 8


def test_padded_sequences_get_a_mask(tmp_path):
    lengths = np.array([4, 2, 3, 1, 4, 4, 2, 3, 3, 1])
    np.savez(tmp_path / "a.npz", frames=frames(10, shape=(5,)), lengths=lengths)
    data = arrays(tmp_path / "a.npz", valid=0.0, test=0.0)
    assert data.steps is None
    assert data.lengths("train").tolist() == lengths.tolist()
    batch = data.batch("train", 0, np.array([1, 2]))
    assert batch["frames"].shape == (2, 3, 5)
    assert batch["mask"].tolist() == [[True, True, False], [True, True, True]]
    assert not batch["frames"][0, 2].any()
    assert sorted(np.concatenate(data.batches("train", 0, 3)).tolist()) == list(range(10))


def test_joined_sequences_are_cut_apart(tmp_path):
    lengths = np.array([3, 1, 4])
    joined = RNG.random((8, 2), np.float32)
    np.savez(
        tmp_path / "a.npz", frames=joined, lengths=lengths, mood=np.arange(3), beat=np.arange(8)
    )
    data = arrays(tmp_path / "a.npz", valid=0.0, test=0.0)
    batch = data.batch("train", 0, some(3))
    np.testing.assert_array_equal(batch["frames"][0, :3], joined[:3])
    np.testing.assert_array_equal(batch["frames"][2], joined[4:])
    assert batch["beat"].tolist() == [[0, 1, 2, 0], [3, 0, 0, 0], [4, 5, 6, 7]]
    assert batch["mood"].tolist() == [0, 1, 2]
    assert data.forms["beat"].time
    assert not data.forms["mood"].time


def test_images_and_vectors_have_no_time(tmp_path):
    np.savez(tmp_path / "a.npz", image=RNG.random((9, 3, 4, 4)), features=RNG.random((9, 7)))
    data = arrays(tmp_path / "a.npz", input="image")
    assert data.steps is None
    data.check_input((3, 4, 4), None)
    assert data.form("features").shape == (7,)
    assert data.batch("test", 0, some(1))["image"].shape == (1, 3, 4, 4)


def test_a_field_as_long_as_the_frames_may_be_still(tmp_path):
    np.savez(tmp_path / "a.npz", frames=frames(6, 4), corners=RNG.random((6, 4)))
    assert arrays(tmp_path / "a.npz").forms["corners"].time
    still = arrays(tmp_path / "a.npz", still=["corners"])
    assert still.forms["corners"].shape == (4,)


def test_whole_numbers_need_a_scale(tmp_path):
    pixels = RNG.integers(0, 256, (6, 4, 1, 3, 3)).astype(np.uint8)
    np.savez(tmp_path / "a.npz", frames=pixels, clean=pixels)
    with pytest.raises(DataError, match=r"scale: 255"):
        arrays(tmp_path / "a.npz")
    batch = arrays(tmp_path / "a.npz", scale=255, test=0, valid=0).batch("train", 0, some(6))
    for name in ("frames", "clean"):
        np.testing.assert_allclose(batch[name], pixels / 255, rtol=1e-6)


def test_labels_of_minus_one_are_unknown(tmp_path):
    label = np.array([0, -1, 2, -1, 1])
    np.savez(tmp_path / "a.npz", frames=frames(5), label=label)
    data = arrays(tmp_path / "a.npz", valid=0.0, test=0.0)
    assert data.labelled("train").tolist() == [0, 2, 4]
    assert data.batch("train", 0, some(5))["labelled"].tolist() == (label >= 0).tolist()
    np.savez(tmp_path / "c.npz", frames=frames(5), label=label - 99)
    with pytest.raises(DataError, match="`label` goes down to -100; classes are 0, 1, 2, "):
        arrays(tmp_path / "c.npz", valid=0.0, test=0.0)
    np.savez(tmp_path / "b.npz", frames=frames(5), label=abs(label), labelled=label > 0)
    assert arrays(tmp_path / "b.npz", valid=0.0, test=0.0).labelled("train").tolist() == [2, 4]


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_pickles_are_refused_unread(tmp_path):
    trace = tmp_path / "trace"
    objects = np.array([Bomb(str(trace))], object)
    np.savez(tmp_path / "a.npz", frames=objects)
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder/frames.npy", objects)
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb(str(trace))))
    for name in ("a.npz", "folder"):
        with pytest.raises(DataError, match="never read"):
            arrays(tmp_path / name)
    with pytest.raises(DataError, match="cannot read"):
        arrays(tmp_path / "b.npz")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"label": np.arange(3)}, "has no `frames`; it has label"),
        ({"frames": frames(4), "label": np.arange(3)}, "`label` has 3 rows; 4 are needed"),
        ({"frames": frames(4), "label": np.zeros(4)}, "classes are 0, 1, 2"),
        ({"frames": frames(4), "lengths": np.array([1, 2, 9, 1])}, "a length is 9"),
        ({"frames": frames(4), "lengths": np.array([1, 2, 0, 1])}, "integers from 1 on"),
        ({"frames": frames(4), "lengths": np.full(4, 2**63 + 5, "u8")}, "is 9223372036854775813"),
        ({"frames": frames(4)[:, :0]}, "has the shape .4, 0, .*: items are empty"),
        ({"frames": frames(4), "name": np.array(list("abcd"))}, "`name` has type <U1, not numbers"),
        ({"frames": frames(4), "version": np.array(3)}, "single number"),
        ({"frames": RNG.random((4, 5)), "lengths": np.array([1, 2])}, "add up to 3, but"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(tmp_path, content, message):
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(DataError, match=message):
        arrays(tmp_path / "a.npz")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_a_divisor_that_is_no_number_in_float32_is_refused(tmp_path, scale):
    np.savez(tmp_path / "a.npz", frames=frames(4))
    with pytest.raises(DataError, match="which is 0 or infinite in float32"):
        arrays(tmp_path / "a.npz", scale=scale)


def test_labelled_items_of_a_batch_must_be_there(tmp_path):
    np.savez(tmp_path / "a.npz", frames=frames(4), label=np.full(4, -1))
    data = arrays(tmp_path / "a.npz", valid=0, test=0)
    with pytest.raises(DataError, match="`labelled_per_batch` is 1, but no item of train is labe"):
        data.batches("train", 0, 2, labelled=1)


def test_labels_may_run_over_time(tmp_path):
    content = {"frames": RNG.random((6, 2)), "lengths": np.array([2, 1, 3]), "label": np.arange(6)}
    np.savez(tmp_path / "a.npz", **content)
    data = arrays(tmp_path / "a.npz", valid=0, test=0)
    assert data.labelled("train") is None
    assert data.batch("train", 0, some(3))["label"].tolist() == [[0, 1, 0], [2, 0, 0], [3, 4, 5]]
    assert data.classes == 6


def test_a_split_may_be_missing_but_not_that_of_training(tmp_path):
    np.savez(tmp_path / "train.npz", frames=frames(4), label=np.arange(4))
    data = arrays(tmp_path)
    assert data.batches("valid", 0, 5) == []
    assert data.size("train+valid") == 4
    with pytest.raises(DataError, match="leave nothing to train on"):
        arrays(tmp_path / "train.npz", valid=0.5, test=0.5)


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no file or folder"):
        arrays(tmp_path / "none.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no arrays"):
        arrays(tmp_path / "empty")
    np.savez(tmp_path / "a.npz", frames=frames())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "b.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot read"):
        arrays(tmp_path / "b.npz")
    (tmp_path / "empty/valid.npz").write_bytes(whole)
    with pytest.raises(DataError, match="has valid but no train"):
        arrays(tmp_path / "empty")
    np.savez(tmp_path / "empty/train.npz", frames=frames(shape=(1, 5, 5)))
    with pytest.raises(DataError, match="different fields or shapes"):
        arrays(tmp_path / "empty")


def test_a_network_that_does_not_fit_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", frames=frames())
    data = arrays(tmp_path / "a.npz")
    with pytest.raises(DataError, match="is 1x6x6, but the network's input is 3x6x6"):
        data.check_input((3, 6, 6), 4)
    with pytest.raises(DataError, match="has 4 frames, but the network runs over 5"):
        data.check_input((1, 6, 6), 5)


def test_a_mask_of_the_users_own_is_refused(tmp_path):
    np.savez(tmp_path / "d.npz", frames=frames(), mask=frames())
    with pytest.raises(DataError, match="give the array another name"):
        arrays(tmp_path / "d.npz")


def test_damaged_compressed_arrays_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", frames=frames(n=200))
    data = bytearray((tmp_path / "d.npz").read_bytes())
    data[2000:2100] = bytes(100)
    (tmp_path / "d.npz").write_bytes(data)
    with pytest.raises(DataError, match="cannot read"):
        arrays(tmp_path / "d.npz")


def test_labels_of_every_frame_may_be_hidden_by_item(tmp_path):
    known = np.arange(20) % 2 == 0
    label = np.arange(80).reshape(20, 4) % 3
    np.savez(tmp_path / "d.npz", frames=frames(), label=label, labelled=known)
    data = arrays(tmp_path / "d.npz", valid=0, test=0)
    diet = Collator(data, {"kind": Classification(kind="classification", at="encoder.top")})
    found = diet.take("train", 0, np.arange(20))
    shown = data.batch("train", 0, np.arange(20))
    assert (found["label"][~shown["labelled"]] == -1).all()
    assert (found["label"][shown["labelled"]] == shown["label"][shown["labelled"]]).all()


@pytest.mark.parametrize(
    "known", [np.ones((20, 2), bool), np.full(20, 0.5), np.full(20, 2), np.full(20, np.nan)]
)
def test_labelled_is_yes_or_no_for_each_item(tmp_path, known):
    np.savez(tmp_path / "d.npz", frames=frames(), label=np.arange(20) % 3, labelled=known)
    with pytest.raises(DataError, match="`labelled` must be 0 or 1 for each item"):
        arrays(tmp_path / "d.npz")


def test_numbers_beyond_float32_are_infinite_without_a_warning(tmp_path):
    np.savez(tmp_path / "a.npz", frames=np.full((6, 4, 1, 3, 3), 1e300))
    batch = arrays(tmp_path / "a.npz", valid=0.0, test=0.0).batch("train", 0, some(6))
    assert np.isinf(batch["frames"]).all()
