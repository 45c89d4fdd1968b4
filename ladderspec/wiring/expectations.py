"""Graph -> findings: what a spec promises with `expect`, and does not keep."""

from __future__ import annotations

from ladderspec.errors import Finding, Findings, tick
from ladderspec.language.read import Spec
from ladderspec.names import show_shape
from ladderspec.wiring.absent import missing_node
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.shapes import parameters


def check_expect(graph: Graph, spec: Spec, findings: Findings) -> None:
    """`expect`: facts that the spec promises."""
    if spec.expect is None or graph.graph["broken"] or findings:
        return
    root = ("variants", spec.variants[-1], "expect") if spec.variants else ("expect",)
    expected, total = spec.expect, parameters(graph)
    if expected.parameters not in (None, total):
        at = spec.at(*root, "parameters")
        message = f"expected {expected.parameters:,} parameters, but there are {total:,}"
        findings.add(Finding("E401", message, at.place, at.path))
    for node, shape in expected.shape.items():
        at = spec.at(*root, "shape", node)
        if node not in graph:
            pruned = any(note.startswith(f"{node} pruned") for note in graph.graph["notes"])
            hint = "pruned: no task reads it" if pruned else missing_node(graph, node)
            place = spec.at(*root, "shape").key_place(node)
            findings.add(Finding("E401", f"{tick(node)} is not there", place, at.path, hint))
        elif graph.nodes[node]["shape"] != shape:
            is_now = show_shape(graph.nodes[node]["shape"])
            message = f"expected {node} to be {show_shape(shape)}, but it is {is_now}"
            findings.add(Finding("E401", message, at.place, at.path))
