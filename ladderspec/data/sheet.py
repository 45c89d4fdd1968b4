"""Contact sheets: frames over time as in [f:ommnist] and [f:prediction], and piano rolls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data import _letters
from ladderspec.data._picture import PAPER, QUIET, Colour, Picture, Pixels, Text, Tile, shade
from ladderspec.data.music import LOWEST

TILE = 96  # about how wide a frame is drawn
GAP, MARGIN, LINE = 8, 20, 20
BAR: Colour = (214, 224, 238)
BEHIND: Colour = (160, 174, 196)  # ink behind a bar
NOTE: Colour = (38, 84, 150)
OWN_NOTE: Colour = (205, 100, 30)
KEYS: tuple[Colour, Colour] = (PAPER, (243, 245, 248))  # white keys, black keys
OCTAVE: Colour = (224, 229, 236)


@dataclass(frozen=True)
class Strip:
    """One row of a sheet: what it shows, and an image for each column."""

    label: str
    images: Sequence[NDArray[Any]]  # (H, W) with 0 = paper and 1 = ink, or (H, W, 3) of bytes


def strips(
    title: str, columns: Sequence[str], groups: Sequence[tuple[str, list[Strip]]]
) -> Picture:
    """A sheet of strips; those of a group stand together under its name."""
    rows = [strip for _, group in groups for strip in group]
    height, width = rows[0].images[0].shape[:2]
    scale = max(1, round(TILE / max(height, width)))
    tall, wide = height * scale, width * scale
    left = MARGIN + max(_letters.width(row.label) for row in rows) + 2 * GAP
    right = left + len(columns) * (wide + GAP) - GAP
    total = max(right, MARGIN + _letters.width(title)) + MARGIN
    texts = [Text(MARGIN, MARGIN + _letters.BASELINE, title)]
    tiles: list[Tile] = []
    y = MARGIN + LINE + GAP
    for number, (name, group) in enumerate(groups):
        y += LINE if name or not number else 0
        texts += [Text(MARGIN, y, name, colour=QUIET)] if name else []
        if not number:
            middles = [left + i * (wide + GAP) + wide // 2 for i in range(len(columns))]
            named = [(x, c) for x, c in zip(middles, columns, strict=True) if c]
            texts += [Text(x, y, column, "middle", QUIET) for x, column in named]
        y += GAP
        for strip in group:
            texts += [Text(MARGIN, y + tall // 2 + 5, strip.label)] if strip.label else []
            down, across = _scales(strip.images[0], (height, width), scale)
            for i, image in enumerate(strip.images):
                tiles.append(Tile(left + i * (wide + GAP), y, _pixels(image), (down, across)))
            y += strip.images[0].shape[0] * down + GAP
        y += GAP
    return Picture(total, y + MARGIN - 2 * GAP, tuple(tiles), tuple(texts))


def _scales(image: NDArray[Any], frame: tuple[int, int], scale: int) -> tuple[int, int]:
    """Down and across: an image of another shape than the frame is as wide, and about as tall."""
    height, width = image.shape[:2]
    if (height, width) == frame:
        return scale, scale
    return max(1, TILE // height), max(1, frame[1] * scale // width)


def _pixels(image: NDArray[Any]) -> Pixels:
    return image if image.dtype == np.uint8 and image.ndim == 3 else shade(image)


def behind_bars(clean: NDArray[Any], mask: NDArray[np.bool_]) -> Pixels:
    """A frame with its bars drawn, and what they hide in a lighter ink."""
    hidden = shade(clean, BEHIND, BAR)
    return np.where(mask[..., None], shade(clean), hidden)


# --- piano rolls ----------------------------------------------------------------------------------


def rolls(
    title: str,
    pieces: Sequence[tuple[str, NDArray[Any]]],
    longest: int = 192,
    given: int | None = None,
) -> Picture:
    """Piano rolls (steps, 88) one below the other, time to the right, high notes above.

    Notes after the first `given` steps have another colour.
    """
    low, high = _range([roll for _, roll in pieces])
    steps = min(longest, max(len(roll) for _, roll in pieces))
    across = max(2, min(6, 960 // steps))
    left = MARGIN + _letters.width("C8") + GAP
    texts = [Text(MARGIN, MARGIN + _letters.BASELINE, title)]
    tiles = []
    y = MARGIN + LINE + GAP
    for name, roll in pieces:
        shown = roll[:steps]
        y += LINE
        cut = "" if len(roll) <= steps else f", the first {steps} shown"
        texts.append(Text(left, y, f"{name}, {len(roll)} steps{cut}", colour=QUIET))
        y += GAP
        tiles.append(Tile(left, y, _keyboard(shown, low, high, given), (4, across)))
        for note in range(low, high + 1):
            if (note + LOWEST) % 12 == 0:
                name_of = f"C{(note + LOWEST) // 12 - 1}"
                texts.append(Text(left - GAP, y + (high - note) * 4 + 7, name_of, "end", QUIET))
        y += (high - low + 1) * 4 + GAP
    width = max(left + steps * across, *(t.x + _letters.width(t.text) for t in texts)) + MARGIN
    return Picture(width, y + MARGIN - GAP, tuple(tiles), tuple(texts))


def _range(pieces: Sequence[NDArray[Any]]) -> tuple[int, int]:
    """The columns to show: those that sound, and two more each way."""
    used = np.flatnonzero(np.concatenate(list(pieces)).any(0))
    low, high = (int(used[0]), int(used[-1])) if len(used) else (39, 51)
    return max(0, low - 2), min(87, high + 2)


def _keyboard(roll: NDArray[Any], low: int, high: int, given: int | None) -> Pixels:
    """Notes on the rows of a keyboard; every C has a darker line."""
    pitch = np.arange(low, high + 1) + LOWEST
    black = np.isin(pitch % 12, [1, 3, 6, 8, 10])
    ground = np.where(black[:, None], KEYS[1], KEYS[0])
    ground[pitch % 12 == 0] = OCTAVE
    sounds = roll[:, low : high + 1].T > 0
    own = np.arange(len(roll)) >= (len(roll) if given is None else given)
    ink = np.where(own[:, None], np.array(OWN_NOTE), np.array(NOTE))
    image = np.where(sounds[..., None], ink, ground[:, None])
    return image[::-1].astype(np.uint8)
