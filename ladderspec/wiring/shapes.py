"""Graph -> graph with shapes and parameter counts on every node and arrow. Numbers alone."""

from __future__ import annotations

from dataclasses import replace

from ladderspec.cells import Cell, Inlet, Parameters, ShapeProblem, Site, zeros
from ladderspec.cells.base import NoNorm, normalised_shape
from ladderspec.cells.fields import Noise
from ladderspec.cells.projections import Projection, check_norm, unused_options
from ladderspec.errors import Findings, Place, did_you_mean, tick
from ladderspec.language.repair import UnknownShape
from ladderspec.names import (
    BOTTOM,
    Role,
    Shape,
    Side,
    is_input,
    node_name,
    show_arrow,
    show_shape,
    size_of,
    split_node,
)
from ladderspec.tasks import Reading
from ladderspec.tasks.base import ELSE
from ladderspec.text.notation import matches
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import (
    MAP_OPTIONS,
    EdgeAttributes,
    Graph,
    NodeAttributes,
    TaskAttributes,
    copies,
    grid_of,
    groups_of,
    in_order,
    level_at,
    location,
    steps_of,
    stride_between,
)
from ladderspec.wiring.sharing import share
from ladderspec.wiring.wire import Compilation
from ladderspec.wording import some_of


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
        _check_task(work, name, entry)


def site_of(graph: Graph, node: str) -> Site:
    """What the cell at `node` sees. Raises UnknownShape where an arrow carries no known shape."""
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
    cell, projections = graph.nodes[node]["cell"], _projections(graph, node)
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


def _projections(graph: Graph, node: str) -> dict[str, Projection] | None:
    """What the edges of a node own, by key; None if a mistake leaves that open."""
    arrows = list(graph.in_edges(node, keys=True, data=True))
    if any("projection" not in edge for *_, edge in arrows):
        return None
    return {key: edge["projection"] for _, _, key, edge in arrows}


def set_taps(work: Compilation) -> None:
    """Check what arrows carry, and give the arrows of a role the tap of that role.

    A role's tap is for the sources that have such a value; the others give their output.
    """
    graph = work.graph
    used = set[Role]()
    for source, target, edge in graph.edges(data=True):
        role: Role = edge["role"]
        tap, of_role = edge["tap"], edge["tap"] is None and role in work.taps
        if of_role:
            tap = work.taps[role][0]
        if tap in (None, "output"):
            continue
        problem = tap_problem(graph, source, tap)
        if problem is None:
            edge["tap"] = tap
            used.add(role)
        elif not (of_role and isinstance(problem, NoNorm)):
            arrow = show_arrow(source, target, edge["delay"])
            message = f"{arrow}: `tap: {tap}`: {problem.message}"
            work.report("H301", message, work.taps[role][1] if of_role else edge, problem.hint)
            used.add(role)
    for role, (tap, at) in work.taps.items():
        arrows = [a for a, _, r in graph.edges(data="role") if r is role]
        if tap != "output" and role not in used and arrows and not work.findings:
            what = "a norm" if tap == "normalised" else "logits"
            message = f"no {role} arrow leaves a cell with {what}, so `tap: {tap}` sets nothing"
            work.report("H301", message, at, "leave out `tap`")


def tap_problem(graph: Graph, source: str, tap: str) -> ShapeProblem | None:
    """Why a node has no such value, if it has none."""
    attributes = graph.nodes[source]
    cell, projections = attributes["cell"], _projections(graph, source)
    if tap == "logits":
        if "logits" in cell.returns:
            return None
        return NoNorm(f"{source} ({cell.cell}) has no logits", "only a SoftMax has them")
    if cell.cell == "Input":
        return NoNorm(f"{source} has no norm", "leave out `tap`")
    if projections is None or "shape" not in attributes:
        return None
    try:
        shape = normalised_shape(cell, projections)
    except ShapeProblem as problem:
        return type(problem)(f"{source}: {problem.message}", problem.hint)
    if shape != attributes["shape"]:
        return ShapeProblem(
            f"the pre-activation of {source} ({cell.cell}) is {show_shape(shape)}, but its output"
            f" is {show_shape(attributes['shape'])}",
            "name the levels of other cells: `lateral: [{levels: [conv_1], tap: normalised}]`",
        )
    return None


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


def _check_task(work: Compilation, name: str, entry: TaskAttributes) -> None:
    graph, task = work.graph, entry["task"]
    heads: list[Shape] = []
    for node in entry["at"]:
        shape = graph.nodes[node].get("shape")
        if shape is None or graph.nodes[BOTTOM].get("shape") is None:
            continue
        problem = task.check(reading_of(graph, node))
        if problem and "time" not in work.unsure:
            at = _field_of_task(work, name, problem[0])
            work.report("H302", f"task `{name}`: {problem[0]}", at, problem[1])
        if node in entry["clean"]:
            entry["clean"][node] = _clean_target(work, node, *entry["clean"][node])
        heads += task.head_parameters(shape).values()
    _check_weights(work, name, entry)
    entry["parameters"] = 0 if task.counted_apart else sum(map(size_of, heads))


def _clean_target(work: Compilation, node: str, source: str, known: str) -> tuple[str, str]:
    """A level, and the value of it that its lateral arrow carries.

    If that arrow was removed, what it would carry; `known` is what a file says.
    """
    arrows = work.graph.in_edges(node, data=True)
    taps = [edge["tap"] for a, _, edge in arrows if a == source and edge["role"] is Role.LATERAL]
    tap = taps[0] if taps else work.taps.get(Role.LATERAL, (known,))[0]
    normalised = tap == "normalised" and tap_problem(work.graph, source, tap) is None
    return source, "normalised" if normalised else "output"


def _check_weights(work: Compilation, name: str, entry: TaskAttributes) -> None:
    """Weights by node cover all nodes that the task reads, and no others."""
    task = entry["task"]
    weights = task.node_weights(entry["at"])
    if weights is None or not isinstance(task.weight, dict):
        return
    if "levels" in work.unsure or not entry["at"]:
        return
    at = _field_of_task(work, name, "`weight`")
    for node in entry["at"]:
        if node not in weights:
            message = f"task `{name}`: `weight` gives {node} no weight"
            hint = f"add `{node}: 1`, or `{ELSE}: 1` for all others"
            work.report("H302", message, at, hint)
            return
    for pattern in task.weight:
        gone = any(matches(pattern.partition(".")[2], level) for level in work.dropped)
        read = any(matches(node, pattern) for node in entry["at"])
        removed = any(matches(node, pattern) for node in work.removed_nodes)
        if pattern != ELSE and not read and not gone and not removed:
            message = f"task `{name}`: `weight` names {tick(pattern)}, which it does not read"
            hint = did_you_mean(pattern, entry["at"]) or f"it reads {some_of(entry['at'])}"
            work.report("H302", message, at, hint)


def reading_of(graph: Graph, node: str) -> Reading:
    """What a task sees of a node whose shape is known."""
    return Reading(
        node=node,
        shape=graph.nodes[node]["shape"],
        cell=graph.nodes[node]["cell"].cell,
        input=graph.nodes[BOTTOM]["shape"],
        frames=graph.graph["frames"] is not None,
        steps=steps_of(graph),
        level=_estimated(graph, node),
        groups=None if is_input(node) else copies(graph),
    )


def _estimated(graph: Graph, node: str) -> Shape | None:
    """The shape of the level that a decoder estimates."""
    side, level = split_node(node)
    return graph.graph["level_shapes"].get(level) if side is Side.DECODER else None


def _field_of_task(
    work: Compilation, name: str, message: str
) -> tuple[Place | None, str] | TaskAttributes:
    """The field of a task that a message is about; by default, the one that says where it reads."""
    fields = work.task_fields.get(name, {})
    key = next((key for key in fields if f"`{key}" in message), "at")
    return fields[key] if key in fields else work.graph.graph["tasks"][name]
