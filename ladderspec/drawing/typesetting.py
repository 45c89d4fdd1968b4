r"""Text metrics and mathematical labels: a label becomes runs of one font face, with known widths.

Labels are Unicode (`x̂`, `π_k`) or a small subset of TeX (`\hat{x}`, `\pi_k`, `\frac{m}{w}`), with
or without `$`. Widths are those of Helvetica, Helvetica Bold and Times Italic. Arial, Liberation
and Nimbus have the same widths, so a box sized here holds its text in every program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple
from unicodedata import combining, east_asian_width, lookup

Face = Literal["sans", "bold", "italic", "serif"]

# Typographic characters by name: many look like plain ASCII.
TIMES, DOT, MINUS, DASH, PRIME = "\u00d7", "\u00b7", "\u2212", "\u2013", "\u2032"

SCRIPT_SIZE = 0.72  # size of a subscript or superscript, relative to the text around it
SCRIPT_ROOM = 0.83  # the same for its width: scripts are wider in TeX
SCRIPT_SHIFT = 0.34  # its distance from the base line, relative to the text around it
ASCENT, DESCENT = 0.74, 0.24  # height above and below the base line, relative to the font size

ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "dot": "\u0307", "vec": "\u20d7"}
_SYMBOLS = {
    "times": TIMES, "cdot": DOT, "to": "\u2192", "rightarrow": "\u2192", "prime": PRIME,
    "infty": "\u221e", "leq": "\u2264", "geq": "\u2265", "approx": "\u2248", "sum": "\u2211",
    ",": " ", ";": " ", " ": " ", "left": "", "right": "", "quad": "  ",
}  # fmt: skip
# A command with the space that ends it, a letter with its accents, or any other character.
_TOKEN = re.compile(r"\\(?:[A-Za-z]+\s*|.)|[^\W\d_][\u0300-\u036f\u20d7]*|.", re.DOTALL)


class TextRun(NamedTuple):
    """Text in one face; `shift` is -1 for a subscript, +1 for a superscript."""

    text: str
    face: Face = "sans"
    shift: int = 0

    def width(self, size: float) -> float:
        return width_of(self.text, size * (SCRIPT_ROOM if self.shift else 1), self.face)


Runs = tuple[TextRun, ...]


def plain(text: str, face: Face = "sans") -> Runs:
    return (TextRun(text, face),) if text else ()


def symbol(letter: str, subscript: str, suffix: str = "") -> Runs:
    """One of the paper's letters: `e` with its level as subscript, perhaps followed by `(t-1)`."""
    face: Face = "italic" if any(map(str.isalpha, subscript)) else "serif"
    return (TextRun(letter, "italic"), TextRun(subscript, face, -1), *formula(suffix))


def joined(*texts: Sequence[TextRun]) -> Runs:
    """Several texts as one; neighbouring runs of one face and height become one run."""
    found: list[TextRun] = []
    for run in chain(*texts):
        if found and (found[-1].face, found[-1].shift) == (run.face, run.shift):
            found[-1] = run._replace(text=found[-1].text + run.text)
        else:
            found.append(run)
    return tuple(found)


def width_of_runs(runs: Sequence[TextRun], size: float) -> float:
    return sum(run.width(size) for run in runs)


def height_of_runs(runs: Sequence[TextRun]) -> tuple[float, float]:
    """Height above and below the base line, relative to the font size."""
    shifts = {run.shift for run in runs}
    above = max(ASCENT, SCRIPT_SHIFT + ASCENT * SCRIPT_SIZE) if 1 in shifts else ASCENT
    below = max(DESCENT, SCRIPT_SHIFT + DESCENT * SCRIPT_SIZE) if -1 in shifts else DESCENT
    return above, below


def text_of(runs: Sequence[TextRun]) -> str:
    """The bare characters, for descriptions."""
    return "".join(run.text for run in runs)


# --- mathematical labels --------------------------------------------------------------------------


def formula(label: str, face: Face = "sans") -> Runs:
    """Runs of a label: mathematics between `$`, text in `face` around it.

    A label without `$` is mathematics if it looks like it.

    >>> formula("Input")
    (TextRun(text='Input', face='sans', shift=0),)
    >>> [(run.text, run.face, run.shift) for run in formula("w_x")]
    [('w', 'italic', 0), ('x', 'italic', -1)]
    >>> [(run.text, run.face) for run in formula("for all $t$")]
    [('for all ', 'sans'), ('t', 'italic')]
    """
    label = " ".join(label.split())
    if label.count("$") < 2:
        bare = label.replace("$", "")
        return _mathematics(bare, face) if _looks_mathematical(bare) else plain(bare, face)
    runs: list[TextRun] = []
    for index, piece in enumerate(label.split("$")):
        runs += _mathematics(piece, face) if index % 2 else plain(piece, face)
    return tuple(runs)


def _mathematics(label: str, face_of_words: Face) -> Runs:
    runs: list[TextRun] = []
    for text, shift in _join_words(_Parser(label).parse()):
        face = _face(text, shift, face_of_words)
        runs.append(TextRun(text.replace("-", MINUS) if face == "serif" else text, face, shift))
    return joined(runs)


class _Atom(NamedTuple):
    text: str
    shift: int
    from_tex: bool = False  # a TeX command produced it


def _looks_mathematical(label: str) -> bool:
    """Whether there is a script, a Greek letter or TeX; or letters, but no word of more than two.

    >>> [_looks_mathematical(label) for label in ("x(t+1)", "m_y", "a cell", "7")]
    [True, True, False, False]
    """
    atoms = _Parser(label).parse()
    if any(a.shift or a.from_tex or (a.text[:1].isalpha() and not a.text.isascii()) for a in atoms):
        return True
    lengths = [len(text) for text, _ in _join_words(atoms) if text.isalpha()]
    return bool(lengths) and max(lengths) <= 2


def _face(text: str, shift: int, face_of_words: Face) -> Face:
    letters = [character for character in text if not combining(character)]
    if not any(character.isalpha() for character in letters):
        return "serif"
    return "italic" if len(letters) <= (2 if shift else 1) else face_of_words


def _join_words(atoms: Sequence[_Atom]) -> Iterator[tuple[str, int]]:
    """Join neighbouring ASCII letters of one height into a word."""
    word, height = "", 0
    for text, shift, from_tex in atoms:
        simple = text.isascii() and text.isalpha() and not from_tex
        if word and (not simple or shift != height):
            yield word, height
            word = ""
        if simple:
            word, height = word + text, shift
        elif text:
            yield text, shift
    if word:
        yield word, height


class _Parser:
    """Recursive-descent parser of a label."""

    def __init__(self, label: str) -> None:
        self.tokens = _TOKEN.findall(label)
        self.at = 0

    def parse(self) -> list[_Atom]:
        found: list[_Atom] = []
        while self.at < len(self.tokens):  # an unmatched closing brace is skipped
            found += self.group(0)
        return found

    def group(self, shift: int) -> list[_Atom]:
        """Everything up to the closing brace, or to the end."""
        found: list[_Atom] = []
        while self.at < len(self.tokens) and self.tokens[self.at] != "}":
            found += self.one(shift)
        self.at += 1
        return found

    def one(self, shift: int) -> list[_Atom]:
        """One letter, one command with its arguments, or one group in braces."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        self.at += 1
        if token == "{":
            return self.group(shift)
        if token in ("_", "^") and self.at < len(self.tokens):
            return self.script(shift or (-1 if token == "_" else 1))
        if token.startswith("\\") and len(token) > 1:
            return self.command(token[1:].rstrip() or " ", shift)
        return [_Atom(token, shift)]

    def script(self, shift: int) -> list[_Atom]:
        """A group, or a whole word: w_yz is w with subscript yz."""
        found = self.one(shift)
        while found[-1:] and found[-1].text.isalnum() and self.continues_word():
            found += self.one(shift)
        return found

    def continues_word(self) -> bool:
        before, after = self.tokens[self.at - 1], self.tokens[self.at : self.at + 1]
        return before != "}" and bool(after) and after[0].isalnum()

    def command(self, name: str, shift: int) -> list[_Atom]:
        if name in ACCENTS:
            first, *rest = self.one(shift) or [_Atom("", shift)]
            return [_Atom(first.text + ACCENTS[name], first.shift, True), *rest]
        if name == "frac":
            return [*self.one(shift), _Atom("/", shift, True), *self.one(shift)]
        return [_Atom(_SYMBOLS.get(name, _greek(name)), shift, True)]


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


# --- font metrics: advance widths per 1000 of the font size ---------------------------------------

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
_OTHERS = {TIMES: 584, DOT: 333, MINUS: 675, DASH: 556, PRIME: 240, "\u22ee": 250}
_LETTER = 720  # most Greek and accented letters; a few are slightly wider
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
