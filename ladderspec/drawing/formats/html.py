"""Graph -> one HTML page without dependencies: the drawing, and the effect of removing arrows.

The page contains a drawing of every view. It also contains the graph as data, with what the script
needs to report the same as `ladderspec diff --without`: the arrows that each cell needs, and the
number of parameters of every node, arrow and task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from ladderspec.cells import Cell, Site
from ladderspec.drawing.boxes import details
from ladderspec.drawing.compose import Drawing, compose, compose_legend
from ladderspec.drawing.formats import Format, register
from ladderspec.drawing.formats.svg import to_svg
from ladderspec.drawing.options import View, iterations_shown
from ladderspec.drawing.picture import Picture, picture_of
from ladderspec.drawing.scene import Scene
from ladderspec.drawing.style import DARK, PAPER, Theme, theme_of
from ladderspec.drawing.typesetting import TIMES, text_of
from ladderspec.errors import Place, UsageError
from ladderspec.escaping import escape_xml
from ladderspec.names import Role, Side, node_name, show_shape
from ladderspec.wiring.graph import Graph, in_order, steps_of
from ladderspec.wiring.sharing import holders

MAX_ITERATIONS = 4  # that can be selected in the page, unless more are requested
_TALL, _WINDOW = 12, 820.0  # ladders of more rows have gaps for a window of this height in points
_PHONE = 470.0  # words of 8.5 points have 7 pixels if a drawing of this width fills a phone
_FILES = Path(__file__).resolve().parent.parent / "page"
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@register
class Html(Format):
    suffixes = ("html",)

    def write(self, drawing: Drawing) -> str:
        if drawing.beside:
            raise UsageError("a page shows one network at a time: omit `beside`")
        return to_html(drawing.graph, drawing.picture, drawing.view, drawing.variants)


def to_html(graph: Graph, picture: Picture, view: View, variants: Mapping[str, Graph]) -> str:
    _check(picture, view)
    theme = theme_of(view.theme)
    shown = _shown(picture, view)
    drawings = dict(_drawings(graph, picture, view))
    (drawing, legend) = drawings.pop(shown)
    content = {
        "title": escape_xml(view.title or picture.title),
        "style": f"{_colours(theme)}\n{_dark_scheme(theme)}\n{_file('page.css')}",
        "drawing": drawing,
        "legend": legend,
        "others": "\n".join(_templates(drawings)),
        "kinds": "\n".join(_role_switches(graph, theme)),
        "data": _data(graph, picture, view, [shown, *drawings]),
        "variants": "\n".join(_choices(variants)),
        "networks": "\n".join(_network(name, each, view) for name, each in variants.items()),
        "script": "\n\n".join(map(_file, ("rules.js", "camera.js", "page.js"))),
    }
    return _PLACEHOLDER.sub(lambda found: content[found[1]], _file("page.html"))


def _shown(picture: Picture, view: View) -> str:
    return "rolled" if view.rolled else str(iterations_shown(view, picture))


def _data(graph: Graph, picture: Picture, view: View, views: Iterable[str]) -> str:
    data = {
        "shown": _shown(picture, view),
        "views": sorted(views, key=lambda name: 0 if name == "rolled" else int(name)),
        "start": view.start,
        "details": _detail_lines(picture, view),
        **graph_data(graph),
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.encode(errors="replace").decode()  # a lone surrogate is no character of UTF-8
    return text.replace("<", "\\u003c")


def _templates(drawings: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, (drawing, legend) in drawings.items():
        yield f'<template data-view="{name}">{drawing}{legend}</template>'


def _choices(variants: Mapping[str, Graph]) -> Iterator[str]:
    for name, graph in variants.items():
        title = graph.graph["title"] or name
        yield f'<option value="{escape_xml(name)}">{escape_xml(str(title))}</option>'


def _network(name: str, graph: Graph, view: View) -> str:
    """Another network to choose: its drawings, its arrows and its data."""
    picture = picture_of(graph)
    view = view._replace(iterations=None, title=None, start=view.start and picture.has_delays)
    if not picture.has_delays:
        view = view._replace(kind="unrolled")
    shown = _shown(picture, view)
    drawings = dict(_drawings(graph, picture, view, {shown, "rolled"}))
    data = _data(graph, picture, view, drawings)
    return (
        f'<template data-network="{escape_xml(name)}" data-title="{escape_xml(picture.title)}">'
        f"<ul>{''.join(_role_switches(graph, theme_of(view.theme)))}</ul>"
        f"{''.join(_templates(drawings))}"
        f'<script type="application/json">{data}</script></template>'
    )


def _check(picture: Picture, view: View) -> None:
    """Refuse options that a page cannot show."""
    if view.mini:
        raise UsageError("a page shows the views unrolled and rolled, not mini")
    if picture.is_comparison:
        raise UsageError("a page shows one network: omit `base`")
    sized = "a page is as large as its window"
    whole = "a page shows every row, so that each arrow can be removed"
    refused = {"width": sized, "height": sized, "fold": whole, "group": whole, "show": whole}
    for option, reason in refused.items():
        if getattr(view, option):
            raise UsageError(f"{reason}: omit `{option}`")


def _file(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8").strip()


# --- drawings -------------------------------------------------------------------------------------


def _drawings(
    graph: Graph, picture: Picture, view: View, only: Set[str] | None = None
) -> Iterator[tuple[str, tuple[str, str]]]:
    """A drawing of each view and its legend, which does not move with the drawing."""
    for name, each in _views(picture, view, steps_of(graph) or MAX_ITERATIONS):
        if only is None or name in only:
            scene = _scene(picture, each)
            legend = ""
            if view.legend is not False:
                legend = _element(compose_legend(picture, each, scene))
            yield name, (_element(scene), legend)


def _scene(picture: Picture, view: View) -> Scene:
    """A drawing without its legend; gaps shrink if the narrowest view is too wide for a phone."""
    height = _WINDOW if len(picture.levels) > _TALL else None
    scene = compose(picture, view._replace(legend=False, height=height))
    if scene.width > _PHONE and (view.rolled or view.iterations == 1):
        scene = compose(picture, view._replace(legend=False, height=height, width=_PHONE))
    return scene


def _element(scene: Scene) -> str:
    return to_svg(scene).partition("\n")[2].strip()


def _views(picture: Picture, view: View, length: int) -> Iterator[tuple[str, View]]:
    """Rolled, and unrolled with one iteration, two, ...; only one view if nothing is delayed."""
    delayed = picture.has_delays
    if delayed or view.rolled:
        yield "rolled", view._replace(kind="rolled", iterations=None)
    most = view.iterations or 1
    if delayed:
        most = max(most, min(MAX_ITERATIONS, length))
    for count in range(1, most + 1):
        yield str(count), view._replace(kind="unrolled", iterations=count)


def _detail_lines(picture: Picture, view: View) -> dict[str, str]:
    """The second line of every box, if it ends with the number of parameters."""
    if "params" not in view.labels:
        return {}
    return {n: text_of(details(part, view.labels)) for n, part in picture.parts.items()}


def _colours(theme: Theme) -> str:
    names = {
        "paper": theme.background,
        "ink": theme.text,
        "faint": theme.faint,
        "rule": theme.rule,
        "gone": theme.removed.colour,
        "accent": theme.sides[Side.DECODER].line,
        "tint": theme.sides[Side.DECODER].fill,
        "alarm": theme.sides[Side.ENCODER].line,
        "alarm-tint": theme.sides[Side.ENCODER].fill,
        "here": theme.task.line,
    }
    scheme = "dark" if theme is DARK else "light"
    variables = "".join(f" --{name}: {colour};" for name, colour in names.items())
    return f":root {{ color-scheme: {scheme};{variables} }}"


def _dark_scheme(theme: Theme) -> str:
    """The colours of the dark theme for readers who prefer it, unless a theme was chosen."""
    if theme is not PAPER:
        return ""
    pairs = dict(zip(_palette(PAPER), _palette(DARK), strict=True))
    rules = "".join(
        f'[{kind}="{light}"] {{ {kind}: {dark}; }}\n'
        for light, dark in pairs.items()
        for kind in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme: dark) {{\n{_colours(DARK)}\n{rules}}}"


def _palette(theme: Theme) -> list[str]:
    """Every colour of a theme, always in the same order; of two uses of one, the last counts."""
    sides = [colour for side in theme.sides.values() for colour in side]
    inks = [ink.colour for ink in theme.inks.values()]
    return [
        *sides, *inks, *theme.task, theme.changed, *theme.phases.values(), theme.removed.colour,
        theme.rule, theme.faint, theme.background, theme.text,
    ]  # fmt: skip


def _role_switches(graph: Graph, theme: Theme) -> Iterator[str]:
    """A checkbox for every role, with a sample of its line."""
    roles = {role for _, _, role in graph.edges(data="role")}
    for role in Role:
        if role in roles:
            ink = theme.inks[role]
            dash = f' stroke-dasharray="{" ".join(map(str, ink.dash))}"' if ink.dash else ""
            yield (
                f'<li><label><input type="checkbox" checked data-kind="{role.value}">'
                f'<svg width="26" height="8" aria-hidden="true"><path d="M1 4H25"'
                f' stroke="{ink.colour}" stroke-width="2"{dash}/></svg>'
                f"<span>{role.value.replace('_', ' ')}</span>"
                f'<span class="number"></span></label></li>'
            )


# --- data -----------------------------------------------------------------------------------------


def graph_data(graph: Graph) -> dict[str, Any]:
    """The graph as JSON for the script of the page."""
    from ladderspec.schedule.plan import schedule

    phases = schedule(graph).phases
    order = {node: index for index, node in enumerate(in_order(graph))}
    roles = list(Role)
    shared = _shared(graph)
    edges = [
        {
            "source": source,
            "target": target,
            "role": edge["role"].value,
            "delay": edge["delay"],
            "parameters": sum(each.size for each in edge["projection"].parameters.values()),
            **shared.get(f"{target}.{key}", {}),
        }
        for source, target, key, edge in sorted(
            graph.edges(keys=True, data=True),
            key=lambda e: (order[e[1]], roles.index(e[3]["role"]), e[3]["delay"], order[e[0]]),
        )
    ]
    return {
        "name": graph.graph["name"],
        "variants": list(graph.graph.get("variants", ())),
        "roles": [role.value for role in Role],
        "levels": [_level(graph, level) for level in graph.graph["levels"]],
        "nodes": [{**_node(graph, node), **shared.get(node, {})} for node in order],
        "edges": edges,
        "tasks": [
            {"name": name, "at": entry["at"], "parameters": entry["parameters"]}
            for name, entry in graph.graph["tasks"].items()
        ],
        "order": [node for phase in phases for node in phase.nodes],
    }


def _shared(graph: Graph) -> dict[str, dict[str, Any]]:
    """By module, the name of the tensors that it shares, and whether they are its own."""
    found: dict[str, dict[str, Any]] = {}
    for holder in holders(graph):
        if owner := holder.attributes["shared"]:
            found[holder.name] = {"tensors": owner}
            found[owner] = {"tensors": owner, "owns": True}
    return found


def _node(graph: Graph, name: str) -> dict[str, Any]:
    node = graph.nodes[name]
    cell, place = node["cell"], node["place"]
    sizes = {
        key: own.size for key, own in node["cell_parameters"].items() if key.startswith("initial")
    }
    fields = cell.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    initial, of_output = sum(sizes.values()), sizes.get("initial", 0)
    return {
        "id": name,
        "cell": cell.cell,
        "config": ", ".join(f"{k} {_value(v)}" for k, v in fields.items() if k != "cell"),
        "shape": show_shape(node["shape"]),
        "own": sum(each.size for each in node["cell_parameters"].values()) - initial,
        "initial": [of_output, initial - of_output],  # of its output, of its state
        "needs": [role.value for role in Role if role in cell.needs(node["side"])],
        "row": re.split(r"[/\\]", str(place))[-1] if place else "",
        "text": place.source.line(place.line).strip() if isinstance(place, Place) else "",
        "path": node["path"],
    }


def _value(value: Any) -> str:
    """The value of a field of a cell."""
    if isinstance(value, list):
        return TIMES.join(map(str, value))
    if isinstance(value, dict):
        return " ".join(str(each) for each in value.values() if each is not None)
    return str(value)


def _level(graph: Graph, level: str) -> dict[str, Any]:
    """Whether its shape is known, and whether it depends on the level below: decoders need both."""
    node = node_name(Side.ENCODER, level)
    return {
        "name": level,
        "known": level in graph.graph["level_shapes"],
        "decoded": node not in graph or graph.nodes[node]["cell"].cell != "Groups",
        "follows": node not in graph or _depends_on_input(graph.nodes[node]["cell"]),
    }


def _depends_on_input(cell: Cell) -> bool:
    """Whether the shape of an encoder depends on its input."""
    try:
        cell.out_shape(Site(Side.ENCODER, ()))
    except Exception:  # a cell may raise anything if it has no arrow
        return True
    return False
