"""Spec -> graph: the nodes and edges of the rows, the nodes that tasks read, and pruning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import networkx as nx

from ladderspec.cells import Cell
from ladderspec.cells.fields import Pair
from ladderspec.cells.input import FurtherInput
from ladderspec.errors import Finding, Findings, Place, did_you_mean, tick
from ladderspec.language.edges import Tap
from ladderspec.language.read import COMMAND_LINE, Spec
from ladderspec.language.repair import Unknown
from ladderspec.names import (
    BOTTOM,
    GROUPS,
    INPUT,
    TABLE,
    Role,
    Side,
    edge_key,
    is_input,
    node_name,
    split_node,
)
from ladderspec.text.notation import matches, parse_selector
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import (
    OPTIONS,
    EdgeAttributes,
    Graph,
    GraphAttributes,
    NodeAttributes,
    TaskAttributes,
    cell_of,
    level_at,
    location,
)
from ladderspec.wiring.grids import level_grids
from ladderspec.wiring.selection import missing_node
from ladderspec.wording import some_of


@dataclass
class Compilation:
    """A graph that is being compiled, with what only the stages of the compiler need."""

    graph: Graph
    findings: Findings = field(default_factory=Findings)
    broken: bool = False  # the spec has mistakes that were read past
    unsure: frozenset[str] = frozenset()  # the parts of the spec that they leave open
    dropped: list[str] = field(default_factory=list)  # patterns of removed levels
    # The selector that removed a node or an edge; for an edge, also the node that took it along.
    removed_nodes: dict[str, Node] = field(default_factory=dict)
    removed_edges: dict[tuple[str, Role], tuple[str, Node]] = field(default_factory=dict)
    gains: dict[Role, Node] = field(default_factory=dict)  # roles that the spec gives a gain
    taps: dict[Role, tuple[Tap, Node]] = field(default_factory=dict)  # and those with a tap
    changed: dict[str, Role] = field(default_factory=dict)  # by place, a role that it changes
    texts: dict[str, Node] = field(default_factory=dict)  # by node, the text of its cell
    rows: tuple[str, ...] = ()  # the names of all rows, with those that patches drop
    shares: dict[str, Node] = field(default_factory=dict)  # by node, the `share` of its cell
    # The places of the fields of tasks: by task, then by field.
    task_fields: dict[str, dict[str, tuple[Place, str]]] = field(default_factory=dict)

    def report(
        self,
        code: str,
        message: str,
        at: Node | NodeAttributes | EdgeAttributes | TaskAttributes | tuple[Place | None, str],
        hint: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        """Add a mistake of the spec, at a part of its text or at what it became in the graph."""
        place, path = at if isinstance(at, tuple) else location(at)
        self.findings.add(Finding(code, message, place, path, hint, tuple(notes)))


# --- nodes ----------------------------------------------------------------------------------------


def place_nodes(spec: Spec, findings: Findings) -> Compilation:
    """Begin a graph: its own attributes and the nodes of the rows; no edge yet."""
    config = spec.config
    names = _level_names(spec, findings)
    levels = [INPUT, *([GROUPS] if config.groups else []), *names]
    strides: list[tuple[str, Pair | None]] = []
    strides += [(GROUPS, config.groups.row_stride)] if config.groups else []
    strides += zip(names, (row.encoder.row_stride for row in config.levels), strict=True)
    selectors = [parse_selector(text) for patch in spec.patches for text in patch.without]
    attributes: GraphAttributes = {
        "name": spec.name,
        "title": spec.title,
        "variants": spec.variants,
        "without": [text for p in spec.patches if p.name == COMMAND_LINE for text in p.without],
        "levels": levels,
        "order": {level: index for index, level in enumerate(levels)},
        "labels": {str(row.name): row.label for row in config.levels if row.label},
        "frames": config.time.frames,
        "iterations": config.time.iterations,
        "groups": config.groups,
        "tasks": {},
        "delays": {role: row.delay for role, row in TABLE.items()},
        "notes": [],
        "ineffective": {},
        "level_shapes": {},
        "grids": level_grids(strides),
    }
    work = Compilation(
        Graph(**attributes),
        findings,
        broken=spec.broken,
        unsure=spec.unsure,
        dropped=[selector.pattern for selector in selectors if selector.kind == "level"],
        rows=spec.rows,
    )
    bottom: Cell = Unknown() if "input" in spec.unsure else config.input
    _add_node(work, Side.ENCODER, INPUT, bottom, spec.at("input"))
    for name, given in config.inputs.items():
        further = Unknown() if "inputs" in spec.unsure else _complete(work, name, given, spec)
        _add_node(work, Side.INPUT, INPUT, further, spec.at("inputs", name), name)
    if config.groups is not None:
        _add_node(work, Side.ENCODER, GROUPS, config.groups, spec.at("groups"))
    below = INPUT
    for index, (level, row) in enumerate(zip(names, config.levels, strict=True)):
        encoder, decoder = (spec.at("levels", index, side) for side in ("encoder", "decoder"))
        _add_node(work, Side.ENCODER, level, row.encoder, encoder)
        if row.decoder is not None:
            _add_node(work, Side.DECODER, below, row.decoder, decoder)
        below = level
    if config.top is not None:
        _add_node(work, Side.DECODER, below, config.top, spec.at("top"))
    for level, cell in config.laterals.items():
        _place_lateral(work, level, cell, spec.at("laterals"))
    return work


def _level_names(spec: Spec, findings: Findings) -> list[str]:
    """The names of the rows; if two rows have the same name, the second gets another one."""
    lines: dict[str, Node] = {}
    for index, row in enumerate(spec.config.levels):
        name, node = str(row.name), spec.at("levels", index, "name")
        if name == GROUPS and spec.config.groups is not None:
            message = "`groups` is the level between the input and the first row"
            findings.add(Finding("S107", message, node.mark, node.path, "choose another name"))
            name = f"{name}'{index}"
        if name in lines and not findings.enough:
            hint = f"first on line {lines[name].mark.line}"
            if node.mark == lines[name].mark:
                hint = "a row that is used twice: `repeat: 2` numbers its copies"
            elif isinstance(node.key, int):  # not written: made from cell and position
                hint += "; a row without a name is called by its cell and position"
            findings.add(Finding("S108", f"two levels `{name}`", node.mark, node.path, hint))
        if name in lines:
            name = f"{name}'{index}"
        lines[name] = node
    return list(lines)


def _complete(work: Compilation, name: str, cell: FurtherInput, spec: Spec) -> FurtherInput:
    """A further input with its defaults."""
    over_frames = work.graph.graph["frames"] is not None
    if cell.per == "frame" and not over_frames and "time" not in work.unsure:
        message = (
            f"input `{name}` has a value per frame, but time runs over iterations on one input"
        )
        hint = "write `per: sequence`, or let time run over frames: `time: {frames: 5}`"
        work.report("S105", message, spec.at("inputs", name, "per"), hint)
    per = cell.per or ("frame" if over_frames else "sequence")
    return cell.model_copy(update={"per": per, "field": cell.field or name})


def _place_lateral(work: Compilation, level: str, cell: Cell | None, table: Node) -> None:
    graph, levels = work.graph, work.graph.graph["levels"]
    at = table.key_place(level), f"{table.path}.{level}"
    if any(matches(level, pattern) for pattern in work.dropped):
        return  # removed together with its level
    if level not in levels and "levels" not in work.unsure:
        hint = did_you_mean(level, levels) or f"there are {some_of(levels)}"
        work.report("G201", f"no level {tick(level)}", at, hint)
    elif level in levels and node_name(Side.DECODER, level) not in graph:
        message = f"level `{level}` has no decoder, so no lateral arrow either"
        work.report("G201", message, at, missing_node(graph, node_name(Side.DECODER, level)))
    elif level in levels and cell is not None:
        _add_node(work, Side.LATERAL, level, cell, table.value[level])


def _add_node(
    work: Compilation, side: Side, level: str, cell: Cell, node: Node, name: str = ""
) -> None:
    attributes: NodeAttributes = {
        "side": side,
        "level": level,
        "cell": cell,
        "initial": cell.initial,
        "place": node.place,
        "path": node.path,
        "share": None,
    }
    name = node_name(side, name or level)
    work.graph.add_node(name, **attributes)
    work.texts[name] = node
    if cell.share is not None:
        work.shares[name] = node.get("share") or node


# --- edges ----------------------------------------------------------------------------------------


def wire(work: Compilation) -> None:
    """Add the edges that follow from the rows alone."""
    graph = work.graph
    for level in graph.graph["levels"]:
        for role, row in TABLE.items():
            for source, target in ends(graph, role, level):
                if _by_default(graph, role, target):
                    connect(graph, source, target, role, row.delay)


def _by_default(graph: Graph, role: Role, target: str) -> bool:
    default, cell = TABLE[role].default, cell_of(graph, target)
    if default == "stateful":
        return cell.stateful
    if default == "nowhere":
        return role in cell.needs(graph.nodes[target]["side"])
    return accepts(graph, role, target)


def ends(graph: Graph, role: Role, level: str) -> Iterator[tuple[str, str]]:
    """The edges that a role can have at a level: source and target of those whose ends exist."""
    row = TABLE[role]
    other = level_at(graph, level, row.offset, row.target)
    if other is None:
        yield from _from_its_own_level(graph, role, level)
        return
    source, target = node_name(row.source, other), node_name(row.target, level)
    through = node_name(Side.LATERAL, level)
    if role is Role.DECODER and source not in graph:
        source = node_name(Side.ENCODER, other)  # that level has no decoder
    pairs = [(source, target)]
    if role is Role.LATERAL and through in graph:
        pairs = [(source, through), (through, target)]
    if role is Role.STATE:
        pairs = [(node, node) for node in (target, through, node_name(Side.DECODER, level))]
    yield from ((a, b) for a, b in pairs if a in graph and b in graph)


def _from_its_own_level(graph: Graph, role: Role, level: str) -> Iterator[tuple[str, str]]:
    """The arrow from the encoder beside the topmost decoder, if that needs an input from above."""
    source, target = node_name(Side.ENCODER, level), node_name(Side.DECODER, level)
    if role is Role.DECODER and source in graph and target in graph:
        cell = cell_of(graph, target)
        if Role.DECODER in cell.needs(Side.DECODER) and not cell.single:
            yield source, target


def accepts(graph: Graph, role: Role, target: str) -> bool:
    """Whether the cell at `target` takes an edge of this role, and has a place for it."""
    cell = cell_of(graph, target)
    if role is Role.STATE:
        return cell.stateful
    if role is Role.LATERAL and cell.single:  # `top` has no other edge
        return graph.nodes[target]["level"] == graph.graph["levels"][-1]
    return role in cell.takes


def delay_of(graph: Graph, role: Role, source: str) -> int:
    """The delay of a role; a lateral edge through a cell has it only before that cell."""
    through = role is Role.LATERAL and graph.nodes[source]["side"] is Side.LATERAL
    return 0 if through else graph.graph["delays"][role]


def connect(
    graph: Graph,
    source: str,
    target: str,
    role: Role,
    delay: int,
    at: Node | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Add an edge with some of `OPTIONS`. `at` is the place in the spec that declares it."""
    row = graph.nodes[target]
    graph.add_edge(
        source,
        target,
        key=edge_key(role, source, delay),
        role=role,
        delay=delay,
        declared=at is not None,
        place=row["place"] if at is None else at.place,
        path=row["path"] if at is None else at.path,
        **{**dict.fromkeys(OPTIONS), **(options or {})},
    )


# --- tasks and pruning ----------------------------------------------------------------------------


def read_tasks(work: Compilation, spec: Spec) -> None:
    """Find the nodes that each task reads."""
    graph = work.graph
    for name, task in spec.config.tasks.items():
        node = spec.at("tasks", name)
        found = [each for each in graph if matches(each, task.at)]
        if not found:
            if "levels" not in work.unsure and not work.findings.enough:
                _report_unread(work, spec, name, task.at)
            work.broken = True
        attributes: TaskAttributes = {
            "task": task, "at": found, "place": node.place, "path": node.path, "clean": {},
        }  # fmt: skip
        if task.clean:
            levels = [(each, node_name(Side.ENCODER, split_node(each)[1])) for each in found]
            attributes["clean"] = {n: (s, "output") for n, s in levels if s in graph and s != n}
        graph.graph["tasks"][name] = attributes
        work.task_fields[name] = {k: (child.place, child.path) for k, child in node.value.items()}


def _report_unread(work: Compilation, spec: Spec, name: str, pattern: str) -> None:
    """A task that reads nothing: reported at the selector that removed the node, or at the task."""
    for patch in spec.patches:
        for index, text in enumerate(patch.without):
            selector = parse_selector(text)
            level = pattern.partition(".")[2]
            name_read = {"node": pattern, "level": level}.get(selector.kind)
            if name_read and matches(name_read, selector.pattern):
                at = patch.node.find(("without", index))[0]
                message = f"{tick(text)} removes {tick(pattern)}, which task `{name}` reads"
                work.report("G207", message, at, f"remove `task.{name}` too")
                return
    message = f"task `{name}` reads {tick(pattern)}, which does not exist"
    hint = missing_node(work.graph, pattern)
    work.report("G207", message, spec.at("tasks", name, "at"), hint)


def prune(work: Compilation) -> None:
    """Remove what no task reads, now or at a later t; a graph without tasks keeps everything."""
    graph = work.graph
    tasks = graph.graph["tasks"].values()
    read = {node for task in tasks for node in task["at"]}
    read |= {source for task in tasks for source, _ in task["clean"].values()}
    if not read or work.broken:
        return
    needed = set(chain.from_iterable(nx.bfs_layers(graph.reverse(copy=False), read)))
    for node in [node for node in graph if node not in needed]:
        if node != BOTTOM:
            graph.remove_node(node)
            unread = "no task reads it, now or at a later t"
            if is_input(node):
                unread = "no arrow leads from it to a task"
            graph.graph["notes"].append(f"{node} pruned: {unread}")
