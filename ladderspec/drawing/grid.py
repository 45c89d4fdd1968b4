"""Sheet, routes and tracks -> coordinates: every row, column, gutter and track has its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ladderspec.drawing.contents import Content
from ladderspec.drawing.scene import Point, Rect
from ladderspec.drawing.sheet import Sheet, Spot
from ladderspec.drawing.sizes import CLEAR, WORD_PITCH, Sizes
from ladderspec.drawing.tracks import Lanes, Track, Tracks
from ladderspec.drawing.ways import Face, Gutter, Port, horizontal, vertical
from ladderspec.names import Side

_OUTER = 4.0  # gutters around the ladder, at least
_NARROWER = 1.0  # an arrow in the middle of a face may come so much closer
_STUB = 24.0  # the same where arrows come from iterations that are not shown


class Span(NamedTuple):
    """From `start`, `size` long, to the right or downwards."""

    start: float
    size: float

    @property
    def middle(self) -> float:
        return self.start + self.size / 2

    @property
    def end(self) -> float:
        return self.start + self.size


class Grid(NamedTuple):
    columns: tuple[Span, ...]
    rows: tuple[Span, ...]  # from the input upwards
    gutters: Mapping[Gutter, Span]
    lines: Mapping[Track, float]  # x of vertical tracks, y of horizontal ones
    sizes: Sizes
    pitches: Mapping[Face, float]

    def box(self, spot: Spot) -> Rect:
        column, row = self.columns[spot.column], self.rows[spot.row]
        return Rect(column.start, row.start, column.size, row.size)

    def point(self, spot: Spot, port: Port, slot: int) -> Point:
        """Where an arrow meets the edge of a box."""
        box = self.box(spot)
        x, y = box.centre
        inwards = slot * self.pitches.get(port.face, self.sizes.pitch)
        if port.face.gutter.axis == "H":
            x += port.sign * (box.width / 2 - self.sizes.corner - inwards)
            return (x, box.bottom if port.face.gutter.at == spot.row else box.y)
        y -= port.sign * (box.height / 2 - self.sizes.edge - inwards)
        return (box.x if port.face.gutter.at == spot.column else box.right, y)

    @property
    def extent(self) -> Rect:
        """All boxes and gutters."""
        left, right = self.gutters[vertical(0)], self.gutters[vertical(len(self.columns))]
        top, bottom = self.gutters[horizontal(len(self.rows))], self.gutters[horizontal(0)]
        return Rect(left.start, top.start, right.end - left.start, bottom.end - top.start)


def fit(
    sheet: Sheet,
    contents: Mapping[Spot, Content],
    tracks: Tracks,
    bands: Mapping[Gutter, float],
    sizes: Sizes,
    origin: Point,
) -> Grid:
    """Sizes that hold what stands in boxes and gutters; `bands` is the room that labels need."""
    pitches = _pitches(sheet, sizes)
    needs = _Needs(tracks, bands, sizes)
    across = _stack(
        origin[0], _widths(sheet, contents, tracks, sizes), needs.between_columns(sheet)
    )
    heights = _heights(sheet, contents, tracks, sizes, pitches)
    down = _stack(origin[1], heights[::-1], needs.between_rows(len(heights))[::-1])
    gutters = {vertical(index): span for index, span in enumerate(across.gaps)}
    gutters |= {horizontal(index): span for index, span in enumerate(down.gaps[::-1])}
    lines = _lines(gutters, tracks, bands, sizes.pitch)
    return Grid(across.things, down.things[::-1], gutters, lines, sizes, pitches)


class _Stack(NamedTuple):
    things: tuple[Span, ...]
    gaps: tuple[Span, ...]


def _stack(at: float, things: Sequence[float], gaps: Sequence[float]) -> _Stack:
    """One after the other: a gap, a thing, ..., a gap."""
    spans, between = list[Span](), list[Span]()
    for index, gap in enumerate(gaps):
        between.append(Span(at, gap))
        at += gap
        if index < len(things):
            spans.append(Span(at, things[index]))
            at += things[index]
    return _Stack(tuple(spans), tuple(between))


class _Needs(NamedTuple):
    """How wide gutters are."""

    tracks: Tracks
    bands: Mapping[Gutter, float]
    sizes: Sizes

    def room(self, gutter: Gutter, least: float) -> float:
        lanes, band = self.tracks.lanes.get(gutter), self.bands.get(gutter, 0.0)
        if lanes is None:
            return max(least, band)
        return max(
            least, 2 * CLEAR + _thickness(lanes.tracks, self.sizes.pitch) + _beside(lanes, band)
        )

    def between_rows(self, count: int) -> list[float]:
        usual = self.sizes.row_gap
        inner = [self.room(horizontal(index), usual) for index in range(1, count)]
        ends = self.room(horizontal(0), _OUTER), self.room(horizontal(count), _OUTER)
        return [ends[0], *_even(inner, usual), ends[1]]

    def between_columns(self, sheet: Sheet) -> list[float]:
        """Alike from iteration to iteration."""
        inner, outer = dict[int, float](), dict[int, float]()
        for index in range(1, len(sheet.columns)):
            left, right = sheet.columns[index - 1 : index + 1]
            same = left.iteration == right.iteration
            least = self.sizes.inner_gap if same else self.sizes.outer_gap
            (inner if same else outer)[index] = self.room(vertical(index), least)
        found = dict(zip(inner, _even(list(inner.values()), self.sizes.inner_gap), strict=True))
        found |= zip(outer, _even(list(outer.values()), self.sizes.outer_gap), strict=True)
        last = len(sheet.columns)
        outside = any(link.source is None for link in sheet.links)
        found[0] = self.room(vertical(0), _STUB if outside else _OUTER)
        found[last] = self.room(vertical(last), _OUTER)
        return [found[index] for index in range(last + 1)]


def _even(gaps: Sequence[float], usual: float) -> list[float]:
    """Equal distances look better, unless one gutter is crowded."""
    widest = max(gaps, default=0.0)
    return [widest] * len(gaps) if widest <= 1.8 * usual else list(gaps)


def _pitches(sheet: Sheet, sizes: Sizes) -> dict[Face, float]:
    """Arrows from outside have a word at their start, so they need more room."""
    found: dict[Face, float] = {}
    for link in sheet.links:
        if link.source is None:
            face = Face(vertical(0), link.target.row)
            needed = max(WORD_PITCH, sizes.pitch, link.origin_height(sizes.facts))
            found[face] = max(needed, found.get(face, 0.0))
    return found


def _widths(
    sheet: Sheet, contents: Mapping[Spot, Content], tracks: Tracks, sizes: Sizes
) -> list[float]:
    """Encoders and decoders share one width, as a hand would draw them."""
    widest = {True: sizes.box_width, False: sizes.box_width}  # by: is it a lateral cell?
    for spot, content in contents.items():
        lateral = sheet.columns[spot.column].side is Side.LATERAL
        widest[lateral] = max(widest[lateral], content.width)
    for face, count in tracks.most.items():
        if face.gutter.axis == "H":
            lateral = sheet.columns[face.lane].side is Side.LATERAL
            needed = 2 * (sizes.corner + count * sizes.pitch - _NARROWER)
            widest[lateral] = max(widest[lateral], needed)
    return [widest[column.side is Side.LATERAL] for column in sheet.columns]


def _heights(
    sheet: Sheet,
    contents: Mapping[Spot, Content],
    tracks: Tracks,
    sizes: Sizes,
    pitches: Mapping[Face, float],
) -> list[float]:
    heights = [sizes.box_height] * len(sheet.rows)
    for spot, content in contents.items():
        heights[spot.row] = max(heights[spot.row], content.height)
    for face, count in tracks.most.items():
        if face.gutter.axis == "V":
            pitch = pitches.get(face, sizes.pitch)
            middle = pitch - (_NARROWER if pitch == sizes.pitch else 0)
            needed = 2 * (sizes.edge + (count - 1) * pitch + middle)
            heights[face.lane] = max(heights[face.lane], needed)
    return heights


def _thickness(lanes: Sequence[Track], pitch: float) -> float:
    return sum(pitch + track.room for track in lanes)


def _beside(lanes: Lanes, band: float) -> float:
    """What labels of straight arrows need beyond the room that labels of the last track have."""
    return max(0.0, band - lanes.low[-1].room) if lanes.low else band


def _lines(
    gutters: Mapping[Gutter, Span], tracks: Tracks, bands: Mapping[Gutter, float], pitch: float
) -> dict[Track, float]:
    lines: dict[Track, float] = {}
    for gutter, lanes in tracks.lanes.items():
        span = gutters[gutter]
        band = _beside(lanes, bands.get(gutter, 0.0))
        for track, offset in _offsets(lanes, span.size, band, pitch):
            # Gutters between rows are counted upwards, as levels are.
            lines[track] = span.start + offset if gutter.axis == "V" else span.end - offset
    return lines


def _offsets(lanes: Lanes, size: float, band: float, pitch: float) -> list[tuple[Track, float]]:
    """Places across a gutter; room that is left over goes to the labels, else to both sides."""
    spare = size - 2 * CLEAR - _thickness(lanes.tracks, pitch) - band
    at = CLEAR if band else CLEAR + spare / 2
    found = []
    for group in (lanes.low, lanes.middle + lanes.high):
        for track in group:
            found.append((track, at + pitch / 2))
            at += pitch + track.room
        if group is lanes.low and band:
            at += band + spare
    return found
