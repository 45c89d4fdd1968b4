"""Graph -> graph with shapes and parameter counts on every node and arrow; no tensors yet."""

from __future__ import annotations

from dataclasses import replace

from ladderspec.cells import Cell, Inlet, Parameters, ShapeProblem, Site, zeros
from ladderspec.cells.base import normalised_shape
from ladderspec.cells.fields import Noise
from ladderspec.cells.projections import check_norm, unused_options
from ladderspec.errors import Findings
from ladderspec.language.repair import UnknownShape
from ladderspec.names import (
    BOTTOM,
    Role,
    Shape,
    Side,
    node_name,
    show_arrow,
    show_shape,
    split_node,
)
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import (
    MAP_OPTIONS,
    EdgeAttributes,
    Graph,
    NodeAttributes,
    groups_of,
    in_order,
    level_at,
    location,
)
from ladderspec.wiring.grids import SamplingGrid, stride_between, strided
from ladderspec.wiring.readings import check_task, projections_of, set_taps
from ladderspec.wiring.sharing import share
from ladderspec.wiring.wire import Compilation


def infer(work: Compilation) -> None:
    """Shapes flow up the encoders, across the laterals and down the decoders."""
    graph = work.graph
    for node in in_order(graph):
        _infer_shape(work, node)
    for node in in_order(graph):
        if "shape" in graph.nodes[node]:
            _infer_parameters(work, node)
    share(work)
    for role, at in work.gains.items():
        _check_gain(work, role, at)
    set_taps(work)
    for name, entry in graph.graph["tasks"].items():
        check_task(work, name, entry)


def site_of(graph: Graph, node: str) -> Site:
    """The site of the cell at `node`. Raises UnknownShape if an arrow carries no known shape."""
    return _site(graph, node, tuple(inlets(graph, node)))


def _site(graph: Graph, node: str, inlets: tuple[Inlet, ...]) -> Site:
    level, row = _level_shapes(graph, node)
    noise = getattr(graph.nodes[BOTTOM]["cell"], "noise", None)
    return Site(graph.nodes[node]["side"], inlets, level, row, groups_of(graph), noise)


def inlets(graph: Graph, node: str) -> list[Inlet]:
    """The incoming arrows in the order of their roles, which is that of the sum."""
    found, grid = [], graph.nodes[node]["grid"]
    for source, _, key, edge in graph.in_edges(node, keys=True, data=True):
        shape = graph.nodes[source].get("shape")
        if shape is None:
            raise UnknownShape
        stride = stride_between(graph.nodes[source]["grid"], grid)
        options = {word: edge.get(word) for word in MAP_OPTIONS}
        found.append(Inlet(key, edge["role"], edge["delay"], shape, stride=stride, **options))
    return sorted(found, key=lambda inlet: (inlet.role.order, inlet.key))


def infer_levels(work: Compilation) -> None:
    """The shape of every level: decoders need it even if no task reads the encoder."""
    graph = work.graph
    for level in graph.graph["levels"]:
        node = node_name(Side.ENCODER, level)
        if node in graph:
            _infer_shape(replace(work, findings=Findings()), node)
            if "shape" in graph.nodes[node]:
                graph.graph["level_shapes"][level] = graph.nodes[node]["shape"]


def _level_shapes(graph: Graph, node: str) -> tuple[Shape | None, Shape | None]:
    """For a decoder: the shape of its level's encoder, and of the row that it inverts."""
    attributes = graph.nodes[node]
    if attributes["side"] is not Side.DECODER:
        return None, None
    level = attributes["level"]
    row = level_at(graph, level, 1, Side.DECODER) or level
    return _level_shape(graph, level), _level_shape(graph, row)


def _level_shape(graph: Graph, level: str) -> Shape:
    encoder = node_name(Side.ENCODER, level)
    shape = graph.graph["level_shapes"].get(level)
    if shape is None and encoder not in graph:
        raise _Removed(encoder)
    if shape is None:
        raise UnknownShape
    return shape


class _Removed(Exception):
    """A shape follows from a node that was removed."""


def _infer_shape(work: Compilation, node: str) -> None:
    graph = work.graph
    attributes = graph.nodes[node]
    cell = attributes["cell"]
    attributes.pop("shape", None)
    try:
        known = [
            Inlet(key, edge["role"], edge["delay"], graph.nodes[source]["shape"])
            for source, _, key, edge in graph.in_edges(node, keys=True, data=True)
            if graph.nodes[source].get("shape") is not None
        ]
        attributes["shape"] = cell.out_shape(_site(graph, node, tuple(known)))
        attributes["grid"] = grid_of(graph, node)
    except (UnknownShape, StopIteration, IndexError):
        return
    except _Removed as removed:
        _report_removed(work, node, str(removed))
    except ShapeProblem as problem:
        _report(work, node, problem, source=_shaped_by(graph, node))


def _report_removed(work: Compilation, node: str, encoder: str) -> None:
    """Reported at the selector that removed the encoder, unless that has worse mistakes."""
    attributes = work.graph.nodes[node]
    place, path = location(work.removed_nodes.get(encoder) or attributes)
    if place is None or not work.findings.blames(place):
        cell, level = attributes["cell"].cell, split_node(encoder)[1]
        message = f"{cell} at {node} takes its shape from {encoder}, which is gone"
        hint = f"`level.{level}` removes the whole row and joins its neighbours"
        work.report("G205", message, (place, path), hint)


def _shaped_by(graph: Graph, node: str) -> str:
    """The node whose shape decides that of this one."""
    attributes = graph.nodes[node]
    if attributes["side"] is Side.DECODER:
        return node_name(Side.ENCODER, attributes["level"])
    main = Role.LATERAL if attributes["side"] is Side.LATERAL else Role.ENCODER
    return next((a for a, _, role in graph.in_edges(node, data="role") if role is main), "")


def grid_of(graph: Graph, node: str) -> SamplingGrid | None:
    """An encoder lies on the grid of its level, an estimate too, a copy on that of its source."""
    attributes = graph.nodes[node]
    level = graph.graph["grids"][attributes["level"]]
    if attributes["side"] is Side.INPUT:  # maps of another size have no place in the rows
        frame = graph.nodes[BOTTOM].get("shape", ())
        return level if attributes["shape"][1:] == frame[1:] else None
    if attributes["side"] is Side.LATERAL:
        return strided(level, attributes["cell"].row_stride)
    estimated = graph.graph["level_shapes"].get(attributes["level"])
    if attributes["side"] is Side.ENCODER or estimated is None:
        return level
    shape = attributes["shape"]
    if shape[1:] == estimated[1:]:
        return level
    sources = [graph.nodes[source] for source in graph.predecessors(node)]
    return next((s.get("grid") for s in sources if s.get("shape") == shape), None)


def _infer_parameters(work: Compilation, node: str) -> None:
    graph = work.graph
    attributes = graph.nodes[node]
    cell, out = attributes["cell"], attributes["shape"]
    try:
        site = site_of(graph, node)
    except UnknownShape:
        return
    edges = {k: (s, e) for s, _, k, e in graph.in_edges(node, keys=True, data=True)}
    for inlet in site.inlets:
        source, edge = edges[inlet.key]
        if inlet.role not in cell.takes:
            continue  # refused already
        try:
            projection = cell.project(site, inlet, out)
        except ShapeProblem as problem:
            _report(work, node, problem, source, edge)
            continue
        for option in unused_options(inlet, projection):
            if option != "gain" or inlet.role not in work.gains:  # which is for those with a norm
                _report(work, node, _unused(cell, option), source, edge)
        if site.groups is not None and projection.kind == "transposed":
            # CHOICE: the phases of strided transposed filters start alike, or groups settle on a
            # checkerboard and never leave it.
            projection = replace(projection, even_phases=True)
        edge["projection"] = projection
        edge["parameters"] = sum(each.size for each in projection.parameters.values())
    for check in (_check_initial, _check_node_norm, _check_noise):
        try:
            check(graph, node)
        except ShapeProblem as problem:
            _report(work, node, problem)
    parameters = {**cell.parameters(site, out), **_initial(graph, node, cell, out)}
    attributes["cell_parameters"] = parameters
    attributes["parameters"] = sum(each.size for each in parameters.values())


def _unused(cell: Cell, option: str) -> ShapeProblem:
    """An option of an arrow that the cell does not follow."""
    if option == "map":
        return ShapeProblem(f"{cell.cell} takes no `map: identity` here")
    if option in ("resample", "scale"):
        message = f"`{option}` is for arrows without weights"
        return ShapeProblem(message, "add `map: identity`, or enter a Sum")
    return ShapeProblem(f"{cell.cell} gives this arrow no `{option}` of its own")


def _check_initial(graph: Graph, node: str) -> None:
    """Random initial values are not learned."""
    cell = graph.nodes[node]["cell"]
    if cell.first_value is not None and graph.nodes[node]["initial"] == "learned":
        raise ShapeProblem(
            f"what {cell.cell} gives before the first iteration is random, not learned",
            "leave out `initial`; `groups: {start: {pixel: 1, group: 1}}` sets the noise",
        )


def _check_node_norm(graph: Graph, node: str) -> None:
    """The norm of a node must fit the pre-activation, the sum of its arrows."""
    cell = graph.nodes[node]["cell"]
    signature, (_, kind, groups) = cell.signature(), cell.node_norm()
    for _, _, key, edge in graph.in_edges(node, keys=True, data=True):
        if signature.sums(key) and "projection" in edge:
            check_norm(kind, edge["projection"].target, groups)
            return


def _check_noise(graph: Graph, node: str) -> None:
    """Noise is added to a pre-activation that one norm has normalised."""
    cell, projections = graph.nodes[node]["cell"], projections_of(graph, node)
    if cell.cell == "Input" or not isinstance(cell.noise, Noise) or not cell.noise.active:
        return
    if not projections:  # a mistake elsewhere
        return
    if cell.noise.flip:
        message = "`flip` turns bits, but the noise of a cell is added to real numbers"
        raise ShapeProblem(message, "`noise: {gaussian: 0.3}`")
    try:
        normalised_shape(cell, projections)
    except ShapeProblem as problem:
        message = f"`noise` is added to the normalised pre-activation; {problem.message}"
        raise ShapeProblem(message, problem.hint) from None


def _check_gain(work: Compilation, role: Role, at: Node) -> None:
    """The gain of a role is for those of its arrows that have a norm: one at least."""
    arrows = [edge for _, _, edge in work.graph.edges(data=True) if edge["role"] is role]
    known = [edge["projection"] for edge in arrows if "projection" in edge]
    if known and len(known) == len(arrows) and all(p.norm == "none" for p in known):
        message = f"no {role} arrow has a norm, so `gain` sets nothing"
        work.report(
            "H301", message, at, "give the cells that they enter a norm, like `norm: layer`"
        )


def _initial(graph: Graph, node: str, cell: Cell, out: Shape) -> Parameters:
    """`initial: learned`: one value per channel, if a delayed arrow reads it.

    CHOICE: starts at zero, like an initial value that is not learned.
    """
    delayed = [edge for _, _, edge in graph.out_edges(node, data=True) if edge["delay"]]
    if graph.nodes[node]["initial"] != "learned" or not delayed:
        return {}
    found = {"initial": zeros(out[0])}
    if any(edge["role"] == "state" for edge in delayed):
        found |= {f"initial_{name}": zeros(s[0]) for name, s in cell.state_shapes(out).items()}
    return found


def _report(
    work: Compilation,
    node: str,
    problem: ShapeProblem,
    source: str = "",
    edge: EdgeAttributes | None = None,
) -> None:
    """Report a problem of a node, or of one edge that enters it."""
    graph = work.graph
    at: NodeAttributes | EdgeAttributes = graph.nodes[node]
    what = node
    if edge is not None:
        what = show_arrow(source, node, edge["delay"])
        at = edge if edge["declared"] else at
    notes = []
    for name in filter(None, [source, node]):
        if name in graph and graph.nodes[name].get("shape") is not None:
            shape, place = show_shape(graph.nodes[name]["shape"]), graph.nodes[name]["place"]
            notes.append(f"{name} is {shape}" + (f", from {place}" if place else ""))
    hint = problem.hint
    if source == BOTTOM and "works on maps" in problem.message:
        hint = f"maps need `size` in `input`, like `size: [32, 32]`; for a vector, {hint}"
    work.report("H301", f"{what}: {problem.message}", at, hint, notes)
