"""Contact sheets: frames over time as in [f:ommnist] and [f:prediction], and piano rolls.

A sheet consists of image tiles and lines of text; it is written as PNG or SVG.
"""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.batching import Indices
from ladderspec.data.dataset import DataError, DataSet
from ladderspec.data.sets.music import LOWEST
from ladderspec.escaping import escape_xml, one_line
from ladderspec.files import write_atomic

if TYPE_CHECKING:  # Pillow is imported when a sheet is laid out
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

Pixels = NDArray[np.uint8]  # (H, W, 3)
Colour = tuple[int, int, int]
Anchor = Literal["start", "middle", "end"]

PAPER: Colour = (255, 255, 255)
INK: Colour = (31, 36, 48)
GREY: Colour = (107, 114, 128)
FRAME: Colour = (205, 211, 220)
FONT_SIZE, BASELINE = 13, 12
OTHER_FONTS = 1.2  # viewers of SVG may use a font that is this much wider
TILE = 96  # approximate width of a frame in pixels
COLUMNS = 12  # frames of an item, at most
STEPS = 192  # steps of a piano roll, at most
GAP, MARGIN, LINE = 8, 20, 20
BAR: Colour = (214, 224, 238)
BEHIND: Colour = (160, 174, 196)  # ink behind a bar
NOTE: Colour = (38, 84, 150)
GENERATED_NOTE: Colour = (205, 100, 30)
KEYS: tuple[Colour, Colour] = (PAPER, (243, 245, 248))  # white keys, black keys
OCTAVE: Colour = (224, 229, 236)
PALETTE: tuple[Colour, ...] = (  # Okabe and Ito: distinct for colour-blind readers too
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0),
)  # fmt: skip
NO_GROUP: Colour = (236, 238, 241)


@dataclass(frozen=True)
class Tile:
    """An image, enlarged by `scale`, in a thin frame."""

    x: int
    y: int
    image: Pixels
    scale: tuple[int, int]  # down, across

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.image.shape[0] * self.scale[0], self.image.shape[1] * self.scale[1]

    def pixels(self) -> Pixels:
        """The enlarged image: pixels stay sharp in viewers that interpolate small images."""
        return self.image.repeat(self.scale[0], 0).repeat(self.scale[1], 1)


@dataclass(frozen=True)
class SheetText:
    """A line of text; (x, y) is its anchor on the baseline."""

    x: int
    y: int
    text: str
    anchor: Anchor = "start"
    colour: Colour = INK


@dataclass(frozen=True)
class ImageSheet:
    """Tiles and lines of text on white paper."""

    width: int
    height: int
    tiles: tuple[Tile, ...]
    texts: tuple[SheetText, ...]

    def save(self, path: str | Path) -> Path:
        """Write a .png or .svg file."""
        writers: dict[str, Callable[[ImageSheet], str | bytes]] = {".png": to_png, ".svg": to_svg}
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise DataError(f"{path}: pictures are written as .png or .svg")
        return write_atomic(path, writers[suffix](self))


def shade(values: NDArray[Any], ink: Colour = INK, paper: Colour = PAPER) -> Pixels:
    """Colours of values: 0 is paper, 1 is ink; values outside [0, 1] are clipped."""
    share = np.clip(np.asarray(values, np.float32), 0, 1)[..., None]
    mixed = share * np.array(ink, np.float32) + (1 - share) * np.array(paper, np.float32)
    return np.asarray(np.rint(mixed), np.uint8)


def text_width(text: str) -> int:
    """Width of a line of text in pixels, with room for other fonts."""
    return math.ceil(_font().getlength(one_line(text)) * OTHER_FONTS)


@cache
def _font() -> FreeTypeFont | ImageFont:
    from PIL.ImageFont import load_default

    return load_default(FONT_SIZE)


# --- writers --------------------------------------------------------------------------------------


def to_png(sheet: ImageSheet) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (sheet.width, sheet.height), PAPER)
    pen = ImageDraw.Draw(image)
    for tile in sheet.tiles:
        height, width = tile.size
        pen.rectangle((tile.x - 1, tile.y - 1, tile.x + width, tile.y + height), FRAME)
        image.paste(Image.fromarray(tile.pixels()), (tile.x, tile.y))
    for text in sheet.texts:
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[text.anchor]  # on the baseline
        pen.text((text.x, text.y), one_line(text.text), text.colour, _font(), anchor)
    return _encode(image)


def _encode(image: Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "png")
    return out.getvalue()


def to_svg(sheet: ImageSheet) -> str:
    from PIL import Image

    size = f'width="{sheet.width}" height="{sheet.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
        f' viewBox="0 0 {sheet.width} {sheet.height}"'
        f' font-family="DejaVu Sans, Verdana, sans-serif" font-size="{FONT_SIZE}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for tile in sheet.tiles:
        height, width = tile.size
        data = b64encode(_encode(Image.fromarray(tile.pixels()))).decode()
        box = f'width="{width}" height="{height}"'
        lines.append(
            f'<image x="{tile.x}" y="{tile.y}" {box} style="image-rendering: pixelated"'
            f' href="data:image/png;base64,{data}"/>'
        )
        lines.append(
            f'<rect x="{tile.x - 0.5}" y="{tile.y - 0.5}" width="{width + 1}"'
            f' height="{height + 1}" fill="none" stroke="{_hex(FRAME)}"/>'
        )
    for text in sheet.texts:
        lines.append(
            f'<text x="{text.x}" y="{text.y}" text-anchor="{text.anchor}"'
            f' fill="{_hex(text.colour)}">{escape_xml(one_line(text.text))}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


# --- strips of frames -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Strip:
    """One row of a sheet: a label, and an image for each column."""

    label: str
    images: Sequence[NDArray[Any]]  # (H, W) with 0 = paper and 1 = ink, or (H, W, 3) of bytes


def strips(
    title: str,
    columns: Sequence[str],
    groups: Sequence[tuple[str, list[Strip]]],
    colours: Mapping[str, Colour] | None = None,
) -> ImageSheet:
    """A sheet of strips.

    Args:
        title: First line of the sheet.
        columns: Heading of each column.
        groups: Name and strips of each group of rows.
        colours: Colours of labels and headings, by their text. Default: ink and grey.
    """
    colours = colours or {}
    rows = [strip for _, group in groups for strip in group]
    height, width = rows[0].images[0].shape[:2]
    scale = max(1, round(TILE / max(height, width)))
    tall, wide = height * scale, width * scale
    left = MARGIN + max(text_width(row.label) for row in rows) + 2 * GAP
    pitch = max(wide, *map(text_width, columns)) + GAP
    right = left + len(columns) * pitch - GAP
    total = max(right, MARGIN + text_width(title)) + MARGIN
    texts = [SheetText(MARGIN, MARGIN + BASELINE, title)]
    tiles: list[Tile] = []
    y = MARGIN + LINE + GAP
    for number, (name, group) in enumerate(groups):
        y += LINE if name or not number else 0
        texts += [SheetText(MARGIN, y, name, colour=GREY)] if name else []
        if not number:
            middles = [left + i * pitch + (pitch - GAP) // 2 for i in range(len(columns))]
            named = [(x, c) for x, c in zip(middles, columns, strict=True) if c]
            texts += [SheetText(x, y, c, "middle", colours.get(c, GREY)) for x, c in named]
        y += GAP
        for strip in group:
            if strip.label:
                colour = colours.get(strip.label, INK)
                texts.append(SheetText(MARGIN, y + tall // 2 + 5, strip.label, colour=colour))
            down, across = _scales(strip.images[0], (height, width), scale)
            for i, image in enumerate(strip.images):
                coloured = image.dtype == np.uint8 and image.ndim == 3
                pixels = image if coloured else shade(image)
                x = left + i * pitch + (pitch - GAP - wide) // 2
                tiles.append(Tile(x, y, pixels, (down, across)))
            y += strip.images[0].shape[0] * down + GAP
        y += GAP
    return ImageSheet(total, y + MARGIN - 2 * GAP, tuple(tiles), tuple(texts))


def _scales(image: NDArray[Any], frame: tuple[int, int], scale: int) -> tuple[int, int]:
    """Down and across: an image of another shape than the frame is as wide, and about as tall."""
    height, width = image.shape[:2]
    if (height, width) == frame:
        return scale, scale
    return max(1, TILE // height), max(1, frame[1] * scale // width)


def over_time(title: str, names: Sequence[str], rows: Mapping[str, NDArray[Any]]) -> ImageSheet:
    """A group of strips for each item, with time to the right.

    Args:
        title: First line of the sheet.
        names: Name of each item.
        rows: Images of all items, (items, T, ...), by caption.
    """
    groups = [
        (name, [Strip(caption, list(images[i])) for caption, images in rows.items()])
        for i, name in enumerate(names)
    ]
    times = len(groups[0][1][0].images)
    return strips(title, [f"t = {t + 1}" for t in range(times)], groups)


def items(data: DataSet, title: str, split: str, indices: Indices) -> ImageSheet:
    """The input of each item as one row, with its label if there is one."""
    batch = data.batch(split, 0, indices)
    values = batch[data.config.input]
    if not data.forms[data.config.input].time:
        columns, values = [""], values[:, None]
    else:
        values = values[:, :COLUMNS]
        columns = [f"t = {t + 1}" for t in range(values.shape[1])]
    names = [f"label {label}" for label in batch["label"]] if "label" in batch else None
    names = names or [f"item {index}" for index in indices]
    rows = [
        Strip(name, [as_image(frame, data.photographs) for frame in frames])
        for name, frames in zip(names, values, strict=True)
    ]
    return strips(title, columns, [("", rows)])


def as_image(frame: NDArray[Any], photograph: bool = False) -> NDArray[Any]:
    """(C,) or (C, H, W) -> an image of a strip; three channels are colours.

    Args:
        frame: The values.
        photograph: Whether 1 is white. Default: 1 is ink on paper.
    """
    if frame.ndim == 3 and frame.shape[0] == 3:
        colours = np.clip(frame.transpose(1, 2, 0), 0, 1) * 255
        return np.asarray(np.rint(colours), np.uint8)
    image = _square(frame) if frame.ndim == 1 else np.asarray(frame.mean(0))
    return grey(image) if photograph else image


def _square(vector: NDArray[Any]) -> NDArray[Any]:
    """A vector (..., N) as a square image, or as a row if N is no square."""
    side = math.isqrt(vector.shape[-1])
    rows = side if side * side == vector.shape[-1] else 1
    return vector.reshape(*vector.shape[:-1], rows, -1)


def grey(values: NDArray[Any]) -> Pixels:
    """A photograph (H, W): 0 is black, 1 is white; values outside [0, 1] are clipped."""
    return shade(1 - np.asarray(values), (0, 0, 0))


def group_colour(group: int) -> Colour:
    """The colour of a group, 0 and up."""
    return PALETTE[group % len(PALETTE)]


def group_colours(groups: NDArray[np.int64]) -> Pixels:
    """Maps of groups (..., H, W) or (N,): a colour for each; pixels of no group (-1) are grey."""
    groups = _square(groups) if groups.ndim == 1 else groups
    colours = np.array([*PALETTE, NO_GROUP], np.uint8)
    return colours[np.where(groups < 0, -1, groups % len(PALETTE))]


def mixed_colours(shares: NDArray[Any], photograph: bool = False) -> Pixels:
    """Pixels in the colours of groups, mixed by shares (K, H, W) or (K, N).

    Shares that add up to less than 1 leave paper, or black of a photograph, between the colours.
    """
    shares = np.clip(_square(shares) if shares.ndim == 2 else shares, 0, None)
    shares = shares / np.maximum(shares.sum(0), 1)
    colours = np.array([group_colour(k) for k in range(len(shares))], np.float64)
    rest = (1 - shares.sum(0))[..., None] * (0 if photograph else np.array(PAPER))
    return np.asarray(np.rint(np.moveaxis(shares, 0, -1) @ colours + rest), np.uint8)


def behind_bars(clean: NDArray[Any], mask: NDArray[np.bool_]) -> Pixels:
    """Frames with their bars; the hidden pixels of the digit are drawn in a lighter ink."""
    return np.where(mask[..., None], shade(clean), shade(clean, BEHIND, BAR))


# --- piano rolls ----------------------------------------------------------------------------------


def rolls(
    title: str, pieces: Sequence[tuple[str, NDArray[Any]]], given: int | None = None
) -> ImageSheet:
    """Piano rolls (steps, 88) one below the other: time to the right, high notes at the top.

    Args:
        title: First line of the sheet.
        pieces: Name and roll of each piece.
        given: Notes after this many steps have another colour.
    """
    low, high = _range([roll for _, roll in pieces])
    steps = min(STEPS, max(len(roll) for _, roll in pieces))
    across = max(2, min(6, 960 // steps))
    left = MARGIN + text_width("C8") + GAP
    texts = [SheetText(MARGIN, MARGIN + BASELINE, title)]
    tiles = []
    y = MARGIN + LINE + GAP
    for name, roll in pieces:
        y += LINE
        cut = "" if len(roll) <= steps else f", the first {steps} shown"
        texts.append(SheetText(left, y, f"{name}, {len(roll)} steps{cut}", colour=GREY))
        y += GAP
        tiles.append(Tile(left, y, _keyboard(roll[:steps], low, high, given), (4, across)))
        for note in range(low, high + 1):
            if (note + LOWEST) % 12 == 0:
                octave = f"C{(note + LOWEST) // 12 - 1}"
                texts.append(SheetText(left - GAP, y + (high - note) * 4 + 7, octave, "end", GREY))
        y += (high - low + 1) * 4 + GAP
    width = max(left + steps * across, *(t.x + text_width(t.text) for t in texts)) + MARGIN
    return ImageSheet(width, y + MARGIN - GAP, tuple(tiles), tuple(texts))


def _range(pieces: Sequence[NDArray[Any]]) -> tuple[int, int]:
    """First and last column to draw: two beyond the lowest and the highest note."""
    used = np.flatnonzero(np.concatenate(list(pieces)).any(0))
    low, high = (int(used[0]), int(used[-1])) if len(used) else (39, 51)
    return max(0, low - 2), min(87, high + 2)


def _keyboard(roll: NDArray[Any], low: int, high: int, given: int | None) -> Pixels:
    """Notes on the rows of a keyboard; every C has a darker row."""
    pitch = np.arange(low, high + 1) + LOWEST
    black = np.isin(pitch % 12, [1, 3, 6, 8, 10])
    ground = np.where(black[:, None], KEYS[1], KEYS[0])
    ground[pitch % 12 == 0] = OCTAVE
    sounds = roll[:, low : high + 1].T > 0
    generated = np.arange(len(roll)) >= (len(roll) if given is None else given)
    ink = np.where(generated[:, None], np.array(GENERATED_NOTE), np.array(NOTE))
    image = np.where(sounds[..., None], ink, ground[:, None])
    return image[::-1].astype(np.uint8)
