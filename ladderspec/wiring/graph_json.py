"""The graph as node-link JSON, out and in again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
from pydantic import ValidationError

from ladderspec import tasks
from ladderspec.cells import Cell, registered
from ladderspec.cells.grouping import Groups
from ladderspec.cells.input import Input
from ladderspec.errors import SpecError, UsageError
from ladderspec.names import TABLE, Role, Side
from ladderspec.wiring.checks import check
from ladderspec.wiring.graph import (
    EdgeAttributes,
    GraphAttributes,
    Grid,
    LadderGraph,
    NodeAttributes,
    TaskAttributes,
)
from ladderspec.wiring.shapes import infer
from ladderspec.wiring.wire import Compilation

FORMAT = "ladderspec graph 1"


def dumps(graph: LadderGraph) -> str:
    """JSON that `networkx.node_link_graph` reads as well."""
    return json.dumps(as_dict(graph), indent=1, ensure_ascii=False)


def as_dict(graph: LadderGraph) -> dict[str, Any]:
    """The graph as nested dicts and lists."""
    attributes: Any = graph.graph
    plain = nx.MultiDiGraph(
        format=FORMAT,
        **{key: attributes[key] for key in _PLAIN},
        delays={str(role): delay for role, delay in graph.graph["delays"].items()},
        level_shapes={level: list(shape) for level, shape in graph.graph["level_shapes"].items()},
        tasks={
            name: {**entry["task"].model_dump(mode="json", exclude_none=True), "nodes": entry["at"]}
            for name, entry in graph.graph["tasks"].items()
        },
    )
    for name, node in graph.nodes(data=True):
        plain.add_node(
            name,
            side=str(node["side"]),
            level=node["level"],
            cell=_cell(node["cell"]),
            initial=node["initial"],
            shape=list(node["shape"]),
            parameters=node["parameters"],
            place=str(node["place"]) if node["place"] else None,
            path=node["path"],
        )
    for source, target, key, edge in graph.edges(keys=True, data=True):
        plain.add_edge(
            source,
            target,
            key=key,
            role=str(edge["role"]),
            delay=edge["delay"],
            parameters=edge["parameters"],
            declared=edge["declared"],
            **{option: edge[option] for option in _OPTIONS if edge[option] is not None},
        )
    found: dict[str, Any] = nx.node_link_data(plain, edges="edges")
    return found


_OPTIONS = ("filter", "norm", "gain", "label")  # of an edge
_PLAIN = (
    "name", "title", "variants", "without", "levels", "labels", "frames", "iterations", "notes",
    "grids",
)  # fmt: skip


def _cell(cell: Cell) -> dict[str, Any]:
    return {"cell": cell.cell, **cell.model_dump(mode="json", exclude_none=True, exclude={"cell"})}


def loads(text: str) -> LadderGraph:
    """The graph in a JSON text, with its shapes and counts computed again and checked."""
    try:
        return _graph(json.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where, wrong = ".".join(map(str, first["loc"])), first["msg"].lower()
        raise UsageError(f"this is no graph of ladderspec: {where}: {wrong}") from None
    except KeyError as error:
        raise UsageError(f"this is no graph of ladderspec: it has no {error}") from None
    except (ValueError, TypeError, AttributeError, nx.NetworkXError) as error:
        raise UsageError(f"this is no graph of ladderspec: {error}") from None


def open_graph(place: Path) -> LadderGraph:
    """The graph in a file."""
    try:
        return loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {place}: {(error.strerror or '').lower()}") from None
    except (UsageError, SpecError, ValueError) as error:
        raise UsageError(f"{place}: {error}") from None


def _graph(data: dict[str, Any]) -> LadderGraph:
    if data["graph"].get("format") != FORMAT:
        raise ValueError(f"expected `{FORMAT}`")
    plain = nx.node_link_graph(data, edges="edges", multigraph=True, directed=True)
    graph = LadderGraph(**_graph_attributes(plain.graph))
    for name, node in plain.nodes(data=True):
        graph.add_node(name, **_node_attributes(node))
    for source, target, key, edge in plain.edges(keys=True, data=True):
        graph.add_edge(source, target, key=key, **_edge_attributes(edge))
    work = Compilation(graph)
    check(work)
    infer(work)
    work.findings.raise_if_any()
    return graph


def _graph_attributes(read: dict[str, Any]) -> GraphAttributes:
    return {
        "name": read["name"],
        "title": read["title"],
        "variants": tuple(read.get("variants", ())),  # files of earlier versions lack them
        "without": read.get("without", []),
        "levels": read["levels"],
        "order": {level: index for index, level in enumerate(read["levels"])},
        "labels": read["labels"],
        "frames": read["frames"],
        "iterations": read["iterations"],
        "tasks": {name: _task_attributes(name, task) for name, task in read["tasks"].items()},
        "delays": {role: read["delays"][role] for role in TABLE},
        "notes": read["notes"],
        "level_shapes": {level: tuple(shape) for level, shape in read["level_shapes"].items()},
        "grids": {level: Grid(*numbers) for level, numbers in read["grids"].items()},
    }


def _task_attributes(name: str, read: dict[str, Any]) -> TaskAttributes:
    fields = {key: value for key, value in read.items() if key != "nodes"}
    kind = tasks.registered().get(read["kind"])
    if kind is None:
        raise ValueError(f"no task `{read['kind']}` is known here; load its plug-in first")
    task = kind.model_validate(fields)
    return {"task": task, "at": read["nodes"], "place": None, "path": f"tasks.{name}"}


def _node_attributes(read: dict[str, Any]) -> NodeAttributes:
    side, cell = Side(read["side"]), read["cell"]
    own: dict[str, type[Cell]] = {"Input": Input, "Groups": Groups}
    kind = own.get(cell["cell"]) or registered(side).get(cell["cell"])
    if kind is None:
        raise ValueError(f"no cell `{cell['cell']}` is known here; load its plug-in first")
    return {
        "side": side,
        "level": read["level"],
        "cell": kind.model_validate(cell),
        "initial": read["initial"],
        "place": read["place"],
        "path": read["path"],
    }


def _edge_attributes(read: dict[str, Any]) -> EdgeAttributes:
    return {
        "role": Role(read["role"]),
        "delay": read["delay"],
        "declared": read["declared"],
        "place": None,
        "path": "",
        "filter": tuple(read["filter"]) if "filter" in read else None,
        "norm": read.get("norm"),
        "gain": read.get("gain"),
        "label": read.get("label"),
    }
