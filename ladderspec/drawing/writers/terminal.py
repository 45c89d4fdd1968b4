"""Picture -> a ladder for the terminal: two lines per level, in Unicode or in plain ASCII."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unicodedata import combining, east_asian_width

from ladderspec.drawing import labels
from ladderspec.drawing.maths import text_of
from ladderspec.drawing.metrics import DASH, DOT, TIMES
from ladderspec.drawing.parts import Arrow, Part, Picture
from ladderspec.names import TABLE, Role, Side, show_arrow

_WORDS = frozenset({"cell", "shape", "params"})
_MIDDLE = 6  # columns between two sides


class Signs(NamedTuple):
    """The characters that a ladder is made of."""

    up: str
    down: str
    line: str
    right: str
    left: str
    turn: str
    square: str
    loop: str
    wall: str
    thick: str


UNICODE = Signs(
    up="\u2191", down="\u2193", line="\u2500", right="\u25b6", left="\u25c0", turn="\u256e",
    square="\u25a0", loop="\u21ba", wall="\u2502", thick="\u2503",
)  # fmt: skip
ASCII = Signs(
    up="^", down="v", line="-", right=">", left="<", turn="+", square="#", loop="@", wall="|",
    thick="!",
)  # fmt: skip
_PLAIN = {f" {DOT} ": ", ", TIMES: "x", DASH: "-", "\u2026": "..", "\u2212": "-"}


def to_terminal(picture: Picture, ascii_only: bool = False) -> str:
    """The ladder, what its signs mean, and in words the arrows and tasks that have no sign."""
    ladder = _Ladder(picture, ASCII if ascii_only else UNICODE)
    return "\n".join(line.rstrip() for line in ladder.lines()) + "\n"


def _plain(text: str) -> str:
    for sign, words in _PLAIN.items():
        text = text.replace(sign, words)
    return text.encode("ascii", "replace").decode()


def _width(text: str) -> int:
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


class _Ladder:
    def __init__(self, picture: Picture, signs: Signs) -> None:
        self.picture, self.signs = picture, signs
        sides = {part.side for part in picture.parts.values()}
        self.sides = [side for side in Side if side in sides]
        self.texts: dict[str, str] = {}
        self.widths: dict[Side, int] = {}
        for side in self.sides:
            found = _texts([part for part in picture.parts.values() if part.side is side])
            if signs is ASCII:
                found = {name: _plain(text) for name, text in found.items()}
            self.texts |= found
            self.widths[side] = max(map(_width, found.values()))
        self.margin = max(_width(level.shown) for level in picture.levels)
        self.drawn: set[Arrow] = set()
        self.into: dict[tuple[str, Role], Arrow] = {
            (arrow.target, arrow.role): arrow for arrow in picture.arrows
        }

    def lines(self) -> Iterator[str]:
        levels = list(reversed(self.picture.levels))
        for level, below in zip(levels, [*levels[1:], None], strict=True):
            shown = _plain(level.shown) if self.signs is ASCII else level.shown
            yield self._row(level.name, shown, below.name if below else None)
            if below:
                yield self._between(level.name, below.name)
        yield ""
        yield "   ".join(self._meaning())
        rest = [arrow for arrow in self.picture.arrows if arrow not in self.drawn]
        width = max((len(_arrow(arrow)) for arrow in rest), default=0)
        yield from (f"{_arrow(arrow):<{width}}  {arrow.role}" for arrow in rest)
        for part in self.picture.parts.values():
            for reading in part.readings:
                text = _plain(reading.text) if self.signs is ASCII else reading.text
                yield f"task {text} at {part.name}"

    def _part(self, side: Side, level: str | None) -> Part | None:
        return self.picture.parts.get(f"{side}.{level}")

    def _take(self, target: Part | None, role: Role, source: Part | None) -> bool:
        """Whether there is such an arrow; it is drawn then."""
        arrow = self.into.get((target.name, role)) if target else None
        if arrow is None or source is None or arrow.source != source.name:
            return False
        if arrow.delay != TABLE[role].delay:
            return False  # no sign says that: it is told in words
        self.drawn.add(arrow)
        return True

    # --- rows -------------------------------------------------------------------------------------

    def _row(self, level: str, shown: str, below: str | None) -> str:
        line = " " * (self.margin - _width(shown)) + shown + "  "
        elbow = self._elbow(level, below)
        previous: Part | None = None
        for side in self.sides:
            part = self._part(side, level)
            straight = side is Side.LATERAL and part is None and self._passes(level)
            if straight or (line[-1] == self.signs.line and not elbow):
                line += self.signs.line * (_MIDDLE - 2) + (
                    self.signs.line * 2 if straight else self.signs.right + " "
                )
            elif side is not self.sides[0]:
                line += self._sideways(previous, part, elbow)
            if part is None:
                line += self._gap(side, elbow, straight)
            else:
                line += self._cell(part)
                previous = part
        return line

    def _gap(self, side: Side, elbow: bool, straight: bool) -> str:
        """A side without a cell: an arrow may pass through it, or turn down in it."""
        wide = self.widths[side] + 6
        if elbow and side is self.sides[-1]:
            return self.signs.line * (wide // 2) + self.signs.turn
        return (self.signs.line if elbow or straight else " ") * wide

    def _passes(self, level: str) -> bool:
        encoder, decoder = self._part(Side.ENCODER, level), self._part(Side.DECODER, level)
        return self._take(decoder, Role.LATERAL, encoder)

    def _cell(self, part: Part) -> str:
        loop = self._take(part, Role.STATE, part) or self._take(part, Role.RECURRENT_DECODER, part)
        wall = self.signs.thick if getattr(part.cell, "stateful", False) else self.signs.wall
        text = _padded(self.texts[part.name], self.widths[part.side])
        return f"{self.signs.loop if loop else ' '} {wall} {text} {wall}"

    def _elbow(self, level: str, below: str | None) -> bool:
        """From an encoder with no decoder beside it, down to the decoder of the level below."""
        if Side.DECODER not in self.sides or self._part(Side.DECODER, level):
            return False
        source, target = self._part(Side.ENCODER, level), self._part(Side.DECODER, below)
        return self._take(target, Role.DECODER, source)

    def _sideways(self, left: Part | None, right: Part | None, elbow: bool) -> str:
        line, signs = self.signs.line, self.signs
        if elbow:
            return line * _MIDDLE
        over = self._take(right, Role.LATERAL, left)
        back = self._take(left, Role.DECODER_TO_ENCODER, right)
        start = signs.left + signs.square if back else line * 2 if over else "  "
        end = signs.right if over else line if back else " "
        middle = line if over or back else " "
        return f" {start}{middle * (_MIDDLE - 5)}{end} "

    def _between(self, level: str, below: str) -> str:
        line = " " * (self.margin + 2)
        for index, side in enumerate(self.sides):
            here, under = self._part(side, level), self._part(side, below)
            sign = " "
            if side is Side.ENCODER and self._take(here, Role.ENCODER, under):
                sign = self.signs.up
            if side is Side.DECODER and under:
                source = here or self._part(Side.ENCODER, level)
                down = self._take(under, Role.DECODER, source) or self._elbow(level, below)
                sign = self.signs.down if down else " "
            half = (self.widths[side] + 6) // 2
            gap = " " * _MIDDLE if index else ""
            line += gap + " " * half + sign + " " * (self.widths[side] + 5 - half)
        return line

    def _meaning(self) -> Iterator[str]:
        roles, signs = {arrow.role for arrow in self.drawn}, self.signs
        words = {
            Role.ENCODER: f"{signs.up} encoder",
            Role.DECODER: f"{signs.down} decoder",
            Role.LATERAL: f"{signs.line}{signs.right} lateral",
            Role.DECODER_TO_ENCODER: f"{signs.left}{signs.square} decoder to encoder, next t",
            Role.STATE: f"{signs.loop} state",
            Role.RECURRENT_DECODER: f"{signs.loop} recurrent decoder",
        }
        yield from (text for role, text in words.items() if role in roles)


def _texts(parts: Sequence[Part]) -> dict[str, str]:
    """Headings and facts in two columns."""
    headings = {part.name: text_of(labels.heading(part, _WORDS)) for part in parts}
    wide = max(map(_width, headings.values()))
    return {
        part.name: f"{_padded(headings[part.name], wide)}  {text_of(labels.facts(part, _WORDS))}"
        for part in parts
    }


def _arrow(arrow: Arrow) -> str:
    return show_arrow(arrow.source, arrow.target, arrow.delay)
