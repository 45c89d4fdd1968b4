"""The boxes: their text (cell, name, shape, parameters, tasks), its size, and their outline.

A `label` in the spec replaces the text for the cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ladderspec.cells import Cell
from ladderspec.drawing.options import View
from ladderspec.drawing.picture import Change, Part, TaskLabel
from ladderspec.drawing.scene import Backdrop, Box, Ink, Pill, Rect, Text
from ladderspec.drawing.style import OTHER_FONTS, PILL_GAP, PILL_SIZE, Sizes, Theme
from ladderspec.drawing.typesetting import (
    ASCENT,
    DESCENT,
    DOT,
    TIMES,
    Runs,
    formula,
    height_of_runs,
    joined,
    plain,
    width_of_runs,
)
from ladderspec.names import Shape, split_node
from ladderspec.wiring.table import noise_text, options_of, window_of

# --- text -----------------------------------------------------------------------------------------


def heading(part: Part, labels: frozenset[str]) -> Runs:
    """The first line, in bold."""
    copies = f"{len(part.members)} {TIMES} " if part.members else ""
    if "cell" in labels:
        if part.cell.label:
            return joined(plain(copies, "bold"), formula(part.cell.label, "bold"))
        if part.is_further_input:
            return plain(split_node(part.name)[1], "bold")
        if part.symbol:
            made_by = "" if part.cell.cell == "Input" else f": {cell_text(part.cell, part.shape)}"
            return (*formula(part.symbol), *plain(made_by, "bold"))
        return plain(copies + cell_text(part.cell, part.shape), "bold")
    return plain(copies + part.name, "bold") if "name" in labels else ()


def headings(part: Part, labels: frozenset[str], sizes: Sizes) -> list[Runs]:
    """The first lines: of a group, its cells in the order in which they run."""
    full = [_member_text(each, cell_text(each.cell)) for each in part.members]
    if "cell" not in labels or len(set(full)) <= 1:
        return [heading(part, labels)]
    lines = _wrapped(_counted(full), sizes)
    if len(lines) <= _MOST_LINES:
        return lines
    return _wrapped(_counted([_member_text(m, str(m.cell.cell)) for m in part.members]), sizes)


_MOST_LINES = 2  # of a group, before filters are left out


def _member_text(part: Part, name: str) -> Runs:
    if part.cell.label:
        return formula(part.cell.label, "bold")
    return plain("Pool" if part.cell.cell == "Pool" else name, "bold")


def _counted(items: Iterable[Runs]) -> list[Runs]:
    """Equal neighbours once, with their number."""
    found = [(item, len(list(same))) for item, same in groupby(items)]
    return [joined(plain(f"{n} {TIMES} " if n > 1 else "", "bold"), item) for item, n in found]


def _wrapped(items: Sequence[Runs], sizes: Sizes) -> list[Runs]:
    """Items separated by commas, in lines as wide as `sizes.wrap` if possible."""
    lines: list[Runs] = []
    comma = plain(", ", "bold")
    for item in items:
        longer = joined(lines[-1], comma, item) if lines else item
        if lines and width_of_runs(longer, sizes.heading) <= sizes.wrap:
            lines[-1] = longer
        else:
            lines[-1:] = [joined(line, plain(",", "bold")) for line in lines[-1:]]
            lines.append(item)
    return lines


def small_lines(part: Part, labels: frozenset[str]) -> list[Runs]:
    """The lines below the heading."""
    shared = plain(f"weights of {part.cell.share}") if part.cell.share and "cell" in labels else ()
    lines = details(part, labels), shared, options(part, labels)
    return [line for line in lines if line]


def details(part: Part, labels: frozenset[str]) -> Runs:
    """The second line: name, shape, parameters."""
    found = []
    if "name" in labels and "cell" in labels:
        found.append(part.name)
    if "shape" in labels and part.shape is not None:
        found.append(f"K {TIMES} " * part.for_each_group + shape_text(part.shape))
    if "params" in labels and part.parameters:
        found.append(count_text(part.parameters))
    return plain(f" {DOT} ".join(found))


def options(part: Part, labels: frozenset[str]) -> Runs:
    """The last line: what differs from the defaults; of a group, what all its cells share."""
    first, *others = [_options(each.cell) for each in part.members or (part,)]
    shared = [each for each in first if all(each in other for other in others)]
    return plain(f" {DOT} ".join(shared)) if "cell" in labels else ()


def _options(cell: Any) -> list[str]:
    found = options_of(cell) if isinstance(cell, Cell) else []
    if cell.cell == "Input":
        found += ["constant"] if getattr(cell, "per", None) == "sequence" else []
        found += [f"until {cell.until}"] if cell.until else []
    return found


def difference(part: Part, labels: frozenset[str]) -> Runs:
    """A further line, if a variant changed the part: what it was before."""
    if part.change is Change.ADDED and labels:
        return plain("new")
    if part.change is not Change.CHANGED or part.before is None or not labels:
        return ()
    before = part.before
    old, new = (cell_text(each.cell, each.shape) for each in (before, part))
    was = [old] if old != new else []
    if before.shape != part.shape and before.shape is not None:
        was.append(shape_text(before.shape))
    if before.parameters != part.parameters and "params" in labels:
        was.append(count_text(before.parameters))
    was = was or list(_old_fields(before.cell, part.cell))
    return plain("was " + f" {DOT} ".join(was))


def _old_fields(old: Any, new: Any) -> Iterator[str]:
    """The old values of the fields in which two cells differ; of long ones, only the name."""
    before, after = old.model_dump(), new.model_dump()
    for key, value in before.items():
        if value == after.get(key):
            continue
        if key == "noise":
            yield noise_text(old) or "without noise"
        elif value is None:
            yield f"no {key}"
        else:
            yield f"{key} {value}" if isinstance(value, str | int | float) else f"another {key}"


def cell_text(cell: Any, shape: Shape | None = None) -> str:
    """The cell with its filter and stride, as in the paper's tables."""
    name = str(cell.cell)
    if name == "Pool":
        name = {"max": "MaxPool", "average": "AvgPool"}[cell.mode]
    window = window_of(cell, shape)
    stride: Any = getattr(cell, "stride", None)
    if window == "global":
        return f"global {name}"
    if cell.cell == "Pool":
        stride = stride or window
    if _is_pair(window):
        name += f" {window[0]}{TIMES}{window[1]}"
    if _is_pair(stride) and stride != (1, 1):
        name += f" /{stride[0]}" if stride[0] == stride[1] else f" /{stride[0]}{TIMES}{stride[1]}"
    return name


def _is_pair(field: Any) -> bool:
    """Whether it is a size: a user's cell may define `filter` and `stride` differently."""
    return isinstance(field, tuple) and [type(each) for each in field] == [int, int]


def shape_text(shape: Shape) -> str:
    return TIMES.join(map(str, shape))


def count_text(count: int) -> str:
    """
    >>> [count_text(n) for n in (180, 9280, 75392, 999_960, 1_071_104, 21_953_436)]
    ['180', '9.3k', '75.4k', '1.0M', '1.1M', '22.0M']
    """
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1e3:.1f}k"
    return f"{count / 1e6:.1f}M" if count < 999_950_000 else f"{count / 1e9:.1f}G"


# --- content with its size ------------------------------------------------------------------------

_PILL_MARGIN = 4.0  # left and right of a pill
_LEADING = 1.22  # from one base line to the next, relative to the font size


class BoxLine(NamedTuple):
    runs: Runs
    size: float
    faint: bool

    @property
    def script_extent(self) -> tuple[float, float]:
        """Additional height for superscripts and for subscripts, relative to the font size."""
        above, below = height_of_runs(self.runs)
        return above - ASCENT, below - DESCENT

    @property
    def height(self) -> float:
        above, below = self.script_extent
        return self.size * (_LEADING + above + below)


class Content(NamedTuple):
    """The lines and tasks of a box that has no position yet."""

    lines: tuple[BoxLine, ...] = ()
    tasks: tuple[TaskLabel, ...] = ()
    sizes: Sizes = Sizes()

    @property
    def width(self) -> float:
        lines = [_room(width_of_runs(line.runs, line.size), self.sizes.pad) for line in self.lines]
        pills = [_pill_size(task, self.sizes)[0] + 2 * _PILL_MARGIN for task in self.tasks]
        return max([*lines, *pills], default=0.0)

    @property
    def inner_height(self) -> float:
        lines = sum(line.height for line in self.lines)
        return lines + sum(_pill_size(task, self.sizes)[1] + PILL_GAP for task in self.tasks)

    @property
    def height(self) -> float:
        return self.inner_height + 2 * self.sizes.pad_y


def content_of(part: Part, view: View, sizes: Sizes, last: bool) -> Content:
    """`last`: in the last iteration shown, which some tasks read exclusively."""
    if view.mini:
        symbol = formula(part.symbol) if part.symbol else ()
        symbol = plain(split_node(part.name)[1]) if part.is_further_input else symbol
        symbol = symbol if view.labels else ()
        symbol = plain("\u22ee", "serif") if part.members else symbol  # it goes on
        return Content((BoxLine(symbol, sizes.label, False),) if symbol else (), sizes=sizes)
    small = [*small_lines(part, view.labels), difference(part, view.labels)]
    lines = [
        *(BoxLine(runs, sizes.heading, False) for runs in headings(part, view.labels, sizes)),
        *(BoxLine(runs, sizes.detail, True) for runs in small),
    ]
    tasks = tuple(task for task in part.tasks if last or not task.only_last)
    shown = tuple(line for line in lines if line.runs)
    return Content(shown, tasks if view.labels else (), sizes)


def _room(width: float, pad: float) -> float:
    """For a text with its padding, or for the same text in a wider font."""
    return max(width + 2 * pad, width * OTHER_FONTS + 4)


def _pill_lines(task: TaskLabel, sizes: Sizes) -> list[Runs]:
    """A task that is too wide for one line is broken behind its name."""
    name, colon, cost = task.text.partition(": ")
    if not colon or width_of_runs(plain(task.text), PILL_SIZE) <= sizes.wrap:
        return [plain(task.text)]
    return [plain(f"{name}:"), plain(cost)]


def _pill_size(task: TaskLabel, sizes: Sizes) -> tuple[float, float]:
    lines = _pill_lines(task, sizes)
    widest = max(width_of_runs(line, PILL_SIZE) for line in lines)
    return _room(widest, 4.0), len(lines) * PILL_SIZE * 1.15 + 2.5


# --- boxes ----------------------------------------------------------------------------------------

LINE, STATEFUL = 1.0, 2.2  # widths of outlines


def box_of(
    part: Part, content: Content, rect: Rect, iteration: int, theme: Theme, sizes: Sizes
) -> Box:
    """A box with its content in the middle."""
    removed = part.change is Change.REMOVED
    x, top = rect.centre[0], rect.centre[1] - content.inner_height / 2
    texts = []
    for line in content.lines:
        colour = theme.removed.colour if removed else theme.faint if line.faint else theme.text
        above, below = (line.size * extent for extent in line.script_extent)
        base = top + above + (line.height - above - below + line.size * (ASCENT - 0.12)) / 2
        texts.append(Text(x, base, line.size, line.runs, colour))
        top += line.height
    pills = []
    for task in content.tasks:
        top += PILL_GAP
        pills.append(_pill(task, x, top, theme, sizes))
        top = pills[-1].rect.bottom
    fill = theme.sides[part.side].fill if sizes.filled and not removed else theme.background
    ink = outline(part, theme, sizes.filled)
    return Box(rect, ink, fill, part.name, iteration, tuple(texts), tuple(pills), sizes.radius)


def _pill(task: TaskLabel, x: float, top: float, theme: Theme, sizes: Sizes) -> Pill:
    width, height = _pill_size(task, sizes)
    removed = task.change is Change.REMOVED
    colour = theme.removed.colour if removed else theme.text
    lines = _pill_lines(task, sizes)
    bases = [top + height * (i + 0.5) / len(lines) + PILL_SIZE * 0.35 for i in range(len(lines))]
    fill = theme.changed if task.change is Change.ADDED else theme.task.fill
    return Pill(
        rect=Rect(x - width / 2, top, width, height),
        ink=theme.removed if removed else Ink(theme.task.line, 0.7),
        fill=theme.background if removed else fill,
        texts=tuple(
            Text(x, base, PILL_SIZE, line, colour, struck=removed)
            for base, line in zip(bases, lines, strict=True)
        ),
    )


def outline(part: Part, theme: Theme, show_state: bool = True) -> Ink:
    """Cells with a state have a thick line."""
    if part.members and not show_state:
        return Ink(theme.background, 0.1)  # a stub
    if part.change is Change.REMOVED:
        return theme.removed
    colour = theme.sides[part.side].line
    return Ink(colour, STATEFUL if show_state and is_stateful(part) else LINE)


def is_stateful(part: Part) -> bool:
    return any(getattr(each.cell, "stateful", False) for each in part.members or (part,))


HALO = 3.5  # around a box that a variant changed


def halo_of(part: Part, box: Box, theme: Theme) -> Backdrop | None:
    """The mark of a box that a variant changed or added."""
    if part.change not in (Change.CHANGED, Change.ADDED):
        return None
    return Backdrop(box.rect.grown(HALO), None, theme.changed, box.radius + HALO)
