"""The graph as node-link JSON, out and in again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ladderspec import tasks
from ladderspec.cells import Cell, registered
from ladderspec.cells.fields import NormName, OneLine, Size
from ladderspec.cells.grouping import Groups
from ladderspec.cells.input import FurtherInput, Input
from ladderspec.errors import SpecError, UsageError, reason
from ladderspec.files import parse_json, read_text
from ladderspec.names import TABLE, Role, Side
from ladderspec.text.notation import MAX_DELAY
from ladderspec.wiring.checks import check
from ladderspec.wiring.graph import (
    EdgeAttributes,
    Graph,
    GraphAttributes,
    NodeAttributes,
    SamplingGrid,
    TaskAttributes,
)
from ladderspec.wiring.shapes import infer
from ladderspec.wiring.wire import Compilation
from ladderspec.wording import plain_words

FORMAT = "ladderspec graph 1"


def dumps(graph: Graph) -> str:
    """JSON that `networkx.node_link_graph` reads as well."""
    return json.dumps(as_dict(graph), indent=1, ensure_ascii=False)


def as_dict(graph: Graph) -> dict[str, Any]:
    """The graph as nested dicts and lists."""
    attributes: Any = graph.graph
    plain = nx.MultiDiGraph(
        format=FORMAT,
        **{key: attributes[key] for key in _PLAIN},
        delays={str(role): delay for role, delay in graph.graph["delays"].items()},
        level_shapes={level: list(shape) for level, shape in graph.graph["level_shapes"].items()},
        tasks={
            name: {
                **entry["task"].model_dump(mode="json", exclude_none=True),
                "nodes": entry["at"],
                **({"clean": entry["clean"]} if entry["clean"] else {}),
            }
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
            **({} if node["share"] is None else {"share": node["share"]}),
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


_OPTIONS = (  # of an edge
    "filter", "norm", "gain", "map", "resample", "scale", "share", "tap", "label",
)  # fmt: skip
_PLAIN = (
    "name", "title", "variants", "without", "levels", "labels", "frames", "iterations", "notes",
    "grids",
)  # fmt: skip


def _cell(cell: Cell) -> dict[str, Any]:
    return {"cell": cell.cell, **cell.model_dump(mode="json", exclude_none=True, exclude={"cell"})}


def loads(text: str) -> Graph:
    """The graph in a JSON text, with its shapes and counts computed again and checked."""
    try:
        return _graph(parse_json(text))
    except ValidationError as error:
        raise UsageError(f"this is no graph of ladderspec: {first_error(error)}") from None
    except KeyError as error:
        raise UsageError(f"this is no graph of ladderspec: it has no {error}") from None
    except (ValueError, TypeError, AttributeError, nx.NetworkXError) as error:
        raise UsageError(f"this is no graph of ladderspec: {error}") from None


def open_graph(place: Path) -> Graph:
    """The graph in a file."""
    try:
        text = read_text(place)
    except FileNotFoundError as error:
        raise UsageError(f"cannot read {place}: {reason(error)}") from None
    try:
        return loads(text)
    except (UsageError, SpecError, ValueError) as error:
        raise UsageError(f"{place}: {error}") from None


def first_error(error: ValidationError) -> str:
    """The first mistake that pydantic found, with its place."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "missing":
        *inside, name = map(str, first["loc"])
        return f"it has no '{name}'" + (f" in {'.'.join(inside)}" if inside else "")
    return f"{'.'.join(map(str, first['loc']))}: {plain_words(first)}"


# --- what a file may contain ----------------------------------------------------------------------

Delay = Annotated[int, Field(ge=0, le=MAX_DELAY)]
Steps = Annotated[int, Field(ge=1, le=100_000)]
Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=200)]
_NODE = r"[a-z]+\.[a-z][a-z0-9_]*"
NodeId = Annotated[str, Field(pattern=rf"^{_NODE}$", max_length=200)]
EdgeId = Annotated[str, Field(pattern=rf"^(none|{_NODE}\.[a-z0-9_]+)$", max_length=600)]
Text = Annotated[OneLine, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=10_000)]
FileShape = Annotated[
    list[Annotated[int, Field(ge=1, le=2**31)]], Field(min_length=1, max_length=8)
]


class _File(BaseModel):
    """Strict: a file is refused before anything of it is used. Other keys are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class NodeRecord(_File):
    """A node of the file."""

    id: NodeId
    side: str
    level: Identifier
    cell: dict[str, Any]  # validated by the class of the cell
    initial: Literal["zeros", "learned"]
    place: Text | None
    path: Text
    share: NodeId | None = None


class EdgeRecord(_File):
    """An edge of the file."""

    source: NodeId
    target: NodeId
    key: Annotated[str | int, Field()]
    role: str
    delay: Delay
    declared: bool
    filter: Annotated[list[Size], Field(min_length=2, max_length=2)] | None = None
    norm: NormName | None = None
    gain: float | None = None
    map: Literal["identity"] | None = None
    resample: Literal["nearest", "bilinear"] | None = None
    scale: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    share: EdgeId | None = None
    tap: Literal["output", "normalised", "logits"] | None = None
    label: Text | None = None


class GraphRecord(_File):
    """The attributes of the graph."""

    format: Literal["ladderspec graph 1"]
    name: Text
    title: Text | None
    variants: list[Text] = []
    without: list[Text] = []
    levels: Annotated[list[Identifier], Field(max_length=10_000)]
    labels: dict[Identifier, Text]
    frames: Steps | Literal["any"] | None
    iterations: Steps | None
    notes: list[Text]
    grids: dict[Identifier, Annotated[list[int], Field(min_length=3, max_length=3)]]
    delays: dict[str, Delay]
    level_shapes: dict[Identifier, FileShape]
    tasks: dict[Identifier, TaskRecord]


class TaskRecord(_File):
    """A task of the file; its fields are validated by its own class."""

    nodes: Annotated[list[NodeId], Field(min_length=1)]
    clean: dict[NodeId, Annotated[list[Text], Field(min_length=2, max_length=2)]] = {}


class FileRecord(_File):
    """A file of node-link JSON."""

    graph: GraphRecord
    nodes: list[NodeRecord]
    edges: list[EdgeRecord]


def _graph(data: dict[str, Any]) -> Graph:
    record = FileRecord.model_validate(data)
    known = {node.id for node in record.nodes}
    read = [node for task in record.graph.tasks.values() for node in task.nodes]
    for task in record.graph.tasks.values():
        read += [*task.clean, *(source for source, _ in task.clean.values())]
    for name in [*read, *(end for edge in record.edges for end in (edge.source, edge.target))]:
        if name not in known:
            raise ValueError(f"it names a node `{name}` that it lacks")
    for node in record.nodes:
        if node.level not in record.graph.levels or node.level not in record.graph.grids:
            raise ValueError(f"node `{node.id}` is on level `{node.level}`, which it lacks")
    plain = nx.node_link_graph(data, edges="edges", multigraph=True, directed=True)
    graph = Graph(**_graph_attributes(plain.graph))
    for name, node in plain.nodes(data=True):
        attributes = _node_attributes(node)
        graph.add_node(name, **attributes)
        if isinstance(attributes["cell"], Groups):
            graph.graph["groups"] = attributes["cell"]
    for source, target, key, edge in plain.edges(keys=True, data=True):
        graph.add_edge(source, target, key=key, **_edge_attributes(edge))
    work = Compilation(graph)
    check(work)
    try:
        infer(work)
    except (LookupError, ArithmeticError, TypeError) as error:  # of a cell, whatever it computes
        raise ValueError(f"its shapes do not fit its cells ({error!r})") from None
    work.findings.raise_if_any()
    for name, node in graph.nodes(data=True):
        if "shape" not in node or "parameters" not in node:
            raise ValueError(f"the shape of `{name}` does not follow from it")
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
        "groups": None,  # set from its node
        "tasks": {name: _task_attributes(name, task) for name, task in read["tasks"].items()},
        "delays": {role: read["delays"][role] for role in TABLE},
        "notes": read["notes"],
        "level_shapes": {level: tuple(shape) for level, shape in read["level_shapes"].items()},
        "grids": {level: SamplingGrid(*numbers) for level, numbers in read["grids"].items()},
    }


def _task_attributes(name: str, read: dict[str, Any]) -> TaskAttributes:
    fields = {key: value for key, value in read.items() if key not in ("nodes", "clean")}
    kind = tasks.registered().get(read["kind"])
    if kind is None:
        raise ValueError(f"no task `{read['kind']}` is known here; load its plug-in first")
    task = kind.model_validate(fields)
    clean = {node: (source, tap) for node, (source, tap) in read.get("clean", {}).items()}
    path = f"tasks.{name}"
    return {"task": task, "at": read["nodes"], "place": None, "path": path, "clean": clean}


def _node_attributes(read: dict[str, Any]) -> NodeAttributes:
    side, cell = Side(read["side"]), read["cell"]
    bottom = FurtherInput if side is Side.INPUT else Input
    own: dict[str, type[Cell]] = {"Input": bottom, "Groups": Groups}
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
        "share": read.get("share"),
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
        "map": read.get("map"),
        "resample": read.get("resample"),
        "scale": read.get("scale"),
        "share": read.get("share"),
        "tap": read.get("tap"),
        "label": read.get("label"),
    }
