"""Graph -> graph: what a patch removes, moves and adds; and what no task reads is pruned."""

from __future__ import annotations

import networkx as nx

from ladderspec.errors import Finding, Findings, did_you_mean
from ladderspec.graph import Graph, accepts, cell_of, connect, ends
from ladderspec.names import TABLE, Role, Side, edge_key, node_name, show_arrow, split_node
from ladderspec.notation import Arrow, Selector, matches, parse_arrows, parse_selector
from ladderspec.read import Patch, Spec
from ladderspec.spec import ArrowWords, RoleWords
from ladderspec.tree import Node

Edge = tuple[str, str, str]  # source, target, key


def apply(graph: Graph, patch: Patch, findings: Findings) -> None:
    """First what goes, then what moves, then what comes: a patch never removes what it adds."""
    nodes: set[str] = set()
    edges: set[Edge] = set()
    for index, text in enumerate(patch.without):
        selector = parse_selector(text)
        if selector.kind in ("level", "task"):
            continue  # applied to the rows and tasks already
        found_nodes, found_edges = select(graph, selector)
        if not found_nodes and not found_edges and not graph.graph["broken"]:
            node = _word(patch.node, "without", index)
            hint = _closest(graph, selector, text)
            findings.add(Finding("G202", f"`{text}` matches nothing", node.place, node.path, hint))
        nodes |= found_nodes
        edges |= found_edges
    graph.remove_edges_from(edges)
    graph.remove_nodes_from(nodes)
    for role in TABLE:
        words: RoleWords | None = getattr(patch.edges, role.value)
        if words is not None:
            _move(graph, role, words, patch.node.find(("edges", role.value))[0], findings)
    for index, arrow in enumerate(patch.edges.add):
        node = _word(patch.node, "edges", "add", index)
        for hop in parse_arrows(arrow.arrow):
            _add(graph, hop, arrow, node, findings)


def _word(node: Node, *path: str | int) -> Node:
    """A word of a list, or the list's only word where it is written without brackets."""
    return node.find(path)[0]


# --- selectors ------------------------------------------------------------------------------------


def select(graph: Graph, selector: Selector) -> tuple[set[str], set[Edge]]:
    """The nodes and arrows that a selector means."""
    if selector.kind == "node":
        return {node for node in graph if matches(node, selector.pattern)}, set()
    found: set[Edge] = set()
    for source, target, key, facts in graph.edges(keys=True, data=True):
        if selector.kind == "role":
            level = graph.nodes[target]["level"]
            wanted = facts["role"] is selector.role and matches(level, selector.pattern)
        else:
            wanted = any(_is(arrow, source, target, facts["delay"]) for arrow in selector.arrows)
        if wanted:
            found.add((source, target, key))
    return set(), found


def _is(arrow: Arrow, source: str, target: str, delay: int) -> bool:
    return delay == arrow.delay and matches(source, arrow.source) and matches(target, arrow.target)


def _closest(graph: Graph, selector: Selector, text: str) -> str:
    """What a selector that matches nothing may have meant."""
    if selector.kind == "node":
        return did_you_mean(text, graph)
    if selector.kind == "arrow":
        shown = [show_arrow(a, b, d) for a, b, d in graph.edges(data="delay")]
        same_ends = {
            show_arrow(source, target, delay)
            for source, target, delay in graph.edges(data="delay")
            for arrow in selector.arrows
            if (source, target) == (arrow.source, arrow.target)
        }
        return f"did you mean `{min(same_ends)}`?" if same_ends else did_you_mean(text, shown)
    there = sorted(
        {graph.nodes[b]["level"] for _, b, r in graph.edges(data="role") if r is selector.role}
    )
    if not there:
        return f"this spec has no {selector.role} arrows"
    return did_you_mean(selector.pattern, there) or f"{selector.role} arrows are at {_few(there)}"


def _few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


# --- roles and single arrows ----------------------------------------------------------------------


def _move(graph: Graph, role: Role, words: RoleWords, node: Node, findings: Findings) -> None:
    """Give a role another delay, or other levels."""
    if words.delay is not None:
        graph.graph["delays"][role] = words.delay
        for _, _, facts in graph.edges(data=True):
            if facts["role"] is role:
                facts.update(delay=words.delay, place=node.place, path=node.path, declared=True)
    if words.levels is None:
        return
    old = [(a, b, k) for a, b, k, r in graph.edges(keys=True, data="role") if r is role]
    graph.remove_edges_from(old)
    delay = graph.graph["delays"][role]
    for level in _levels(graph, role, words, node, findings):
        found = list(ends(graph, role, level))
        if not found and not graph.graph["broken"]:
            _refuse_level(graph, role, level, node, findings)
        for source, target in found:
            place = {"place": node.place, "path": node.path, "declared": True}
            connect(graph, source, target, role, delay, **place)


def _levels(
    graph: Graph, role: Role, words: RoleWords, node: Node, findings: Findings
) -> list[str]:
    levels: list[str] = graph.graph["levels"]
    if words.levels == "none":
        return []
    if words.levels in ("all", "stateful"):
        return [
            level
            for level in levels
            if (words.levels == "all" or _stateful(graph, level))
            and any(accepts(graph, role, target) for _, target in ends(graph, role, level))
        ]
    chosen: list[str] = []
    for pattern in words.levels or ():
        found = [level for level in levels if matches(level, pattern)]
        if not found:
            hint = did_you_mean(pattern, levels)
            findings.add(Finding("G201", f"no level `{pattern}`", node.place, node.path, hint))
        chosen += [level for level in found if level not in chosen]
    return chosen


def _stateful(graph: Graph, level: str) -> bool:
    encoder = node_name(Side.ENCODER, level)
    return encoder in graph and cell_of(graph, encoder).stateful


def _refuse_level(graph: Graph, role: Role, level: str, node: Node, findings: Findings) -> None:
    wiring = TABLE[role]
    message = f"no {role} arrow can be at level `{level}`"
    hint = f"it runs from a {wiring.source} to a {wiring.target} node, and one of them is not there"
    if role is Role.STATE:
        hint = "it has no node"
    findings.add(Finding("G201", message, node.place, node.path, hint))


def _add(graph: Graph, arrow: Arrow, words: ArrowWords, node: Node, findings: Findings) -> None:
    """One declared arrow, in the role that its ends and delay fit."""
    for end in (arrow.source, arrow.target):
        if end not in graph:
            hint = did_you_mean(end, graph)
            if not graph.graph["broken"]:
                findings.add(Finding("G201", f"no node `{end}`", node.place, node.path, hint))
            return
    role = _role(graph, arrow)
    key = edge_key(role, arrow.source, arrow.delay)
    if graph.has_edge(arrow.source, arrow.target, key):
        shown = show_arrow(arrow.source, arrow.target, arrow.delay)
        message = f"`{shown}` is there already"
        hint = f"as a {role} arrow" + ("" if role is Role.SKIP else " that follows from the rows")
        findings.add(Finding("G206", message, node.place, node.path, hint))
        return
    connect(
        graph, arrow.source, arrow.target, role, arrow.delay,
        filter=words.filter, norm=words.norm, label=words.label,
        place=node.place, path=node.path, declared=True,
    )  # fmt: skip
    if words.initial is not None:
        graph.nodes[arrow.source]["initial"] = words.initial


def _role(graph: Graph, arrow: Arrow) -> Role:
    _, level = split_node(arrow.target)
    cell = cell_of(graph, arrow.target)
    for role in TABLE:
        fits = (arrow.source, arrow.target) in ends(graph, role, level)
        if fits and arrow.delay == graph.graph["delays"][role] and role in cell.takes:
            return role
    return Role.SKIP


# --- tasks and pruning ----------------------------------------------------------------------------


def read_tasks(graph: Graph, spec: Spec, findings: Findings) -> None:
    """Which nodes each task reads."""
    for name, task in spec.words.tasks.items():
        node = spec.at("tasks", name)
        at = spec.at("tasks", name, "at")
        found = [each for each in graph if matches(each, task.at)]
        if not found:
            if not graph.graph["broken"]:
                removed = _removed_by(spec, task.at)
                hint = f"`{removed}` removed it: remove `task.{name}` too" if removed else ""
                message = f"task `{name}` reads `{task.at}`, which does not exist"
                findings.add(
                    Finding(
                        "G208", message, at.place, at.path, hint or did_you_mean(task.at, graph)
                    )
                )
            graph.graph["broken"] = True
        facts = {"task": task, "at": found, "place": node.place, "path": node.path}
        graph.graph["tasks"][name] = facts


def _removed_by(spec: Spec, pattern: str) -> str:
    for patch in spec.patches:
        for text in patch.without:
            selector = parse_selector(text)
            if selector.kind == "node" and matches(pattern, selector.pattern):
                return text
    return ""


def prune(graph: Graph) -> None:
    """Remove what no task reads, now or at a later t; a graph without tasks keeps everything."""
    read = {node for entry in graph.graph["tasks"].values() for node in entry["at"]}
    if not read or graph.graph["broken"]:
        return
    needed = read.union(*(nx.ancestors(graph, node) for node in read))
    for node in [node for node in graph if node not in needed]:
        if graph.nodes[node]["cell"].cell != "Input":
            graph.remove_node(node)
            graph.graph["notes"].append(f"{node} pruned: no task reads it, now or at a later t")
