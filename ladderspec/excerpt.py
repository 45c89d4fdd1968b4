"""The line of a place, and a mark under it."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

from ladderspec.errors import Place

WIDTH = 120


def excerpt(place: Place) -> tuple[str, str]:
    """The line of `place`, cut around the place where it is very long, and `^^^` for below it."""
    line, column = place.source.line(place.line), place.column - 1
    first = max(0, column - WIDTH // 2) if len(line) > WIDTH else 0
    shown = "".join(_visible(c) for c in line[first : first + WIDTH])
    before, marked = shown[: column - first], shown[column - first :][: place.width]
    left = "... " if first else ""
    right = " ..." if first + WIDTH < len(line) else ""
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
    """How wide a terminal prints it."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
