"""Graph -> modules by the names of the diagram: one per node, one per task."""

from __future__ import annotations

from typing import Any

from torch import nn

from ladderspec.network.readouts import Readout
from ladderspec.network.steps import Home, home_of
from ladderspec.nn._build import build_cell
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.shapes import site_of

OFFSET = ("prediction", "denoising")  # tasks whose output has a mean that data can tell


def cells_of(graph: Graph, seed: int = 0) -> dict[str, nn.Module]:
    """The cells by node; those of users draw from `seed` and the node as they are built."""
    return {node: _cell(graph, node, seed) for node in graph}


def _cell(graph: Graph, node: str, seed: int) -> nn.Module:
    facts = graph.nodes[node]
    site = site_of(graph, node)
    edges = {key: edge for _, _, key, edge in graph.in_edges(node, keys=True, data=True)}
    projections = {inlet.key: edges[inlet.key]["projection"] for inlet in site.inlets}
    steps = graph.graph["frames"] or graph.graph["iterations"]
    fixed = None if steps == "any" else steps
    promised = (facts["shape"], facts["own"], projections)
    return build_cell(facts["cell"], site, *promised, fixed, node, seed)


def readouts_of(graph: Graph, name: str) -> dict[str, Readout]:
    """What a task owns, by the node that it reads."""
    entry: dict[str, Any] = graph.graph["tasks"][name]
    task, several = entry["task"], len(entry["at"]) > 1
    found = {}
    for node in entry["at"]:
        prefix = f"{node}." if several else ""
        own = {key: entry["own"][prefix + key] for key in ("weight", "bias") if entry["own"]}
        offset = task.kind in OFFSET and not several
        found[node] = Readout(own, graph.nodes[node]["shape"], offset, task.teaches)
    return found


def names_of(readouts: dict[str, dict[str, Readout]]) -> dict[str, nn.Module]:
    """The same by the names of their parameters."""
    return {
        _name(task, node, by_node): module
        for task, by_node in readouts.items()
        for node, module in by_node.items()
    }


def homes_of(
    root: nn.Module, readouts: dict[str, dict[str, Readout]]
) -> dict[str, dict[str, Home]]:
    """Where they stand in a network."""
    return {
        task: {node: home_of(root, _name(task, node, by_node)) for node in by_node}
        for task, by_node in readouts.items()
    }


def _name(task: str, node: str, by_node: dict[str, Readout]) -> str:
    """`task.NAME`, or `task.NAME.NODE` where a task reads several."""
    return f"task.{task}.{node}" if len(by_node) > 1 else f"task.{task}"
