"""The pipeline: text -> Spec -> graph -> plan -> network. Start reading here.

Each stage is one public function, and `compile_graph` lists the stages between a Spec and its
graph. A loaded Spec carries its graph, so that every network is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx

from ladderspec.arguments import checked
from ladderspec.errors import Finding, Findings, SpecError, UsageError
from ladderspec.language.extends import plain_source
from ladderspec.language.read import Document, Request, Spec, document, open_document, read
from ladderspec.wiring.checks import check, check_expect
from ladderspec.wiring.graph import Graph, parameters
from ladderspec.wiring.notes import take_notes
from ladderspec.wiring.patches import apply
from ladderspec.wiring.shapes import infer, infer_levels
from ladderspec.wiring.sharing import check_owners, name_owners
from ladderspec.wiring.wire import place_nodes, prune, read_tasks, wire

if TYPE_CHECKING:
    from ladderspec.network.net import Net
    from ladderspec.schedule.plan import Plan

# A hint for specs that are read by commands with a `--root` option; those of experiments have none.
ROOT_WIDENS = "`--root FOLDER` widens it"


# --- text -> Spec ---------------------------------------------------------------------------------


@checked
def load(
    path: str | Path,
    variant: str | Sequence[str] | None = None,
    *,
    without: str | Sequence[str] = (),
    add: str | Sequence[str] = (),
    set: Mapping[str, Any] | str | Sequence[str] = (),
    root: str | Path | None = None,
) -> Spec:
    """Read and check a spec file.

    Args:
        path: The file; `-` is standard input, `ladderspec:ommnist/rladder` a shipped spec.
        variant: The variant to apply, or several in order.
        without: Selectors of what to remove: `"lateral@conv_*"`, `"task.digit"`.
        add: Arrows to add: `"decoder.input(t-1) -> encoder.conv_2"`.
        set: Fields to change: `{"encoder.lstm1.channels": 16, "params.width": 8}`.
        root: The folder that `extends` may not leave. Default: the folder of `path`.

    Returns:
        The resolved spec. It carries its compiled graph, which `graph`, `plan`, `build` and `draw`
        reuse.

    Raises:
        SpecError: with everything that is wrong in the file.
    """
    return open_spec(path, Request.of(variant, without, add, set), root)


@checked
def loads(
    text: str,
    variant: str | Sequence[str] | None = None,
    *,
    without: str | Sequence[str] = (),
    add: str | Sequence[str] = (),
    set: Mapping[str, Any] | str | Sequence[str] = (),
) -> Spec:
    """Read and check a spec from a string.

    Args:
        text: The YAML text. It cannot use `extends`, which is relative to a file.
        variant: The variant to apply, or several in order.
        without: Selectors of what to remove, as for `load`.
        add: Arrows to add.
        set: Fields to change.

    Raises:
        SpecError: with everything that is wrong in the text.
    """
    return spec_of(document(plain_source("<text>", text)), Request.of(variant, without, add, set))


def open_spec(path: str | Path, request: Request, root: str | Path | None = None) -> Spec:
    """`load` with all changes in one `Request`."""
    return spec_of(open_document(path, Path(root) if root else None, ROOT_WIDENS), request)


def spec_of(document: Document, request: Request) -> Spec:
    """The spec of a file that is parsed already, with the changes of `request`."""
    findings = Findings()
    spec = read(document, request, findings)
    if spec is not None:
        compile_once(spec, findings)
    findings.raise_if_any()
    assert spec is not None
    return spec


# --- Spec -> graph -> plan -> network -------------------------------------------------------------


def graph(spec: Spec | str | Path | Graph) -> Graph:
    """The graph of a network: its nodes and edges with their shapes and parameter counts.

    Args:
        spec: A loaded spec, the path of a spec file, or a graph, which is returned as it is.

    Returns:
        A copy of the graph that the spec carries, free to be changed.

    Raises:
        SpecError: if `spec` is a file with mistakes.
        UsageError: if `spec` is none of these.
    """
    return spec if isinstance(spec, nx.MultiDiGraph) else compiled(spec).copy()


def plan(spec: Spec | str | Path | Graph) -> Plan:
    """How a network runs: what loops over t, what needs no past, what is carried, and why.

    Args:
        spec: A loaded spec, the path of a spec file, or a graph.
    """
    from ladderspec.schedule.plan import schedule

    return schedule(compiled(spec))


@checked
def build(spec: Spec | str | Path | Graph, seed: int = 0) -> Net:
    """The network as a `torch.nn.Module`.

    Args:
        spec: A loaded spec, the path of a spec file, or a graph.
        seed: The seed of the initial values. Each parameter is drawn from this seed and its name.
    """
    from ladderspec.network.net import Net  # imports torch
    from ladderspec.schedule.plan import schedule

    if seed < 0:
        raise UsageError(f"seed: {seed} is not a whole number from 0 on")
    built = compiled(spec)
    return Net(built, schedule(built), seed)


def compiled(spec: Spec | str | Path | Graph) -> Graph:
    """The one graph that a spec carries. It is frozen and shared: `graph` gives a copy."""
    if isinstance(spec, nx.MultiDiGraph):
        given_graph: Graph = spec
        return given_graph
    if isinstance(spec, str | Path):
        spec = load(spec)
    if not isinstance(spec, Spec):
        given = type(spec).__name__
        raise UsageError(f"a spec is needed, as `load` gives it; this is of type {given}")
    findings = Findings()
    built = compile_once(spec, findings)
    findings.raise_if_any()
    return built


def compile_once(spec: Spec, findings: Findings) -> Graph:
    """The graph that `spec` carries; if it carries none yet, compile it and let it carry that."""
    if spec.compiled is not None:
        carried: Graph = spec.compiled
        return carried
    built = compile_graph(spec, findings)
    if not findings:
        spec.carry(nx.freeze(built))
    return built


def compile_graph(spec: Spec, findings: Findings) -> Graph:
    """Spec -> graph. Every stage adds the mistakes that it finds to `findings`."""
    work = place_nodes(spec, findings)  # the nodes of the rows
    if findings.enough:
        return work.graph
    name_owners(work)  # the cells with which others share weights
    wire(work)  # the edges that follow from the rows
    for patch in spec.patches:
        apply(work, patch)  # edges removed, moved and added
    check_owners(work)  # the edges with which others share weights
    read_tasks(work, spec)  # the nodes that tasks read
    infer_levels(work)  # the shapes of all levels, including those that no task reads
    prune(work)  # what no task reads
    check(work)  # needed and refused edges, cycles, delays
    infer(work)  # shapes and parameters
    check_expect(work, spec)
    take_notes(work, spec)  # on what is valid, but probably a mistake
    return work.graph


# --- validation of a whole file -------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """The result of checking a file."""

    findings: tuple[Finding, ...]
    levels: int = 0
    parameters: int = 0
    variants: int = 0
    runs: int = 0  # of an experiment
    notes: tuple[str, ...] = ()  # which nodes were pruned, and what is probably a mistake


def validate(path: str | Path, request: Request, root: str | Path | None = None) -> Checked:
    """Check a spec file: as `request` changes it, or, without changes, with all its variants."""
    try:
        return validate_document(
            open_document(path, Path(root) if root else None, ROOT_WIDENS), request
        )
    except SpecError as error:
        return Checked(error.findings)


def validate_document(document: Document, request: Request) -> Checked:
    """`validate` for a file that is parsed already."""
    findings = Findings()
    spec = read(document, request, findings)
    if spec is None:
        return Checked(tuple(findings.sorted()))
    built = compile_graph(spec, findings)
    names = list(spec.config.variants) if request == Request() else []
    notes = list(built.graph["notes"])
    for name in names:
        if not findings.enough:
            found = _check_variant(document, name, findings)
            notes += [f"variant `{name}`: {note}" for note in found if note not in notes]
    if findings:
        return Checked(tuple(findings.sorted()))
    return Checked(
        (),
        levels=len(built.graph["levels"]),
        parameters=parameters(built),
        variants=len(names),
        notes=tuple(notes),
    )


def probable_mistakes(graph: Graph) -> list[str]:
    """The notes on a graph other than those on nodes that were pruned."""
    return [note for note in graph.graph["notes"] if " pruned: " not in note]


def _check_variant(document: Document, name: str, findings: Findings) -> list[str]:
    """Add the mistakes of a variant, without those of the spec and the variants it builds on.

    Returns its notes.
    """
    of_variant = Findings()
    spec = read(document, Request(variant=(name,)), of_variant)
    notes = [] if spec is None else probable_mistakes(compile_graph(spec, of_variant))
    for finding in of_variant.sorted():
        if finding.place is None or not findings.blames(finding.place):
            findings.add(replace(finding, notes=(*finding.notes, f"in variant `{name}`")))
    return notes
