"""One picture, and every format that is asked of it: what the public functions share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladderspec.drawing.compose import compose
from ladderspec.drawing.marks import compare
from ladderspec.drawing.options import Options, check_options, view_of
from ladderspec.drawing.parts import Picture, picture_of
from ladderspec.drawing.themes import PAPER
from ladderspec.drawing.view import check_length, length_of
from ladderspec.drawing.worth import weigh
from ladderspec.errors import UsageError, did_you_mean, one_of

if TYPE_CHECKING:
    from ladderspec.drawing.scene import Scene

TEXTS = ("svg", "html", "gv", "dot", "tex")
IMAGES = ("png", "pdf")


class Artist:
    """Makes one picture, and from it every format that is asked for."""

    def __init__(self, what: Any, options: Options) -> None:
        check_options(options)
        self.view = view_of(options)
        self.layout = options.get("layout", "ladder")
        self.graph = graph_of(what)
        check_length(self.view, length_of(self.graph))
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

    def for_file(self, path: Path, form: str) -> tuple[Path, str | bytes, str]:
        """Where an image cannot be made, its Graphviz text stands in; and why."""
        if form in TEXTS and self.layout == "ladder":
            return path, self.render(form), ""
        from ladderspec.drawing.writers.raster import NoGraphviz

        try:
            return path, self.render(form), ""
        except NoGraphviz as error:
            return path.with_suffix(".gv"), self.render("gv"), str(error)

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


def graph_of(what: Any) -> Any:
    """A graph as it is; a spec, or a file with one, by way of the corridor."""
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
