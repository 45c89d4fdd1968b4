"""What stands in a box, before the box has a place: its lines and the tasks that read it."""

from __future__ import annotations

from typing import NamedTuple

from ladderspec.drawing import labels
from ladderspec.drawing.maths import ASCENT, DESCENT, Run, plain, reach_of, width_of_runs
from ladderspec.drawing.parts import Change, Part, Reading
from ladderspec.drawing.scene import Ink, Pill, Rect, Text
from ladderspec.drawing.sizes import PAD_Y, PILL_GAP, PILL_HEIGHT, PILL_SIZE, Sizes
from ladderspec.drawing.themes import Theme
from ladderspec.drawing.view import View

_BESIDE = 4.0  # left and right of a pill
_LEADING = 1.22  # from one base line to the next, per size


class Line(NamedTuple):
    runs: tuple[Run, ...]
    size: float
    faint: bool

    @property
    def height(self) -> float:
        return self.size * (_LEADING + self.extra[0] + self.extra[1])

    @property
    def extra(self) -> tuple[float, float]:
        """What raised and lowered letters need, above and below."""
        above, below = reach_of(self.runs)
        return above - ASCENT, below - DESCENT


class Content(NamedTuple):
    lines: tuple[Line, ...] = ()
    readings: tuple[Reading, ...] = ()
    pad: float = 0.0  # left and right of its lines

    @property
    def width(self) -> float:
        widths = [width_of_runs(line.runs, line.size) for line in self.lines]
        pills = [width_of_runs(plain(each.text), PILL_SIZE) + 8 for each in self.readings]
        return max(
            [*(w + 2 * self.pad for w in widths), *(p + 2 * _BESIDE for p in pills)], default=0.0
        )

    @property
    def height(self) -> float:
        return self.inner_height + 2 * PAD_Y

    @property
    def inner_height(self) -> float:
        lines = sum(line.height for line in self.lines)
        return lines + len(self.readings) * (PILL_HEIGHT + PILL_GAP)


def content_of(part: Part, view: View, sizes: Sizes, last: bool) -> Content:
    """`last`: at the last iteration shown, where tasks read that read at the end only."""
    if view.mini:
        return Content()
    lines = [
        Line(labels.heading(part, view.labels), sizes.heading, False),
        Line(labels.facts(part, view.labels), sizes.facts, True),
        Line(labels.changes(part, view.labels), sizes.facts, True),
    ]
    readings = tuple(each for each in part.readings if last or not each.only_last)
    shown = tuple(line for line in lines if line.runs)
    return Content(shown, readings if view.labels else (), sizes.pad)


def write(
    content: Content, box: Rect, theme: Theme, removed: bool
) -> tuple[list[Text], list[Pill]]:
    """Texts and pills in the middle of a box."""
    x, top = box.centre[0], box.centre[1] - content.inner_height / 2
    texts = []
    for line in content.lines:
        colour = theme.removed.colour if removed else theme.faint if line.faint else theme.text
        above, below = (line.size * part for part in line.extra)
        base = top + above + (line.height - above - below + line.size * (ASCENT - 0.12)) / 2
        texts.append(Text(x, base, line.size, line.runs, colour))
        top += line.height
    pills = []
    for reading in content.readings:
        top += PILL_GAP
        pills.append(_pill(reading, x, top, theme))
        top += PILL_HEIGHT
    return texts, pills


def _pill(reading: Reading, x: float, top: float, theme: Theme) -> Pill:
    runs = plain(reading.text)
    width = width_of_runs(runs, PILL_SIZE) + 8
    gone = reading.change is Change.REMOVED
    line = 1.6 if reading.change is Change.ADDED else 0.7
    ink = theme.removed if gone else Ink(theme.task.line, line)
    base = top + PILL_HEIGHT / 2 + PILL_SIZE * 0.35
    colour = theme.removed.colour if gone else theme.text
    text = Text(x, base, PILL_SIZE, runs, colour, struck=gone)
    fill = theme.background if gone else theme.task.fill
    return Pill(Rect(x - width / 2, top, width, PILL_HEIGHT), ink, fill, text)
