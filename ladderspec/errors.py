"""What went wrong, where, and what would be right; and how that prints."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """A text and the name under which the user knows it."""

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
    """A stretch of a source, by character offsets."""

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
        """How much of its first line the place covers."""
        rest_of_line = len(self.source.line(self.line)) - (self.column - 1)
        return max(1, min(self.end - self.start, rest_of_line))

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Finding:
    """One mistake, said once."""

    code: str
    message: str
    place: Place | None = None
    path: str = ""  # the place in the spec's own terms: levels[0].encoder.cell
    hint: str = ""
    notes: tuple[str, ...] = ()

    def full(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.place:
            lines.append(f"  --> {self.place}" + (f"  ({self.path})" if self.path else ""))
            number = str(self.place.line)
            excerpt, column = _window(self.place)
            mark = " " * (column - 1) + "^" * min(
                self.place.width, max(1, len(excerpt) - column + 1)
            )
            lines.append(f"{number} | {excerpt}")
            lines.append(f"{' ' * len(number)} | {mark} {self.hint}".rstrip())
        elif self.hint:
            lines.append(f"  hint: {self.hint}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def concise(self) -> str:
        place = f"{self.place}: " if self.place else ""
        path = f"{self.path}: " if self.path else ""
        return f"{place}{self.code} {path}{self.message}" + (f" ({self.hint})" if self.hint else "")

    def github(self) -> str:
        """A workflow command that GitHub shows beside the line."""
        where = ""
        if self.place:
            where = (
                f" file={self.place.source.name},line={self.place.line},col={self.place.column},"
                f"endColumn={self.place.column + self.place.width},title={self.code}"
            )
        text = ". ".join(filter(None, [self.message, self.hint, *self.notes]))
        return f"::error{where}::{text.replace('%', '%25').replace(chr(10), '%0A')}"

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


def _window(place: Place, width: int = 120) -> tuple[str, int]:
    """The line of `place`, cut around the place where it is very long, and the column in it."""
    line, column = place.source.line(place.line), place.column
    first = max(0, column - 1 - width // 2) if len(line) > width else 0
    excerpt = line[first : first + width]
    shown = "".join(c if c.isprintable() else " " for c in excerpt)
    if first:
        shown, column = "... " + shown, column + 4
    return shown + (" ..." if first + width < len(line) else ""), column - first


class LadderspecError(Exception):
    """Anything that a user can cause. Prints without a traceback."""


class SpecError(LadderspecError):
    """A spec that does not say a network: all findings at once."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(findings)

    def __str__(self) -> str:
        return "\n\n".join(finding.full() for finding in self.findings)


class UsageError(LadderspecError):
    """A command or a call that cannot be carried out as it stands."""


class Findings:
    """Collects what the stages find; each mistake once, in the order of the text."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Finding] = {}

    def add(self, finding: Finding) -> None:
        place = finding.place
        where = (place.source.name, place.start, place.end) if place else (finding.path,)
        self._found.setdefault((finding.code, finding.message, *where), finding)

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> list[Finding]:
        def order(finding: Finding) -> tuple[str, int]:
            place = finding.place
            return (place.source.name, place.start) if place else ("", 0)

        return sorted(self._found.values(), key=order)

    def raise_if_any(self) -> None:
        if self._found:
            raise SpecError(self.sorted())


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """
    >>> did_you_mean("convlstm", ["Conv", "ConvLSTM"])
    'did you mean `ConvLSTM`?'
    """
    known = list(known)
    lower = {name.lower(): name for name in reversed(known)}
    close = get_close_matches(str(word).lower(), list(lower), n=1, cutoff=0.6)
    return f"did you mean `{lower[close[0]]}`?" if close else ""


def one_of(known: Iterable[str]) -> str:
    """
    >>> one_of(["a", "b", "c"])
    '`a`, `b` or `c`'
    """
    ticked = [f"`{name}`" for name in known]
    return ticked[0] if len(ticked) == 1 else ", ".join(ticked[:-1]) + f" or {ticked[-1]}"


def as_json(findings: Sequence[Finding]) -> str:
    return json.dumps([finding.as_dict() for finding in findings], indent=2, ensure_ascii=False)
