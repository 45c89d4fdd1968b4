"""Polyphonic music: files, padding, length buckets, transposition, baselines."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.io import savemat

from ladderspec.data import DataError, data_config, formats
from ladderspec.data.baselines import note_baselines
from ladderspec.data.sets.music import SPLITS as PARTS
from ladderspec.data.sets.music import read_rolls


def music(seed=0, **words):
    return data_config("music", **(words or {"name": "etudes"})).open(seed)


def save_npz(path, rolls):
    """Piano rolls as `read_rolls` reads them."""
    arrays = {}
    for split in PARTS:
        arrays[split] = np.concatenate(rolls[split])
        arrays[f"{split}_lengths"] = np.array([len(roll) for roll in rolls[split]])
    np.savez_compressed(path, **arrays)


@pytest.fixture(scope="module")
def data():
    return music()


def random_rolls(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.random((n, 88)) < 0.1).astype(np.uint8) for n in lengths]


SPLITS = {"train": [5, 1, 9], "valid": [3], "test": [4, 7]}


@pytest.fixture
def sequences():
    return {split: random_rolls(lengths, len(split)) for split, lengths in SPLITS.items()}


def write_mat(path, sequences):
    content = {}
    for split, found in sequences.items():
        cells = np.empty((1, len(found)), object)
        for i, roll in enumerate(found):
            cells[0, i] = roll
        content[f"{split}data"] = cells
    savemat(path, content)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mat", "npz"])
def test_files_are_read_without_loss(tmp_path, sequences, kind):
    path = tmp_path / f"mine.{kind}"
    if kind == "mat":
        write_mat(path, sequences)
    else:
        save_npz(path, sequences)
    data = music(file=str(path))
    for split, lengths in SPLITS.items():
        assert data.lengths(split).tolist() == lengths
        for i, roll in enumerate(sequences[split]):
            np.testing.assert_array_equal(data.rolls(split)[i], roll)
    assert data.size("train+valid") == 4
    np.testing.assert_array_equal(data.rolls("train+valid")[3], sequences["valid"][0])


def test_a_file_is_also_looked_for_in_the_data_folder(tmp_path, sequences):
    write_mat(tmp_path / "mine.mat", sequences)
    data = data_config("music", file="mine.mat").open(0, tmp_path)
    assert data.size("test") == 2
    with pytest.raises(DataError, match="no file"):
        data_config("music", file="other.mat").open(0, tmp_path)


def test_an_npz_copy_of_a_published_set_will_do(tmp_path, sequences):
    (tmp_path / "music").mkdir()
    save_npz(tmp_path / "music/Nottingham.npz", sequences)
    assert data_config("music", name="Nottingham").open(0, tmp_path).size("train") == 3


class Bomb:
    """Would leave a file behind if anyone unpickled it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_pickles_are_refused_unread(tmp_path):
    trace = tmp_path / "trace"
    bomb = np.array([Bomb(str(trace))], object)
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(Bomb(str(trace))))
    with pytest.raises(DataError, match=r"never pickles .* `train_lengths`, and so on for `valid`"):
        read_rolls(tmp_path / "a.pickle")
    np.savez(tmp_path / "a.npz", train=bomb, train_lengths=np.array([1]))
    with pytest.raises(DataError, match=r"a pickle.*never read"):
        read_rolls(tmp_path / "a.npz")
    assert not trace.exists()


def test_damaged_and_strange_files_are_refused(tmp_path, sequences):
    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\0" * 300)
    (tmp_path / "a.npz").write_bytes(b"no zip")
    for name in ("a.mat", "a.npz"):
        with pytest.raises(DataError, match=r"cannot read|has no cells"):
            read_rolls(tmp_path / name)
    write_mat(tmp_path / "b.mat", {**sequences, "test": [np.zeros((3, 87), np.uint8)]})
    with pytest.raises(DataError, match=r"testdata\{1\} has shape \(3, 87\), not \(steps, 88\)"):
        read_rolls(tmp_path / "b.mat")
    good = {split: np.concatenate(found) for split, found in sequences.items()}
    lengths = {f"{split}_lengths": np.array(found) for split, found in SPLITS.items()}
    np.savez(tmp_path / "c.npz", **{**good, **lengths, "train_lengths": np.array([5, 1])})
    with pytest.raises(DataError, match="lengths add up to 6, but there are 15 steps"):
        read_rolls(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", **{**good, **lengths, "test": good["test"] * 2})
    with pytest.raises(DataError, match="values other than 0 and 1"):
        read_rolls(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", train=good["train"])
    with pytest.raises(DataError, match="piano rolls need train, train_lengths"):
        read_rolls(tmp_path / "e.npz")


def test_without_scipy_the_message_says_what_to_install(tmp_path, sequences, monkeypatch):
    write_mat(tmp_path / "a.mat", sequences)
    original = formats.require
    monkeypatch.setattr(formats, "require", lambda _, what: original("no_such_package", what))
    with pytest.raises(DataError, match=r"pip install 'ladderspec\[data\]'"):
        read_rolls(tmp_path / "a.mat")


def test_words_name_one_source():
    for words in ({}, {"name": "etudes", "file": "a.mat"}):
        with pytest.raises(DataError, match="either `name` or `file` is needed"):
            data_config("music", **words)


# --- batches --------------------------------------------------------------------------------------


def test_batches_keep_every_step_and_pad_with_silence(data):
    for split in ("train", "valid", "test"):
        steps = 0
        for indices in data.batches(split, 0, 7):
            batch = data.batch(split, 0, indices)
            lengths = batch["lengths"]
            assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)
            assert batch["frames"].shape == (len(indices), lengths[0], 1, 1, 88)
            np.testing.assert_array_equal(batch["mask"].sum(1), lengths)
            assert not batch["frames"][~batch["mask"]].any()
            for row, index in enumerate(indices):
                roll = data.rolls(split)[int(index)]
                np.testing.assert_array_equal(batch["frames"][row, : len(roll), 0, 0], roll)
            steps += lengths.sum()
        assert steps == data.lengths(split).sum()


def of_lengths(lengths):
    data = music()
    empty = [np.zeros((length, 88), np.uint8) for length in lengths]
    data._rolls = dict.fromkeys(("train", "valid", "test"), empty)
    return data


def test_buckets_waste_little_and_change_with_the_epoch():
    lengths = np.random.default_rng(0).integers(20, 2000, 300)
    data = of_lengths(lengths)
    first, second = data.batches("train", 0, 16), data.batches("train", 1, 16)
    for batches in (first, second):
        assert sorted(np.concatenate(batches).tolist()) == list(range(300))
        padded = sum(len(b) * lengths[b].max() for b in batches)
        assert padded < 1.2 * lengths.sum()
    assert {frozenset(b.tolist()) for b in first} != {frozenset(b.tolist()) for b in second}
    assert [b.tolist() for b in first] == [b.tolist() for b in data.batches("train", 0, 16)]
    heads = [lengths[b[0]] for b in first]
    assert heads != sorted(heads, reverse=True)  # long and short batches are mixed


@pytest.mark.parametrize("count", [1, 2, 8, 9, 17, 24])
def test_no_sequence_is_trained_alone_where_there_are_others(count):
    """Batch norm would refuse it, in the last batch of the first epoch."""
    data = of_lengths(np.arange(count) + 20)
    batches = data.batches("train", 0, 8)
    assert sorted(np.concatenate(batches).tolist()) == list(range(count))
    assert max(map(len, batches)) <= 9
    assert min(map(len, batches)) > 1 or count == 1
    assert [len(b) for b in data.batches("valid", 0, 8)][:-1] == [8] * ((count - 1) // 8)
    assert [len(b) for b in data.batches("train", 0, 1)] == [1] * count


def test_a_network_that_does_not_fit_is_refused(data):
    data.check_input((1, 1, 88), "any")
    with pytest.raises(DataError, match="sequences of any length, but the network runs over 5"):
        data.check_input((1, 1, 88), 5)
    with pytest.raises(DataError, match=r"channels: 1, size: \[1, 88\]"):
        data.check_input((88,), "any")
    with pytest.raises(DataError, match="needs items of equal length"):
        data.batches("train", 0, 8, labelled=2)


def test_the_mean_is_the_rate_of_each_note(data):
    rate = np.concatenate(data.rolls("train")).mean(0)
    np.testing.assert_allclose(data.mean()[0, 0], rate)


# --- reference methods ----------------------------------------------------------------------------


def test_note_baselines_equal_a_plain_loop(data):
    train = data.rolls("train")
    steps, sounds = np.zeros((2, 2, 88))
    for roll in train:
        for before, now in pairwise(roll.astype(int)):
            steps[before, np.arange(88)] += 1
            sounds[before, np.arange(88)] += now
    rate = sounds.sum(1, keepdims=True) / steps.sum(1, keepdims=True)
    markov = (sounds + 5 * rate) / (steps + 5)
    notes = np.concatenate(train)
    constant = (notes.sum(0) + 0.5) / (len(notes) + 1)
    losses = {"constant rate of every note": [], "Markov chain of every note": []}
    for i in range(7):
        for before, now in pairwise(data.rolls("test")[i].astype(int)):
            for p, found in zip(
                (constant, markov[before, np.arange(88)]), losses.values(), strict=True
            ):
                found.append(-np.log(np.where(now, p, 1 - p)).sum())
    found = note_baselines(data, "test", 7)
    assert found == pytest.approx({name: np.mean(each) for name, each in losses.items()})
    assert found["Markov chain of every note"] < found["constant rate of every note"] < 15


def test_etudes_are_always_the_same(data):
    assert data.lengths("train")[:6].tolist() == music(seed=9).lengths("train")[:6].tolist()
    notes, again = (np.concatenate(each.rolls("train")) for each in (data, music(seed=9)))
    assert notes.sum() == again.sum() > 0
    assert set(data.lengths("train") // 8) <= set(range(4, 13))


def test_transposed_pieces_are_the_same_tune_elsewhere():
    plain, moved = music(), music(name="etudes", transpose=5)
    indices, found = np.arange(plain.size("train")), set()
    for epoch in range(3):
        a, b = (
            data.batch("train", epoch, indices)["frames"][:, :, 0, 0] for data in (plain, moved)
        )
        np.testing.assert_array_equal(b, moved.batch("train", epoch, indices)["frames"][:, :, 0, 0])
        for tune, other in zip(a, b, strict=True):
            lowest, least = (int(np.flatnonzero(roll.any(0))[0]) for roll in (tune, other))
            np.testing.assert_array_equal(np.roll(tune, least - lowest, axis=1), other)
            found.add(least - lowest)
    assert found <= set(range(-5, 6))
    assert len(found) > 6
    for split in ("valid", "test"):  # what is measured stays as it is
        one, other = (data.batch(split, 1, np.arange(3))["frames"] for data in (plain, moved))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [0.7, 256, -1])
@pytest.mark.parametrize("kind", [".mat", ".npz"])
def test_notes_are_there_or_not(tmp_path, sequences, value, kind):
    """A velocity would be cut off without a word."""
    louder = {split: [roll * float(value) for roll in found] for split, found in sequences.items()}
    path = tmp_path / f"loud{kind}"
    if kind == ".mat":
        write_mat(path, louder)
    else:
        arrays = {split: np.concatenate(found) for split, found in louder.items()}
        lengths = {f"{split}_lengths": np.array(SPLITS[split]) for split in SPLITS}
        np.savez(path, **arrays, **lengths)
    with pytest.raises(DataError, match="train has values other than 0 and 1"):
        read_rolls(path)
