"""Scene: boxes, wires and texts with their positions and inks, independent of any format.

Lengths are in points, x goes to the right and y downwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ladderspec.drawing.typesetting import TextRun, height_of_runs, width_of_runs
from ladderspec.names import Role

Point = tuple[float, float]
Segment = tuple[float, ...]  # a line to (x, y), or a cubic curve (x1, y1, x2, y2, x, y)
Anchor = Literal["start", "middle", "end"]


class Ink(NamedTuple):
    """How a line is drawn."""

    colour: str
    width: float = 1.2
    dash: tuple[float, ...] = ()


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
    panels: tuple[Backdrop, ...]
    rules: tuple[Rule, ...]
    wires: tuple[Wire, ...]
    boxes: tuple[Box, ...]
    texts: tuple[Text, ...]  # levels, iterations, title, legend
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


def moved(scene: Scene, dx: float, dy: float) -> Scene:
    """The same scene with all its items moved; its size stays."""

    def point(at: Point) -> Point:
        return (at[0] + dx, at[1] + dy)

    def rect(of: Rect) -> Rect:
        return of._replace(x=of.x + dx, y=of.y + dy)

    def text(of: Text) -> Text:
        return of._replace(x=of.x + dx, y=of.y + dy)

    def mark(of: Mark) -> Mark:
        return of._replace(centre=point(of.centre), label=of.label and text(of.label))

    def panel(of: Backdrop) -> Backdrop:
        return of._replace(rect=rect(of.rect), label=of.label and text(of.label))

    def segment(of: Segment) -> Segment:
        return tuple(value + (dy if i % 2 else dx) for i, value in enumerate(of))

    def wire(of: Wire) -> Wire:
        return of._replace(
            start=point(of.start),
            segments=tuple(map(segment, of.segments)),
            tip=point(of.tip),
            mark=of.mark and mark(of.mark),
            label=of.label and text(of.label),
        )

    def pill(of: Pill) -> Pill:
        return of._replace(rect=rect(of.rect), texts=tuple(map(text, of.texts)))

    def box(of: Box) -> Box:
        texts, pills = tuple(map(text, of.texts)), tuple(map(pill, of.pills))
        return of._replace(rect=rect(of.rect), texts=texts, pills=pills)

    def sample(of: Sample) -> Sample:
        return wire(of) if isinstance(of, Wire) else mark(of) if isinstance(of, Mark) else panel(of)

    return scene._replace(
        panels=tuple(map(panel, scene.panels)),
        rules=tuple(r._replace(start=point(r.start), end=point(r.end)) for r in scene.rules),
        wires=tuple(map(wire, scene.wires)),
        boxes=tuple(map(box, scene.boxes)),
        texts=tuple(map(text, scene.texts)),
        samples=tuple(map(sample, scene.samples)),
    )
