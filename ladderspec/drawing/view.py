"""How a picture is to be shown: the choices that a caller has, checked against the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ladderspec.drawing.labels import USUAL
from ladderspec.drawing.parts import Picture
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.wiring.graph import Graph

KINDS = ("unrolled", "rolled", "mini")
LEVELS = ("names", "numbers", "none")
MOST_ITERATIONS = 64  # beyond that nobody sees anything


class View(NamedTuple):
    """What is shown, and how."""

    kind: str = "unrolled"
    iterations: int | None = None  # None: two, or one where nothing is delayed
    fold: bool = False
    labels: frozenset[str] = USUAL
    levels: str = "names"
    theme: str = "paper"
    title: str | None = None  # None: the title of what a variant made; "": none at all
    legend: bool | None = None  # None: except in a schematic picture
    plates: Mapping[str, Sequence[str]] | None = None  # label: levels or patterns of them
    start: bool = False  # the first iteration shown is the first of all: initial values are drawn
    width: float | None = None  # at most so wide on paper, in points
    worth_of: str = "worth"  # what the thickness of arrows says, where they have a worth

    @property
    def rolled(self) -> bool:
        return self.kind == "rolled"

    @property
    def mini(self) -> bool:
        return self.kind == "mini"


def check(view: View) -> None:
    """Refuse choices that contradict each other."""
    _one_of("view", view.kind, KINDS)
    _one_of("levels", view.levels, LEVELS)
    if view.iterations is None:
        return
    if view.rolled:
        raise UsageError("a rolled view shows one iteration: leave `iterations` out")
    if not 1 <= view.iterations <= MOST_ITERATIONS:
        raise UsageError(
            f"cannot draw {view.iterations} iterations: 1 to {MOST_ITERATIONS} can be shown"
        )


def _one_of(what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        hint = did_you_mean(word, known) or f"there are {one_of(known)}"
        raise UsageError(f"no {what} `{word}`: {hint}")


def length_of(graph: Graph) -> int | None:
    """How many iterations there are; None: as many as there are frames."""
    frames, iterations = graph.graph["frames"], graph.graph["iterations"]
    return frames if isinstance(frames, int) else iterations


def check_length(view: View, length: int | None) -> None:
    """Refuse iterations that the spec does not have."""
    if length and (view.iterations or 1) > length:
        many = "one iteration" if length == 1 else f"{length} iterations"
        raise UsageError(f"cannot draw {view.iterations} iterations: this spec has {many} (`time`)")


def iterations_of(view: View, picture: Picture) -> int:
    """How many iterations stand side by side."""
    if view.rolled:
        return 1
    if view.start and not any(arrow.delay for arrow in picture.arrows):
        raise UsageError("no arrow is delayed, so there are no initial values to draw")
    return view.iterations or (2 if any(arrow.delay for arrow in picture.arrows) else 1)


class Plate(NamedTuple):
    """A frame around neighbouring rows: copies of the same part of the network."""

    label: str
    bottom: int
    top: int


def plates_of(view: View, picture: Picture) -> tuple[Plate, ...]:
    names = [level.name for level in picture.levels]
    return tuple(
        _plate(label, list(chosen), names) for label, chosen in (view.plates or {}).items()
    )


def _plate(label: str, patterns: Sequence[str], names: Sequence[str]) -> Plate:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = did_you_mean(pattern, names) or f"there are {one_of(names)}"
            raise UsageError(f"plate `{label}`: no level `{pattern}`: {hint}")
    rows = [i for i, name in enumerate(names) if any(fnmatchcase(name, p) for p in patterns)]
    if not rows:
        raise UsageError(f"plate `{label}` needs at least one level")
    if rows != list(range(rows[0], rows[-1] + 1)):
        between = names[next(i for i in range(rows[0], rows[-1]) if i not in rows)]
        raise UsageError(f"plate `{label}`: `{between}` stands between its levels")
    return Plate(label, rows[0], rows[-1])
