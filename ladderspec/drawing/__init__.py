"""Drawings of a network: the figure for the paper, from the same YAML.

    draw(spec, "rladder.svg")
    draw(spec, ["rladder.pdf", "rladder.tex"], view="rolled", fold=True)
    draw(variant, "variant.svg", base=spec)            # what the variant changed
    draw(spec, "plan.svg", plan=True)                  # what loops over t, what does not
    draw(spec, "worth.svg", worth={"lateral": 0.5})    # line widths proportional to the worth

A graph becomes a `Picture` (parts and arrows), that becomes a `Scene` (boxes, wires and texts with
their positions and inks), and a format writes the scene as text or as an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

if TYPE_CHECKING:
    import graphviz

    from ladderspec.drawing.compose import Drawing
    from ladderspec.drawing.options import Options
    from ladderspec.drawing.scene import Scene

__all__ = ["dot", "draw", "ladder", "render", "scene_of", "svg"]


class Inline(str):
    """A drawing as SVG text, which notebooks show as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<drawing as SVG, {len(self):,} characters>"


@overload
def draw(what: Any, path: None = None, **options: Unpack[Options]) -> Inline: ...
@overload
def draw(
    what: Any, path: str | Path | Sequence[str | Path], **options: Unpack[Options]
) -> list[Path]: ...
def draw(
    what: Any, path: str | Path | Sequence[str | Path] | None = None, **options: Unpack[Options]
) -> list[Path] | Inline:
    """Write a drawing to one or several files, in the formats of their suffixes.

    svg, html, gv and tex need nothing; png and pdf need Graphviz. If it is missing, a gv file is
    written instead of each image, together with all other files, before the error is raised.

    Args:
        what: A spec, its file, or its graph.
        path: One path or several. Without any, nothing is written.
        options: See `ladderspec.drawing.options.Options`.

    Returns:
        The files written. Without a path: the drawing as SVG, which notebooks show.
    """
    if path is None:
        return Inline(svg(what, **options))
    from ladderspec.drawing.formats import format_of, render_file
    from ladderspec.errors import UsageError
    from ladderspec.files import write_all

    paths = _paths(path)
    for each in paths:
        format_of(each)  # refuse unknown suffixes before any work
    drawing = _drawing(what, options)
    files = [render_file(drawing, each) for each in paths]
    written = write_all(list({file: content for file, content, _ in files}.items()))
    problems = [problem for _, _, problem in files if problem]
    if problems:
        missing = [str(p) for p, (file, *_) in zip(paths, files, strict=True) if p != file]
        instead = " and ".join(map(str, written))
        raise UsageError(f"{problems[0]}; no {' and '.join(missing)}, but wrote {instead}")
    return written


def _paths(path: object) -> list[Path]:
    from ladderspec.errors import UsageError

    paths = [path] if isinstance(path, str | Path) else path
    if isinstance(paths, Sequence) and all(isinstance(each, str | Path) for each in paths):
        return [Path(each) for each in paths]
    raise UsageError(f"{path!r} is not a path or a list of paths")


def render(what: Any, form: str, **options: Unpack[Options]) -> str | bytes:
    """The content of a file in the format `form`: svg, html, gv, tex, png or pdf."""
    from ladderspec.drawing import formats

    found = formats.format_named(form)
    return formats.render(_drawing(what, options), found)


def svg(what: Any, **options: Unpack[Options]) -> str:
    """A drawing as SVG text, as notebooks show it."""
    return str(render(what, "svg", **options))


def dot(what: Any, **options: Unpack[Options]) -> graphviz.Source:
    """A drawing as an object of the package graphviz, with its methods pipe, render and view.

    Args:
        what: A spec, its file, or its graph.
        options: See `ladderspec.drawing.options.Options`.
    """
    import graphviz

    from ladderspec.drawing import formats

    drawing = _drawing(what, options)
    text = formats.render(drawing, formats.format_named("gv"))
    return graphviz.Source(text, filename=f"{drawing.picture.name}.gv")


def ladder(
    what: Any, *, fold: bool = False, ascii_only: bool = False, width: int | None = None
) -> str:
    """The ladder as lines of text for the terminal, `width` columns wide if that is possible."""
    from ladderspec.drawing import transforms
    from ladderspec.drawing.compose import graph_of
    from ladderspec.drawing.picture import picture_of
    from ladderspec.drawing.terminal import to_terminal

    picture = picture_of(graph_of(what))
    return to_terminal(transforms.fold(picture) if fold else picture, ascii_only, width)


def scene_of(what: Any, **options: Unpack[Options]) -> Scene:
    """Boxes, wires and texts with their positions."""
    return _drawing(what, options).scene


def _drawing(what: Any, options: Options) -> Drawing:
    from ladderspec.drawing.compose import Drawing  # imported on use, to keep the import fast

    return Drawing(what, options)
