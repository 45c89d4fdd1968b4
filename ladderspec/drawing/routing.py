"""Grid -> routes -> lanes: past which boxes an arrow goes, before anything has a size.

An arrow is straight if no box is between its ends. Otherwise it leaves a box through a port,
follows legs along channels, and enters the other box through a port (orthogonal edge routing). Then
legs that overlap in a channel get different lanes (channel routing), and ports of one face get
different slots, so that no two arrows share a line.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from ladderspec.drawing.grid import Channel, Grid, Link, Spot, horizontal, vertical
from ladderspec.drawing.style import ROLES
from ladderspec.names import Role, Side

OUTSIDE = -1.0  # start of links from iterations that are not shown


class Face(NamedTuple):
    """The part of a channel in one column (H) or row (V), between two boxes."""

    channel: Channel
    line: int  # the column or row


class PathForm(Enum):
    STRAIGHT = auto()
    ELBOW = auto()  # along a row, then down into a box
    SLANT = auto()  # diagonally across one channel, to a neighbouring row
    BOW = auto()  # a curve back to the neighbour in the same row
    ORTHOGONAL = auto()  # along channels
    LOOP = auto()  # along a channel, back to the same box


class Port(NamedTuple):
    """An end of an arrow: in the middle of a face (0), right or above (+1), left or below (-1)."""

    face: Face
    sign: int


class Leg(NamedTuple):
    """A section of a channel that an arrow follows.

    Positions along the channel count in halves: channel i is at 2 i, row or column i at 2 i + 1.
    `near` is the side of its boxes: -1 below or left of the channel, +1 above or right, 0 both.
    """

    channel: Channel
    start: float
    stop: float
    near: int

    @property
    def length(self) -> float:
        return self.stop - self.start


class Route(NamedTuple):
    link: Link
    form: PathForm
    source: Port | None
    target: Port
    legs: tuple[Leg, ...] = ()

    @property
    def longest_leg(self) -> int:
        """The index of the leg that carries the label."""
        lengths = [leg.length for leg in self.legs]
        return lengths.index(max(lengths))


# --- routes ---------------------------------------------------------------------------------------


def find_routes(grid: Grid) -> list[Route]:
    """A route for every link, in the order of the links; basic roles choose first."""
    router = _Router(grid)
    basic = [role for role, style in ROLES.items() if style.basic]
    rank = {role: index for index, role in enumerate(basic)}
    order = sorted(
        range(len(grid.links)), key=lambda i: rank.get(grid.links[i].arrow.role, len(rank))
    )
    found = {index: router.route(grid.links[index]) for index in order}
    return [found[index] for index in range(len(grid.links))]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _beside(line: int, sign: int) -> float:
    """The position of a port beside the middle of a row or column."""
    return 2 * line + 1 + 0.25 * sign


def _leg(channel: Channel, start: float, stop: float, *spots: Spot | None) -> Leg:
    indices = [spot.row if channel.axis == "H" else spot.column for spot in spots if spot]
    near = 0
    if all(index < channel.at for index in indices):
        near = -1
    elif all(index >= channel.at for index in indices):
        near = 1
    return Leg(channel, min(start, stop), max(start, stop), near)


class _Router:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.taken: set[Face] = set()  # faces with an arrow through their middle
        self.bows: set[Face] = set()

    def route(self, link: Link) -> Route:
        source, target = link.source, link.target
        if source is None:
            return self._from_outside(link)
        if source == target:
            return self._loop(link, source)
        if source.row == target.row:
            return self._in_row(link, source)
        if source.column == target.column:
            return self._in_column(link, source)
        return self._elbow(link, source) or self._across(link, source)

    # --- without legs -----------------------------------------------------------------------------

    def _take(self, spots: Iterable[Spot], faces: Sequence[Face]) -> bool:
        """Reserve a straight line if all of it is free."""
        if any(spot in self.grid.parts for spot in spots) or self.taken.intersection(faces):
            return False
        self.taken.update(faces)
        return True

    def _straight(self, link: Link, source: Spot) -> Route | None:
        """A straight line within a row or a column."""
        target = link.target
        if source.row == target.row:
            (low, high), forward = sorted((source.column, target.column)), source < target
            spots = [Spot(column, source.row) for column in range(low + 1, high)]
            faces = [Face(vertical(index), source.row) for index in range(low + 1, high + 1)]
        else:
            (low, high), forward = sorted((source.row, target.row)), source.row < target.row
            spots = [Spot(source.column, row) for row in range(low + 1, high)]
            faces = [Face(horizontal(index), source.column) for index in range(low + 1, high + 1)]
        if not self._take(spots, faces):
            return None
        ends = faces if forward else faces[::-1]
        return Route(link, PathForm.STRAIGHT, Port(ends[0], 0), Port(ends[-1], 0))

    def _elbow(self, link: Link, source: Spot) -> Route | None:
        """From an encoder without a decoder beside it: across, and down into the decoder below."""
        target = link.target
        if link.arrow.role is not Role.DECODER or source.row < target.row:
            return None
        if source.column > target.column:
            return None
        columns = range(source.column + 1, target.column + 1)
        rows = range(source.row, target.row, -1)
        spots = [Spot(column, source.row) for column in columns]
        spots += [Spot(target.column, row) for row in rows]
        across = [Face(vertical(column), source.row) for column in columns]
        down = [Face(horizontal(row), target.column) for row in rows]
        if not self._take(spots, [*across, *down]):
            return None
        return Route(link, PathForm.ELBOW, Port(across[0], 0), Port(down[-1], 0))

    # --- along channels ---------------------------------------------------------------------------

    def _along(self, link: Link, source: Face, target: Face, sign: int) -> Route:
        """Along one channel; `sign` is the direction in it, seen from the source."""
        start, stop = _beside(source.line, sign), _beside(target.line, -sign)
        leg = _leg(source.channel, start, stop, link.source, link.target)
        return Route(link, PathForm.ORTHOGONAL, Port(source, sign), Port(target, -sign), (leg,))

    def _loop(self, link: Link, spot: Spot) -> Route:
        """Back to the same box: left of encoders, right of the last column, above others."""
        if self.grid.columns[spot.column].side is Side.ENCODER or spot.column == 0:
            face = Face(vertical(spot.column), spot.row)
        elif spot.column == len(self.grid.columns) - 1:
            face = Face(vertical(spot.column + 1), spot.row)
        else:
            face = Face(horizontal(spot.row + 1), spot.column)
        return self._along(link, face, face, 1)._replace(form=PathForm.LOOP)

    def _in_row(self, link: Link, source: Spot) -> Route:
        steps = link.target.column - source.column
        beside = abs(steps) == 1
        arched = link.arrow.delay and link.arrow.role is not Role.DECODER_TO_ENCODER
        if (beside or not arched) and not (link.delayed and steps < 0):
            straight = self._straight(link, source)
            if straight:
                return straight
        if link.delayed and beside:
            face = Face(vertical(max(source.column, link.target.column)), source.row)
            if face not in self.bows:  # two would touch
                self.bows.add(face)
                return Route(link, PathForm.BOW, Port(face, -1), Port(face, -1))
        below = link.delayed and (steps < 0 or beside)
        channel = horizontal(source.row if below else source.row + 1)
        ends = Face(channel, source.column), Face(channel, link.target.column)
        return self._along(link, *ends, _sign(steps))

    def _in_column(self, link: Link, source: Spot) -> Route:
        straight = self._straight(link, source)
        if straight:
            return straight
        left = self.grid.columns[source.column].side is Side.ENCODER
        if len(self.grid.columns) == 1:
            left = False  # loops are at the left
        channel = vertical(source.column if left else source.column + 1)
        ends = Face(channel, source.row), Face(channel, link.target.row)
        return self._along(link, *ends, _sign(link.target.row - source.row))

    def _across(self, link: Link, source: Spot) -> Route:
        target = link.target
        steps, rise = target.column - source.column, target.row - source.row
        ahead = vertical(source.column + 1 if steps > 0 else source.column)
        up = _sign(rise)
        if abs(steps) == 1:
            ends = Face(ahead, source.row), Face(ahead, target.row)
            if abs(rise) > 1:
                return self._along(link, *ends, up)
            return Route(link, PathForm.SLANT, Port(ends[0], up), Port(ends[1], -up))
        entry = horizontal(target.row if rise > 0 else target.row + 1)
        if abs(rise) == 1:
            ends = Face(entry, source.column), Face(entry, target.column)
            return self._along(link, *ends, _sign(steps))
        arrival = Port(Face(entry, target.column), -_sign(steps))
        legs = (
            _leg(ahead, _beside(source.row, up), 2 * entry.at, source),
            _leg(entry, 2 * ahead.at, _beside(target.column, arrival.sign), target),
        )
        return Route(link, PathForm.ORTHOGONAL, Port(Face(ahead, source.row), up), arrival, legs)

    def _from_outside(self, link: Link) -> Route:
        target = link.target
        if target.column == 0:
            face = Face(vertical(0), target.row)
            sign = 0 if self._take((), [face]) else 1
            return Route(link, PathForm.STRAIGHT, None, Port(face, sign))
        channel = horizontal(target.row + 1)
        leg = _leg(channel, OUTSIDE, _beside(target.column, -1), target)
        return Route(
            link, PathForm.ORTHOGONAL, None, Port(Face(channel, target.column), -1), (leg,)
        )


# --- lanes ----------------------------------------------------------------------------------------

SOURCE, TARGET = 0, 1
_WHOLE = (-1e9, 1e9)  # a line along a whole channel


class Lane:
    """Legs that follow each other in a channel, and the room that their labels need."""

    def __init__(self, room: float = 0.0) -> None:
        self.room = room
        self._taken: list[tuple[float, float]] = []

    def take(self, start: float, stop: float) -> bool:
        """Reserve an interval if it is free."""
        at = bisect_left(self._taken, (start, stop))
        before = self._taken[at - 1][1] if at else float("-inf")
        after = self._taken[at][0] if at < len(self._taken) else float("inf")
        if before >= start or after <= stop:
            return False
        insort(self._taken, (start, stop))
        return True


class ChannelLanes(NamedTuple):
    """The lanes of one channel, from its lower or left edge on."""

    low: tuple[Lane, ...] = ()  # near the boxes below or left
    middle: tuple[Lane, ...] = ()
    high: tuple[Lane, ...] = ()  # near the boxes above or right

    @property
    def all(self) -> tuple[Lane, ...]:
        return (*self.low, *self.middle, *self.high)


class Lanes(NamedTuple):
    channels: Mapping[Channel, ChannelLanes]
    of_leg: Mapping[tuple[int, int], Lane]  # by indices of route and leg
    slots: Mapping[tuple[int, int], int]  # by index of route, and SOURCE or TARGET
    most_slots: Mapping[Face, int]  # the number of slots in the fuller half of a face
    loops: Mapping[Face, int]  # the number of loops at a face, around its middle
    rules: Mapping[Channel, Sequence[Lane]]  # for lines along the whole channel

    @property
    def faces(self) -> list[Face]:
        return list(dict.fromkeys([*self.most_slots, *self.loops]))


def assign_lanes(
    routes: Sequence[Route], rooms: Mapping[int, float], rules: Iterable[tuple[Channel, float]]
) -> Lanes:
    """Assign each leg the first free lane, short legs first, so that they are near their boxes.

    `rooms`: the room that a route's label needs beside its lane. `rules`: channels with a line
    along their whole length, and the room beside it.
    """
    legs: dict[Channel, list[tuple[float, int, int, Leg]]] = defaultdict(list)
    for index, route in enumerate(routes):
        for number, leg in enumerate(route.legs):
            legs[leg.channel].append((leg.length, index, number, leg))
    full: dict[Channel, list[Lane]] = defaultdict(list)
    for channel, room in rules:
        full[channel].append(Lane(room))
        full[channel][-1].take(*_WHOLE)
    of_leg: dict[tuple[int, int], Lane] = {}
    channels: dict[Channel, ChannelLanes] = {}
    for channel in dict.fromkeys([*legs, *full]):
        groups: dict[int, list[Lane]] = {-1: [], 0: list(full.get(channel, [])), 1: []}
        for _, index, number, leg in sorted(legs[channel]):
            room = rooms.get(index, 0.0) if number == routes[index].longest_leg else 0.0
            of_leg[index, number] = _first_free(groups[leg.near], leg, room)
        groups[1].reverse()
        channels[channel] = ChannelLanes(*(tuple(groups[near]) for near in (-1, 0, 1)))
    return Lanes(channels, of_leg, *_assign_slots(routes), full)


def _first_free(lanes: list[Lane], leg: Leg, room: float) -> Lane:
    for lane in lanes:
        if lane.take(leg.start, leg.stop):
            lane.room = max(lane.room, room)
            return lane
    lane = Lane(room)
    lane.take(leg.start, leg.stop)
    lanes.append(lane)
    return lane


def _assign_slots(
    routes: Sequence[Route],
) -> tuple[dict[tuple[int, int], int], dict[Face, int], dict[Face, int]]:
    """Slots from the corners of a box inwards, short arrows first: long ones enclose them.

    Loops count from the middle of their face outwards, so that all of them have one shape.
    """
    halves: dict[Port, list[tuple[float, int, int]]] = defaultdict(list)
    slots: dict[tuple[int, int], int] = {}
    loops: dict[Face, int] = defaultdict(int)
    for index, route in enumerate(routes):
        if route.form is PathForm.LOOP:
            slots[index, SOURCE] = slots[index, TARGET] = loops[route.target.face]
            loops[route.target.face] += 1
            continue
        length = sum(leg.length for leg in route.legs)
        if route.form is PathForm.SLANT:
            length = -1.0  # it leaves the row immediately, so it starts at the corner
        ends = {SOURCE: route.source, TARGET: route.target}
        if route.form is PathForm.BOW or (route.form is PathForm.STRAIGHT and route.source):
            del ends[SOURCE]  # both ends have the same height
        for end, port in ends.items():
            if port and port.sign:
                halves[port].append((length, index, end))
    most: dict[Face, int] = defaultdict(int)
    for port, ends_here in halves.items():
        for number, (_, index, end) in enumerate(sorted(ends_here)):
            slots[index, end] = number
        most[port.face] = max(most[port.face], len(ends_here))
    return slots, most, loops
