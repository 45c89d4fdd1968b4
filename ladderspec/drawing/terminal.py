"""Picture -> a ladder for the terminal: two lines per level, in Unicode or in ASCII."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

from ladderspec.drawing.boxes import heading, small_lines
from ladderspec.drawing.options import DEFAULT_LABELS
from ladderspec.drawing.picture import Arrow, Part, Picture
from ladderspec.drawing.typesetting import DASH, DOT, MINUS, TIMES, text_of
from ladderspec.escaping import one_line
from ladderspec.names import TABLE, Role, Side, show_arrow

_SYMBOLS = "\u2191\u2193\u2500\u25b6\u25c0\u256e\u25a0\u21ba\u2502\u2503\u2196"
_UP, _DOWN, _LINE, _RIGHT, _LEFT, _TURN, _SQUARE, _LOOP, _WALL, _THICK, _SLANT = tuple(_SYMBOLS)
_CORNERS = "\u250c\u2510\u2514\u2518"  # of the plate
_ASCII_SYMBOLS = str.maketrans(_SYMBOLS + _CORNERS, "^v-><+#@|!\\++++")
_ASCII_TEXT = {
    f" {DOT} ": ", ", TIMES: "x", DASH: "-", "\u2026": "..", MINUS: "-",
    "\u03c0": "pi", "\u03bc": "mu", "\u0303": "~",
}  # fmt: skip
# Of the text beside a cell, in turn.
_LABELS = (DEFAULT_LABELS, frozenset({"cell", "shape"}), frozenset({"cell"}), frozenset[str]())
_GAP = 6  # columns between two sides
_MEANINGS = {
    Role.ENCODER: f"{_UP} encoder",
    Role.DECODER: f"{_DOWN} decoder",
    Role.LATERAL: f"{_LINE}{_RIGHT} lateral",
    Role.DECODER_TO_ENCODER: f"{_LEFT}{_SQUARE} decoder to encoder, next t",
    Role.STATE: f"{_LOOP} state",
    Role.RECURRENT_DECODER: f"{_LOOP} recurrent decoder",
    Role.UPWARD_DIAGONAL: f"{_SLANT}{_SQUARE} upward diagonal, next t",
}


def to_terminal(picture: Picture, ascii_only: bool = False, width: int | None = None) -> str:
    """The ladder, the meaning of its symbols, and a list of arrows and tasks without a symbol.

    Boxes say less if the ladder would be wider than `width`.
    """
    for labels in _LABELS:
        lines = [one_line(line).rstrip() for line in _Ladder(picture, ascii_only, labels).lines()]
        ladder = lines[: lines.index("")]  # what follows can be broken
        if width is None or max(map(_width, ladder)) <= width:
            break
    text = "\n".join(part for line in lines for part in _broken(line, width)) + "\n"
    return text.translate(_ASCII_SYMBOLS) if ascii_only else text


def _broken(line: str, width: int | None) -> list[str]:
    """A line in parts that fit, between the meanings of symbols."""
    if width is None or _width(line) <= width:
        return [line]
    parts, found = line.split("   "), [""]
    for part in parts:
        longer = f"{found[-1]}   {part}" if found[-1] else part
        found = [*found[:-1], longer] if _width(longer) <= width else [*found, part]
    return found


def _to_ascii(text: str) -> str:
    for character, replacement in _ASCII_TEXT.items():
        text = text.replace(character, replacement)
    return text.encode("ascii", "replace").decode()


def _width(text: str) -> int:
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _centred(symbol: str, width: int) -> str:
    return symbol.rjust(width // 2 + 1).ljust(width)


def _show(arrow: Arrow) -> str:
    return show_arrow(arrow.source, arrow.target, arrow.delay)


class _Ladder:
    def __init__(self, picture: Picture, ascii_only: bool, labels: frozenset[str]) -> None:
        self.picture, self.labels = picture, labels
        self.convert = _to_ascii if ascii_only else str
        by_side: dict[Side, list[Part]] = {
            side: [part for part in picture.parts.values() if part.side is side]
            for side in Side
            if side is not Side.INPUT  # listed below the ladder
        }
        self.sides = [side for side in by_side if by_side[side]]
        self.texts = {side: self._texts(by_side[side]) for side in self.sides}
        self.widths = {side: max(map(_width, self.texts[side].values())) for side in self.sides}
        self.margin = max(_width(level.shown) for level in picture.levels)
        self.drawn: set[Arrow] = set()
        self.into = {(arrow.target, arrow.role): arrow for arrow in picture.arrows}
        self.names = picture.names
        self.rows = [level.name for level in picture.levels]

    def _texts(self, parts: Sequence[Part]) -> dict[str, str]:
        """Headings and details in two columns, by name of the part."""
        headings = [self.convert(text_of(heading(part, DEFAULT_LABELS))) for part in parts]
        seconds = [self.convert(self._details(part)) for part in parts]
        width = max(map(_width, headings), default=0)
        return {
            part.name: f"{_padded(first, width)}  {second}"
            for part, first, second in zip(parts, headings, seconds, strict=True)
        }

    def _details(self, part: Part) -> str:
        return f" {DOT} ".join(map(text_of, small_lines(part, self.labels)))

    def lines(self) -> Iterator[str]:
        ladder = list(self._ladder())
        yield from self._plate(ladder) if self.picture.groups else ladder
        yield ""
        roles = {arrow.role for arrow in self.drawn}
        yield "   ".join(text for role, text in _MEANINGS.items() if role in roles)
        rest = [arrow for arrow in self.picture.arrows if arrow not in self.drawn]
        width = max((len(_show(arrow)) for arrow in rest), default=0)
        yield from (f"{_show(arrow):<{width}}  {arrow.role}" for arrow in rest)
        for name, text in self._texts(self.picture.further_inputs).items():
            yield f"{name}  {text.partition('  ')[2].lstrip()}"
        for part in self.picture.parts.values():
            for task in part.tasks:
                yield f"task {self.convert(task.text)} at {part.name}"

    def _ladder(self) -> Iterator[str]:
        levels = list(reversed(self.picture.levels))
        for level, below in zip(levels, [*levels[1:], None], strict=True):
            yield self._row(level.name, self.convert(level.shown))
            if below:
                yield self._between(level.name, below.name)

    def _plate(self, ladder: Sequence[str]) -> Iterator[str]:
        """A frame around all levels above the input, which is the last line."""
        *inside, border, last = ladder
        width = max(map(_width, ladder))
        label = f" {self.picture.plate_label} "
        bottom = _padded(border, width).replace(" ", _LINE)[: width - len(label) - 1]
        yield _CORNERS[0] + _LINE * (width + 2) + _CORNERS[1]
        yield from (f"{_WALL} {_padded(line, width)} {_WALL}" for line in inside)
        yield _CORNERS[2] + _LINE + bottom + label + _LINE * 2 + _CORNERS[3]
        yield f"  {last}"

    def _part(self, side: Side, level: str) -> Part | None:
        return self.picture.parts.get(self.names.get((side, level), ""))

    def _lower(self, side: Side, level: str) -> Part | None:
        """The part of a level, or the next one below."""
        levels = self.rows[self.rows.index(level) :: -1]
        return next((part for each in levels if (part := self._part(side, each))), None)

    def _take(self, target: Part | None, role: Role, source: Part | None) -> bool:
        """Whether there is such an arrow; it counts as drawn then."""
        arrow = self.into.get((target.name, role)) if target else None
        if arrow is None or source is None or arrow.source != source.name:
            return False
        if arrow.delay != TABLE[role].delay:
            return False  # no symbol for this delay: it is listed below the ladder
        self.drawn.add(arrow)
        return True

    def _row(self, level: str, shown: str) -> str:
        line = " " * (self.margin - _width(shown)) + shown + "  "
        elbow = self._turns_to(level) is not None
        previous: Part | None = None
        for side in self.sides:
            part = self._part(side, level)
            straight = side is Side.LATERAL and part is None and self._passes(level)
            if straight:
                line += _LINE * _GAP
            elif line[-1] == _LINE and not elbow:
                line += _LINE * (_GAP - 2) + _RIGHT + " "
            elif side is not self.sides[0]:
                line += self._sideways(previous, part, elbow)
            if part is None:
                passed = not elbow and self._vertical(side, level, level)
                line += self._empty(side, elbow, straight, _WALL if passed else "")
            else:
                line += self._cell(part)
                previous = part
        return line

    def _empty(self, side: Side, elbow: bool, straight: bool, vertical: str) -> str:
        """A side without a cell: an arrow may pass through it, or turn down in it."""
        width = self.widths[side] + 6
        if elbow and side is self.sides[-1]:
            return _LINE * (width // 2) + _TURN
        if vertical:
            return _centred(vertical, width)
        return (_LINE if elbow or straight else " ") * width

    def _passes(self, level: str) -> bool:
        encoder, decoder = self._part(Side.ENCODER, level), self._part(Side.DECODER, level)
        return self._take(decoder, Role.LATERAL, encoder)

    def _cell(self, part: Part) -> str:
        loop = self._take(part, Role.STATE, part) or self._take(part, Role.RECURRENT_DECODER, part)
        wall = _THICK if getattr(part.cell, "stateful", False) else _WALL
        text = _padded(self.texts[part.side][part.name], self.widths[part.side])
        return f"{_LOOP if loop else ' '} {wall} {text} {wall}"

    def _turns_to(self, level: str) -> Part | None:
        """The decoder below an encoder with no decoder beside it, if an arrow leads there."""
        if self._part(Side.DECODER, level):
            return None
        source, target = self._part(Side.ENCODER, level), self._lower(Side.DECODER, level)
        return target if self._take(target, Role.DECODER, source) else None

    def _sideways(self, left: Part | None, right: Part | None, elbow: bool) -> str:
        if elbow:
            return _LINE * _GAP
        over = self._take(right, Role.LATERAL, left)
        back = self._take(left, Role.DECODER_TO_ENCODER, right)
        start = _LEFT + _SQUARE if back else _LINE * 2 if over else "  "
        end = _RIGHT if over else _LINE if back else " "
        middle = _LINE if over or back else " "
        return f" {start}{middle * (_GAP - 5)}{end} "

    def _between(self, level: str, below: str) -> str:
        """The line between two levels."""
        line = " " * (self.margin + 2)
        for index, side in enumerate(self.sides):
            symbol = self._vertical(side, level, below)
            if index:
                slant = side is Side.DECODER and self._slant(level, below)
                line += (f"{_SLANT}{_SQUARE}" if slant else "").center(_GAP)
            line += _centred(symbol, self.widths[side] + 6)
        return line

    def _vertical(self, side: Side, level: str, below: str) -> str:
        """The symbol of the arrow up or down that passes between two levels, or through one."""
        lower = self._lower(side, below)
        if lower is None:
            return ""
        for each in self.rows[self.rows.index(level) :]:
            if side is Side.DECODER and self._turns_to(each) is lower:
                return _DOWN
            if part := self._part(side, each):
                if side is Side.DECODER:
                    return _DOWN if self._take(lower, Role.DECODER, part) else ""
                return _UP if self._take(part, Role.ENCODER, lower) else ""
        return ""

    def _slant(self, level: str, below: str) -> bool:
        encoder, decoder = self._part(Side.ENCODER, level), self._part(Side.DECODER, below)
        return self._take(encoder, Role.UPWARD_DIAGONAL, decoder)
