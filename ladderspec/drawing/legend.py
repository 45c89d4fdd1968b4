"""The legend: a sample and a word for everything that is drawn, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ladderspec.drawing.maths import formula, width_of_runs
from ladderspec.drawing.metrics import MINUS
from ladderspec.drawing.parts import Change, Picture
from ladderspec.drawing.paths import rounded, square
from ladderspec.drawing.scene import Box, Ink, Mark, Panel, Pill, Point, Rect, Text, Wire
from ladderspec.drawing.sizes import LEGEND_SIZE, SQUARE
from ladderspec.drawing.themes import Theme
from ladderspec.drawing.worth import unweighed
from ladderspec.names import Role

Sample = Wire | Panel | Pill | Mark

ROLES = [
    Role.ENCODER, Role.LATERAL, Role.DECODER, Role.DECODER_TO_ENCODER, Role.STATE,
    Role.RECURRENT_DECODER, Role.UPWARD_DIAGONAL, Role.DOWNWARD_DIAGONAL, Role.SKIP,
]  # fmt: skip
_PHASES = {
    "once": "once for all $t$",
    "loop": "loop over $t$",
    "sequence": "one call for the whole sequence",
}
_SAMPLE, _SPACE, _BETWEEN, _ROW = 28.0, 5.0, 16.0, 16.0
_BARS = (0.7, 1.8, 3.6)  # thin to thick
_MIDDLE = LEGEND_SIZE * 0.33  # from the base line up to the middle of small letters


class Entry(NamedTuple):
    sample: str  # a role, a change, a phase, or: delay, task
    text: str
    bent: bool = False  # the arrow runs around boxes
    delayed: bool = False  # the arrow has a square
    ink: Ink | None = None  # of the arrow

    @property
    def width(self) -> float:
        return _SAMPLE + _SPACE + width_of_runs(formula(self.text), LEGEND_SIZE)


def entries(
    picture: Picture, wires: Sequence[Wire], boxes: Sequence[Box], worth_of: str
) -> Iterator[Entry]:
    """What there is to explain."""
    changed = set(picture.changes())
    yield from _roles(picture, wires, worth_of)
    if any(wire.mark for wire in wires):
        more = any(wire.mark and wire.delay > 1 for wire in wires)
        yield Entry("delay", "one iteration later" + (" (or as many as it says)" if more else ""))
    for change in (Change.REMOVED, Change.ADDED, Change.CHANGED):
        if change in changed:
            yield Entry(change.value, change.value)
    if any(box.pills for box in boxes):
        yield Entry("task", "task, where it reads")
    phases = [part.phase for part in picture.parts.values() if part.phase]
    for phase in dict.fromkeys(sorted(phases, key=list(_PHASES).index)):
        yield Entry(f"phase {phase}", _PHASES[phase])


def _roles(picture: Picture, wires: Sequence[Wire], worth_of: str) -> Iterator[Entry]:
    """The kinds of arrows; where arrows have a worth, how much, and what thickness says."""
    weighed = picture.heaviest is not None
    arrows = {
        (arrow.source, arrow.target, arrow.key): arrow
        for arrow in picture.arrows
        if arrow.change is not Change.REMOVED
    }
    drawn = [(w, arrows[k]) for w in wires if (k := (w.source, w.target, w.key)) in arrows]
    shown = [pair for pair in drawn if not weighed or pair[1].worth is not None]
    for role in ROLES:
        found = [wire for wire, _ in shown if wire.role is role]
        if found:
            text = role.value.replace("_", " ")
            text += _range([a.worth for _, a in shown if a.role is role and a.worth is not None])
            bent = role is Role.STATE and any(len(wire.segments) > 1 for wire in found)
            delayed = all(wire.mark for wire in found)
            ink = max((wire.ink for wire in found), key=lambda ink: ink.width)
            yield Entry(role.value, text, bent, delayed, ink if weighed else None)
    if weighed:
        yield Entry("worth", f"thickness: {worth_of}")
    if len(shown) < len(drawn):
        yield Entry("unweighed", "not measured")


def _range(numbers: Sequence[float]) -> str:
    """
    >>> _range([]), _range([0.5]), _range([2, 0.25, 1]) == ": 0.25 to 2"
    ('', ': 0.5', True)
    """
    if not numbers:
        return ""
    low, high = (f"{end(numbers):.3g}".replace("-", MINUS) for end in (min, max))
    return f": {low}" if low == high else f": {low} to {high}"


class Key(NamedTuple):
    """A legend in its place, and the room that it takes."""

    texts: tuple[Text, ...]
    samples: tuple[Sample, ...]
    rect: Rect


def lay_out(found: Sequence[Entry], theme: Theme, start: Point, width: float) -> Key:
    """Rows of entries no wider than `width`, but at least one in each."""
    x, y = start
    texts: list[Text] = []
    samples: list[Sample] = []
    right = x
    for entry in found:
        if x > start[0] and x + entry.width > start[0] + width:
            x, y = start[0], y + _ROW
        base = y + LEGEND_SIZE
        samples += _sample(entry, (x, base - _MIDDLE), theme)
        runs = formula(entry.text)
        texts.append(Text(x + _SAMPLE + _SPACE, base, LEGEND_SIZE, runs, theme.faint, "start"))
        right = max(right, x + entry.width)
        x += entry.width + _BETWEEN
    height = y - start[1] + _ROW if found else 0.0
    return Key(tuple(texts), tuple(samples), Rect(*start, right - start[0], height))


def _sample(entry: Entry, at: Point, theme: Theme) -> list[Sample]:
    (x, y), what = at, entry.sample
    if what in set(Role):
        ink = entry.ink or theme.inks[Role(what)]
        side = square(ink.width) * 0.8
        mark = Mark((x + _SAMPLE * 0.4, y - 5 * entry.bent), side, ink.colour)
        return [(_arc if entry.bent else _arrow)(at, ink), *[mark] * entry.delayed]
    if what == "worth":
        bars = [Rect(x + 2, y + 4 * i - 4 - w / 2, _SAMPLE - 4, w) for i, w in enumerate(_BARS)]
        return [Panel(bar, None, theme.faint) for bar in bars]
    if what == "unweighed":
        return [_arrow(at, unweighed(theme))]
    if what == "delay":
        return [Mark((x + _SAMPLE / 2, y), SQUARE, theme.text)]
    if what == Change.REMOVED:
        return [_arrow(at, theme.removed)]
    if what == Change.ADDED:
        return [_arrow(at, Ink(theme.text, 2.4))]
    frame = Rect(x + 2, y - 5, _SAMPLE - 4, 10)
    if what == Change.CHANGED:
        return [Panel(frame, Ink(theme.text, 3.0), None, 3)]
    if what == "task":
        return [Panel(frame, Ink(theme.task.line, 0.7), theme.task.fill, 5)]
    edge = Ink(theme.phase_edge, 0.6) if theme.phase_edge else None
    return [Panel(frame, edge, theme.phases[what.removeprefix("phase ")], 3)]


def _arrow(at: Point, ink: Ink) -> Wire:
    start, segments, tip = rounded([at, (at[0] + _SAMPLE, at[1])], ink.width)
    return Wire(start, segments, tip, ink)


def _arc(at: Point, ink: Ink) -> Wire:
    """A state runs over the boxes, in small as in large."""
    x, y = at
    corners = [(x + 2, y + 4), (x + 2, y - 5), (x + _SAMPLE - 4, y - 5), (x + _SAMPLE - 4, y + 5)]
    start, segments, tip = rounded(corners, ink.width)
    return Wire(start, segments, tip, ink)
