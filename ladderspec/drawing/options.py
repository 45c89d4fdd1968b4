"""The options of a drawing: their types, their checks, and the `View` that they select."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, get_type_hints

from ladderspec.arguments import check_type
from ladderspec.drawing.picture import Picture
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.wiring.graph import Graph, steps_of

KINDS = ("unrolled", "rolled", "mini")
LABELS = ("cell", "shape", "params", "name", "none")
DEFAULT_LABELS = frozenset({"cell", "shape", "params"})
LEVELS = ("names", "numbers", "index", "none")
LAYOUTS = ("ladder", "dot")
MAX_ITERATIONS = 64  # more cannot be read
DPI = 144


class Options(TypedDict, total=False):
    """Options of every drawing function.

    Attributes:
        view: `unrolled` (default), `rolled` or `mini`.
        iterations: The number of iterations side by side in the unrolled view. Default: two, or
            one if nothing is delayed.
        fold: Draw identical rows as one.
        group: Draw neighbouring rows without delayed arrows as one.
        show: Levels that keep a row; the rows between them become one.
        base: A spec or graph: show what was removed from it and added to it.
        plan: Shade the phases of the plan, or of a mapping of nodes to `once` or `loop`.
        labels: Text in boxes: `cell`, `shape`, `params` and `name`, or `none`.
        levels: Labels of levels at the left: `names`, `numbers`, `index` (l-1, l, l+1) or `none`.
        theme: `paper` (default), `mono`, `safe` or `dark`.
        title: Title above the drawing; an empty text removes it. Default: with `base`, the titles
            of both networks.
        legend: Whether there is a legend. Default: in all views except mini.
        plates: Frames around neighbouring levels, by label: `{"K": ["lstm1", "conv_*"]}`.
        start: Start at the first iteration, with initial values.
        width: Maximum width on paper, like `"8.5cm"`, or in points. Gaps shrink before words do.
        height: Maximum height on paper.
        worth: Worth of arrows by selector, which their line widths show: `{"lateral": 0.5}`.
        worth_of: Name of the worth in the legend: `"rise of the error without it, %"`.
        layout: Placement of boxes: `ladder` (default), or `dot` by Graphviz.
        beside: Specs or graphs to draw at the right, in the same figure.
        variants: Specs or graphs by name, to choose from in a page.
        dpi: Resolution of png files in dots per inch. Default: 144.
    """

    view: str
    iterations: int | None
    fold: bool
    group: bool
    show: str | Iterable[str] | None
    base: Any
    plan: bool | Mapping[str, str]
    labels: str | Iterable[str]
    levels: str
    theme: str
    title: str | None
    legend: bool | None
    plates: Mapping[str, Sequence[str]] | None
    start: bool
    width: str | float | None
    height: str | float | None
    worth: Mapping[str, float] | None
    worth_of: str
    layout: str
    beside: Sequence[Any] | None
    variants: Mapping[str, Any] | None
    dpi: int


class View(NamedTuple):
    """The checked options of one scene; the fields are documented in `Options`."""

    kind: str = "unrolled"
    iterations: int | None = None
    fold: bool = False
    group: bool = False
    show: tuple[str, ...] | None = None
    labels: frozenset[str] = DEFAULT_LABELS
    levels: str = "names"
    theme: str = "paper"
    title: str | None = None
    legend: bool | None = None
    plates: Mapping[str, Sequence[str]] | None = None
    start: bool = False
    width: float | None = None  # in points
    height: float | None = None
    worth_of: str = "worth"

    @property
    def rolled(self) -> bool:
        return self.kind == "rolled"

    @property
    def mini(self) -> bool:
        return self.kind == "mini"

    @property
    def compact(self) -> bool:
        """Whether it must fit a given size on paper."""
        return bool(self.width or self.height) and not self.mini


def check_choice(kind: str, name: str, known: Iterable[str], prefix: str = "") -> None:
    """Raise a UsageError with a hint unless `name` is among the `known` ones."""
    known = list(known)
    if name not in known:
        hint = did_you_mean(name, known) or f"there are {one_of(known)}"
        raise UsageError(f"{prefix}no {kind} `{name}`: {hint}")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown options and values of the wrong type."""
    hints = get_type_hints(Options)
    for name, value in options.items():
        check_choice("option", name, Options.__annotations__)
        check_type(name, value, hints[name])
    for label, levels in (options.get("plates") or {}).items():
        if isinstance(levels, str) or not isinstance(levels, Iterable):
            raise UsageError(f"plate `{label}`: {levels!r} is not a list of levels")
    check_choice("layout", options.get("layout", "ladder"), LAYOUTS)
    if not 20 <= options.get("dpi", DPI) <= 2400:
        raise UsageError(f"no dpi `{options['dpi']}`: 20 to 2400 dots per inch")


def view_of(options: Mapping[str, Any]) -> View:
    chosen = {name: options[name] for name in View._fields if name in options}
    chosen["kind"] = options.get("view", "unrolled")
    chosen["labels"] = parse_labels(options.get("labels", DEFAULT_LABELS))
    for side in ("width", "height"):
        chosen[side] = parse_length(options.get(side), side)
    show = options.get("show")
    if show is not None:
        names = show.replace(",", " ").split() if isinstance(show, str) else show
        chosen["show"] = tuple(names)
    view = View(**chosen)
    check_choice("view", view.kind, KINDS)
    check_choice("levels", view.levels, LEVELS)
    ignored = {
        "iterations": ("a rolled view shows one iteration", view.rolled and view.iterations),
        "start": ("a rolled view has no first iteration", view.rolled and view.start),
        "labels": (
            "a mini view has letters in its boxes",
            view.mini and view.labels not in (DEFAULT_LABELS, frozenset()),
        ),
        "levels": ("a mini view has no numbers of levels", view.mini and view.levels == "numbers"),
    }
    for option, (reason, is_ignored) in ignored.items():
        if is_ignored:
            raise UsageError(f"{reason}: omit `{option}`")
    if view.iterations is not None and not 1 <= view.iterations <= MAX_ITERATIONS:
        raise UsageError(f"cannot draw {view.iterations} iterations: choose 1 to {MAX_ITERATIONS}")
    return view


def parse_labels(labels: str | Iterable[str]) -> frozenset[str]:
    """
    >>> sorted(parse_labels("cell,shape"))
    ['cell', 'shape']
    """
    chosen = frozenset(labels.replace(",", " ").split() if isinstance(labels, str) else labels)
    for label in sorted(chosen):
        check_choice("label", label, LABELS)
    if "none" in chosen and len(chosen) > 1:
        raise UsageError("labels: `none` cannot be combined with other labels")
    return chosen - {"none"}


_UNITS = {"pt": 1.0, "cm": 72 / 2.54, "mm": 7.2 / 2.54, "in": 72.0}
_LENGTH = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(pt|cm|mm|in)\s*")
_SHORTEST, _LONGEST = 36.0, 7200.0


def parse_length(length: str | float | None, kind: str = "width") -> float | None:
    """A length on paper in points.

    >>> parse_length("1in"), parse_length(" 2.54 cm "), parse_length(240), parse_length(None)
    (72.0, 72.0, 240.0, None)
    """
    if length is None:
        return None
    found = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    points = float(found[1]) * _UNITS[found[2]] if found else length
    if not isinstance(points, int | float) or not _SHORTEST <= points <= _LONGEST:
        raise UsageError(
            f"no {kind} `{length}`: expected a length from 36pt to 7200pt, like 8.5cm, 85mm, 3.3in"
            " or 240pt"
        )
    return float(points)


# --- iterations -----------------------------------------------------------------------------------


def check_length(view: View, graph: Graph) -> None:
    """Refuse to draw more iterations than the spec has."""
    length = steps_of(graph)
    if length and (view.iterations or 1) > length:
        many = "one iteration" if length == 1 else f"{length} iterations"
        raise UsageError(f"cannot draw {view.iterations} iterations: this spec has {many} (`time`)")


def iterations_shown(view: View, picture: Picture) -> int:
    """The number of iterations side by side."""
    if view.rolled:
        return 1
    if view.start and not picture.has_delays:
        raise UsageError("no arrow is delayed, so there are no initial values to draw")
    return view.iterations or (2 if picture.has_delays else 1)
