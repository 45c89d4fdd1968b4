"""Graph -> graph: what a patch removes, moves and adds; and what no task reads is pruned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import networkx as nx

from ladderspec.cells.unknown import UNKNOWN
from ladderspec.errors import Finding, Findings, did_you_mean, tick
from ladderspec.language.edges import ArrowWords, EndsWords, RoleWords
from ladderspec.language.read import Patch, Spec
from ladderspec.names import INPUT, TABLE, Role, Side, edge_key, node_name, show_arrow, split_node
from ladderspec.text.notation import Arrow, Selector, matches, parse_selector
from ladderspec.text.tree import Node
from ladderspec.wiring.absent import missing_node
from ladderspec.wiring.graph import Graph, accepts, cell_of, connect, delay_of, ends
from ladderspec.wiring.selection import Edge, closest, doubtful, parts
from ladderspec.wiring.selection import select as select


def apply(graph: Graph, patch: Patch, findings: Findings) -> None:
    """First what goes, then what moves, then what comes: a patch never removes what it adds."""
    nodes: set[str] = set()
    edges: set[Edge] = set()
    for index, text in enumerate(patch.without):
        if findings.enough:
            return
        selector, word = parse_selector(text), patch.node.find(("without", index))[0]
        if selector.kind in ("level", "task"):
            continue  # applied to the rows and tasks already
        found_nodes, found_edges = select(graph, selector)
        for part in parts(selector):
            if not any(select(graph, part)) and not doubtful(graph, part):
                message = f"{tick(text)} matches nothing"
                hint = _added_here(patch, part) or closest(graph, part, text)
                findings.add(Finding("G202", message, word.place, word.path, hint))
                found_edges.clear()
                break
        if node_name(Side.ENCODER, INPUT) in found_nodes:
            message = f"{tick(text)} would remove the input"
            findings.add(Finding("G205", message, word.place, word.path))
            found_nodes.clear()
        _remember(graph, found_nodes, found_edges, word)
        nodes |= found_nodes
        edges |= found_edges
    graph.remove_edges_from(edges)
    graph.remove_nodes_from(nodes)
    for role in TABLE:
        words: RoleWords | None = getattr(patch.edges, role.value)
        if words is not None:
            _move(graph, role, words, patch.node.find(("edges", role.value))[0], findings)
    for index, arrow in enumerate(patch.edges.add):
        node = patch.node.find(("edges", "add", index))[0]
        for hop in arrow.hops:
            _add(graph, hop, arrow, node, findings)


def _added_here(patch: Patch, part: Selector) -> str:
    """A hint where the arrow that is to go comes with the same patch, or was inherited into it."""
    for arrow in patch.edges.add:
        for hop in arrow.hops:
            level = split_node(hop.target)[1]
            skips = part.role is Role.SKIP and matches(level, part.pattern)
            if skips or hop in part.arrows:
                shown = show_arrow(hop.source, hop.target, hop.delay)
                return f"`edges.add` brings `{shown}` after that; leave it out of `add` instead"
    return ""


def _remember(graph: Graph, nodes: set[str], edges: set[Edge], word: Node) -> None:
    """Which selector took an arrow away, and whether with the node it came from."""
    removed = graph.graph["removed"]
    for _, target, key in edges:
        removed.setdefault((target, graph.edges[_, target, key]["role"]), ("", word))
    for node in nodes:
        removed[node] = word
        for _, target, role in graph.out_edges(node, data="role"):
            removed.setdefault((target, role), (node, word))


# --- roles and single arrows ----------------------------------------------------------------------


def _move(graph: Graph, role: Role, words: RoleWords, node: Node, findings: Findings) -> None:
    """Give a role another delay, other levels or another initial gain."""
    if words.delay is not None:
        graph.graph["delays"][role] = words.delay
        for source, _, facts in graph.edges(data=True):
            if facts["role"] is role:
                delay = delay_of(graph, role, source)
                facts.update(delay=delay, place=node.place, path=node.path, declared=True)
    if words.levels is not None:
        _place(graph, role, words, node, findings)
    if words.gain is not None:
        graph.graph["gains"][role] = node.get("gain") or node
        for _, _, facts in graph.edges(data=True):
            if facts["role"] is role:
                facts["gain"] = words.gain


def _place(graph: Graph, role: Role, words: RoleWords, node: Node, findings: Findings) -> None:
    """Give a role other levels."""
    old = {(a, b, k) for a, b, k, r in graph.edges(keys=True, data="role") if r is role}
    _remember(graph, set(), old, node)
    graph.remove_edges_from(old)
    for level, word in _levels(graph, role, words, node, findings):
        found = list(ends(graph, role, level))
        if not found and "levels" not in graph.graph["unsure"]:
            _refuse_level(graph, role, level, word, findings)
        fits = [pair for pair in found if accepts(graph, role, pair[1])]
        for source, target in fits or found:
            place = {"place": word.place, "path": word.path, "declared": True}
            connect(graph, source, target, role, delay_of(graph, role, source), **place)


def _levels(
    graph: Graph, role: Role, words: RoleWords, node: Node, findings: Findings
) -> Iterator[tuple[str, Node]]:
    """The levels that are meant, each with the word that means it."""
    levels: list[str] = graph.graph["levels"]
    if words.levels == "none":
        return
    if words.levels in ("all", "stateful"):
        for level in levels:
            if (words.levels == "all" or _stateful(graph, role, level)) and any(
                accepts(graph, role, target) for _, target in ends(graph, role, level)
            ):
                yield level, node
        return
    chosen: set[str] = set()
    for index, pattern in enumerate(words.levels or ()):
        word = (node.get("levels") or node).find((index,))[0]
        found = [level for level in levels if matches(level, pattern)]
        gone = any(matches(pattern, level) for level in graph.graph["dropped"])
        sure = not gone and "levels" not in graph.graph["unsure"]
        if not found and sure and not findings.enough:
            hint = did_you_mean(pattern, levels)
            message = f"no level {tick(pattern)}"
            findings.add(Finding("G201", message, word.place, word.path, hint))
        yield from ((level, word) for level in found if level not in chosen)
        chosen.update(found)


def _stateful(graph: Graph, role: Role, level: str) -> bool:
    sides = (Side.ENCODER, Side.LATERAL) if role is Role.STATE else (Side.ENCODER,)
    nodes = [node_name(side, level) for side in sides]
    return any(node in graph and cell_of(graph, node).stateful for node in nodes)


def _refuse_level(graph: Graph, role: Role, level: str, word: Node, findings: Findings) -> None:
    wiring, levels = TABLE[role], graph.graph["levels"]
    message = f"no {role} arrow can be at level `{level}`"
    at = levels.index(level) + wiring.offset
    source = node_name(wiring.source, levels[at]) if 0 <= at < len(levels) else ""
    ends = (node_name(wiring.target, level), source)
    gone = [node for node in ends if node and node not in graph]
    hint = f"there is no `{gone[0]}`" if gone else "it is the first or last level"
    findings.add(Finding("G201", message, word.place, word.path, hint))


def _add(
    graph: Graph, arrow: Arrow, words: ArrowWords | EndsWords, node: Node, findings: Findings
) -> None:
    """One declared arrow, in the role that its ends and delay fit."""
    for end in (arrow.source, arrow.target):
        if end not in graph:
            gone = any(matches(end.partition(".")[2], level) for level in graph.graph["dropped"])
            if not gone and "levels" not in graph.graph["unsure"] and not findings.enough:
                hint = missing_node(graph, end)
                findings.add(Finding("G201", f"no node {tick(end)}", node.place, node.path, hint))
            return
    role = _role(graph, arrow)
    key = edge_key(role, arrow.source, arrow.delay)
    if graph.has_edge(arrow.source, arrow.target, key):
        if cell_of(graph, arrow.target).cell != UNKNOWN:
            shown = show_arrow(arrow.source, arrow.target, arrow.delay)
            facts = graph.edges[arrow.source, arrow.target, key]
            hint = f"it follows from the rows, as {role}"
            hint = f"from {facts['place']}" if facts["declared"] else hint
            message = f"`{shown}` is there already"
            findings.add(Finding("G206", message, node.place, node.path, hint))
        return
    connect(
        graph, arrow.source, arrow.target, role, arrow.delay,
        filter=words.filter, norm=words.norm, gain=words.gain, label=words.label,
        place=node.place, path=node.path, declared=True,
    )  # fmt: skip
    if words.initial is not None:
        graph.nodes[arrow.source]["initial"] = words.initial


def _role(graph: Graph, arrow: Arrow) -> Role:
    _, level = split_node(arrow.target)
    cell = cell_of(graph, arrow.target)
    for role in TABLE:
        fits = (arrow.source, arrow.target) in ends(graph, role, level)
        if fits and arrow.delay == delay_of(graph, role, arrow.source) and role in cell.takes:
            return role
    return Role.SKIP


# --- tasks and pruning ----------------------------------------------------------------------------


def read_tasks(graph: Graph, spec: Spec, findings: Findings) -> None:
    """Which nodes each task reads."""
    for name, task in spec.words.tasks.items():
        node = spec.at("tasks", name)
        found = [each for each in graph if matches(each, task.at)]
        if not found:
            if "levels" not in graph.graph["unsure"] and not findings.enough:
                findings.add(_unread(graph, spec, name, task.at))
            graph.graph["broken"] = True
        fields = {key: (child.place, child.path) for key, child in node.value.items()}
        facts = {"task": task, "at": found, "place": node.place, "path": node.path}
        graph.graph["tasks"][name] = {**facts, "fields": fields}


def _unread(graph: Graph, spec: Spec, name: str, pattern: str) -> Finding:
    """A task that reads nothing: said of the selector that removed the node, or of the task."""
    for patch in spec.patches:
        for index, text in enumerate(patch.without):
            selector = parse_selector(text)
            level = pattern.partition(".")[2]
            name_read = {"node": pattern, "level": level}.get(selector.kind)
            if name_read and matches(name_read, selector.pattern):
                word = patch.node.find(("without", index))[0]
                message = f"{tick(text)} removes {tick(pattern)}, which task `{name}` reads"
                hint = f"remove `task.{name}` too"
                return Finding("G207", message, word.place, word.path, hint)
    at = spec.at("tasks", name, "at")
    message = f"task `{name}` reads {tick(pattern)}, which does not exist"
    return Finding("G207", message, at.place, at.path, missing_node(graph, pattern))


def prune(graph: Graph) -> None:
    """Remove what no task reads, now or at a later t; a graph without tasks keeps everything."""
    read = {node for entry in graph.graph["tasks"].values() for node in entry["at"]}
    if not read or graph.graph["broken"]:
        return
    needed = set(chain.from_iterable(nx.bfs_layers(graph.reverse(copy=False), read)))
    for node in [node for node in graph if node not in needed]:
        if graph.nodes[node]["cell"].cell != "Input":
            graph.remove_node(node)
            graph.graph["notes"].append(f"{node} pruned: no task reads it, now or at a later t")
