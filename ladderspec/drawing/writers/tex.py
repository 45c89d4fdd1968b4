"""Words of TeX: runs of text, signs and letters of mathematics."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import combining, decomposition, name

from ladderspec.drawing.maths import ACCENTS, Run
from ladderspec.drawing.metrics import DASH, DOT, MINUS, PRIME, TIMES

_FACES = {"sans": r"\sffamily", "bold": r"\sffamily\bfseries"}


def run_text(run: Run) -> str:
    if run.face in ("sans", "bold") and not run.shift:
        return f"{{{_FACES[run.face]} {escape(run.text)}}}"
    inner = "".join(_maths(run.text))
    if run.face != "serif":
        inner = rf"\{'mathit' if run.face == 'italic' else 'mathsf'}{{{inner}}}"
    return f"$_{{{inner}}}$" if run.shift < 0 else f"$^{{{inner}}}$" if run.shift else f"${inner}$"


_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\u2014": "---",
}  # fmt: skip
_SIGNS = {
    TIMES: r"\times ", DOT: r"\cdot ", MINUS: "-", PRIME: "'", "\u2192": r"\to ",
    "\u2026": r"\ldots ", "\u221e": r"\infty ", "\u2264": r"\leq ", "\u2265": r"\geq ",
    "\u2248": r"\approx ", "\u2211": r"\sum ", "\u00b2": "^2", "\u00b3": "^3",
}  # fmt: skip
_COMMANDS = {sign: command for command, sign in ACCENTS.items()}


def escape(text: str) -> str:
    r"""
    >>> escape("50% of a_b")
    '50\\% of a\\_b'
    """
    return "".join(_words(text))


def _words(text: str) -> Iterator[str]:
    for letter in _letters(text):
        if letter in _SPECIAL:
            yield _SPECIAL[letter]
        elif letter == DASH:
            yield "--"
        elif letter.isascii() or decomposition(letter[0]):  # Latin letters with their accents
            yield letter
        else:
            yield f"${_symbol(letter)}$"


def _maths(text: str) -> Iterator[str]:
    for letter in _letters(text):
        if letter == " ":
            yield r"\ "
        elif letter in "&%$#_{}":
            yield "\\" + letter
        else:
            yield letter if letter.isascii() else _symbol(letter)


def _letters(text: str) -> list[str]:
    """Characters, each with the accents that follow it."""
    found: list[str] = []
    for character in text:
        if combining(character) and found:
            found[-1] += character
        else:
            found.append(character)
    return found


def _symbol(letter: str) -> str:
    """A letter or sign in mathematics; what TeX does not know becomes a question mark."""
    if len(letter) > 1:
        inner = _symbol(letter[:-1])
        return rf"\{_COMMANDS[letter[-1]]}{{{inner}}}" if letter[-1] in _COMMANDS else inner
    if letter.isascii():
        return letter
    if letter in _SIGNS:
        return _SIGNS[letter]
    words = name(letter, "").split()
    if words[:1] == ["GREEK"] and words[2:3] == ["LETTER"] and len(words) == 4:
        greek = words[3].replace("LAMDA", "LAMBDA")
        return rf"\{greek.lower() if words[1] == 'SMALL' else greek.capitalize()} "
    return "?"
