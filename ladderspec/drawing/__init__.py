"""Drawings of a network: the figure for the paper, from the same YAML.

    draw(spec, "rladder.svg")
    draw(spec, ["rladder.pdf", "rladder.tex"], view="rolled", fold=True)
    draw(variant, "variant.svg", base=spec)            # what the variant changed
    draw(spec, "plan.svg", plan=True)                  # what runs once, what loops over t
    draw(spec, "worth.svg", worth={"lateral": 0.5})    # arrows as thick as their worth

A graph becomes a `Picture` (parts and arrows), that a `Scene` (boxes, wires and texts with their
places and ink), and that a text in the format of the file's suffix.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    import graphviz

    from ladderspec.drawing.artist import Artist
    from ladderspec.drawing.options import Options
    from ladderspec.drawing.scene import Scene

__all__ = ["dot", "draw", "ladder", "render", "scene_of", "svg"]


def draw(
    what: Any, path: str | Path | Sequence[str | Path], **options: Unpack[Options]
) -> list[Path]:
    """Write a drawing of a spec, of its file or of a graph, in the format of the suffix of `path`.

    Several paths may be given. `options` are those of `ladderspec.drawing.options.Options`.
    svg, html, gv and tex need nothing; png and pdf need Graphviz. Where that is missing, all
    others are written, the gv in place of an image, and the error says so.
    """
    from ladderspec.drawing.artist import form_of
    from ladderspec.errors import UsageError
    from ladderspec.files import write_all

    paths = [Path(each) for each in _listed(path)]
    forms = [form_of(each) for each in paths]
    artist = _artist(what, options)
    made = [artist.for_file(*each) for each in zip(paths, forms, strict=True)]
    written = write_all(list({file: content for file, content, _ in made}.items()))
    if missing := [
        str(path) for path, (file, _, _) in zip(paths, made, strict=True) if path != file
    ]:
        why = next(why for _, _, why in made if why)
        kept = [str(path) for path in written]
        raise UsageError(f"{why}; no {' and '.join(missing)}, but wrote {' and '.join(kept)}")
    return written


def _listed(path: object) -> Sequence[str | Path]:
    from ladderspec.errors import UsageError

    if isinstance(path, str | Path):
        return [path]
    if isinstance(path, Sequence) and all(isinstance(each, str | Path) for each in path):
        return path
    raise UsageError(f"{path!r} is no path, nor several")


def render(what: Any, form: str, **options: Unpack[Options]) -> str | bytes:
    """The content of such a file: `form` is svg, html, gv, tex, png or pdf."""
    from ladderspec.drawing.artist import known_form

    return _artist(what, options).render(known_form(form))


def svg(what: Any, **options: Unpack[Options]) -> str:
    """A drawing as SVG text, as notebooks show it."""
    return str(_artist(what, options).render("svg"))


def dot(what: Any, **options: Unpack[Options]) -> graphviz.Source:
    """A drawing as an object of the package graphviz: pipe, render or view it."""
    import graphviz

    artist = _artist(what, options)
    return graphviz.Source(artist.render("gv"), filename=f"{artist.picture.name}.gv")


def ladder(what: Any, *, fold: bool = False, ascii_only: bool = False) -> str:
    """The ladder as lines of text for the terminal."""
    from ladderspec.drawing.artist import graph_of
    from ladderspec.drawing.fold import fold as folded
    from ladderspec.drawing.parts import picture_of
    from ladderspec.drawing.writers.terminal import to_terminal

    picture = picture_of(graph_of(what))
    return to_terminal(folded(picture) if fold else picture, ascii_only)


def scene_of(what: Any, **options: Unpack[Options]) -> Scene:
    """Boxes, wires and texts with their places, for writers and tests."""
    return _artist(what, options).scene()


def _artist(what: Any, options: Options) -> Artist:
    from ladderspec.drawing.artist import Artist  # on use: whoever only imports draws nothing

    return Artist(what, options)
