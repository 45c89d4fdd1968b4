"""The corridor: every room once, in order. A new reader starts here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladderspec import shapes, variant
from ladderspec.errors import Findings, Source
from ladderspec.graph import Graph, check, place_nodes, wire
from ladderspec.read import Request, Spec, open_source, read


def load(
    path: str | Path,
    variant: str | Sequence[str] | None = None,
    *,
    without: str | Sequence[str] = (),
    add: str | Sequence[str] = (),
    set: Mapping[str, Any] | Sequence[str] = (),
    root: str | Path | None = None,
) -> Spec:
    """Read a spec file; raise SpecError with all that is wrong in it.

    `variant`, `without`, `add` and `set` speak as the language does. `extends` stays inside the
    folder of `path`, or inside `root`.
    """
    request = Request.of(variant, without, add, set)
    source, file = open_source(path)
    findings = Findings()
    spec = read(source, file, request, findings, Path(root) if root else None)
    if spec is not None:
        compile_graph(spec, findings)
    findings.raise_if_any()
    assert spec is not None
    return spec


def loads(text: str, variant: str | Sequence[str] | None = None, **changes: Any) -> Spec:
    """Read a spec from a text."""
    findings = Findings()
    spec = read(Source("<text>", text), None, Request.of(variant, **changes), findings)
    if spec is not None:
        compile_graph(spec, findings)
    findings.raise_if_any()
    assert spec is not None
    return spec


def graph(spec: Spec) -> Graph:
    """The typed graph of a spec, with shapes and parameter counts."""
    findings = Findings()
    result = compile_graph(spec, findings)
    findings.raise_if_any()
    return result


def compile_graph(spec: Spec, findings: Findings) -> Graph:
    """Spec -> graph, collecting what is wrong."""
    result = place_nodes(spec, findings)  # Spec -> nodes
    wire(result)  # the arrows of the rows
    for patch in spec.patches:
        variant.apply(result, patch, findings)  # what goes, moves and comes
    variant.read_tasks(result, spec, findings)
    variant.prune(result)  # what no task reads
    check(result, findings)  # roles, cycles
    shapes.infer(result, findings)  # shapes and parameters
    shapes.check_expect(result, spec, findings)
    return result
