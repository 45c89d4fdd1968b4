"""Grid and lanes -> coordinates of every row, column, channel and lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    pitches = _pitches(grid, sizes)
    overhangs = _overhangs(grid, sizes)
    gaps = _Gaps(lanes, label_rooms, overhangs, sizes)
    columns, across = _stack(
        origin[0], _widths(grid, contents, lanes, sizes), gaps.between_columns(grid)
    )
    heights = _heights(grid, contents, lanes, sizes, pitches)
    rows, down = _stack(origin[1], heights[::-1], gaps.between_rows(len(heights))[::-1])
    channels = {vertical(index): span for index, span in enumerate(across)}
    channels |= {horizontal(index): span for index, span in enumerate(down[::-1])}
    positions = _lane_positions(channels, lanes, label_rooms, overhangs, sizes)
    return Coordinates(columns, rows[::-1], channels, positions, sizes, pitches)


def _stack(
    at: float, items: Sequence[float], gaps: Sequence[float]
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Spans of items and gaps in turn: a gap, an item, ..., a gap."""
    item_spans, gap_spans = list[Span](), list[Span]()
    for index, gap in enumerate(gaps):
        gap_spans.append(Span(at, gap))
        at += gap
        if index < len(items):
            item_spans.append(Span(at, items[index]))
            at += items[index]
    return tuple(item_spans), tuple(gap_spans)


# --- sizes of channels ----------------------------------------------------------------------------


class _Gaps(NamedTuple):
    lanes: Lanes
    label_rooms: Mapping[Channel, float]
    overhangs: Mapping[Channel, float]
    sizes: Sizes

    def room(self, channel: Channel, least: float) -> float:
        lanes, labels = self.lanes.channels.get(channel), self.label_rooms.get(channel, 0.0)
        overhang = self.overhangs.get(channel, 0.0)
        if lanes is None:
            return max(least, labels, overhang)
        clear = self.sizes.clearance(channel.axis)
        needed = _thickness(lanes, self.sizes.pitch) + _labels_beyond_lanes(lanes, labels)
        needed += overhang
        return max(least, clear + (_OUTER if least == _OUTER else clear) + needed)

    def between_rows(self, count: int) -> list[float]:
        inner = [self.room(horizontal(index), self.sizes.row_gap) for index in range(1, count)]
        ends = self.room(horizontal(0), _OUTER), self.room(horizontal(count), _OUTER)
        return [ends[0], *_equalised(inner, self.sizes.row_gap), ends[1]]

    def between_columns(self, grid: Grid) -> list[float]:
        """The same in every iteration."""
        borders, last = grid.iteration_borders(), len(grid.columns)
        found: dict[int, float] = {}
        for at_border, least in ((False, self.sizes.inner_gap), (True, self.sizes.outer_gap)):
            indices = [i for i in range(1, last) if (vertical(i) in borders) == at_border]
            gaps = [self.room(vertical(index), least) for index in indices]
            found |= zip(indices, _equalised(gaps, least), strict=True)
        has_stubs = any(link.source is None for link in grid.links)
        found[0] = self.room(vertical(0), _STUB if has_stubs else _OUTER)
        found[last] = self.room(vertical(last), _OUTER)
        return [found[index] for index in range(last + 1)]


def _overhangs(grid: Grid, sizes: Sizes) -> dict[Channel, float]:
    """By how much the texts of arrows from outside extend above their box, by channel above it."""
    found: dict[Channel, float] = {}
    for link in grid.links:
        if link.source is None and link.target.column == 0:
            channel = horizontal(link.target.row + 1)
            overhang = link.origin_height(sizes.detail) / 2 - sizes.edge
            found[channel] = max(overhang, found.get(channel, 0.0))
    return found


def _equalised(gaps: Sequence[float], usual: float) -> list[float]:
    """Equal gaps look better, unless one of them is crowded."""
    widest = max(gaps, default=0.0)
    return [widest] * len(gaps) if widest <= 1.8 * usual else list(gaps)


def _thickness(lanes: ChannelLanes, pitch: float) -> float:
    return sum(pitch + lane.room for lane in lanes.all)


def _labels_beyond_lanes(lanes: ChannelLanes, room: float) -> float:
    """The room for labels of straight arrows, less the room that the last low lane has anyway."""
    return max(0.0, room - lanes.low[-1].room) if lanes.low else room


def _lane_positions(
    channels: Mapping[Channel, Span],
    lanes: Lanes,
    label_rooms: Mapping[Channel, float],
    overhangs: Mapping[Channel, float],
    sizes: Sizes,
) -> dict[Lane, float]:
    positions: dict[Lane, float] = {}
    for channel, here in lanes.channels.items():
        span = channels[channel]
        labels = _labels_beyond_lanes(here, label_rooms.get(channel, 0.0))
        clear = sizes.clearance(channel.axis)
        low = clear if channel.at else _OUTER  # there is no box outside the ladder
        ends = low + overhangs.get(channel, 0.0), clear
        for lane, offset in _offsets(here, span.size, labels, sizes.pitch, ends):
            # Channels between rows count upwards, like levels.
            positions[lane] = span.start + offset if channel.axis == "V" else span.end - offset
    return positions


def _offsets(
    lanes: ChannelLanes, size: float, labels: float, pitch: float, ends: tuple[float, float]
) -> list[tuple[Lane, float]]:
    """Offsets of lanes in a channel; spare room goes to the labels, or else to both sides."""
    spare = max(0.0, size - sum(ends) - _thickness(lanes, pitch) - labels)
    at = ends[0] if labels else ends[0] + spare / 2
    found = []
    for group in (lanes.low, lanes.middle + lanes.high):
        for lane in group:
            found.append((lane, at + pitch / 2))
            at += pitch + lane.room
        if group is lanes.low and labels:
            at += labels + spare
    return found


# --- sizes of boxes -------------------------------------------------------------------------------


def _pitches(grid: Grid, sizes: Sizes) -> dict[Face, float]:
    """Arrows from outside have a text at their start, so they need more room."""
    found: dict[Face, float] = {}
    for link in grid.links:
        if link.source is None:
            face = Face(vertical(0), link.target.row)
            needed = max(TEXT_PITCH, sizes.pitch, link.origin_height(sizes.detail))
            found[face] = max(needed, found.get(face, 0.0))
    return found


def _widths(
    grid: Grid, contents: Mapping[Spot, Content], lanes: Lanes, sizes: Sizes
) -> list[float]:
    """Encoders and decoders share one width; lateral cells and each further input another."""
    kinds = [
        (Side.ENCODER, "") if column.side is Side.DECODER else (column.side, column.part)
        for column in grid.columns
    ]
    widest = dict.fromkeys(kinds, sizes.box_width)
    for spot, content in contents.items():
        kind = kinds[spot.column]
        widest[kind] = max(widest[kind], content.width)
    for face in lanes.faces:
        if face.channel.axis == "H":
            kind = kinds[face.line]
            needed = 2 * (sizes.corner + _half(face, lanes, sizes.pitch, sizes.pitch))
            widest[kind] = max(widest[kind], needed)
    return [widest[kind] for kind in kinds]


def _heights(
    grid: Grid,
    contents: Mapping[Spot, Content],
    lanes: Lanes,
    sizes: Sizes,
    pitches: Mapping[Face, float],
) -> list[float]:
    heights = [sizes.box_height] * len(grid.rows)
    for spot, content in contents.items():
        heights[spot.row] = max(heights[spot.row], content.height)
    for face in lanes.faces:
        if face.channel.axis == "V":
            needed = 2 * (
                sizes.edge + _half(face, lanes, pitches.get(face, sizes.pitch), sizes.pitch)
            )
            heights[face.line] = max(heights[face.line], needed)
    return heights


def _half(face: Face, lanes: Lanes, pitch: float, usual: float) -> float:
    """The length of half a face, without the edge: its slots, and its loops around the middle."""
    slots, loops = lanes.most_slots.get(face, 0), lanes.loops.get(face, 0)
    if loops:
        return slots * pitch + LOOP + (loops - 1) * pitch
    return slots * pitch - (_NARROWER if pitch == usual else 0)
