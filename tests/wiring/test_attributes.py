"""The attributes of graphs: all of them declared, the same from a spec and from JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ladderspec as ls
from ladderspec.language.edges import Edges
from ladderspec.names import SKIP_STYLE, TABLE, Role
from ladderspec.trained.lesion import lesion
from ladderspec.wiring import graph_json
from ladderspec.wiring.graph import (
    EdgeAttributes,
    Graph,
    GraphAttributes,
    NodeAttributes,
    TaskAttributes,
)
from ladderspec.wiring.table import to_text

SPECS = sorted(map(str, Path("specs").glob("*/*.yaml")))
TINY = "specs/ommnist/rladder_tiny.yaml"


def declared(kind: Any) -> set[str]:
    return set(kind.__annotations__)


def check(graph: Graph) -> None:
    """A finished graph has exactly the attributes that its types declare."""
    assert type(graph) is Graph
    assert set(graph.graph) == declared(GraphAttributes)
    for _, node in graph.nodes(data=True):
        assert set(node) == declared(NodeAttributes)
    for *_, edge in graph.edges(data=True):
        assert set(edge) == declared(EdgeAttributes)
    for task in graph.graph["tasks"].values():
        assert set(task) == declared(TaskAttributes)


@pytest.mark.parametrize("path", [path for path in SPECS if "experiments" not in path])
def test_a_graph_from_json_is_the_same_graph(path: str) -> None:
    graph = ls.graph(path)
    again = graph_json.loads(graph_json.dumps(graph))
    check(graph)
    check(again)
    assert graph_json.dumps(again) == graph_json.dumps(graph)
    assert ls.to_text(again) == ls.to_text(graph)
    assert to_text(again) == to_text(graph)
    for node in graph:
        for key in declared(NodeAttributes) - {"place"}:
            assert again.nodes[node][key] == graph.nodes[node][key], (node, key)
    for edge in graph.edges:
        for key in declared(EdgeAttributes) - {"place", "path"}:
            assert again.edges[edge][key] == graph.edges[edge][key], (edge, key)
    for key in declared(GraphAttributes) - {"tasks", "ineffective"}:  # places are those of the text
        assert again.graph[key] == graph.graph[key], key


def test_it_builds() -> None:
    spec = ls.load(TINY, without="lateral@pool*")
    again = graph_json.loads(graph_json.dumps(ls.graph(spec)))
    assert again.graph["without"] == ["lateral@pool*"]
    ours, theirs = ls.build(spec).state_dict(), ls.build(again).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    check(lesion(again, ["decoder_to_encoder"]))


def test_earlier_files_without_variants_are_read() -> None:
    data = graph_json.dumps(ls.graph(TINY))
    lines = [line for line in data.splitlines() if '"without": []' not in line]
    lines = [line for line in lines if '"variants": []' not in line]
    assert len(lines) == len(data.splitlines()) - 2
    check(graph_json.loads("\n".join(lines)))


def test_a_role_is_one_row() -> None:
    assert [*TABLE, Role.SKIP] == list(Role)
    assert [role.order for role in Role] == list(range(len(Role)))
    properties = Edges.model_fields
    assert list(properties) == [*TABLE, "add"]
    for role, row in TABLE.items():
        assert properties[role].description == row.description
    styles = [*(row.style for row in TABLE.values()), SKIP_STYLE]
    assert sorted(style.legend for style in styles) == list(range(len(Role)))
