"""Contact sheets, the words of data sets in an experiment, and plugins."""

import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

from ladderspec.cli import main
from ladderspec.data import DataError, DataField, DataWords, _registry, registered, words_of
from ladderspec.data._picture import Picture, Text, Tile, encode_png, shade
from ladderspec.data.preview import preview


def decode_png(data):
    """The pixels of a PNG of 8-bit RGB without filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, size = 8, b"", None
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + content
        )
        if kind == b"IHDR":
            size = struct.unpack(">II", content[:8])
        body += content if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(size[1], -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(size[1], size[0], 3)


def test_a_png_holds_the_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    np.testing.assert_array_equal(decode_png(encode_png(pixels)), pixels)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("occluded_mnist", {"digits": "embedded"}),
        ("occluded_mnist", {"digits": "embedded", "canvas": 16, "frames": 3, "extra": 1}),
        ("digits", {}),
        ("digits", {"flat": True}),
        ("music", {"name": "etudes"}),
    ],
)
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_every_set_has_a_picture(tmp_path, name, words, kind):
    path = tmp_path / f"sheet.{kind}"
    picture = preview(words_of(name, **words).open(), count=2)
    picture.save(path)
    for tile in picture.tiles:
        height, width = tile.size
        assert 0 < tile.x < tile.x + width < picture.width
        assert 0 < tile.y < tile.y + height < picture.height
    if kind == "png":
        assert decode_png(path.read_bytes()).shape == (picture.height, picture.width, 3)
    else:
        root = ElementTree.parse(path).getroot()
        assert len(root.findall("{*}image")) == len(picture.tiles)
        assert [text.text for text in root.findall("{*}text")] == [t.text for t in picture.texts]


def test_the_sheet_of_occluded_digits_is_laid_out_like_the_papers_figure():
    picture = preview(words_of("occluded_mnist", digits="embedded").open(), first=7, count=1)
    words = [text.text for text in picture.texts]
    assert words[2:7] == ["t = 1", "t = 2", "t = 3", "t = 4", "t = 5"]
    assert words[7:] == ["observed frames", "with occlusion", "optimal reconstruction"]
    assert len(picture.tiles) == 15


def test_arrays_of_the_users_own_have_a_picture(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape in {"maps": (9, 4, 3, 6, 6), "vectors": (9, 4, 5)}.items():
        np.savez(tmp_path / f"{name}.npz", frames=rng.random(shape), label=np.arange(9))
        picture = preview(words_of("arrays", path=str(tmp_path / f"{name}.npz")).open(), "train")
        assert len(picture.tiles) == 16


def test_text_that_leaves_the_sheet_is_cut():
    texts = tuple(Text(x, y, "long text é") for x, y in ((-9, 3), (15, 30), (-200, 5), (5, 99)))
    pixels = decode_png_of(Picture(20, 30, (Tile(2, 2, shade(np.eye(3)), (1, 2)),), texts))
    assert pixels.shape == (30, 20, 3)


def decode_png_of(picture):
    from ladderspec.data._picture import to_png

    return decode_png(to_png(picture))


def test_the_command_writes_the_sheet(tmp_path, capsys):
    path = tmp_path / "a.svg"
    words = ["--set", "digits=embedded", "--set", "canvas=24", "--split", "train"]
    assert main(["data", "preview", "occluded_mnist", *words, "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert path.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ocluded_mnist"], "did you mean `occluded_mnist`"),
        (["digits", "--set", "sde=4"], "did you mean `side`"),
        (["digits", "--set", "side"], "WORD=VALUE"),
        (["digits", "--set", "side={"], "side"),
        (["digits", "--first", "9999"], "300 items in test"),
        (["music", "--set", "name=Bach"], "name: "),
        (["digits", "-o", "a.jpg"], "written as .png or .svg"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "preview", "-o", "a.png", *arguments]) in (1, 2)
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


# --- words ----------------------------------------------------------------------------------------


class Experiment(BaseModel):
    data: DataField


def test_an_experiment_names_its_data():
    data = Experiment.model_validate({"data": {"set": "occluded_mnist", "canvas": 24}}).data
    assert data == words_of("occluded_mnist", canvas=24)
    assert Experiment.model_validate({"data": "digits"}).data == words_of("digits")
    for wrong in ("digit", {"set": "digits", "sides": 3}, {"set": "music"}, 3):
        with pytest.raises(ValidationError):
            Experiment.model_validate({"data": wrong})
    assert "occluded_mnist" in str(Experiment.model_json_schema())


def test_words_are_frozen_and_hashable():
    words = words_of("occluded_mnist")
    with pytest.raises(ValidationError):
        words.canvas = 3
    assert hash(words) == hash(words_of("occluded_mnist"))


def test_naming_data_imports_no_arrays():
    program = "import sys, ladderspec.data; print({'numpy', 'torch', 'scipy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "set()"


PLUGIN = '''
from typing import Literal
from ladderspec.data import DataSet, DataWords, Form, register

class Ones(DataSet):
    def __init__(self, words, seed):
        self.words, self.seed, self.folder = words, seed, None
        self.forms, self.steps = {"frames": Form((1, 4, 4), True)}, 3

    def size(self, split):
        return 8

    def batch(self, split, epoch, indices, fields=None):
        import numpy as np
        return {"frames": np.ones((len(indices), 3, 1, 4, 4), np.float32)}

@register
class OnesWords(DataWords):
    """Nothing but ones."""
    set: Literal["ones"] = "ones"

    def open(self, seed=0, folder=None):
        return Ones(self, seed)
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "ones_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_registry, "_SETS", dict(_registry._SETS))
    _registry.load_installed.cache_clear()
    yield lambda *names: monkeypatch.setattr(
        _registry,
        "entry_points",
        lambda group: [EntryPoint(name, f"{name}_plugin", group) for name in names],
    )
    _registry.load_installed.cache_clear()
    sys.modules.pop("ones_plugin", None)


def test_an_installed_package_brings_its_own_set(plugin):
    plugin("ones")
    assert "ones" not in registered()
    data = words_of("ones").open()
    assert isinstance(data.words, DataWords)
    data.check_input((1, 4, 4), 3)
    assert sum(map(len, data.batches("train", 0, 3))) == 8
    assert data.mean().tolist() == np.ones((1, 4, 4)).tolist()
    assert len(preview(data, count=2).tiles) == 6


def test_a_file_brings_a_set_to_look_at(plugin, tmp_path):
    words = ["--plugin", str(tmp_path / "ones_plugin.py"), "-o", str(tmp_path / "ones.png")]
    assert main(["data", "preview", "ones", *words]) == 0
    assert decode_png((tmp_path / "ones.png").read_bytes()).size


def test_a_word_that_is_missing():
    with pytest.raises(DataError, match=r"^`path` is missing: an \.npz file, or a folder"):
        words_of("arrays")


def test_a_plugin_that_fails_is_named(plugin):
    plugin("broken")
    with pytest.raises(DataError, match=r"plugin `broken` \(broken_plugin\) fails: ZeroDivision"):
        words_of("ones")


# --- still digits ---------------------------------------------------------------------------------


def test_still_digits_are_split_and_scaled():
    data = words_of("digits").open()
    assert [data.size(split) for split in ("train", "valid", "test")] == [1197, 300, 300]
    batch = data.batch("train+valid", 0, np.arange(1497))
    assert batch["image"].shape == (1497, 1, 8, 8)
    assert (batch["image"].min(), batch["image"].max()) == (0, 1)
    assert np.bincount(batch["label"]).min() > 140
    data.check_input((1, 8, 8), None)
    with pytest.raises(DataError, match="say `side: 28`"):
        data.check_input((1, 28, 28), None)
    large = words_of("digits", side=28).open().batch("test", 0, np.arange(9))["image"]
    assert large.shape == (9, 1, 28, 28)
    assert not large[:, 0, :4].any()
    assert not large[:, 0, :, -4:].any()
    flat = words_of("digits", flat=True, labelled=50).open()
    flat.check_input((64,), None)
    assert np.bincount(flat.batch("train", 0, flat.labelled("train"))["label"]).tolist() == [5] * 10
