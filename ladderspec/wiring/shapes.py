"""Graph -> graph with shapes and parameter counts on every node and arrow. Numbers alone."""

from __future__ import annotations

from typing import Any

from ladderspec.cells import Cell, Inlet, ShapeProblem, Site
from ladderspec.cells.unknown import UnknownShape
from ladderspec.errors import Finding, Findings, Place
from ladderspec.names import Role, Shape, Side, node_name, show_arrow, show_shape, size_of
from ladderspec.tasks import Reading, Task
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import Graph, in_order
from ladderspec.wiring.grids import grid_of, stride_between


def infer(graph: Graph, findings: Findings) -> None:
    """Shapes flow up the encoders, across the laterals and down the decoders."""
    for node in in_order(graph):
        _infer_shape(graph, node, findings)
    for node in in_order(graph):
        if graph.nodes[node]["shape"] is not None:
            _infer_parameters(graph, node, findings)
    for role, node in graph.graph["gains"].items():
        _check_gain(graph, role, node, findings)
    for name, entry in graph.graph["tasks"].items():
        _check_task(graph, name, entry, findings)


def parameters(graph: Graph) -> int:
    """All parameters: nodes, arrows and the tasks' own read-outs (but not those of probes)."""
    total: int = sum(count for _, count in graph.nodes(data="parameters", default=0))
    total += sum(count for _, _, count in graph.edges(data="parameters", default=0))
    return int(total + sum(entry["parameters"] for entry in graph.graph["tasks"].values()))


def site_of(graph: Graph, node: str) -> Site:
    """What the cell at `node` sees. Raises UnknownShape where an arrow carries no known shape."""
    facts = graph.nodes[node]
    level, row = _level_shapes(graph, node)
    return Site(facts["side"], tuple(inlets(graph, node)), level, row)


def inlets(graph: Graph, node: str) -> list[Inlet]:
    """The incoming arrows in the order of their roles: that of drives in a sum."""
    found, grid = [], graph.nodes[node]["grid"]
    for source, _, key, edge in graph.in_edges(node, keys=True, data=True):
        shape = graph.nodes[source].get("shape")
        if shape is None:
            raise UnknownShape
        stride = stride_between(graph.nodes[source]["grid"], grid)
        said = (edge.get("filter"), edge.get("norm"), stride, edge.get("gain"))
        found.append(Inlet(key, edge["role"], edge["delay"], shape, *said))
    roles = list(type(found[0].role)) if found else []
    return sorted(found, key=lambda inlet: (roles.index(inlet.role), inlet.key))


def infer_levels(graph: Graph) -> None:
    """The shape of every level: decoders need it even where no task reads the encoder."""
    shapes: dict[str, Shape] = graph.graph["level_shapes"]
    for level in graph.graph["levels"]:
        node = node_name(Side.ENCODER, level)
        if node in graph:
            _infer_shape(graph, node, Findings())
            if graph.nodes[node]["shape"] is not None:
                shapes[level] = graph.nodes[node]["shape"]


def _level_shapes(graph: Graph, node: str) -> tuple[Shape | None, Shape | None]:
    """For a decoder: the shape of its level's encoder, and of the row that it inverts."""
    facts = graph.nodes[node]
    if facts["side"] is not Side.DECODER:
        return None, None
    levels, index = graph.graph["levels"], graph.graph["order"][facts["level"]]
    level, row = levels[index], levels[min(index + 1, len(levels) - 1)]
    return _level_shape(graph, level), _level_shape(graph, row)


def _level_shape(graph: Graph, level: str) -> Shape:
    encoder = node_name(Side.ENCODER, level)
    shape: Shape | None = graph.graph["level_shapes"].get(level)
    if shape is None and encoder not in graph:
        raise _Removed(encoder)
    if shape is None:
        raise UnknownShape
    return shape


class _Removed(Exception):
    """A shape follows from a node that was removed."""


def _infer_shape(graph: Graph, node: str, findings: Findings) -> None:
    facts = graph.nodes[node]
    cell: Cell = facts["cell"]
    facts["shape"] = None
    try:
        known = [
            Inlet(key, edge["role"], edge["delay"], graph.nodes[source]["shape"])
            for source, _, key, edge in graph.in_edges(node, keys=True, data=True)
            if graph.nodes[source].get("shape") is not None
        ]
        level, row = _level_shapes(graph, node)
        facts["shape"] = cell.out_shape(Site(facts["side"], tuple(known), level, row))
        facts["grid"] = grid_of(graph, node)
    except (UnknownShape, StopIteration, IndexError):
        return
    except _Removed as removed:
        _report_removed(graph, node, str(removed), findings)
    except ShapeProblem as problem:
        _report(graph, node, problem, findings, source=_shaped_by(graph, node))


def _report_removed(graph: Graph, node: str, encoder: str, findings: Findings) -> None:
    """Said of the selector that removed the encoder, unless it did more harm."""
    facts, word = graph.nodes[node], graph.graph["removed"].get(encoder)
    place, path = (word.place, word.path) if word else (facts["place"], facts["path"])
    if place is None or not findings.blames(place):
        message = f"{facts['cell'].cell} at {node} takes its shape from {encoder}, which is gone"
        level = encoder.partition(".")[2]
        hint = f"`level.{level}` removes the whole row and joins its neighbours"
        findings.add(Finding("G205", message, place, path, hint))


def _shaped_by(graph: Graph, node: str) -> str:
    """The node whose shape decides that of this one."""
    facts = graph.nodes[node]
    if facts["side"] is Side.DECODER:
        return node_name(Side.ENCODER, facts["level"])
    main = Role.LATERAL if facts["side"] is Side.LATERAL else Role.ENCODER
    return next((a for a, _, role in graph.in_edges(node, data="role") if role is main), "")


def _infer_parameters(graph: Graph, node: str, findings: Findings) -> None:
    facts = graph.nodes[node]
    cell: Cell = facts["cell"]
    out: Shape = facts["shape"]
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
            arrow = show_arrow(source, node, edge["delay"])
            _report(graph, node, problem, findings, arrow, source, edge)
            continue
        for word in ("filter", "norm", "gain"):
            lacks_norm = word == "gain" and projection.norm == "none"
            if edge.get(word) is not None and (
                lacks_norm or edge[word] != getattr(projection, word)
            ):
                if word == "gain" and inlet.role in graph.graph["gains"]:
                    continue  # said of the role: it is for the arrows that have a norm
                arrow = show_arrow(source, node, edge["delay"])
                lacks = ShapeProblem(f"{cell.cell} gives this arrow no `{word}` of its own")
                _report(graph, node, lacks, findings, arrow, source, edge)
        edge["projection"] = projection
        edge["parameters"] = sum(map(size_of, projection.parameters.values()))
    own = cell.join(site, out)
    own |= _initial(graph, node, cell, out)
    facts["own"] = own
    facts["parameters"] = sum(map(size_of, own.values()))


def _check_gain(graph: Graph, role: Role, node: Node, findings: Findings) -> None:
    """The gain of a role is for those of its arrows that have a norm: one at least."""
    arrows = [edge for _, _, edge in graph.edges(data=True) if edge["role"] is role]
    known = [edge["projection"] for edge in arrows if "projection" in edge]
    if known and len(known) == len(arrows) and all(p.norm == "none" for p in known):
        message = f"no {role} arrow has a norm, so `gain` sets nothing"
        hint = "give the cells that they enter a norm, like `norm: layer`"
        findings.add(Finding("H301", message, node.place, node.path, hint))


def _initial(graph: Graph, node: str, cell: Cell, out: Shape) -> dict[str, Shape]:
    """`initial: learned`: one value per channel, where a delayed arrow reads it."""
    delayed = [edge for _, _, edge in graph.out_edges(node, data=True) if edge["delay"]]
    if graph.nodes[node]["initial"] != "learned" or not delayed:
        return {}
    own: dict[str, Shape] = {"initial": out[:1]}
    if any(edge["role"] == "state" for edge in delayed):
        own |= {f"initial_{name}": s[:1] for name, s in cell.state_shapes(out).items()}
    return own


def _report(
    graph: Graph,
    node: str,
    problem: ShapeProblem,
    findings: Findings,
    arrow: str = "",
    source: str = "",
    edge: dict[str, object] | None = None,
) -> None:
    facts = graph.nodes[node]
    place, path = facts["place"], facts["path"]
    message = f"{arrow or node}: {problem.message}"
    notes = []
    for name in filter(None, [source, node]):
        if name in graph and graph.nodes[name].get("shape") is not None:
            shape = show_shape(graph.nodes[name]["shape"])
            at = graph.nodes[name]["place"]
            notes.append(f"{name} is {shape}" + (f", from {at}" if at else ""))
    if edge is not None and edge["declared"]:
        place, path = edge["place"], str(edge["path"])
    findings.add(Finding("H301", message, place, path, problem.hint, tuple(notes)))


def _check_task(graph: Graph, name: str, entry: dict[str, Any], findings: Findings) -> None:
    task = entry["task"]
    assert isinstance(task, Task)
    assert isinstance(entry["at"], list)
    own: dict[str, Shape] = {}
    for node in entry["at"]:
        shape = graph.nodes[node].get("shape")
        if shape is None or graph.nodes["encoder.input"].get("shape") is None:
            continue
        reading = Reading(
            node=node,
            shape=shape,
            cell=graph.nodes[node]["cell"].cell,
            input=graph.nodes["encoder.input"]["shape"],
            frames=graph.graph["frames"] is not None,
            steps=_steps(graph),
        )
        problem = task.check(reading)
        if problem and "time" not in graph.graph.get("unsure", ()):
            place, path = _task_place(entry, problem[0])
            findings.add(Finding("H302", f"task `{name}`: {problem[0]}", place, path, problem[1]))
        many = len(entry["at"]) > 1
        for key, size in task.head_parameters(shape).items():
            own[f"{node}.{key}" if many else key] = size
    entry["own"] = own
    entry["parameters"] = 0 if task.counted_apart else sum(map(size_of, own.values()))


def _task_place(entry: dict[str, Any], message: str) -> tuple[Place | None, str]:
    """The field of a task that a message speaks of; by default, where it reads."""
    fields = entry.get("fields", {})
    named = [key for key in fields if f"`{key}" in message]
    key = named[0] if named else "at"
    return fields[key] if key in fields else (entry["place"], entry["path"])


def _steps(graph: Graph) -> int | None:
    frames = graph.graph["frames"]
    steps: int | str = graph.graph["iterations"] if frames is None else frames
    return None if isinstance(steps, str) else steps
