"""Routes -> tracks and slots: no two arrows share a line.

Stretches of one gutter that overlap get tracks of their own, short ones next to the boxes they
serve. Ports of one face get slots of their own, counted from the corners of the box inwards.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ladderspec.drawing.ways import Face, Form, Gutter, Port, Route, Stretch

SOURCE, TARGET = 0, 1
_WHOLE = (-1e9, 1e9)  # a line along all of a gutter


class Track:
    """Stretches that follow each other in a gutter, and the room that their labels need."""

    def __init__(self, room: float = 0.0) -> None:
        self.room = room
        self._taken: list[tuple[float, float]] = []

    def take(self, start: float, stop: float) -> bool:
        at = bisect_left(self._taken, (start, stop))
        before = self._taken[at - 1][1] if at else float("-inf")
        after = self._taken[at][0] if at < len(self._taken) else float("inf")
        if before >= start or after <= stop:
            return False
        insort(self._taken, (start, stop))
        return True


class Lanes(NamedTuple):
    """The tracks of one gutter, from its lower or left edge on."""

    low: tuple[Track, ...] = ()  # serve the boxes below or left
    middle: tuple[Track, ...] = ()
    high: tuple[Track, ...] = ()  # serve the boxes above or right

    @property
    def tracks(self) -> tuple[Track, ...]:
        return (*self.low, *self.middle, *self.high)


class Tracks(NamedTuple):
    lanes: Mapping[Gutter, Lanes]
    track: Mapping[tuple[int, int], Track]  # route and stretch, by their numbers
    slot: Mapping[tuple[int, int], int]  # route, SOURCE or TARGET
    most: Mapping[Face, int]  # how many slots the fuller half of a face holds
    rules: Mapping[Gutter, Sequence[Track]]  # for lines along the whole gutter


def share_out(
    routes: Sequence[Route], rooms: Mapping[int, float], rules: Iterable[Gutter]
) -> Tracks:
    """`rooms`: what a route's label needs beside its track; `rules`: gutters with a full line."""
    by_gutter: dict[Gutter, list[tuple[int, int, Stretch]]] = defaultdict(list)
    for index, route in enumerate(routes):
        for number, stretch in enumerate(route.stretches):
            by_gutter[stretch.gutter].append((index, number, stretch))
    track: dict[tuple[int, int], Track] = {}
    lanes: dict[Gutter, Lanes] = {}
    full: dict[Gutter, list[Track]] = defaultdict(list)
    for gutter in rules:
        full[gutter].append(Track())
    for gutter in [*by_gutter, *(gutter for gutter in full if gutter not in by_gutter)]:
        groups: dict[int, list[Track]] = {-1: [], 0: list(full.get(gutter, [])), 1: []}
        for each in full.get(gutter, []):
            each.take(*_WHOLE)
        for index, number, stretch in sorted(by_gutter[gutter], key=_length):
            room = rooms.get(index, 0.0) if number == spoken(routes[index]) else 0.0
            track[index, number] = _first_free(groups[stretch.near], stretch, room)
        lanes[gutter] = Lanes(tuple(groups[-1]), tuple(groups[0]), tuple(reversed(groups[1])))
    slot, most = _slots(routes)
    return Tracks(lanes, track, slot, most, full)


def _length(item: tuple[int, int, Stretch]) -> tuple[float, int, int]:
    index, number, stretch = item
    return (stretch.stop - stretch.start, index, number)


def spoken(route: Route) -> int:
    """The stretch beside which the label of a route stands: its longest."""
    lengths = [stretch.stop - stretch.start for stretch in route.stretches]
    return lengths.index(max(lengths))


def _first_free(tracks: list[Track], stretch: Stretch, room: float) -> Track:
    for track in tracks:
        if track.take(stretch.start, stretch.stop):
            track.room = max(track.room, room)
            return track
    track = Track(room)
    track.take(stretch.start, stretch.stop)
    tracks.append(track)
    return track


def _slots(routes: Sequence[Route]) -> tuple[dict[tuple[int, int], int], dict[Face, int]]:
    """Short arrows at the corners: so they leave below the long ones, and do not cross them."""
    halves: dict[tuple[Face, int], list[tuple[float, int, int]]] = defaultdict(list)
    for index, route in enumerate(routes):
        length = sum(stretch.stop - stretch.start for stretch in route.stretches)
        if route.form is Form.SLANT:
            length = -1.0  # it leaves the row at once, so it belongs at the corner
        ends = {SOURCE: route.source, TARGET: route.target}
        if route.form is Form.BOW or (route.form is Form.STRAIGHT and route.source):
            del ends[SOURCE]  # both ends at one height
        for end, port in ends.items():
            if isinstance(port, Port) and port.sign:
                halves[port.face, port.sign].append((length, index, end))
    slot: dict[tuple[int, int], int] = {}
    most: dict[Face, int] = defaultdict(int)
    for (face, _), ends_here in halves.items():
        for number, (_, index, end) in enumerate(sorted(ends_here)):
            slot[index, end] = number
        most[face] = max(most[face], len(ends_here))
    return slot, most
