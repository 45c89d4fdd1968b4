"""Readings of a node by arrows and tasks besides its output: taps, heads, targets, weights."""

from __future__ import annotations

from typing import NamedTuple

from ladderspec.cells import ShapeProblem
from ladderspec.cells.base import NoNorm, normalised_shape
from ladderspec.cells.projections import Projection
from ladderspec.errors import Place, did_you_mean, tick
from ladderspec.names import (
    BOTTOM,
    Role,
    Shape,
    Side,
    is_input,
    show_arrow,
    show_shape,
    size_of,
    split_node,
)
from ladderspec.tasks import Reading
from ladderspec.tasks.base import ELSE
from ladderspec.text.notation import matches
from ladderspec.wiring.graph import (
    Graph,
    TaskAttributes,
    copies,
    steps_of,
)
from ladderspec.wiring.wire import Compilation
from ladderspec.wording import some_of


def projections_of(graph: Graph, node: str) -> dict[str, Projection] | None:
    """The projections of the edges of a node, by key; None if a mistake leaves them open."""
    arrows = list(graph.in_edges(node, keys=True, data=True))
    if any("projection" not in edge for *_, edge in arrows):
        return None
    return {key: edge["projection"] for _, _, key, edge in arrows}


# --- taps ----------------------------------------------------------------------------------------


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
    cell, projections = attributes["cell"], projections_of(graph, source)
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


# --- tasks ---------------------------------------------------------------------------------------


class ReadoutForm(NamedTuple):
    """The form in which one task reads one node."""

    task: str
    node: str
    name: str  # that of the task, or TASK.NODE if it reads several nodes
    head: dict[str, Shape]  # weight and bias, if the task has a linear map of its own
    shape: Shape  # of what it sees
    offset: bool  # whether a mean of the data is added


def readouts_of(graph: Graph) -> list[ReadoutForm]:
    """The forms of all read-outs, in the order of the tasks."""
    found = []
    for name, entry in graph.graph["tasks"].items():
        several = len(entry["at"]) > 1
        offset = entry["task"].starts_at_mean and not several
        for node in entry["at"]:
            shape = graph.nodes[node]["shape"]
            head = entry["task"].head_parameters(shape)
            if head:
                shape = (head["weight"][0], *shape[1:])
            full = f"{name}.{node}" if several else name
            found.append(ReadoutForm(name, node, full, head, shape, offset))
    return found


def check_task(work: Compilation, name: str, entry: TaskAttributes) -> None:
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
    """The reading of a node whose shape is known."""
    cell = graph.nodes[node]["cell"]
    return Reading(
        node=node,
        shape=graph.nodes[node]["shape"],
        cell=cell.cell,
        has_logits="logits" in cell.returns,
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
