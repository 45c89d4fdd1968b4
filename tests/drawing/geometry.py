"""Checks of a scene by geometry: boxes against wires and texts, arrowheads against boxes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from math import floor

from ladderspec.drawing.scene import Box, Point, Rect, Scene, Text, Wire

TOUCH = 0.6  # how close counts as meeting, in points
_CELL = 60.0


def problems(scene: Scene) -> list[str]:
    """All geometric errors of a scene; none if it is correct."""
    return [
        *_ends(scene),
        *_wires_through_boxes(scene),
        *_shared_lines(scene),
        *_texts_outside_boxes(scene),
        *_overlapping_texts(scene),
        *_squares(scene),
        *_off_the_sheet(scene),
    ]


def struck_labels(scene: Scene) -> list[str]:
    """Labels crossed by an arrow, a plate or the line between iterations."""
    index = Index()
    for wire in scene.wires:
        for piece in pairwise(flat(wire)):
            index.add(_around(*piece), piece)
    for rule in scene.rules:
        index.add(_around(rule.start, rule.end), (rule.start, rule.end))
    for panel in scene.panels:
        (x, y, _, _), right, bottom = panel.rect, panel.rect.right, panel.rect.bottom
        corners = [(x, y), (right, y), (right, bottom), (x, bottom), (x, y)]
        if panel.fill is None:
            for edge in pairwise(corners):
                index.add(_around(*edge), edge)
    found = []
    for text in scene.labels():
        rect = shrink(text.rect, 0.5)
        if any(_cuts(rect, *piece) for piece in index.near(rect)):
            found.append(f"a line through `{show(text)}`")
    return found


# --- rules ----------------------------------------------------------------------------------------


def _ends(scene: Scene) -> Iterator[str]:
    """Arrows start at the edge of their source and their heads meet the edge of their target."""
    at = {(box.node, box.iteration): box for box in scene.boxes}
    for wire in scene.wires:
        target = at[wire.target, wire.iteration]
        if _from_edge(wire.tip, target.rect) > TOUCH:
            yield f"the head of {name(wire)} does not meet {wire.target}"
        foot = wire.segments[-1][-2:]
        if _inside(shrink(target.rect, TOUCH), foot):
            yield f"the head of {name(wire)} lies inside {wire.target}"
        if not wire.from_outside:
            rolled = len({box.iteration for box in scene.boxes}) == 1 and wire.mark is not None
            before = wire.iteration - (0 if rolled else wire.delay)
            if _from_edge(wire.start, at[wire.source, before].rect) > TOUCH:
                yield f"{name(wire)} does not start at {wire.source}"


def _wires_through_boxes(scene: Scene) -> Iterator[str]:
    index = Index()
    for box in scene.boxes:
        index.add(box.rect, box)
    for wire in scene.wires:
        hit: set[str] = set()
        for a, b in pairwise(flat(wire)):
            for box in index.near(_around(a, b)):
                if _cuts(shrink(box.rect, TOUCH), a, b):
                    hit.add(box.node)
        yield from (f"{name(wire)} crosses {node}" for node in sorted(hit))


def _shared_lines(scene: Scene) -> Iterator[str]:
    """No two arrows run on one line, nor on the line between iterations."""
    lines: dict[tuple[str, int], list[tuple[float, float, str]]] = defaultdict(list)
    for wire in scene.wires:
        for a, b in pairwise(flat(wire)):
            _collect(lines, a, b, name(wire))
    for rule in scene.rules:
        _collect(lines, rule.start, rule.end, "the line between iterations")
    for (axis, at), pieces in lines.items():
        furthest, whose = float("-inf"), ""
        for start, stop, who in sorted(pieces):
            if furthest - start > 1.0 and who != whose:
                yield f"{who} and {whose} share a line at {axis} = {at / 10}"
            if stop > furthest:
                furthest, whose = stop, who


def _collect(
    lines: dict[tuple[str, int], list[tuple[float, float, str]]], a: Point, b: Point, who: str
) -> None:
    if abs(a[0] - b[0]) < 0.01:
        lines["x", round(a[0] * 10)].append((*sorted((a[1], b[1])), who))  # type: ignore[arg-type]
    elif abs(a[1] - b[1]) < 0.01:
        lines["y", round(a[1] * 10)].append((*sorted((a[0], b[0])), who))  # type: ignore[arg-type]


def _texts_outside_boxes(scene: Scene) -> Iterator[str]:
    """Texts of a box are inside it, all others outside all boxes."""
    index = Index()
    for box in scene.boxes:
        index.add(box.rect, box)
        for text in box.all_texts:
            if not _holds(box.rect, text.rect):
                yield f"`{show(text)}` overflows {box.node}"
        yield from _crowded(box)
    for text in scene.labels():
        for box in index.near(text.rect):
            if _overlap(text.rect, box.rect):
                yield f"`{show(text)}` lies on {box.node}"


def _crowded(box: Box) -> Iterator[str]:
    for one, two in combinations(box.all_texts, 2):
        if _overlap(shrink(one.rect, 0.3), shrink(two.rect, 0.3)):
            yield f"`{show(one)}` and `{show(two)}` overlap in {box.node}"


def _overlapping_texts(scene: Scene) -> Iterator[str]:
    index = Index()
    for text in scene.labels():
        rect = shrink(text.rect, 0.1)
        for other in index.near(rect):
            if _overlap(rect, shrink(other.rect, 0.1)):
                yield f"`{show(text)}` and `{show(other)}` overlap"
        index.add(text.rect, text)


def _squares(scene: Scene) -> Iterator[str]:
    """Squares are apart, clear of boxes, and have their numbers beside them."""
    index = Index()
    for box in scene.boxes:
        index.add(box.rect, box.rect)
    for wire in scene.wires:
        if not wire.mark:
            continue
        rect = wire.mark.rect
        if any(_overlap(rect, other) for other in index.near(rect)):
            yield f"the square of {name(wire)} lies on something"
        index.add(rect, rect)
        number = wire.mark.label
        if (wire.delay > 1) != (number is not None):
            yield f"the square of {name(wire)} has the number {number and show(number)}"
        if number and not _overlap(number.rect, grow(rect, 3)):
            yield f"the number of {name(wire)} is far from its square"


def _off_the_sheet(scene: Scene) -> Iterator[str]:
    sheet = Rect(0, 0, scene.width, scene.height)
    for text in scene.labels():
        if not _holds(sheet, text.rect):
            yield f"`{show(text)}` lies off the sheet"
    for wire in scene.wires:
        if not all(_inside(sheet, point) for point in flat(wire)):
            yield f"{name(wire)} leaves the sheet"
    for box in scene.boxes:
        if not _holds(sheet, box.rect):
            yield f"{box.node} lies off the sheet"
    for panel in scene.panels:
        if not _holds(sheet, panel.rect):
            yield "a panel lies off the sheet"


# --- geometry -------------------------------------------------------------------------------------


class Index:
    """A spatial index."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[object]] = defaultdict(list)

    def add(self, rect: Rect, thing: object) -> None:
        for cell in _cells(rect):
            self._cells[cell].append(thing)

    def near(self, rect: Rect) -> Iterable[object]:
        return {id(thing): thing for cell in _cells(rect) for thing in self._cells[cell]}.values()


def _cells(rect: Rect) -> Iterator[tuple[int, int]]:
    for i in range(floor(rect.x / _CELL), floor(rect.right / _CELL) + 1):
        for j in range(floor(rect.y / _CELL), floor(rect.bottom / _CELL) + 1):
            yield i, j


def flat(wire: Wire, pieces: int = 8) -> list[Point]:
    """The line of a wire as points, from its start to its tip."""
    points = [wire.start]
    for segment in wire.segments:
        if len(segment) == 2:
            points.append((segment[0], segment[1]))
        else:
            a, (b, c, d) = points[-1], (segment[0:2], segment[2:4], segment[4:6])
            for k in range(1, pieces + 1):
                t, u = k / pieces, 1 - k / pieces
                points.append(
                    tuple(
                        u**3 * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t**3 * d[i]
                        for i in (0, 1)
                    )  # type: ignore[arg-type]
                )
    return [*points, wire.tip]


def _around(a: Point, b: Point) -> Rect:
    x, y = min(a[0], b[0]), min(a[1], b[1])
    return Rect(x, y, abs(a[0] - b[0]), abs(a[1] - b[1]))


def shrink(rect: Rect, by: float) -> Rect:
    return Rect(rect.x + by, rect.y + by, rect.width - 2 * by, rect.height - 2 * by)


def grow(rect: Rect, by: float) -> Rect:
    return shrink(rect, -by)


def _inside(rect: Rect, point: Point) -> bool:
    return rect.x <= point[0] <= rect.right and rect.y <= point[1] <= rect.bottom


def _holds(rect: Rect, other: Rect) -> bool:
    return _inside(rect, (other.x, other.y)) and _inside(rect, (other.right, other.bottom))


def _overlap(one: Rect, two: Rect) -> bool:
    return one.x < two.right and two.x < one.right and one.y < two.bottom and two.y < one.bottom


def _from_edge(point: Point, rect: Rect) -> float:
    """The distance of a point from the outline of a rectangle."""
    x, y = point
    outside = max(rect.x - x, x - rect.right, rect.y - y, y - rect.bottom)
    if outside > 0:
        return outside
    return min(x - rect.x, rect.right - x, y - rect.y, rect.bottom - y)


def _cuts(rect: Rect, a: Point, b: Point) -> bool:
    """Whether a line crosses a rectangle."""
    low, high = 0.0, 1.0
    for i, near, far in ((0, rect.x, rect.right), (1, rect.y, rect.bottom)):
        step = b[i] - a[i]
        if step == 0:
            if not near < a[i] < far:
                return False
            continue
        first, second = sorted(((near - a[i]) / step, (far - a[i]) / step))
        low, high = max(low, first), min(high, second)
    return low < high


def name(wire: Wire) -> str:
    return f"{wire.source}(t-{wire.delay}) -> {wire.target}@{wire.iteration}"


def show(text: Text) -> str:
    return "".join(run.text for run in text.runs)
