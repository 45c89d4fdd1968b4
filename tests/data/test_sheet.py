"""Contact sheets of data sets, as PNG and SVG."""

import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from ladderspec.cli import main
from ladderspec.data import data_config
from ladderspec.data.sheet import (
    FRAME,
    PAPER,
    ImageSheet,
    SheetText,
    Strip,
    Tile,
    shade,
    strips,
    to_png,
    to_svg,
)


def decode_png(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def test_a_png_holds_the_pixels_and_the_text():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    sheet = ImageSheet(40, 30, (Tile(2, 3, pixels, (2, 1)),), (SheetText(2, 28, "aé"),))
    found = decode_png(to_png(sheet))
    np.testing.assert_array_equal(found[3:13, 2:9], pixels.repeat(2, 0))
    assert (found[2, 1:10] == FRAME).all()
    assert (found[14:] != PAPER).any()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("occluded_mnist", {"digits": "embedded"}),
        ("occluded_mnist", {"digits": "embedded", "canvas": 16, "frames": 3, "extra": 1}),
        ("digits", {}),
        ("digits", {"flat": True}),
        ("music", {"name": "etudes"}),
        ("textured_mnist", {"digits": "embedded", "textures": "builtin", "canvas": 24}),
        ("moving_mnist", {"digits": "embedded", "canvas": 32}),
    ],
)
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_every_set_has_a_picture(tmp_path, name, words, kind):
    path = tmp_path / f"sheet.{kind}"
    picture = data_config(name, **words).open().preview(count=2)
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
    picture = data_config("occluded_mnist", digits="embedded").open().preview(first=7, count=1)
    words = [text.text for text in picture.texts]
    assert words[2:7] == ["t = 1", "t = 2", "t = 3", "t = 4", "t = 5"]
    assert words[7:] == ["observed frames", "with occlusion", "optimal reconstruction"]
    assert len(picture.tiles) == 15


def test_the_sheet_of_textured_digits_shows_all_that_an_image_is_made_of():
    words = {"digits": "embedded", "textures": "builtin", "canvas": 24}
    data = data_config("textured_mnist", **words).open()
    picture = data.preview(count=3)
    assert [text.text for text in picture.texts[4:]] == [
        "image", "alpha of the digit", "groups", "texture of the digit", "texture of the ground",
    ]  # fmt: skip
    batch = data.batch("test", 0, np.arange(3))
    image, groups = picture.tiles[0].image, picture.tiles[6].image
    values = np.clip(batch["image"][0, 0], 0, 1) * 255
    np.testing.assert_allclose(image, values[..., None].repeat(3, 2), atol=1)
    colours = {tuple(colour) for colour in groups.reshape(-1, 3).tolist()}
    assert len(colours) == 3
    assert len({tuple(c) for c in groups[batch["groups"][0, 0] == 1].tolist()}) == 1


def test_the_sheet_of_moving_digits_has_frames_and_groups():
    data = data_config("moving_mnist", digits="embedded", canvas=32, frames=5).open()
    picture = data.preview(count=2)
    assert len(picture.tiles) == 2 * 2 * 5
    assert [text.text for text in picture.texts if text.text in ("frames", "groups")] == [
        "frames", "groups", "frames", "groups",
    ]  # fmt: skip


def test_arrays_of_the_users_own_have_a_picture(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape in {"maps": (9, 4, 3, 6, 6), "vectors": (9, 4, 5)}.items():
        np.savez(tmp_path / f"{name}.npz", frames=rng.random(shape), label=np.arange(9))
        picture = data_config("arrays", path=str(tmp_path / f"{name}.npz")).open().preview("train")
        assert len(picture.tiles) == 16


def test_images_of_the_users_own_are_photographs(tmp_path):
    """1 is white, as in pictures with three channels."""
    image = np.linspace(0, 1, 36, dtype=np.float32).reshape(6, 6)
    for channels in (1, 3):
        path = tmp_path / f"{channels}.npz"
        np.savez(path, image=np.broadcast_to(image, (9, channels, 6, 6)))
        data = data_config("arrays", path=str(path), input="image").open()
        shown = data.preview("train", count=1).tiles[0].image
        assert np.array_equal(shown, np.rint(255 * image)[..., None].repeat(3, -1))


def test_text_that_leaves_the_sheet_is_cut():
    texts = tuple(
        SheetText(x, y, "long text é") for x, y in ((-9, 3), (15, 30), (-200, 5), (5, 99))
    )
    tile = Tile(2, 2, shade(np.eye(3)), (1, 2))
    assert decode_png(to_png(ImageSheet(20, 30, (tile,), texts))).shape == (30, 20, 3)


def test_control_characters_in_a_title():
    picture = strips("two\nlines \x1b", ["t = 1"], [("", [Strip("a\tb", [np.eye(3)])])])
    assert decode_png(to_png(picture)).shape == (picture.height, picture.width, 3)
    texts = [text.text for text in ElementTree.fromstring(to_svg(picture)).findall("{*}text")]
    assert texts == ["two lines \N{REPLACEMENT CHARACTER}", "t = 1", "a b"]


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
        (["digits", "--first", "9999"], "300 items in test, but no item 9999"),
        (["music", "--set", "name=Bach"], "`name` is 'Bach': expected "),
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
