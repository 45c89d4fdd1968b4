"""Grid and lanes -> coordinates of every row, column, channel and lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ladderspec.drawing.boxes import Content
from ladderspec.drawing.grid import Channel, Grid, Spot, horizontal, vertical
from ladderspec.drawing.routing import ChannelLanes, Face, Lane, Lanes, Port
from ladderspec.drawing.scene import Point, Rect
from ladderspec.drawing.style import LOOP, TEXT_PITCH, Sizes
from ladderspec.names import Side

_OUTER = 4.0  # minimum width of channels around the ladder
_STUB = 24.0  # the same for the left one, if arrows from iterations not shown start in it
_NARROWER = 1.0  # an arrow in the middle of a face may be this much closer to its neighbours


class Span(NamedTuple):
    """An interval to the right or downwards."""

    start: float
    size: float

    @property
    def middle(self) -> float:
        return self.start + self.size / 2

    @property
    def end(self) -> float:
        return self.start + self.size


class Coordinates(NamedTuple):
    columns: tuple[Span, ...]
    rows: tuple[Span, ...]  # from the input upwards
    channels: Mapping[Channel, Span]
    lanes: Mapping[Lane, float]  # x of vertical lanes, y of horizontal ones
    sizes: Sizes
    pitches: Mapping[Face, float]

    def box(self, spot: Spot) -> Rect:
        column, row = self.columns[spot.column], self.rows[spot.row]
        return Rect(column.start, row.start, column.size, row.size)

    def point(self, spot: Spot, port: Port, slot: int, loop: bool = False) -> Point:
        """The point where an arrow meets the edge of a box."""
        box = self.box(spot)
        x, y = box.centre
        steps = slot * self.pitches.get(port.face, self.sizes.pitch)
        channel = port.face.channel
        if channel.axis == "H":
            from_middle = LOOP + steps if loop else box.width / 2 - self.sizes.corner - steps
            x += port.sign * from_middle
            return (x, box.bottom if channel.at == spot.row else box.y)
        y -= port.sign * (LOOP + steps if loop else box.height / 2 - self.sizes.edge - steps)
        return (box.x if channel.at == spot.column else box.right, y)

    @property
    def extent(self) -> Rect:
        """The rectangle around all boxes and channels."""
        left, right = self.channels[vertical(0)], self.channels[vertical(len(self.columns))]
        top, bottom = self.channels[horizontal(len(self.rows))], self.channels[horizontal(0)]
        return Rect(left.start, top.start, right.end - left.start, bottom.end - top.start)


def coordinates_of(
    grid: Grid,
    contents: Mapping[Spot, Content],
    lanes: Lanes,
    label_rooms: Mapping[Channel, float],
    sizes: Sizes,
    origin: Point,
) -> Coordinates:
    """Make boxes and channels large enough; `label_rooms` is for labels of straight arrows."""
    measures = _Measures(grid, contents, lanes, label_rooms, sizes)
    columns, across = _stack(origin[0], measures.widths(), measures.between_columns())
    rows, down = _stack(origin[1], measures.heights()[::-1], measures.between_rows()[::-1])
    channels = {vertical(index): span for index, span in enumerate(across)}
    channels |= {horizontal(index): span for index, span in enumerate(down[::-1])}
    positions = dict(measures.lane_positions(channels))
    return Coordinates(columns, rows[::-1], channels, positions, sizes, measures.pitches)


def _stack(
    at: float, items: Sequence[float], gaps: Sequence[float]
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Spans of items and gaps in turn: a gap, an item, ..., a gap."""
    item_spans, gap_spans = list[Span](), list[Span]()
    for gap, item in zip_longest(gaps, items, fillvalue=0.0):
        gap_spans.append(Span(at, gap))
        at += gap
        item_spans.append(Span(at, item))
        at += item
    return tuple(item_spans[: len(items)]), tuple(gap_spans)


class _Measures:
    """The sizes that boxes and channels need."""

    def __init__(
        self,
        grid: Grid,
        contents: Mapping[Spot, Content],
        lanes: Lanes,
        label_rooms: Mapping[Channel, float],
        sizes: Sizes,
    ) -> None:
        self.grid, self.contents, self.lanes, self.sizes = grid, contents, lanes, sizes
        self.label_rooms = label_rooms
        # Arrows from outside have a text at their start, so their ports need more room; the text
        # of the highest one extends above its box.
        self.pitches: dict[Face, float] = {}
        self.overhangs: dict[Channel, float] = defaultdict(float)  # by channel above the box
        for link in grid.links:
            if link.source is None:
                height = link.origin_height(sizes.detail)
                face = Face(vertical(0), link.target.row)
                needed = max(TEXT_PITCH, sizes.pitch, height)
                self.pitches[face] = max(needed, self.pitches.get(face, 0.0))
                if link.target.column == 0:
                    above = horizontal(link.target.row + 1)
                    self.overhangs[above] = max(height / 2 - sizes.edge, self.overhangs[above])

    # --- channels ---------------------------------------------------------------------------------

    def between_rows(self) -> list[float]:
        least, count = self.sizes.row_gap, len(self.grid.rows)
        inner = [self._room(horizontal(index), least) for index in range(1, count)]
        ends = self._room(horizontal(0), _OUTER), self._room(horizontal(count), _OUTER)
        return [ends[0], *_equalised(inner, least), ends[1]]

    def between_columns(self) -> list[float]:
        """The same in every iteration."""
        borders, last = self.grid.iteration_borders(), len(self.grid.columns)
        found: dict[int, float] = {}
        for at_border, least in ((False, self.sizes.inner_gap), (True, self.sizes.outer_gap)):
            indices = [i for i in range(1, last) if (vertical(i) in borders) == at_border]
            gaps = [self._room(vertical(index), least) for index in indices]
            found |= zip(indices, _equalised(gaps, least), strict=True)
        has_stubs = any(link.source is None for link in self.grid.links)
        found[0] = self._room(vertical(0), _STUB if has_stubs else _OUTER)
        found[last] = self._room(vertical(last), _OUTER)
        return [found[index] for index in range(last + 1)]

    def _room(self, channel: Channel, least: float) -> float:
        overhang = self.overhangs.get(channel, 0.0)
        lanes = self.lanes.channels.get(channel)
        if lanes is None:
            return max(least, self.label_rooms.get(channel, 0.0), overhang)
        clear = self.sizes.clearance(channel.axis)
        ends = clear + (_OUTER if least == _OUTER else clear)
        return max(least, ends + self._thickness(lanes) + self._labels(channel) + overhang)

    def _thickness(self, lanes: ChannelLanes) -> float:
        return sum(self.sizes.pitch + lane.room for lane in lanes.all)

    def _labels(self, channel: Channel) -> float:
        """The room for labels of straight arrows, less what the last low lane has anyway."""
        room, low = self.label_rooms.get(channel, 0.0), self.lanes.channels[channel].low
        return max(0.0, room - low[-1].room) if low else room

    def lane_positions(self, channels: Mapping[Channel, Span]) -> Iterator[tuple[Lane, float]]:
        """Spare room of a channel goes to its labels, or else to both of its sides."""
        for channel, lanes in self.lanes.channels.items():
            span, labels = channels[channel], self._labels(channel)
            clear = self.sizes.clearance(channel.axis)
            low = clear if channel.at else _OUTER  # there is no box outside the ladder
            at = low + self.overhangs.get(channel, 0.0)
            spare = max(0.0, span.size - at - clear - self._thickness(lanes) - labels)
            at += 0.0 if labels else spare / 2
            for group in (lanes.low, lanes.middle + lanes.high):
                for lane in group:
                    offset = at + self.sizes.pitch / 2
                    # Channels between rows count upwards, like levels.
                    yield lane, span.start + offset if channel.axis == "V" else span.end - offset
                    at += self.sizes.pitch + lane.room
                if group is lanes.low and labels:
                    at += labels + spare

    # --- boxes ------------------------------------------------------------------------------------

    def widths(self) -> list[float]:
        """Encoders and decoders share one width; lateral cells and each further input another."""
        kinds = [
            (Side.ENCODER, "") if column.side is Side.DECODER else (column.side, column.part)
            for column in self.grid.columns
        ]
        widest = dict.fromkeys(kinds, self.sizes.box_width)
        for spot, content in self.contents.items():
            widest[kinds[spot.column]] = max(widest[kinds[spot.column]], content.width)
        for face in self.lanes.faces:
            if face.channel.axis == "H":
                kind = kinds[face.line]
                widest[kind] = max(widest[kind], 2 * (self.sizes.corner + self._half(face)))
        return [widest[kind] for kind in kinds]

    def heights(self) -> list[float]:
        heights = [self.sizes.box_height] * len(self.grid.rows)
        for spot, content in self.contents.items():
            heights[spot.row] = max(heights[spot.row], content.height)
        for face in self.lanes.faces:
            if face.channel.axis == "V":
                needed = 2 * (self.sizes.edge + self._half(face))
                heights[face.line] = max(heights[face.line], needed)
        return heights

    def _half(self, face: Face) -> float:
        """Half the length of a face, without the edge: its slots, its loops around the middle."""
        slots, loops = self.lanes.most_slots.get(face, 0), self.lanes.loops.get(face, 0)
        pitch = self.pitches.get(face, self.sizes.pitch)
        if loops:
            return slots * pitch + LOOP + (loops - 1) * pitch
        return slots * pitch - (_NARROWER if pitch == self.sizes.pitch else 0)


def _equalised(gaps: Sequence[float], usual: float) -> list[float]:
    """Equal gaps look better, unless one of them is crowded."""
    widest = max(gaps, default=0.0)
    return [widest] * len(gaps) if widest <= 1.8 * usual else list(gaps)
