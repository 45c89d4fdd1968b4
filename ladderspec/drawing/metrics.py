"""How wide a text is: widths of Helvetica, Helvetica Bold and Times Italic, per 1000 of font size.

Arial, Liberation and Nimbus have the same widths, so a box sized here holds its text everywhere.
"""

from __future__ import annotations

from typing import Literal
from unicodedata import combining, east_asian_width

Face = Literal["sans", "bold", "italic", "serif"]

# Signs of typography, by name: many look like plain ASCII.
TIMES, DOT, MINUS, DASH, PRIME = "\u00d7", "\u00b7", "\u2212", "\u2013", "\u2032"

_FIRST = 32  # the tables run from space to tilde
# fmt: off
_SANS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722,
    722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722,
    667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556,
    556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,
    500, 334, 260, 334, 584,
)
_BOLD = (
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722,
    722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722, 667, 611, 722,
    667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556, 333, 611,
    611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556,
    500, 389, 280, 389, 584,
)
_ITALIC = (
    250, 333, 420, 500, 500, 833, 778, 214, 333, 333, 500, 675, 250, 333, 250, 278, 500, 500,
    500, 500, 500, 500, 500, 500, 500, 500, 333, 333, 675, 675, 675, 500, 920, 611, 611, 667,
    722, 611, 611, 722, 722, 333, 444, 667, 556, 833, 667, 722, 611, 722, 611, 500, 556, 722,
    611, 833, 611, 556, 556, 389, 278, 389, 422, 500, 333, 500, 500, 444, 500, 444, 278, 500,
    500, 278, 278, 444, 278, 722, 500, 500, 500, 500, 389, 389, 278, 500, 444, 667, 444, 444,
    389, 400, 275, 400, 541,
)
# fmt: on
_TABLES = {"sans": _SANS, "bold": _BOLD, "italic": _ITALIC, "serif": _ITALIC}
_OTHERS = {TIMES: 675, DOT: 333, MINUS: 675, DASH: 556, PRIME: 240}
_LETTER = 720  # most Greek and accented letters; a few wide ones take their neighbours' air
_WIDE = 1000


def width_of(text: str, size: float, face: Face = "sans") -> float:
    """
    >>> width_of("Conv", 10) == (722 + 556 + 556 + 500) / 100
    True
    """
    table = _TABLES[face]
    total = 0
    for character in text:
        index = ord(character) - _FIRST
        total += table[index] if 0 <= index < len(table) else _other(character)
    return total * size / 1000


def _other(character: str) -> int:
    if combining(character):
        return 0
    if east_asian_width(character) in "WF":
        return _WIDE
    return _OTHERS.get(character, _LETTER)
