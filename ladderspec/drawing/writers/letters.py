"""Text -> letters in their places: Graphviz would raise, lower and accent them in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ladderspec.drawing.maths import ACCENTS, RAISE, SMALL, Run
from ladderspec.drawing.metrics import Face, width_of
from ladderspec.drawing.scene import Text

# Accents by themselves, which fonts have where they lack the combined ones: size, and how far up.
_ALONE = {
    ACCENTS["hat"]: ("\u02c6", 1.0, 0.0),
    ACCENTS["tilde"]: ("\u02dc", 1.0, 0.0),
    ACCENTS["bar"]: ("\u00af", 1.0, 0.0),
    ACCENTS["dot"]: ("\u02d9", 1.0, 0.0),
    ACCENTS["vec"]: ("\u2192", 0.7, 0.34),
}
_LOW = set("acegmnopqrsuvwxyz\u03b1\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c0\u03c1"
           "\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9")  # fmt: skip
_UP, _SLANT = 0.21, 0.07  # of an accent on a tall letter, and on one in italics


class Letters(NamedTuple):
    """Letters of one face, around `x` on the base line `y`."""

    text: str
    face: Face
    x: float
    y: float
    size: float


def letters_of(text: Text) -> Iterator[Letters]:
    left = text.left
    for run in text.runs:
        width = run.width(text.size)
        size = text.size * (SMALL if run.shift else 1)
        base = text.y - run.shift * RAISE * text.size
        bare = "".join(each for each in run.text if each not in _ALONE)
        at = left + width_of(bare[: len(bare) - len(bare.lstrip())], size, run.face)
        room = width_of(bare.strip(), size, run.face)  # Graphviz drops the spaces around a text
        if room:
            yield Letters(bare.strip(), run.face, at + room / 2, base, size)
        yield from _accents(run, left, base, size)
        left += width


def _accents(run: Run, left: float, base: float, size: float) -> Iterator[Letters]:
    before = ""
    for character in run.text:
        if character not in _ALONE:
            before += character
            continue
        sign, small, up = _ALONE[character]
        under = before[-1:]
        x = left + width_of(before, size, run.face) - width_of(under, size, run.face) / 2
        x += _SLANT * size if run.face == "italic" else 0.0
        up += 0.0 if under in _LOW else _UP
        yield Letters(sign, "serif", x, base - up * size, size * small)
