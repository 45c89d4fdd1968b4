"""Findings: what is wrong with a spec, where, and what would be right; and the exceptions."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from unicodedata import combining, east_asian_width

from ladderspec.escaping import fitted
from ladderspec.wording import did_you_mean as did_you_mean
from ladderspec.wording import name_or_pattern_meant as name_or_pattern_meant
from ladderspec.wording import one_of as one_of
from ladderspec.wording import printable
from ladderspec.wording import registered_name_meant as registered_name_meant
from ladderspec.wording import spell as spell
from ladderspec.wording import tick as tick

MAX_FINDINGS = 100
EXCERPT_WIDTH = 120

CODES = {
    "F001": "a file cannot be read",
    "Y001": "the file is not UTF-8 text",
    "Y002": "the text is not YAML",
    "Y003": "a key is written twice",
    "Y004": "a YAML tag; a spec is plain data",
    "Y005": "a second document in one file",
    "Y006": "the file is empty",
    "Y007": "an alias without an anchor before it",
    "Y008": "the file is too large, too deep, or grows too large through aliases",
    "Y009": "a key that is not a word, or a merge of something that is not a mapping",
    "S100": "more mistakes than are shown",
    "S101": "an unknown key",
    "S102": "a required field is missing",
    "S103": "an unknown cell",
    "S104": "a value of the wrong type",
    "S105": "a value that is not among those allowed",
    "S106": "a number out of range",
    "S107": "an invalid name",
    "S108": "two levels with the same name",
    "S109": "a parameter or an expression that is not a number",
    "S110": "`extends` names a file that cannot be built on",
    "S111": "a text that is neither an arrow nor a selector",
    "S112": "a cell on the wrong side of the ladder",
    "S113": "a variant that does not exist, or that builds on itself",
    "S114": "a `--set` that sets nothing",
    "G201": "a level or node that does not exist",
    "G202": "a selector, `set` path or default that matches nothing, or a parameter without use",
    "G203": "a cycle of arrows within one t",
    "G204": "an arrow into a cell that cannot take it",
    "G205": "a cell without an arrow that it needs",
    "G206": "an added arrow that exists already",
    "G207": "a task at a node that does not exist",
    "G208": "an arrow whose delay is longer than the sequence, or has no meaning",
    "G209": "statistics per iteration although the number of iterations is not fixed",
    "G210": "weights that cannot be shared",
    "H301": "shapes that do not fit together",
    "H302": "a task at a node of the wrong shape, or at the wrong t",
    "E401": "an `expect` that does not hold",
}


@dataclass(frozen=True)
class Source:
    """A text and the name by which the user knows it."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def line(self, number: int) -> str:
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else None].rstrip("\r")


@dataclass(frozen=True)
class Place:
    """A range of characters of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return bisect_right(self.source.line_starts, self.start)

    @property
    def column(self) -> int:
        return self.start - self.source.line_starts[self.line - 1] + 1

    @property
    def width(self) -> int:
        """The number of characters that it covers on its first line."""
        rest_of_line = len(self.source.line(self.line)) - (self.column - 1)
        return max(1, min(self.end - self.start, rest_of_line))

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Finding:
    """One mistake."""

    code: str
    message: str
    place: Place | None = None
    path: str = ""  # the place in the spec's own terms: levels[0].encoder.cell
    hint: str = ""
    notes: tuple[str, ...] = ()

    def full(self, width: int | None = None) -> str:
        """The message, the line of the spec with a mark below it, the hint and the notes.

        Args:
            width: The columns of the terminal, if there is one.
        """
        lines = [f"error[{self.code}]: {printable(self.message)}"]
        hint, path = printable(self.hint), printable(self.path)
        shown = list[str]()
        if self.place:
            shown.append(f"  --> {self.place}" + (f"  ({path})" if path else ""))
            number = str(self.place.line)
            gutter = len(number) + len(" | ")
            line, mark = excerpt(self.place, width - gutter if width else EXCERPT_WIDTH)
            beside = hint if len(mark) + len(hint) <= (width - gutter - 1 if width else 100) else ""
            shown.append(f"{number} | {line}".rstrip())
            shown.append(f"{' ' * len(number)} | {mark} {beside}".rstrip())
            hint = "" if beside else hint
        rest = [f"  hint: {hint}"] if hint else []
        rest += [f"  note: {printable(note)}" for note in self.notes]
        if width:
            lines, rest = fitted(lines, width), fitted(rest, width)
        return "\n".join([*lines, *shown, *rest])

    def concise(self) -> str:
        place = f"{self.place}: " if self.place else ""
        path = f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return printable(f"{place}{self.code} {path}{self.message}{hint}")

    def github(self) -> str:
        """A workflow command that GitHub shows beside the line."""
        where = ""
        if self.place:
            name = printable(self.place.source.name).replace("%", "%25").replace(",", "%2C")
            where = (
                f" file={name},line={self.place.line},col={self.place.column},"
                f"endColumn={self.place.column + self.place.width},title={self.code}"
            )
        text = printable(". ".join(filter(None, [self.message, self.hint, *self.notes])))
        return f"::error{where}::{text.replace('%', '%25')}"

    def as_dict(self) -> dict[str, object]:
        place = self.place
        return {
            "code": self.code,
            "message": self.message,
            "file": place.source.name if place else None,
            "line": place.line if place else None,
            "column": place.column if place else None,
            "end_column": place.column + place.width if place else None,
            "path": self.path or None,
            "hint": self.hint or None,
            "notes": list(self.notes),
        }


class LadderspecError(Exception):
    """The base of all errors that a user can cause; commands print it without a traceback."""


class SpecError(LadderspecError):
    """A spec with mistakes.

    Args:
        findings: All mistakes, each with its code, message, place and hint.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(findings)

    def __str__(self) -> str:
        return "\n\n".join(finding.full() for finding in self.findings)


class UsageError(LadderspecError):
    """A command or a call with arguments that make no sense."""


class Problem(Exception):
    """A mistake with a hint; the caller adds its place in the text."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def reason(error: OSError | ValueError) -> str:
    """Why the system refused, for the end of a message: `no space left on device`."""
    return str(getattr(error, "strerror", None) or error).lower()


def memory_missing(error: MemoryError | RuntimeError) -> str:
    """A message on memory that could not be had; empty for other errors of torch.

    >>> memory_missing(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    'not enough memory: tried to allocate 2.00 GiB'
    """
    text = str(error)
    if not isinstance(error, MemoryError) and not re.search("allocate memory|out of memory", text):
        return ""
    size = re.search(r"(?i)(?:tried|unable) to allocate ([\d.]+ \w+)", text)
    return "not enough memory" + (f": tried to allocate {size[1]}" if size else "")


class TorchMissing(UsageError, ImportError):
    """Something needs PyTorch, which is an optional dependency."""


def require_torch() -> None:
    """Raise an error that says how to install PyTorch, if it is not installed."""
    try:
        os.getcwd()
    except OSError:  # its numerical library would end the process
        raise UsageError("the current folder no longer exists; change to another one") from None
    if find_spec("torch") is None:
        raise TorchMissing(
            "networks need PyTorch, which is not installed: pip install 'ladderspec[torch]';"
            " checking, printing and drawing specs work without it"
        )


class Findings:
    """The mistakes that the stages find, each once and in the order of the text."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Finding] = {}
        self._blamed: set[tuple[int, int, int | None]] = set()  # source, start, end

    def add(self, finding: Finding) -> None:
        place = finding.place
        where = (place.source.name, place.start, place.end) if place else (finding.path,)
        if len(self._found) > MAX_FINDINGS:
            return
        if len(self._found) == MAX_FINDINGS:
            finding = Finding("S100", f"and more: only {MAX_FINDINGS} mistakes are shown")
        self._found.setdefault((finding.code, finding.message, *where), finding)
        if place:
            self._blamed.add((id(place.source), place.start, place.end))

    def blame(self, place: Place) -> None:
        """Mark the value that begins here as wrong: later stages report nothing more about it."""
        self._blamed.add((id(place.source), place.start, None))

    def blames(self, place: Place) -> bool:
        here = (id(place.source), place.start)
        return (*here, place.end) in self._blamed or (*here, None) in self._blamed

    def copy(self) -> Findings:
        other = Findings()
        other.update(self)
        return other

    def update(self, other: Findings) -> None:
        self._found.update(
            (key, found) for key, found in other._found.items() if key not in self._found
        )
        self._blamed |= other._blamed

    @property
    def enough(self) -> bool:
        return len(self._found) > MAX_FINDINGS

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> list[Finding]:
        def order(finding: Finding) -> tuple[bool, str, int]:
            place = finding.place
            name, start = (place.source.name, place.start) if place else ("", 0)
            return (finding.code == "S100", name, start)

        return sorted(self._found.values(), key=order)

    def raise_if_any(self) -> None:
        if self._found:
            raise SpecError(self.sorted())


def as_json(findings: Sequence[Finding]) -> str:
    return json.dumps([finding.as_dict() for finding in findings], indent=2)


# --- excerpts -------------------------------------------------------------------------------------


def excerpt(place: Place, width: int = EXCERPT_WIDTH) -> tuple[str, str]:
    """The line of `place`, shortened if it is longer than `width`, and the line of `^^^` below."""
    line, column = place.source.line(place.line), place.column - 1
    first, most = 0, EXCERPT_WIDTH
    if len(line) > min(width, EXCERPT_WIDTH):
        most = EXCERPT_WIDTH if width >= EXCERPT_WIDTH else max(width - len("... " + " ..."), 20)
        first = max(0, column - most // 2)
    shown = "".join(_visible(c) for c in line[first : first + most])
    before, marked = shown[: column - first], shown[column - first :][: place.width]
    left = "... " if first else ""
    right = " ..." if first + most < len(line) else ""
    return left + shown + right, " " * (len(left) + _columns(before)) + "^" * max(
        1, _columns(marked)
    )


def _visible(character: str) -> str:
    if character == "\t":
        return "→"
    if character.isspace() and character != " ":
        return "␣"
    return (
        character
        if character.isprintable() or combining(character)
        else "\N{REPLACEMENT CHARACTER}"
    )


def _columns(text: str) -> int:
    """The width of a text in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
