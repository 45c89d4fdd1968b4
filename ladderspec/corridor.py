"""The corridor: every room once, in order. A new reader starts here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from networkx import MultiDiGraph

from ladderspec.errors import Finding, Findings, SpecError, UsageError
from ladderspec.language.extends import plain_source
from ladderspec.language.read import Document, Request, Spec, document, open_document, read
from ladderspec.wiring import shapes, variant
from ladderspec.wiring.checks import check
from ladderspec.wiring.expectations import check_expect
from ladderspec.wiring.graph import Graph, place_nodes, wire

if TYPE_CHECKING:
    from ladderspec.network.net import Net
    from ladderspec.schedule.plan import Plan

# Not where a spec is read for an experiment: its commands take no root.
ROOT_WIDENS = "`--root FOLDER` widens it"


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
    return open_spec(path, Request.of(variant, without, add, set), root)


def loads(text: str, variant: str | Sequence[str] | None = None, **changes: Any) -> Spec:
    """Read a spec from a text; `changes` as in `load`."""
    return spec_of(document(plain_source("<text>", text)), Request.of(variant, **changes))


def open_spec(path: str | Path, request: Request, root: str | Path | None = None) -> Spec:
    """`load` with the changes as one value."""
    return spec_of(open_document(path, Path(root) if root else None, ROOT_WIDENS), request)


def spec_of(document: Document, request: Request) -> Spec:
    """A spec of a file that was read before."""
    findings = Findings()
    spec = read(document, request, findings)
    if spec is not None:
        compile_graph(spec, findings)
    findings.raise_if_any()
    assert spec is not None
    return spec


def graph(spec: Spec | str | Path | Graph) -> Graph:
    """The typed graph of a spec or of its file, with shapes and parameter counts."""
    if isinstance(spec, MultiDiGraph):
        return spec
    if not isinstance(spec, Spec | str | Path):
        given = type(spec).__name__
        raise UsageError(f"a spec is needed, as `load` gives it; this is of type {given}")
    findings = Findings()
    result = compile_graph(load(spec) if isinstance(spec, str | Path) else spec, findings)
    findings.raise_if_any()
    return result


def plan(spec: Spec | str | Path | Graph) -> Plan:
    """How the network of a spec or of its file runs: phases, what is carried, why."""
    from ladderspec.schedule.plan import schedule

    return schedule(graph(spec))


def compile_graph(spec: Spec, findings: Findings) -> Graph:
    """Spec -> graph, collecting what is wrong."""
    result = place_nodes(spec, findings)  # Spec -> nodes
    if findings.enough:
        return result
    wire(result)  # the arrows of the rows
    for patch in spec.patches:
        variant.apply(result, patch, findings)  # what goes, moves and comes
    variant.read_tasks(result, spec, findings)
    shapes.infer_levels(result)  # of all levels, read or not
    variant.prune(result)  # what no task reads
    check(result, findings)  # roles, cycles
    shapes.infer(result, findings)  # shapes and parameters
    check_expect(result, spec, findings)
    return result


def build(spec: Spec | str | Path | Graph, seed: int = 0) -> Net:
    """The network of a spec or its file: a torch module, its initial values drawn from `seed`."""
    from ladderspec.network.net import Net  # torch comes in here
    from ladderspec.schedule.plan import schedule

    wired = graph(spec)  # Spec -> graph with shapes
    return Net(wired, schedule(wired), seed)  # graph -> Plan -> torch


# --- validation of a whole file -------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """What `validate` found out about a file."""

    findings: tuple[Finding, ...]
    levels: int = 0
    parameters: int = 0
    variants: int = 0
    runs: int = 0  # of an experiment
    notes: tuple[str, ...] = ()  # what was pruned


def validate(path: str | Path, request: Request, root: str | Path | None = None) -> Checked:
    """Check a spec with all its variants, or as changed by `request`; or an experiment."""
    findings = Findings()
    try:
        document = open_document(path, Path(root) if root else None, ROOT_WIDENS)
        if document.is_experiment and request == Request() and str(path) != "-":
            return _check_experiment(path)
        spec = read(document, request, findings)
        if spec is None:
            return Checked(tuple(findings.sorted()))
        built = compile_graph(spec, findings)
        names = list(spec.words.variants) if request == Request() else []
        for name in names:
            if not findings.enough:
                _check_variant(document, name, findings)
    except SpecError as error:
        return Checked(error.findings)
    if findings:
        return Checked(tuple(findings.sorted()))
    size = shapes.parameters(built)
    return Checked(
        (), len(built.graph["levels"]), size, len(names), notes=tuple(built.graph["notes"])
    )


def _check_experiment(path: str | Path) -> Checked:
    from ladderspec.experiments.open import open_experiment  # which reads specs with this module

    return Checked((), runs=len(open_experiment(path).runs))


def _check_variant(document: Document, name: str, findings: Findings) -> None:
    """Add what is wrong with a variant; not again what is wrong with what it builds on."""
    own = Findings()
    spec = read(document, Request(variant=(name,)), own)
    if spec is not None:
        compile_graph(spec, own)
    for finding in own.sorted():
        if finding.place is None or not findings.blames(finding.place):
            findings.add(replace(finding, notes=(*finding.notes, f"in variant `{name}`")))
