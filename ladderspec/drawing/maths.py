r"""A label's text -> runs of one face each: letters of mathematics in italics, words upright.

Labels speak Unicode (`x̂`, `π_k`) or a little TeX (`\hat{x}`, `\pi_k`, `\frac{m}{w}`), with or
without `$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unicodedata import combining, lookup

from ladderspec.drawing.metrics import DOT, MINUS, PRIME, TIMES, Face, width_of

SMALL = 0.72  # size of what is raised or lowered
RAISE = 0.34  # by how much, per size of the text around it
ASCENT, DESCENT = 0.74, 0.24  # of a size, above and below the base line

ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "dot": "\u0307", "vec": "\u20d7"}
_SIGNS = {
    "times": TIMES, "cdot": DOT, "to": "\u2192", "rightarrow": "\u2192", "prime": PRIME,
    "infty": "\u221e", "leq": "\u2264", "geq": "\u2265", "approx": "\u2248", "sum": "\u2211",
    ",": " ", ";": " ", " ": " ", "left": "", "right": "", "quad": "  ",
}  # fmt: skip
# A command with the space that ends it, a letter with its accents, or any other character.
_TOKEN = re.compile(r"\\(?:[A-Za-z]+\s*|.)|[^\W\d_][\u0300-\u036f\u20d7]*|.", re.DOTALL)


class Run(NamedTuple):
    """A stretch of text in one face; `shift` is -1 below the line, +1 above it."""

    text: str
    face: Face = "sans"
    shift: int = 0

    def width(self, size: float) -> float:
        return width_of(self.text, size * (SMALL if self.shift else 1), self.face)


def plain(text: str, face: Face = "sans") -> tuple[Run, ...]:
    return (Run(text, face),) if text else ()


def letter(symbol: str, below: str, after: str = "") -> tuple[Run, ...]:
    """One of the paper's letters: e with its level below, perhaps (t-1) after it."""
    face: Face = "italic" if any(map(str.isalpha, below)) else "serif"
    return (Run(symbol, "italic"), Run(below, face, -1), *formula(after))


def width_of_runs(runs: Sequence[Run], size: float) -> float:
    return sum(run.width(size) for run in runs)


def reach_of(runs: Sequence[Run]) -> tuple[float, float]:
    """How far above and below its base line a text reaches, per size."""
    shifts = {run.shift for run in runs}
    above = max(ASCENT, RAISE + ASCENT * SMALL) if 1 in shifts else ASCENT
    return above, max(DESCENT, RAISE + DESCENT * SMALL) if -1 in shifts else DESCENT


def text_of(runs: Sequence[Run]) -> str:
    """The bare characters, for descriptions."""
    return "".join(run.text for run in runs)


def formula(label: str, words: Face = "sans") -> tuple[Run, ...]:
    """Runs of a label: between `$` mathematics, around it words; without `$` as it looks.

    >>> formula("Input")
    (Run(text='Input', face='sans', shift=0),)
    >>> [(run.text, run.face, run.shift) for run in formula("w_x")]
    [('w', 'italic', 0), ('x', 'italic', -1)]
    >>> [(run.text, run.face) for run in formula("for all $t$")]
    [('for all ', 'sans'), ('t', 'italic')]
    """
    label = " ".join(label.split())
    if label.count("$") < 2:
        bare = label.replace("$", "")
        return _mathematics(bare, words) if _looks_mathematical(bare) else plain(bare, words)
    runs: list[Run] = []
    for index, stretch in enumerate(label.split("$")):
        runs += _mathematics(stretch, words) if index % 2 else plain(stretch, words)
    return tuple(runs)


def _mathematics(text: str, words: Face) -> tuple[Run, ...]:
    runs: list[Run] = []
    for piece, shift in _words(_Reader(text).all()):
        face = _face(piece, shift, words)
        shown = piece.replace("-", MINUS) if face == "serif" else piece
        if runs and runs[-1].face == face and runs[-1].shift == shift:
            runs[-1] = Run(runs[-1].text + shown, face, shift)
        else:
            runs.append(Run(shown, face, shift))
    return tuple(runs)


Piece = tuple[str, int, bool]  # text, shift, whether TeX made it


def _looks_mathematical(label: str) -> bool:
    """Something is raised, lowered, Greek or TeX; or there is a letter, and no real word.

    >>> [_looks_mathematical(label) for label in ("x(t+1)", "m_y", "a cell", "7")]
    [True, True, False, False]
    """
    pieces = _Reader(label).all()
    if any(shift or made or _is_foreign(text) for text, shift, made in pieces):
        return True
    lengths = [len(text) for text, _ in _words(pieces) if text.isalpha()]
    return bool(lengths) and max(lengths) <= 2


def _is_foreign(text: str) -> bool:
    return text[:1].isalpha() and not text.isascii()


def _face(text: str, shift: int, words: Face) -> Face:
    letters = [character for character in text if not combining(character)]
    if not any(character.isalpha() for character in letters):
        return "serif"
    return "italic" if len(letters) <= (2 if shift else 1) else words


def _words(pieces: Sequence[Piece]) -> Iterator[tuple[str, int]]:
    """Neighbouring ASCII letters of one height are a word."""
    word, height = "", 0
    for text, shift, made in pieces:
        simple = text.isascii() and text.isalpha() and not made
        if word and (not simple or shift != height):
            yield word, height
            word = ""
        if simple:
            word, height = word + text, shift
        elif text:
            yield text, shift
    if word:
        yield word, height


class _Reader:
    """Walks over the tokens of a label once."""

    def __init__(self, label: str) -> None:
        self.tokens = _TOKEN.findall(label)
        self.at = 0

    def take(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        self.at += 1
        return token

    def all(self) -> list[Piece]:
        found: list[Piece] = []
        while self.at < len(self.tokens):  # a brace too many ends nothing
            found += self.group(0)
        return found

    def group(self, shift: int) -> list[Piece]:
        """What stands up to the closing brace, or to the end."""
        found: list[Piece] = []
        while self.at < len(self.tokens) and self.tokens[self.at] != "}":
            found += self.one(shift)
        self.at += 1
        return found

    def one(self, shift: int) -> list[Piece]:
        """One letter, one command with its arguments, or one group in braces."""
        token = self.take()
        if token == "{":
            return self.group(shift)
        if token in ("_", "^") and self.at < len(self.tokens):
            return self.shifted(shift or (-1 if token == "_" else 1))
        if token.startswith("\\") and len(token) > 1:
            return self.command(token[1:].rstrip() or " ", shift)
        return [(token, shift, False)]

    def shifted(self, shift: int) -> list[Piece]:
        """A group, or a whole word: w_yz is w with yz below."""
        found = self.one(shift)
        while found[-1:] and found[-1][0].isalnum() and self.follows_word():
            found += self.one(shift)
        return found

    def follows_word(self) -> bool:
        before, after = self.tokens[self.at - 1], self.tokens[self.at : self.at + 1]
        return before != "}" and bool(after) and after[0].isalnum()

    def command(self, name: str, shift: int) -> list[Piece]:
        if name in ACCENTS:
            (text, height, _), *rest = self.one(shift) or [("", shift, True)]
            return [(text + ACCENTS[name], height, True), *rest]
        if name == "frac":
            return [*self.one(shift), ("/", shift, True), *self.one(shift)]
        return [(_SIGNS.get(name, _greek(name)), shift, True)]


def _greek(name: str) -> str:
    """
    >>> _greek("sigma") == chr(0x3C3), _greek("Lambda") == chr(0x39B), _greek("relu")
    (True, True, 'relu')
    """
    height = "SMALL" if name[:1].islower() else "CAPITAL"
    try:
        return lookup(f"GREEK {height} LETTER {name.upper().replace('LAMBDA', 'LAMDA')}")
    except KeyError:
        return name
