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
from ladderspec.names import TABLE, Role, Side, edge_key
from ladderspec.plugins import load_installed
from ladderspec.text.notation import MAX_DELAY
from ladderspec.wiring.checks import check
from ladderspec.wiring.graph import (
    OPTIONS,
    Graph,
    TaskAttributes,
)
from ladderspec.wiring.grids import SamplingGrid
from ladderspec.wiring.shapes import infer
from ladderspec.wiring.wire import Compilation
from ladderspec.wording import first_error

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
            **{option: edge[option] for option in OPTIONS if edge[option] is not None},
        )
    found: dict[str, Any] = nx.node_link_data(plain, edges="edges")
    return found


_PLAIN = (
    "name", "title", "variants", "without", "levels", "labels", "frames", "iterations", "notes",
    "grids",
)  # fmt: skip


def _cell(cell: Cell) -> dict[str, Any]:
    return {"cell": cell.cell, **cell.model_dump(mode="json", exclude_none=True, exclude={"cell"})}


def loads(text: str) -> Graph:
    """The graph in a JSON text, with its shapes and counts computed again and checked."""
    try:
        data = parse_json(text)
        try:
            return _graph(data)
        except ValueError:  # an unknown name may be that of an installed package
            if not load_installed():
                raise
            return _graph(data)
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


# --- what a file may contain ----------------------------------------------------------------------

Delay = Annotated[int, Field(ge=0, le=MAX_DELAY)]
Steps = Annotated[int, Field(ge=1, le=100_000)]
Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=200)]
_NODE = r"[a-z]+\.[a-z][a-z0-9_]*"
NodeId = Annotated[str, Field(pattern=rf"^{_NODE}$", max_length=200)]
EdgeId = Annotated[str, Field(pattern=rf"^(none|{_NODE}\.[a-z0-9_]+)$", max_length=600)]
Text = Annotated[OneLine, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=10_000)]
# JSON has lists for tuples, and strings for members of an enumeration.
FileShape = Annotated[
    tuple[Annotated[int, Field(ge=1, le=2**31, strict=True)], ...],
    Field(min_length=1, max_length=8, strict=False),
]


class _File(BaseModel):
    """Strict: a file is refused before anything of it is used. Other keys are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class NodeRecord(_File):
    """A node of the file."""

    id: NodeId
    side: Annotated[Side, Field(strict=False)]
    level: Identifier
    cell: dict[str, Any]  # validated by the class of the cell
    initial: Literal["zeros", "learned"]
    place: Text | None
    path: Text
    share: NodeId | None = None

    def attributes(self) -> dict[str, Any]:
        """The attributes of the node that `infer` does not set."""
        name = self.cell["cell"]
        special = {"Input": FurtherInput if self.side is Side.INPUT else Input, "Groups": Groups}
        kind = special.get(name) or registered(self.side).get(name)
        if kind is None:
            raise ValueError(f"no cell `{name}` is known here; load its plug-in first")
        return {**dict(self), "cell": kind.model_validate(self.cell)}


class EdgeRecord(_File):
    """An edge of the file."""

    source: NodeId
    target: NodeId
    role: Annotated[Role, Field(strict=False)]
    delay: Delay
    declared: bool
    filter: Annotated[tuple[Size, Size], Field(strict=False)] | None = None
    norm: NormName | None = None
    gain: float | None = None
    map: Literal["identity"] | None = None
    resample: Literal["nearest", "bilinear"] | None = None
    scale: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    share: EdgeId | None = None
    tap: Literal["output", "normalised", "logits"] | None = None
    label: Text | None = None


class TaskRecord(_File):
    """A task of the file; its own fields are validated by its class."""

    model_config = ConfigDict(extra="allow")

    kind: str
    nodes: Annotated[list[NodeId], Field(min_length=1)]
    clean: dict[NodeId, Annotated[tuple[Text, Text], Field(strict=False)]] = {}

    def attributes(self, name: str) -> TaskAttributes:
        """The attributes of the task that `infer` does not set."""
        kind = tasks.registered().get(self.kind)
        if kind is None:
            raise ValueError(f"no task `{self.kind}` is known here; load its plug-in first")
        task = kind.model_validate({"kind": self.kind, **(self.model_extra or {})})
        return {
            "task": task, "at": self.nodes, "place": None, "path": f"tasks.{name}",
            "clean": self.clean,
        }  # fmt: skip


class GraphRecord(_File):
    """The attributes of the graph."""

    format: Literal["ladderspec graph 1"]
    name: Text
    title: Text | None
    variants: Annotated[tuple[Text, ...], Field(strict=False)] = ()  # earlier files lack them
    without: list[Text] = []
    levels: Annotated[list[Identifier], Field(max_length=10_000)]
    labels: dict[Identifier, Text]
    frames: Steps | Literal["any"] | None
    iterations: Steps | None
    notes: list[Text]
    grids: dict[Identifier, Annotated[tuple[int, int, int], Field(strict=False)]]
    delays: dict[Annotated[Role, Field(strict=False)], Delay]
    level_shapes: dict[Identifier, FileShape]
    tasks: dict[Identifier, TaskRecord]

    def attributes(self) -> dict[str, Any]:
        """All attributes but the groups, which have a node."""
        return {
            **dict(self),
            "order": {level: index for index, level in enumerate(self.levels)},
            "groups": None,
            "ineffective": {},
            "tasks": {name: task.attributes(name) for name, task in self.tasks.items()},
            "delays": {role: self.delays[role] for role in TABLE},
            "grids": {level: SamplingGrid(*numbers) for level, numbers in self.grids.items()},
        }


class FileRecord(_File):
    """A file of node-link JSON."""

    graph: GraphRecord
    nodes: list[NodeRecord]
    edges: list[EdgeRecord]

    def check_names(self) -> None:
        """All nodes and levels that are named exist."""
        known = {node.id for node in self.nodes}
        named = [end for edge in self.edges for end in (edge.source, edge.target)]
        for task in self.graph.tasks.values():
            named += [*task.nodes, *task.clean, *(source for source, _ in task.clean.values())]
        for name in named:
            if name not in known:
                raise ValueError(f"it names a node `{name}` that it lacks")
        for node in self.nodes:
            if node.level not in self.graph.levels or node.level not in self.graph.grids:
                raise ValueError(f"node `{node.id}` is on level `{node.level}`, which it lacks")


def _graph(data: dict[str, Any]) -> Graph:
    record = FileRecord.model_validate(data)
    record.check_names()
    graph = Graph(**_without(record.graph.attributes(), "format"))
    for node in record.nodes:
        attributes = node.attributes()
        graph.add_node(node.id, **_without(attributes, "id"))
        if isinstance(attributes["cell"], Groups):
            graph.graph["groups"] = attributes["cell"]
    for edge in record.edges:
        attributes = {**_without(dict(edge), "source", "target"), "place": None, "path": ""}
        key = edge_key(edge.role, edge.source, edge.delay)
        graph.add_edge(edge.source, edge.target, key=key, **attributes)
    work = Compilation(graph)
    check(work)
    try:
        infer(work)
    except (LookupError, ArithmeticError, TypeError) as error:  # of a cell, whatever it computes
        raise ValueError(f"its shapes do not fit its cells ({error!r})") from None
    work.findings.raise_if_any()
    for name, found in graph.nodes(data=True):
        if "shape" not in found or "parameters" not in found:
            raise ValueError(f"the shape of `{name}` does not follow from it")
    return graph


def _without(attributes: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in names}
