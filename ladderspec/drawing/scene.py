"""Scene: boxes, wires and texts with their positions and inks, independent of any format.

Lengths are in points, x goes to the right and y downwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ladderspec.drawing.typesetting import TextRun, height_of_runs, width_of_runs
from ladderspec.names import Ink as Ink
from ladderspec.names import Role

Point = tuple[float, float]
Segment = tuple[float, ...]  # a line to (x, y), or a cubic curve (x1, y1, x2, y2, x, y)
Anchor = Literal["start", "middle", "end"]


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def centre(self) -> Point:
        return (self.x + self.width / 2, self.y + self.height / 2)

    def grown(self, by: float) -> Rect:
        """The rectangle with a margin on all sides."""
        return Rect(self.x - by, self.y - by, self.width + 2 * by, self.height + 2 * by)

    def contains(self, other: Rect) -> bool:
        horizontally = self.x <= other.x and other.right <= self.right
        return horizontally and self.y <= other.y and other.bottom <= self.bottom

    def overlaps(self, other: Rect) -> bool:
        horizontally = self.x < other.right and other.x < self.right
        return horizontally and self.y < other.bottom and other.y < self.bottom


class Text(NamedTuple):
    """One line of text; (x, y) is its anchor on the base line."""

    x: float
    y: float
    size: float
    runs: tuple[TextRun, ...]
    colour: str
    anchor: Anchor = "middle"
    struck: bool = False  # crossed out, because a variant removes it

    @property
    def width(self) -> float:
        return width_of_runs(self.runs, self.size)

    @property
    def left(self) -> float:
        return self.x - self.width * {"start": 0, "middle": 0.5, "end": 1}[self.anchor]

    @property
    def rect(self) -> Rect:
        above, below = (self.size * part for part in height_of_runs(self.runs))
        return Rect(self.left, self.y - above, self.width, above + below)


class Box(NamedTuple):
    """A node in one iteration, with its content."""

    rect: Rect
    ink: Ink
    fill: str
    node: str
    iteration: int  # 0 is the first one shown
    texts: tuple[Text, ...] = ()
    pills: tuple[Pill, ...] = ()
    radius: float = 9.0

    @property
    def all_texts(self) -> tuple[Text, ...]:
        """Including those of its tasks."""
        return (*self.texts, *(text for pill in self.pills for text in pill.texts))


class Pill(NamedTuple):
    """A small rounded label of a task, in the box that it reads."""

    rect: Rect
    ink: Ink
    fill: str
    texts: tuple[Text, ...]

    @property
    def radius(self) -> float:
        return min(self.rect.height / 2, 6.0)


class Mark(NamedTuple):
    """A filled square on an arrow: its value arrives in a later iteration."""

    centre: Point
    side: float
    colour: str
    label: Text | None = None  # how many iterations later, if more than one

    @property
    def rect(self) -> Rect:
        (x, y), side = self.centre, self.side
        return Rect(x - side / 2, y - side / 2, side, side)


class Wire(NamedTuple):
    """An arrow: from `start` along `segments` to the base of its head, which ends at `tip`."""

    start: Point
    segments: tuple[Segment, ...]
    tip: Point
    ink: Ink
    source: str = ""  # names of nodes; empty in the samples of a legend
    target: str = ""
    key: str = ""
    role: Role | None = None
    delay: int = 0
    iteration: int = 0  # of the target
    mark: Mark | None = None
    label: Text | None = None
    from_outside: bool = False  # its source is an iteration that is not shown

    @property
    def source_iteration(self) -> int:
        """The iteration in which its source is drawn: in a rolled view, a square is the delay."""
        return self.iteration - (0 if self.mark else self.delay)


class Rule(NamedTuple):
    """A straight line without a head, between two iterations."""

    start: Point
    end: Point
    ink: Ink


class Backdrop(NamedTuple):
    """A rectangle behind other items: a phase of the plan, or a plate."""

    rect: Rect
    ink: Ink | None
    fill: str | None
    radius: float = 0.0
    label: Text | None = None


Sample = Wire | Backdrop | Mark


class Scene(NamedTuple):
    """Everything that is drawn, from back to front."""

    width: float
    height: float
    background: str
    title: str
    description: str
    panels: tuple[Backdrop, ...] = ()
    rules: tuple[Rule, ...] = ()
    wires: tuple[Wire, ...] = ()
    boxes: tuple[Box, ...] = ()
    texts: tuple[Text, ...] = ()  # levels, iterations, title, legend
    samples: tuple[Sample, ...] = ()  # the symbols of the legend
    scale: float = 1.0  # size on paper, relative to the lengths here

    @property
    def smallest(self) -> float:
        """The smallest font size on paper, in points."""
        inside = [text for box in self.boxes for text in box.all_texts]
        return self.scale * min((text.size for text in (*self.labels(), *inside)), default=0.0)

    @property
    def paper(self) -> tuple[float, float]:
        """Width and height on paper, in points."""
        return (self.width * self.scale, self.height * self.scale)

    def labels(self) -> Iterator[Text]:
        """Every text outside the boxes."""
        yield from self.texts
        yield from (wire.label for wire in self.wires if wire.label)
        yield from (wire.mark.label for wire in self.wires if wire.mark and wire.mark.label)
        yield from (panel.label for panel in self.panels if panel.label)


# --- moving ---------------------------------------------------------------------------------------

_POINTS = {"start", "end", "tip", "centre"}


def moved(scene: Scene, dx: float, dy: float) -> Scene:
    """The same scene with all its items moved; its size stays."""

    def move(item: Any, field: str = "") -> Any:
        if isinstance(item, Rect | Text):
            return item._replace(x=item.x + dx, y=item.y + dy)
        if field in _POINTS:
            return (item[0] + dx, item[1] + dy)
        if field == "segments":
            return tuple(tuple(v + (dy, dx)[i % 2 == 0] for i, v in enumerate(s)) for s in item)
        if isinstance(item, Scene | Backdrop | Rule | Wire | Box | Pill | Mark):
            return item._replace(**{name: move(getattr(item, name), name) for name in item._fields})
        return tuple(map(move, item)) if type(item) is tuple else item

    found: Scene = move(scene)
    return found
