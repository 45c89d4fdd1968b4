"""A scene: boxes, wires and texts with their places and their ink. It knows no drawing library.

Lengths are points, x runs to the right and y downwards; writers turn a scene into a format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ladderspec.drawing.maths import Run, reach_of, width_of_runs
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


class Text(NamedTuple):
    """One line of text; (x, y) is the anchor on its base line."""

    x: float
    y: float
    size: float
    runs: tuple[Run, ...]
    colour: str
    anchor: Anchor = "middle"
    struck: bool = False  # crossed out: what a variant takes away

    @property
    def width(self) -> float:
        return width_of_runs(self.runs, self.size)

    @property
    def left(self) -> float:
        return self.x - self.width * {"start": 0, "middle": 0.5, "end": 1}[self.anchor]

    @property
    def rect(self) -> Rect:
        above, below = (self.size * part for part in reach_of(self.runs))
        return Rect(self.left, self.y - above, self.width, above + below)


class Box(NamedTuple):
    """A node at one iteration, with what stands in it."""

    rect: Rect
    ink: Ink
    fill: str
    node: str
    iteration: int  # 0 is the first one shown
    texts: tuple[Text, ...] = ()
    pills: tuple[Pill, ...] = ()
    radius: float = 9.0


class Pill(NamedTuple):
    """A small rounded mark with a text: a task where it reads."""

    rect: Rect
    ink: Ink
    fill: str
    text: Text


class Mark(NamedTuple):
    """A filled square on an arrow: what it carries arrives at a later iteration."""

    centre: Point
    side: float
    colour: str


class Wire(NamedTuple):
    """An arrow: from `start` along `segments` to the foot of its head, whose point is `tip`."""

    start: Point
    segments: tuple[Segment, ...]
    tip: Point
    ink: Ink
    source: str = ""  # nodes; none for the samples of a legend
    target: str = ""
    key: str = ""
    role: Role | None = None
    delay: int = 0
    iteration: int = 0  # of the target
    mark: Mark | None = None
    label: Text | None = None
    from_outside: bool = False  # its source is an iteration that is not shown


class Rule(NamedTuple):
    """A straight line without a head: what separates two iterations."""

    start: Point
    end: Point
    ink: Ink


class Panel(NamedTuple):
    """A rectangle that holds other things: a phase of the plan, a plate of copies."""

    rect: Rect
    ink: Ink | None
    fill: str | None
    radius: float = 0.0
    label: Text | None = None


class Scene(NamedTuple):
    """Everything on the sheet, from back to front."""

    width: float
    height: float
    background: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    rules: tuple[Rule, ...]
    wires: tuple[Wire, ...]
    boxes: tuple[Box, ...]
    texts: tuple[Text, ...]  # levels, iterations, title, words of the legend
    samples: tuple[Wire | Panel | Pill | Mark, ...] = ()  # the drawings of the legend
    scale: float = 1.0  # from the lengths here to those on paper

    @property
    def smallest(self) -> float:
        """The size of the smallest words on paper, in points."""
        inside = [t for box in self.boxes for t in (*box.texts, *(p.text for p in box.pills))]
        return self.scale * min((text.size for text in (*self.labels(), *inside)), default=0.0)

    def labels(self) -> Iterator[Text]:
        """Every text that stands outside of the boxes."""
        yield from self.texts
        yield from (wire.label for wire in self.wires if wire.label)
        yield from (panel.label for panel in self.panels if panel.label)
