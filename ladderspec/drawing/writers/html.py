"""Graph -> one page that needs nothing else: the drawing, and what removing an arrow would do.

The drawing is there in every view, written beforehand. The graph is there as data, with what the
page needs to say the same as `ladderspec diff --without`: which arrows a cell cannot be without,
and what every node, arrow and task counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ladderspec.cells import Cell, Site
from ladderspec.drawing import labels
from ladderspec.drawing.compose import compose
from ladderspec.drawing.maths import text_of
from ladderspec.drawing.parts import Picture
from ladderspec.drawing.themes import Theme, theme_of
from ladderspec.drawing.view import View, iterations_of, length_of
from ladderspec.drawing.writers.svg import to_svg
from ladderspec.drawing.writers.words import escaped
from ladderspec.errors import UsageError
from ladderspec.names import Role, Side, node_name, show_shape, size_of
from ladderspec.schedule.plan import schedule
from ladderspec.wiring.graph import Graph, in_order

ITERATIONS = 4  # as many can be chosen in the page, or more if it is asked for
_FILES = Path(__file__).resolve().parent.parent / "page"
_HOLE = re.compile(r"\{\{(\w+)\}\}")


def to_html(graph: Graph, picture: Picture, view: View) -> str:
    _refuse(picture, view)
    shown = "rolled" if view.rolled else str(iterations_of(view, picture))
    views = _views(picture, view, length_of(graph) or ITERATIONS)
    drawings = {name: _drawing(picture, each) for name, each in views}
    others = [_template(name, text) for name, text in drawings.items() if name != shown]
    data = {
        "shown": shown,
        "views": list(drawings),
        "start": view.start,
        "facts": _counts(picture, view),
        **facts(graph),
    }
    theme = theme_of(view.theme)
    holes = {
        "title": escaped(view.title or picture.title),
        "style": f"{_colours(theme)}\n{_file('page.css')}",
        "drawing": drawings[shown],
        "others": "\n".join(others),
        "kinds": "\n".join(_kinds(graph, theme)),
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": "\n\n".join(map(_file, ("rules.js", "camera.js", "page.js"))),
    }
    return _HOLE.sub(lambda hole: holes[hole[1]], _file("page.html"))


def _refuse(picture: Picture, view: View) -> None:
    """What a page has no use for."""
    if view.mini:
        raise UsageError("a page shows the views unrolled and rolled, not mini")
    if view.width:
        raise UsageError("a page is as wide as its window: leave `width` out")
    if view.fold:
        raise UsageError("a page shows every row, so that each arrow can be removed: no `fold`")
    if picture.compares:
        raise UsageError("a page shows one network: leave out what it is compared with")


def _file(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8").strip()


# --- drawings -------------------------------------------------------------------------------------


def _views(picture: Picture, view: View, length: int) -> Iterator[tuple[str, View]]:
    """Rolled, and unrolled with one iteration, two, ...; one view where nothing is delayed."""
    delayed = any(arrow.delay for arrow in picture.arrows)
    if delayed or view.rolled:
        yield "rolled", view._replace(kind="rolled", iterations=None)
    most = max(min(ITERATIONS, length), view.iterations or 1) if delayed else view.iterations or 1
    for count in range(1, most + 1):
        yield str(count), view._replace(kind="unrolled", iterations=count)


def _drawing(picture: Picture, view: View) -> str:
    return to_svg(compose(picture, view)).partition("\n")[2].strip()


def _counts(picture: Picture, view: View) -> dict[str, str]:
    """The line of every box that ends with its number of parameters."""
    if "params" not in view.labels:
        return {}
    return {n: text_of(labels.facts(part, view.labels)) for n, part in picture.parts.items()}


def _template(name: str, drawing: str) -> str:
    return f'<template data-view="{name}">{drawing}</template>'


def _colours(theme: Theme) -> str:
    names = {
        "paper": theme.background,
        "ink": theme.text,
        "faint": theme.faint,
        "rule": theme.rule,
        "gone": theme.removed.colour,
        "accent": theme.coats[Side.DECODER].line,
        "tint": theme.coats[Side.DECODER].fill,
        "alarm": theme.coats[Side.ENCODER].line,
        "alarm-tint": theme.coats[Side.ENCODER].fill,
        "here": theme.task.line,
    }
    scheme = "dark" if theme is theme_of("dark") else "light"
    words = "".join(f" --{name}: {colour};" for name, colour in names.items())
    return f":root {{ color-scheme: {scheme};{words} }}"


def _kinds(graph: Graph, theme: Theme) -> Iterator[str]:
    """A box to untick for every kind of arrow, with a sample of its line."""
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


# --- facts ----------------------------------------------------------------------------------------


def facts(graph: Graph) -> dict[str, Any]:
    """The graph as the page knows it."""
    phases = schedule(graph).phases
    order = {node: index for index, node in enumerate(in_order(graph))}
    roles = {role: index for index, role in enumerate(Role)}
    edges = [
        {
            "source": source,
            "target": target,
            "role": words["role"].value,
            "delay": words["delay"],
            "parameters": words["parameters"],
        }
        for source, target, words in sorted(
            graph.edges(data=True),
            key=lambda e: (order[e[1]], roles[e[2]["role"]], e[2]["delay"], order[e[0]]),
        )
    ]
    return {
        "name": graph.graph["name"],
        "variants": list(graph.graph.get("variants", ())),
        "roles": [role.value for role in Role],
        "levels": [_level(graph, level) for level in graph.graph["levels"]],
        "nodes": [_node(graph, node) for node in order],
        "edges": edges,
        "tasks": [
            {"name": name, "at": entry["at"], "parameters": entry["parameters"]}
            for name, entry in graph.graph["tasks"].items()
        ],
        "order": [node for phase in phases for node in phase.nodes],
    }


def _node(graph: Graph, node: str) -> dict[str, Any]:
    words = graph.nodes[node]
    cell, own = words["cell"], words["own"]
    started = {name: size_of(shape) for name, shape in own.items() if name.startswith("initial")}
    first = started.get("initial", 0)
    place = words["place"]
    return {
        "id": node,
        "cell": cell.cell,
        "says": _fields(cell.model_dump(mode="json", exclude_unset=True, exclude_none=True)),
        "shape": show_shape(words["shape"]),
        "own": words["parameters"] - sum(started.values()),
        "initial": [first, sum(started.values()) - first],  # of its output, of its state
        "needs": [role.value for role in Role if role in cell.needs(words["side"])],
        "row": re.split(r"[/\\]", str(place))[-1] if place else "",
        "text": place.source.line(place.line).strip() if hasattr(place, "source") else "",
        "path": words["path"],
    }


def _fields(words: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_value(value)}" for key, value in words.items() if key != "cell")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "\u00d7".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(str(each) for each in value.values() if each is not None)
    return str(value)


def _level(graph: Graph, level: str) -> dict[str, Any]:
    """What decoders ask of a level: whether its shape is known, and follows from the one below."""
    node = node_name(Side.ENCODER, level)
    return {
        "name": level,
        "known": level in graph.graph["level_shapes"],
        "follows": node not in graph or _follows(graph.nodes[node]["cell"]),
    }


def _follows(cell: Cell) -> bool:
    """Whether the shape of an encoder depends on what enters it."""
    try:
        cell.out_shape(Site(Side.ENCODER, ()))
    except Exception:  # whatever a cell does that finds no arrow
        return True
    return False
