"""Drawings of a network: the figure for the paper, from the same YAML.

    draw(spec, "rladder.svg")
    draw(spec, ["rladder.pdf", "rladder.tex"], view="rolled", fold=True)
    draw(variant, "variant.svg", base=spec)            # what the variant changed
    draw(spec, "plan.svg", plan=True)                  # what runs once, what loops over t

A graph becomes a `Picture` (parts and arrows), that a `Scene` (boxes, wires and texts with their
places and ink), and that a text in the format of the file's suffix.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ladderspec.errors import UsageError, did_you_mean, one_of

if TYPE_CHECKING:
    import graphviz

    from ladderspec.draw.parts import Picture
    from ladderspec.draw.scene import Scene
    from ladderspec.draw.view import View

__all__ = ["Options", "dot", "draw", "ladder", "render", "scene_of", "svg"]

TEXTS = ("svg", "gv", "dot", "tex")
IMAGES = ("png", "pdf")
LAYOUTS = ("ladder", "dot")


class Options(TypedDict, total=False):
    """What every drawing can be asked for."""

    view: str  # unrolled (default), rolled or mini
    iterations: int | None  # side by side when unrolled; two, or one where nothing is delayed
    fold: bool  # rows that are truly identical as one
    base: Any  # a spec or graph: show what was removed from it and added to it
    plan: bool | Mapping[str, str]  # shade what runs once and what loops; or node: once, loop, ...
    labels: str | Iterable[str]  # cell, shape, params, name; or none
    levels: str  # names, numbers or none
    theme: str  # paper, mono, safe or dark
    title: str | None  # default: that of a variant, where `base` is given
    legend: bool | None  # default: except in mini
    plates: Mapping[str, Sequence[str]] | None  # {"K": ["lstm1", "conv_*"]}: frames around levels
    start: bool  # the first iteration shown is the first of all: draw initial values
    layout: str  # ladder; or dot, where Graphviz chooses the places


def draw(
    what: Any, path: str | Path | Sequence[str | Path], **options: Unpack[Options]
) -> list[Path]:
    """Write a drawing of a spec or graph to a file, in the format of its suffix; or to several.

    svg, gv and tex need nothing; png and pdf need Graphviz. Where that is missing the gv is written
    in their place, and the error says so.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(each) for each in path]
    forms = [form_of(each) for each in paths]
    from ladderspec.files import write_atomic

    artist = _Artist(what, options)
    made = [artist.for_file(*each) for each in zip(paths, forms, strict=True)]
    return [write_atomic(each, content) for each, content in zip(paths, made, strict=True)]


def render(what: Any, form: str, **options: Unpack[Options]) -> str | bytes:
    """The content of such a file: `form` is svg, gv, tex, png or pdf."""
    return _Artist(what, options).render(known_form(form))


def svg(what: Any, **options: Unpack[Options]) -> str:
    """A drawing as SVG text, as notebooks show it."""
    return str(_Artist(what, options).render("svg"))


def dot(what: Any, **options: Unpack[Options]) -> graphviz.Source:
    """A drawing as an object of the package graphviz: pipe, render or view it."""
    import graphviz

    artist = _Artist(what, options)
    return graphviz.Source(artist.render("gv"), filename=f"{artist.picture.name}.gv")


def ladder(what: Any, *, fold: bool = False, ascii_only: bool = False) -> str:
    """The ladder as lines of text for the terminal."""
    from ladderspec.draw.fold import fold as folded
    from ladderspec.draw.parts import picture_of
    from ladderspec.draw.writers.terminal import to_terminal

    picture = picture_of(_graph(what))
    return to_terminal(folded(picture) if fold else picture, ascii_only)


def scene_of(what: Any, **options: Unpack[Options]) -> Scene:
    """Boxes, wires and texts with their places, for writers and tests."""
    return _Artist(what, options).scene()


def form_of(path: Path) -> str:
    """The format that a file's suffix asks for."""
    if not path.suffix:
        raise UsageError(f"{path}: which format? Give it a suffix: {one_of(TEXTS + IMAGES)}")
    return known_form(path.suffix[1:].lower(), f"{path}: ")


def known_form(form: str, where: str = "") -> str:
    known = TEXTS + IMAGES
    if form not in known:
        hint = did_you_mean(form, known) or f"there are {one_of(known)}"
        raise UsageError(f"{where}no format `{form}`: {hint}")
    return form


class _Artist:
    """Makes one picture, and from it every format that is asked for."""

    def __init__(self, what: Any, options: Options) -> None:
        self.view = _view(options)
        self.layout = options.get("layout", "ladder")
        if self.layout not in LAYOUTS:
            hint = did_you_mean(self.layout, LAYOUTS) or f"there are {one_of(LAYOUTS)}"
            raise UsageError(f"no layout `{self.layout}`: {hint}")
        self.picture = _picture(what, options.get("base"), options.get("plan", False))
        self._scene: Scene | None = None

    def scene(self) -> Scene:
        if self._scene is None:
            from ladderspec.draw.compose import compose

            self._scene = compose(self.picture, self.view)
        return self._scene

    def render(self, form: str) -> str | bytes:
        if self.layout == "dot":
            return self._automatic(form)
        if form == "svg":
            from ladderspec.draw.writers.svg import to_svg

            return to_svg(self.scene())
        if form == "tex":
            from ladderspec.draw.writers.tikz import to_tikz

            return to_tikz(self.scene())
        from ladderspec.draw.writers.dot import to_dot

        text = to_dot(self.scene())
        return text if form in TEXTS else _image(text, form)

    def for_file(self, path: Path, form: str) -> str | bytes:
        """Where an image cannot be made, its Graphviz text is kept beside it."""
        if form in TEXTS and self.layout == "ladder":
            return self.render(form)
        from ladderspec.draw.writers.raster import NoGraphviz
        from ladderspec.files import write_atomic

        try:
            return self.render(form)
        except NoGraphviz as error:
            kept = write_atomic(path.with_suffix(".gv"), self.render("gv"))
            raise UsageError(f"{error}; its Graphviz text is in {kept}") from None

    def _automatic(self, form: str) -> str | bytes:
        from ladderspec.draw.writers.automatic import to_automatic

        if form == "tex":
            raise UsageError("layout `dot` gives no tex: use layout `ladder`")
        text = to_automatic(self.picture, self.view)
        return text if form in ("gv", "dot") else _image(text, form)


def _image(text: str, form: str) -> bytes:
    from ladderspec.draw.writers.raster import render as render_image

    return render_image(text, form)


def _view(options: Options) -> View:
    from ladderspec.draw.labels import USUAL, labels_of
    from ladderspec.draw.view import View, check

    view = View(
        kind=options.get("view", "unrolled"),
        iterations=options.get("iterations"),
        fold=options.get("fold", False),
        labels=labels_of(options.get("labels", USUAL)),
        levels=options.get("levels", "names"),
        theme=options.get("theme", "paper"),
        title=options.get("title"),
        legend=options.get("legend"),
        plates=options.get("plates"),
        start=options.get("start", False),
    )
    check(view)
    return view


def _graph(what: Any) -> Any:
    """A graph as it is; a spec by way of the corridor."""
    if hasattr(what, "in_edges"):
        return what
    from ladderspec.build import graph

    return graph(what)


def _picture(what: Any, base: Any, plan: bool | Mapping[str, str]) -> Picture:
    from ladderspec.draw.parts import picture_of

    graph = _graph(what)
    if plan is True:
        from ladderspec.plan import schedule

        plan = {node: phase.kind for phase in schedule(graph).phases for node in phase.nodes}
    elif plan:
        _check_phases(plan, graph)
    picture = picture_of(graph, plan or None)
    if base is None:
        return picture
    from ladderspec.draw.marks import compare

    compared = compare(picture_of(_graph(base)), picture)
    if not compared.compares:
        raise UsageError("nothing to compare: both are the same network")
    return compared


def _check_phases(plan: Mapping[str, str], graph: Any) -> None:
    from ladderspec.draw.themes import PAPER

    for node, kind in plan.items():
        if node not in graph:
            raise UsageError(f"plan: no node `{node}`{_hint(did_you_mean(node, graph))}")
        if kind not in PAPER.phases:
            raise UsageError(f"plan: `{node}` is {kind}, which is none of {one_of(PAPER.phases)}")


def _hint(text: str) -> str:
    return f": {text}" if text else ""


class _Verb(ModuleType):
    """`ladderspec.draw` is a package and the verb of its name: both can be written."""

    __call__ = staticmethod(draw)


sys.modules[__name__].__class__ = _Verb
