"""One picture, and every format that is asked of it: what the public functions share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ladderspec.drawing.compose import compose
from ladderspec.drawing.labels import USUAL, labels_of
from ladderspec.drawing.marks import compare
from ladderspec.drawing.parts import Picture, picture_of
from ladderspec.drawing.sizes import points_of
from ladderspec.drawing.themes import PAPER
from ladderspec.drawing.view import View, check
from ladderspec.drawing.worth import weigh
from ladderspec.errors import UsageError, did_you_mean, one_of

if TYPE_CHECKING:
    from ladderspec.drawing.scene import Scene

TEXTS = ("svg", "html", "gv", "dot", "tex")
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
    width: str | float | None  # at most, on paper, like "8.5cm": less air, so words stay large
    worth: Mapping[str, float] | None  # by selector: arrows as thick as their worth
    worth_of: str  # what that is, for the legend: "rise of the error without it, %"
    layout: str  # ladder; or dot, where Graphviz chooses the places


class Artist:
    """Makes one picture, and from it every format that is asked for."""

    def __init__(self, what: Any, options: Options) -> None:
        self.view = _view(options)
        self.layout = options.get("layout", "ladder")
        if self.layout not in LAYOUTS:
            hint = did_you_mean(self.layout, LAYOUTS) or f"there are {one_of(LAYOUTS)}"
            raise UsageError(f"no layout `{self.layout}`: {hint}")
        self.graph = graph_of(what)
        self.picture = _picture(self.graph, options.get("base"), options.get("plan", False))
        if worth := options.get("worth"):
            self.picture = weigh(self.picture, self.graph, worth)
        self._scene: Scene | None = None

    def scene(self) -> Scene:
        if self._scene is None:
            self._scene = compose(self.picture, self.view)
        return self._scene

    def render(self, form: str) -> str | bytes:
        if self.layout == "dot":
            return self._automatic(form)
        if form == "svg":
            from ladderspec.drawing.writers.svg import to_svg

            return to_svg(self.scene())
        if form == "html":
            from ladderspec.drawing.writers.html import to_html

            return to_html(self.graph, self.picture, self.view)
        if form == "tex":
            from ladderspec.drawing.writers.tikz import to_tikz

            return to_tikz(self.scene())
        from ladderspec.drawing.writers.dot import to_dot

        text = to_dot(self.scene())
        return text if form in TEXTS else _image(text, form)

    def for_file(self, path: Path, form: str) -> str | bytes:
        """Where an image cannot be made, its Graphviz text is kept beside it."""
        if form in TEXTS and self.layout == "ladder":
            return self.render(form)
        from ladderspec.drawing.writers.raster import NoGraphviz
        from ladderspec.files import write_atomic

        try:
            return self.render(form)
        except NoGraphviz as error:
            kept = write_atomic(path.with_suffix(".gv"), self.render("gv"))
            raise UsageError(f"{error}; the Graphviz text is in {kept}") from None

    def _automatic(self, form: str) -> str | bytes:
        from ladderspec.drawing.writers.automatic import to_automatic

        if form in ("tex", "html"):
            raise UsageError(f"layout `dot` gives no {form}: use layout `ladder`")
        text = to_automatic(self.picture, self.view)
        if form in ("gv", "dot"):
            return text
        image = _image(text, form)
        return image.decode() if form == "svg" else image


def _image(text: str, form: str) -> bytes:
    from ladderspec.drawing.writers.raster import render as render_image

    return render_image(text, form)


def _view(options: Options) -> View:
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
        width=points_of(options.get("width")),
        worth_of=options.get("worth_of", "worth"),
    )
    check(view)
    return view


def graph_of(what: Any) -> Any:
    """A graph as it is; a spec by way of the corridor."""
    if hasattr(what, "in_edges"):
        return what
    from ladderspec.corridor import graph

    return graph(what)


def _picture(graph: Any, base: Any, plan: bool | Mapping[str, str]) -> Picture:
    if plan is True:
        from ladderspec.schedule.plan import schedule

        plan = {node: phase.kind for phase in schedule(graph).phases for node in phase.nodes}
    elif plan:
        _check_phases(plan, graph)
    picture = picture_of(graph, plan or None)
    if base is None:
        return picture
    compared = compare(picture_of(graph_of(base)), picture)
    if not compared.compares:
        raise UsageError("nothing to compare: both are the same network")
    return compared


def _check_phases(plan: Mapping[str, str], graph: Any) -> None:
    for node, kind in plan.items():
        if node not in graph:
            raise UsageError(f"plan: no node `{node}`{_hint(did_you_mean(node, graph))}")
        if kind not in PAPER.phases:
            raise UsageError(f"plan: `{node}` is {kind}, which is none of {one_of(PAPER.phases)}")


def _hint(text: str) -> str:
    return f": {text}" if text else ""


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
