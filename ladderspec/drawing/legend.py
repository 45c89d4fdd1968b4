"""The legend: a sample and a text for everything that is drawn, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import ceil
from typing import NamedTuple

from ladderspec.drawing.boxes import LINE, STATEFUL
from ladderspec.drawing.paths import rounded, square_size
from ladderspec.drawing.picture import Change, Picture
from ladderspec.drawing.scene import Backdrop, Box, Ink, Mark, Point, Rect, Sample, Text, Wire
from ladderspec.drawing.style import OTHER_FONTS, ROLES, SQUARE, Sizes, Theme
from ladderspec.drawing.typesetting import MINUS, formula, width_of_runs
from ladderspec.names import Role

_PHASES = {
    "once": "all $t$ at once",
    "loop": "loop over $t$",
}
_SPACE = 5.0  # between a sample and its text
_BARS = (0.7, 1.8, 3.6)  # thin to thick
_MIDDLE = 0.33  # from the base line to the middle of lower-case letters, per font size


class LegendEntry(NamedTuple):
    text: str
    sample: Callable[[float, Point], list[Sample]]  # of a width; the point is its left middle

    def width(self, sizes: Sizes) -> float:
        """With room for a wider font."""
        text = width_of_runs(formula(self.text), sizes.legend) * OTHER_FONTS
        return sizes.sample + _SPACE + text


def entries(
    picture: Picture, wires: Sequence[Wire], boxes: Sequence[Box], worth_of: str, theme: Theme
) -> Iterator[LegendEntry]:
    """An entry for everything that is drawn."""
    yield from _roles(picture, wires, worth_of, theme)
    if any(wire.mark for wire in wires):
        more = any(wire.mark and wire.delay > 1 for wire in wires)
        text = "delay: one, or the number" if more else "delay of one iteration"
        yield LegendEntry(text, partial(_square, theme.text))
    yield from _changes(picture, theme)
    if any(box.ink.width == STATEFUL for box in boxes):
        yield LegendEntry("cell with a state", partial(_frame, Ink(theme.text, STATEFUL), None, 4))
    if any(box.pills for box in boxes):
        sample = partial(_frame, Ink(theme.task.line, 0.7), theme.task.fill, 5)
        yield LegendEntry("task and its cost", sample)
    phases = {part.phase for part in picture.parts.values()}
    for phase, text in _PHASES.items():
        if phase in phases:
            yield LegendEntry(text, partial(_frame, theme.phase_ink, theme.phases[phase], 3))


def _changes(picture: Picture, theme: Theme) -> Iterator[LegendEntry]:
    """Entries for parts that a variant removed, added or changed."""
    if Change.REMOVED in set(picture.changes()):
        yield LegendEntry("removed", partial(_line, theme.removed))
    if any(arrow.change is Change.ADDED for arrow in picture.arrows):
        yield LegendEntry("added", partial(_line, Ink(theme.text, 2.4)))
    tasks = [task.change for part in picture.parts.values() for task in part.tasks]
    if {Change.CHANGED, Change.ADDED} & {*tasks, *(p.change for p in picture.parts.values())}:
        yield LegendEntry("changed or new", partial(_halo, theme))


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


def place_legend(
    found: Sequence[LegendEntry], theme: Theme, sizes: Sizes, start: Point, width: float
) -> Legend:
    """Entries in aligned columns, in as few rows as `width` allows."""
    texts: list[Text] = []
    samples: list[Sample] = []
    needed = [entry.width(sizes) + sizes.between for entry in found]
    rows, across = 0, 0
    while rows < len(found):
        rows += 1
        across = ceil(len(found) / rows)
        columns = [max(needed[i::across]) for i in range(across)]
        if sum(columns) - sizes.between <= width:
            break
    for i, entry in enumerate(found):
        x = start[0] + sum(columns[: i % across])
        base = start[1] + i // across * sizes.legend_row + sizes.legend
        samples += entry.sample(sizes.sample, (x, base - _MIDDLE * sizes.legend))
        runs, left = formula(entry.text), x + sizes.sample + _SPACE
        texts.append(Text(left, base, sizes.legend, runs, theme.faint, "start"))
    return Legend(tuple(texts), tuple(samples), start[1] + rows * sizes.legend_row)


# --- samples --------------------------------------------------------------------------------------


def _arrow(ink: Ink, bent: bool, delayed: bool, width: float, at: Point) -> list[Sample]:
    """An arrow of a role; a bent one goes over boxes, as the state does in the drawing."""
    x, y = at
    mark = Mark((x + width * 0.4, y - 5 * bent), square_size(ink.width) * 0.8, ink.colour)
    end = x + width - 4
    over = [(x + 2, y + 4), (x + 2, y - 5), (end, y - 5), (end, y + 5)]
    line = [_wire(over, ink)] if bent else _line(ink, width, at)
    return [*line, *[mark] * delayed]


def _line(ink: Ink, width: float, at: Point) -> list[Sample]:
    return [_wire([at, (at[0] + width, at[1])], ink)]


def _wire(corners: Sequence[Point], ink: Ink) -> Wire:
    start, segments, tip = rounded(corners, ink.width)
    return Wire(start, segments, tip, ink)


def _square(colour: str, width: float, at: Point) -> list[Sample]:
    return [Mark((at[0] + width / 2, at[1]), SQUARE, colour)]


def _frame(
    ink: Ink | None, fill: str | None, radius: float, width: float, at: Point
) -> list[Sample]:
    return [Backdrop(Rect(at[0] + 2, at[1] - 5, width - 4, 10), ink, fill, radius)]


def _halo(theme: Theme, width: float, at: Point) -> list[Sample]:
    inner = Rect(at[0] + 5, at[1] - 3, width - 10, 6)
    outline = Ink(theme.text, LINE)
    return [
        Backdrop(inner.grown(2), None, theme.changed, 4),
        Backdrop(inner, outline, theme.background, 3),
    ]


def _bars(colour: str, width: float, at: Point) -> list[Sample]:
    x, y = at
    bars = [Rect(x + 2, y + 4 * i - 4 - w / 2, width - 4, w) for i, w in enumerate(_BARS)]
    return [Backdrop(bar, None, colour) for bar in bars]
