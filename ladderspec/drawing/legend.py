"""The legend: a sample and a text for everything that is drawn, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ladderspec.drawing.paths import rounded, square_size
from ladderspec.drawing.picture import Change, Picture
from ladderspec.drawing.scene import Backdrop, Box, Ink, Mark, Point, Rect, Sample, Text, Wire
from ladderspec.drawing.style import LEGEND_SIZE, ROLES, SQUARE, Theme
from ladderspec.drawing.typesetting import MINUS, formula, width_of_runs
from ladderspec.names import Role

_PHASES = {
    "once": "needs nothing from its past",
    "loop": "loop over $t$",
}
_SAMPLE, _SPACE, _BETWEEN, _ROW = 28.0, 5.0, 16.0, 16.0  # widths, and the height of a row
_BARS = (0.7, 1.8, 3.6)  # thin to thick
_MIDDLE = LEGEND_SIZE * 0.33  # from the base line to the middle of lower-case letters


class LegendEntry(NamedTuple):
    text: str
    sample: Callable[[Point], list[Sample]]  # draws the sample; the point is its left middle

    @property
    def width(self) -> float:
        return _SAMPLE + _SPACE + width_of_runs(formula(self.text), LEGEND_SIZE)


def entries(
    picture: Picture, wires: Sequence[Wire], boxes: Sequence[Box], worth_of: str, theme: Theme
) -> Iterator[LegendEntry]:
    """An entry for everything that is drawn."""
    yield from _roles(picture, wires, worth_of, theme)
    if any(wire.mark for wire in wires):
        more = any(wire.mark and wire.delay > 1 for wire in wires)
        text = "one iteration later" + (" (or as many as it says)" if more else "")
        yield LegendEntry(text, partial(_square, theme.text))
    changes = {
        Change.REMOVED: partial(_line, theme.removed),
        Change.ADDED: partial(_line, Ink(theme.text, 2.4)),
        Change.CHANGED: partial(_frame, Ink(theme.text, 3.0), None, 3),
    }
    found = set(picture.changes())
    yield from (
        LegendEntry(change.value, sample) for change, sample in changes.items() if change in found
    )
    if any(box.pills for box in boxes):
        sample = partial(_frame, Ink(theme.task.line, 0.7), theme.task.fill, 5)
        yield LegendEntry("task, where it reads", sample)
    phases = {part.phase for part in picture.parts.values()}
    for phase, text in _PHASES.items():
        if phase in phases:
            yield LegendEntry(text, partial(_frame, theme.phase_ink, theme.phases[phase], 3))


def _roles(
    picture: Picture, wires: Sequence[Wire], worth_of: str, theme: Theme
) -> Iterator[LegendEntry]:
    """The roles of arrows; if arrows have a worth, its range and the meaning of line widths."""
    has_worth = picture.largest_worth is not None
    arrows = {a.edge: a for a in picture.arrows if a.change is not Change.REMOVED}
    drawn = [(w, arrows[e]) for w in wires if (e := (w.source, w.target, w.key)) in arrows]
    shown = [pair for pair in drawn if not has_worth or pair[1].worth is not None]
    for role in ROLES:
        found = [wire for wire, _ in shown if wire.role is role]
        if not found:
            continue
        text = role.value.replace("_", " ")
        text += _range([a.worth for _, a in shown if a.role is role and a.worth is not None])
        bent = role is Role.STATE and any(len(wire.segments) > 1 for wire in found)
        delayed = all(wire.mark for wire in found)
        thickest = max((wire.ink for wire in found), key=lambda ink: ink.width)
        ink = thickest if has_worth else theme.inks[role]
        yield LegendEntry(text, partial(_arrow, ink, bent, delayed))
    if has_worth:
        yield LegendEntry(f"thickness: {worth_of}", partial(_bars, theme.faint))
    if len(shown) < len(drawn):
        yield LegendEntry("not measured", partial(_line, theme.unmeasured))


def _range(numbers: Sequence[float]) -> str:
    """
    >>> _range([]), _range([0.5]), _range([2, 0.25, 1]) == ": 0.25 to 2"
    ('', ': 0.5', True)
    """
    if not numbers:
        return ""
    low, high = (f"{end(numbers):.3g}".replace("-", MINUS) for end in (min, max))
    return f": {low}" if low == high else f": {low} to {high}"


class Legend(NamedTuple):
    texts: tuple[Text, ...]
    samples: tuple[Sample, ...]
    bottom: float


def place_legend(found: Sequence[LegendEntry], theme: Theme, start: Point, width: float) -> Legend:
    """Rows of entries, at most `width` wide, with at least one entry each."""
    x, y = start
    texts: list[Text] = []
    samples: list[Sample] = []
    for entry in found:
        if x > start[0] and x + entry.width > start[0] + width:
            x, y = start[0], y + _ROW
        base = y + LEGEND_SIZE
        samples += entry.sample((x, base - _MIDDLE))
        runs = formula(entry.text)
        texts.append(Text(x + _SAMPLE + _SPACE, base, LEGEND_SIZE, runs, theme.faint, "start"))
        x += entry.width + _BETWEEN
    height = y - start[1] + _ROW if found else 0.0
    return Legend(tuple(texts), tuple(samples), start[1] + height)


# --- samples --------------------------------------------------------------------------------------


def _arrow(ink: Ink, bent: bool, delayed: bool, at: Point) -> list[Sample]:
    """An arrow of a role; a bent one goes over boxes, as the state does in the drawing."""
    x, y = at
    mark = Mark((x + _SAMPLE * 0.4, y - 5 * bent), square_size(ink.width) * 0.8, ink.colour)
    end = x + _SAMPLE - 4
    over = [(x + 2, y + 4), (x + 2, y - 5), (end, y - 5), (end, y + 5)]
    line = [_wire(over, ink)] if bent else _line(ink, at)
    return [*line, *[mark] * delayed]


def _line(ink: Ink, at: Point) -> list[Sample]:
    return [_wire([at, (at[0] + _SAMPLE, at[1])], ink)]


def _wire(corners: Sequence[Point], ink: Ink) -> Wire:
    start, segments, tip = rounded(corners, ink.width)
    return Wire(start, segments, tip, ink)


def _square(colour: str, at: Point) -> list[Sample]:
    return [Mark((at[0] + _SAMPLE / 2, at[1]), SQUARE, colour)]


def _frame(ink: Ink | None, fill: str | None, radius: float, at: Point) -> list[Sample]:
    return [Backdrop(Rect(at[0] + 2, at[1] - 5, _SAMPLE - 4, 10), ink, fill, radius)]


def _bars(colour: str, at: Point) -> list[Sample]:
    x, y = at
    bars = [Rect(x + 2, y + 4 * i - 4 - w / 2, _SAMPLE - 4, w) for i, w in enumerate(_BARS)]
    return [Backdrop(bar, None, colour) for bar in bars]
