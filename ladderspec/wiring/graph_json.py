"""The graph as node-link JSON, out and in again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
from pydantic import TypeAdapter, ValidationError

from ladderspec.cells import Cell, registered
from ladderspec.cells.input import Input
from ladderspec.errors import Findings, SpecError, UsageError
from ladderspec.names import TABLE, Role, Side
from ladderspec.tasks import AnyTask
from ladderspec.wiring.checks import check
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.grids import Grid
from ladderspec.wiring.shapes import infer

FORMAT = "ladderspec graph 1"


def dumps(graph: Graph) -> str:
    """JSON that `networkx.node_link_graph` reads as well."""
    return json.dumps(as_dict(graph), indent=1, ensure_ascii=False)


def as_dict(graph: Graph) -> dict[str, Any]:
    plain = nx.MultiDiGraph(
        format=FORMAT,
        **{key: graph.graph[key] for key in _PLAIN},
        delays={str(role): delay for role, delay in graph.graph["delays"].items()},
        level_shapes={level: list(shape) for level, shape in graph.graph["level_shapes"].items()},
        tasks={
            name: {**entry["task"].model_dump(mode="json", exclude_none=True), "nodes": entry["at"]}
            for name, entry in graph.graph["tasks"].items()
        },
    )
    for node, facts in graph.nodes(data=True):
        plain.add_node(
            node,
            side=str(facts["side"]),
            level=facts["level"],
            cell=_cell(facts["cell"]),
            initial=facts["initial"],
            shape=list(facts["shape"]),
            parameters=facts["parameters"],
            place=str(facts["place"]) if facts["place"] else None,
            path=facts["path"],
        )
    for source, target, key, facts in graph.edges(keys=True, data=True):
        words = {word: facts[word] for word in _OF_ARROW if facts.get(word) is not None}
        plain.add_edge(
            source,
            target,
            key=key,
            role=str(facts["role"]),
            delay=facts["delay"],
            parameters=facts["parameters"],
            declared=facts["declared"],
            **words,
        )
    found: dict[str, Any] = nx.node_link_data(plain, edges="edges")
    return found


_OF_ARROW = ("filter", "norm", "gain", "label")
_PLAIN = ("name", "title", "levels", "labels", "frames", "iterations", "notes", "grids")


def _cell(cell: Cell) -> dict[str, Any]:
    return {"cell": cell.cell, **cell.model_dump(mode="json", exclude_none=True, exclude={"cell"})}


def loads(text: str) -> Graph:
    """The graph again, its shapes and counts computed anew and checked."""
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


def open_graph(place: Path) -> Graph:
    """The graph in a file."""
    try:
        return loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {place}: {(error.strerror or '').lower()}") from None
    except (UsageError, SpecError, ValueError) as error:
        raise UsageError(f"{place}: {error}") from None


def _graph(data: dict[str, Any]) -> Graph:
    if data["graph"].get("format") != FORMAT:
        raise ValueError(f"expected `{FORMAT}`")
    plain = nx.node_link_graph(data, edges="edges", multigraph=True, directed=True)
    facts = plain.graph
    grids = {level: Grid(*numbers) for level, numbers in facts["grids"].items()}
    graph = nx.MultiDiGraph(
        **{key: facts[key] for key in _PLAIN} | {"grids": grids},
        order={level: index for index, level in enumerate(facts["levels"])},
        delays={role: facts["delays"][role] for role in TABLE},
        level_shapes={level: tuple(shape) for level, shape in facts["level_shapes"].items()},
        tasks={},
        broken=False,
        removed={},
        gains={},
    )
    for node, words in plain.nodes(data=True):
        side, cell = Side(words["side"]), words["cell"]
        kind = Input if cell["cell"] == "Input" else registered(side).get(cell["cell"])
        if kind is None:
            raise ValueError(f"no cell `{cell['cell']}` is known here; load its plug-in first")
        graph.add_node(
            node,
            side=side,
            level=words["level"],
            cell=kind.model_validate(cell),
            initial=words["initial"],
            place=None,
            path=words["path"],
        )
    for source, target, key, words in plain.edges(keys=True, data=True):
        own = {word: words.get(word) for word in _OF_ARROW[1:]}
        filter_words = tuple(words["filter"]) if "filter" in words else None
        graph.add_edge(
            source, target, key=key, role=Role(words["role"]), delay=words["delay"],
            declared=words["declared"], filter=filter_words, place=None, path="", **own,
        )  # fmt: skip
    task = TypeAdapter[Any](AnyTask)
    for name, words in facts["tasks"].items():
        nodes = words.pop("nodes")
        graph.graph["tasks"][name] = {
            "task": task.validate_python(words),
            "at": nodes,
            "place": None,
            "path": f"tasks.{name}",
        }
    findings = Findings()
    check(graph, findings)
    infer(graph, findings)
    findings.raise_if_any()
    for node, words in plain.nodes(data=True):
        graph.nodes[node]["place"] = words["place"]
    return graph
