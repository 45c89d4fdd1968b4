"""Pictures of tiles and short texts, written as PNG or SVG without any drawing library."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import _letters
from ladderspec.data._contract import DataError
from ladderspec.files import write_atomic

Pixels = NDArray[np.uint8]  # (H, W, 3)
Colour = tuple[int, int, int]
Anchor = Literal["start", "middle", "end"]

PAPER: Colour = (255, 255, 255)
INK: Colour = (31, 36, 48)
QUIET: Colour = (107, 114, 128)
FRAME: Colour = (205, 211, 220)


@dataclass(frozen=True)
class Tile:
    """An image, each of its pixels `scale` wide and high, in a thin frame."""

    x: int
    y: int
    image: Pixels
    scale: tuple[int, int]  # down, across

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.image.shape[0] * self.scale[0], self.image.shape[1] * self.scale[1]

    def pixels(self) -> Pixels:
        """The image at its size: sharp squares, whatever a viewer does to small images."""
        return self.image.repeat(self.scale[0], 0).repeat(self.scale[1], 1)


@dataclass(frozen=True)
class Text:
    """A line of text; `x`, `y`: its anchor on the baseline."""

    x: int
    y: int
    text: str
    anchor: Anchor = "start"
    colour: Colour = INK


@dataclass(frozen=True)
class Picture:
    width: int
    height: int
    tiles: tuple[Tile, ...]
    texts: tuple[Text, ...]

    def save(self, path: str | Path) -> Path:
        """Write a .png or .svg file."""
        writers: dict[str, Callable[[Picture], str | bytes]] = {".png": to_png, ".svg": to_svg}
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise DataError(f"{path}: pictures are written as .png or .svg")
        return write_atomic(path, writers[suffix](self))


def shade(values: NDArray[Any], ink: Colour = INK, paper: Colour = PAPER) -> Pixels:
    """Colours from values: 0 is paper, 1 is ink."""
    share = np.clip(np.asarray(values, np.float32), 0, 1)[..., None]
    mixed = share * np.array(ink, np.float32) + (1 - share) * np.array(paper, np.float32)
    return np.asarray(np.rint(mixed), np.uint8)


# --- PNG ------------------------------------------------------------------------------------------


def encode_png(pixels: Pixels) -> bytes:
    """A PNG file of 8-bit RGB."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def to_png(picture: Picture) -> bytes:
    sheet = np.full((picture.height, picture.width, 3), PAPER, np.uint8)
    for tile in picture.tiles:
        height, width = tile.size
        sheet[tile.y - 1 : tile.y + height + 1, tile.x - 1 : tile.x + width + 1] = FRAME
        sheet[tile.y : tile.y + height, tile.x : tile.x + width] = tile.pixels()
    for text in picture.texts:
        ink = _letters.coverage(text.text)
        x = text.x - {"start": 0, "middle": ink.shape[1] // 2, "end": ink.shape[1]}[text.anchor]
        y = text.y - _letters.BASELINE
        part = sheet[max(0, y) : y + len(ink), max(0, x) : x + ink.shape[1]]
        ink = ink[max(0, -y) :, max(0, -x) :][: part.shape[0], : part.shape[1], None]
        part[:] = np.rint(ink * np.array(text.colour) + (1 - ink) * part)
    return encode_png(sheet)


# --- SVG ------------------------------------------------------------------------------------------


def to_svg(picture: Picture) -> str:
    size = f'width="{picture.width}" height="{picture.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
        f' viewBox="0 0 {picture.width} {picture.height}"'
        ' font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for tile in picture.tiles:
        height, width = tile.size
        data = base64.b64encode(encode_png(tile.pixels())).decode()
        box = f'width="{width}" height="{height}"'
        lines.append(
            f'<image x="{tile.x}" y="{tile.y}" {box} style="image-rendering: pixelated"'
            f' href="data:image/png;base64,{data}"/>'
        )
        lines.append(
            f'<rect x="{tile.x - 0.5}" y="{tile.y - 0.5}" width="{width + 1}"'
            f' height="{height + 1}" fill="none" stroke="{_hex(FRAME)}"/>'
        )
    for text in picture.texts:
        lines.append(
            f'<text x="{text.x}" y="{text.y}" text-anchor="{text.anchor}"'
            f' fill="{_hex(text.colour)}">{escape(text.text)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
