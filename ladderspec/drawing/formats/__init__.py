"""Drawing formats: a registry with one class per format, and what their writers share.

A format is one file with a registered class; nothing else changes:

    @register
    class Outline(Format):
        suffixes = ("outline",)

        def write(self, drawing: Drawing) -> str:
            return "\\n".join(box.node for box in drawing.scene.boxes)

Built-in formats are the modules of this package; a user's file can be loaded with `--plugin`.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ladderspec.drawing.options import check_choice
from ladderspec.drawing.paths import end_of, head
from ladderspec.drawing.scene import (
    Backdrop,
    Box,
    Ink,
    Mark,
    Pill,
    Point,
    Rect,
    Rule,
    Scene,
    Segment,
    Text,
    Wire,
)
from ladderspec.errors import UsageError, one_of
from ladderspec.plugins import check_name, is_built_in

if TYPE_CHECKING:
    from ladderspec.drawing.compose import Drawing


class Format(ABC):
    """A format of drawings."""

    suffixes: ClassVar[tuple[str, ...]]  # of its files, without a dot; the first is its name
    needs_graphviz: ClassVar[bool] = False  # if Graphviz is missing, a gv file is written instead
    dot_layout: ClassVar[bool] = False  # whether it can have boxes placed by Graphviz

    @abstractmethod
    def write(self, drawing: Drawing) -> str | bytes:
        """The content of a file with this drawing."""


class GraphvizMissing(UsageError):
    """Graphviz is not installed, or it fails."""


# --- registry -------------------------------------------------------------------------------------

_FORMATS: dict[str, Format] = {}
F = TypeVar("F", bound=type[Format])


def register(cls: F) -> F:
    """Make a format known under its suffixes. Use it as a class decorator.

    Args:
        cls: A subclass of `Format`.

    Returns:
        The same class.

    Raises:
        UsageError: if ladderspec has a format of that suffix.
    """
    if not is_built_in(cls):
        _import_builtin()  # a plug-in may be loaded first
    for suffix in cls.suffixes:
        known = _FORMATS.get(suffix)
        check_name("format", suffix, known and type(known), cls)
    _FORMATS.update(dict.fromkeys(cls.suffixes, cls()))
    return cls


@cache
def _import_builtin() -> None:
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


def formats() -> Mapping[str, Format]:
    """All registered formats by suffix, in alphabetical order."""
    _import_builtin()
    return dict(sorted(_FORMATS.items()))


def format_named(name: str, prefix: str = "") -> Format:
    known = formats()
    check_choice("format", name, known, prefix)
    return known[name]


def format_of(path: Path) -> Format:
    """The format of a file, by its suffix."""
    if not path.suffix:
        raise UsageError(f"{path}: which format? Add a suffix: {one_of(formats())}")
    return format_named(path.suffix[1:].lower(), f"{path}: ")


def render(drawing: Drawing, form: Format) -> str | bytes:
    if drawing.layout == "dot" and not form.dot_layout:
        name = form.suffixes[0]
        raise UsageError(f"layout `dot` cannot be written as {name}: use layout `ladder`")
    return form.write(drawing)


def render_file(drawing: Drawing, path: Path) -> tuple[Path, str | bytes, str]:
    """Path, content and problem; a gv file replaces an image if Graphviz is missing."""
    try:
        return path, render(drawing, format_of(path)), ""
    except GraphvizMissing as error:
        return path.with_suffix(".gv"), render(drawing, format_named("gv")), str(error)


# --- writers --------------------------------------------------------------------------------------


class SceneWriter(ABC):
    """Writes the items of a scene in order, from back to front, each as one or more lines."""

    order: ClassVar[Sequence[str]] = ("panels", "rules", "wires", "boxes", "samples", "texts")

    def items(self, scene: Scene) -> Iterator[str]:
        write: dict[type, Callable[[Any], Iterator[str]]] = {
            Backdrop: self.panel,
            Rule: self.rule,
            Wire: self.wire,
            Box: self.box,
            Mark: self.mark,
            Text: self.text,
        }
        for group in self.order:
            for item in getattr(scene, group):
                yield from write[type(item)](item)

    @abstractmethod
    def rect(self, rect: Rect, radius: float, fill: str | None, ink: Ink | None) -> str: ...

    @abstractmethod
    def line(self, start: Point, segments: Sequence[Segment], ink: Ink) -> str: ...

    @abstractmethod
    def polygon(self, corners: Sequence[Point], fill: str) -> str: ...

    @abstractmethod
    def text(self, text: Text) -> Iterator[str]: ...

    def panel(self, panel: Backdrop) -> Iterator[str]:
        yield self.rect(panel.rect, panel.radius, panel.fill, panel.ink)
        if panel.label:
            yield from self.text(panel.label)

    def rule(self, rule: Rule) -> Iterator[str]:
        yield self.line(rule.start, (rule.end,), rule.ink)

    def arrow(self, wire: Wire) -> Iterator[str]:
        """The line of a wire and its head."""
        yield self.line(wire.start, wire.segments, wire.ink)
        yield self.polygon(head_of(wire), wire.ink.colour)

    def wire(self, wire: Wire) -> Iterator[str]:
        yield from self.arrow(wire)
        if wire.mark:
            yield from self.mark(wire.mark)
        if wire.label:
            yield from self.text(wire.label)

    def square(self, mark: Mark) -> str:
        return self.rect(mark.rect, 0, mark.colour, None)

    def mark(self, mark: Mark) -> Iterator[str]:
        yield self.square(mark)
        if mark.label:
            yield from self.text(mark.label)

    def box_outline(self, box: Box) -> str:
        return self.rect(box.rect, box.radius, box.fill, box.ink)

    def pill_outline(self, pill: Pill) -> str:
        return self.rect(pill.rect, pill.radius, pill.fill, pill.ink)

    def box(self, box: Box) -> Iterator[str]:
        yield self.box_outline(box)
        for text in box.texts:
            yield from self.text(text)
        for pill in box.pills:
            yield self.pill_outline(pill)
            for text in pill.texts:
                yield from self.text(text)


def head_of(wire: Wire) -> Sequence[Point]:
    return head(end_of(wire.segments[-1]), wire.tip, wire.ink.width)


def number(value: float, digits: int = 2) -> str:
    """
    >>> number(3.0), number(2.456), number(-0.001)
    ('3', '2.46', '0')
    """
    shown = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown
