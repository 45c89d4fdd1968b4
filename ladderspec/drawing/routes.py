"""Link -> route: past which boxes an arrow goes, before anything has a size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ladderspec.drawing.sheet import Link, Sheet, Spot
from ladderspec.drawing.ways import (
    OUTSIDE,
    Face,
    Form,
    Gutter,
    Port,
    Route,
    Stretch,
    horizontal,
    vertical,
)
from ladderspec.names import Role, Side

# Arrows of the plain ladder choose their way before all others.
_FIRST = [Role.ENCODER, Role.LATERAL, Role.DECODER, Role.DECODER_TO_ENCODER, Role.STATE]


def find_routes(sheet: Sheet) -> list[Route]:
    """A route for every link, in the order of the links."""
    router = _Router(sheet)
    rank = {role: index for index, role in enumerate(_FIRST)}
    order = sorted(
        range(len(sheet.links)), key=lambda i: rank.get(sheet.links[i].arrow.role, len(rank))
    )
    found = {index: router.route(sheet.links[index]) for index in order}
    return [found[index] for index in range(len(sheet.links))]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _half(lane: int, sign: int) -> float:
    return 2 * lane + 1 + 0.25 * sign


def _stretch(gutter: Gutter, start: float, stop: float, near: int) -> Stretch:
    return Stretch(gutter, min(start, stop), max(start, stop), near)


class _Router:
    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.taken: set[Face] = set()  # faces whose middle an arrow goes through
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

    # --- straight ways ---------------------------------------------------------------------------

    def _take(self, spots: Iterable[Spot], faces: Sequence[Face]) -> bool:
        """Go straight through, if all of it is free."""
        if any(spot in self.sheet.parts for spot in spots) or self.taken.intersection(faces):
            return False
        self.taken.update(faces)
        return True

    def _straight_in_row(self, link: Link, source: Spot) -> Route | None:
        low, high = sorted((source.column, link.target.column))
        spots = [Spot(column, source.row) for column in range(low + 1, high)]
        faces = [Face(vertical(index), source.row) for index in range(low + 1, high + 1)]
        if not self._take(spots, faces):
            return None
        ends = faces if source.column < link.target.column else faces[::-1]
        return Route(link, Form.STRAIGHT, Port(ends[0], 0), Port(ends[-1], 0))

    def _straight_in_column(self, link: Link, source: Spot) -> Route | None:
        low, high = sorted((source.row, link.target.row))
        spots = [Spot(source.column, row) for row in range(low + 1, high)]
        faces = [Face(horizontal(index), source.column) for index in range(low + 1, high + 1)]
        if not self._take(spots, faces):
            return None
        ends = faces if source.row < link.target.row else faces[::-1]
        return Route(link, Form.STRAIGHT, Port(ends[0], 0), Port(ends[-1], 0))

    def _elbow(self, link: Link, source: Spot) -> Route | None:
        """From an encoder without a decoder beside it: over, and down into the decoder below."""
        target = link.target
        if link.arrow.role is not Role.DECODER or source.row != target.row + 1:
            return None
        if source.column > target.column:
            return None
        columns = range(source.column + 1, target.column + 1)
        spots = [Spot(column, source.row) for column in columns]
        faces = [Face(vertical(column), source.row) for column in columns]
        entry = Face(horizontal(source.row), target.column)
        if not self._take(spots, [*faces, entry]):
            return None
        return Route(link, Form.ELBOW, Port(faces[0], 0), Port(entry, 0))

    # --- ways around -----------------------------------------------------------------------------

    def _loop(self, link: Link, spot: Spot) -> Route:
        """Back to the same box: beside the outer columns, over the top of inner ones."""
        last = len(self.sheet.columns) - 1
        if 0 < spot.column < last:
            gutter = horizontal(spot.row + 1)
            return self._by_one(link, Face(gutter, spot.column), Face(gutter, spot.column), 1)
        gutter = vertical(spot.column if spot.column == 0 else spot.column + 1)
        return self._by_one(link, Face(gutter, spot.row), Face(gutter, spot.row), 1)

    def _by_one(self, link: Link, source: Face, target: Face, sign: int) -> Route:
        """Through one gutter; `sign` is the direction in it, seen from the source."""
        gutter = source.gutter
        stretch = _stretch(
            gutter,
            _half(source.lane, sign),
            _half(target.lane, -sign),
            self._near(gutter, link.source, link.target),
        )
        ports = Port(source, sign), Port(target, -sign)
        return Route(link, Form.STRETCHES, *ports, (stretch,))

    def _near(self, gutter: Gutter, *spots: Spot | None) -> int:
        """The boxes that a stretch serves: below or left (-1), above or right (+1), both (0)."""
        lanes = [spot.row if gutter.axis == "H" else spot.column for spot in spots if spot]
        if all(lane < gutter.at for lane in lanes):
            return -1
        return 1 if all(lane >= gutter.at for lane in lanes) else 0

    def _in_row(self, link: Link, source: Spot) -> Route:
        steps = link.target.column - source.column
        beside = abs(steps) == 1
        if (beside or not link.arrow.delay) and not (link.delayed and steps < 0):
            straight = self._straight_in_row(link, source)
            if straight:
                return straight
        if link.delayed and beside:
            face = Face(vertical(max(source.column, link.target.column)), source.row)
            if face not in self.bows:  # two would touch
                self.bows.add(face)
                return Route(link, Form.BOW, Port(face, -1), Port(face, -1))
        below = link.delayed and (steps < 0 or beside)
        gutter = horizontal(source.row if below else source.row + 1)
        ends = Face(gutter, source.column), Face(gutter, link.target.column)
        return self._by_one(link, *ends, _sign(steps))

    def _in_column(self, link: Link, source: Spot) -> Route:
        straight = self._straight_in_column(link, source)
        if straight:
            return straight
        left = self.sheet.columns[source.column].side is Side.ENCODER
        if len(self.sheet.columns) == 1:
            left = False  # left are the loops
        gutter = vertical(source.column if left else source.column + 1)
        ends = Face(gutter, source.row), Face(gutter, link.target.row)
        return self._by_one(link, *ends, _sign(link.target.row - source.row))

    def _across(self, link: Link, source: Spot) -> Route:
        target = link.target
        steps, rise = target.column - source.column, target.row - source.row
        ahead = vertical(source.column + 1 if steps > 0 else source.column)
        up = _sign(rise)
        if abs(steps) == 1:
            ends = Face(ahead, source.row), Face(ahead, target.row)
            if abs(rise) > 1:
                return self._by_one(link, *ends, up)
            return Route(link, Form.SLANT, Port(ends[0], up), Port(ends[1], -up))
        entry = horizontal(target.row if rise > 0 else target.row + 1)
        if abs(rise) == 1:
            ends = Face(entry, source.column), Face(entry, target.column)
            return self._by_one(link, *ends, _sign(steps))
        arrival = Port(Face(entry, target.column), -_sign(steps))
        stretches = (
            _stretch(
                ahead, _half(source.row, up), 2 * entry.at, self._near(ahead, source)
            ),
            _stretch(
                entry,
                2 * ahead.at,
                _half(target.column, arrival.sign),
                self._near(entry, target),
            ),
        )  # fmt: skip
        return Route(link, Form.STRETCHES, Port(Face(ahead, source.row), up), arrival, stretches)

    def _from_outside(self, link: Link) -> Route:
        target = link.target
        if target.column == 0:
            face = Face(vertical(0), target.row)
            sign = 0 if self._take((), [face]) else 1
            return Route(link, Form.STRAIGHT, None, Port(face, sign))
        gutter = horizontal(target.row + 1)
        arrival = Port(Face(gutter, target.column), -1)
        stretch = _stretch(gutter, OUTSIDE, _half(target.column, -1), self._near(gutter, target))
        return Route(link, Form.STRETCHES, None, arrival, (stretch,))
