"""Graph -> graph: what a patch of the spec, of a variant or of the command line changes."""

from __future__ import annotations

from collections.abc import Iterator

from ladderspec.errors import name_or_pattern_meant, tick
from ladderspec.language.edges import ArrowConfig, EndsConfig, RoleConfig, SomeConfig
from ladderspec.language.read import EdgePatch
from ladderspec.language.repair import UNKNOWN
from ladderspec.language.resolve import NO_GROUPS
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
    show_arrow,
    split_node,
)
from ladderspec.text.notation import (
    ArrowNotation,
    Selector,
    matches,
    parse_arrows,
    parse_selector,
)
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import (
    OPTIONS,
    EdgeAttributes,
    EdgeKey,
    Graph,
    cell_of,
    groups_of,
    level_at,
)
from ladderspec.wiring.selection import closest, missing_node, parts, select
from ladderspec.wiring.sharing import OWN, role_of_dropped
from ladderspec.wiring.wire import Compilation, accepts, connect, delay_of, ends
from ladderspec.wording import some_of

CHANGED = ("gain", "map", "tap", "resample", "scale")  # words that change the arrows of a role


def apply(work: Compilation, patch: EdgePatch) -> None:
    """Remove, then move, then add: a patch never removes what it adds."""
    _remove(work, patch)
    for role in TABLE:
        config: RoleConfig | tuple[SomeConfig, ...] | None = getattr(patch.edges, role.value)
        at = patch.node.find(("edges", role.value))[0]
        if isinstance(config, RoleConfig):
            _move(work, role, config, at)
        for index, some in enumerate(config if isinstance(config, tuple) else ()):
            _change(work, role, some, at.find((index,))[0])
    for index, arrow in enumerate(patch.edges.add):
        at = patch.node.find(("edges", "add", index))[0]
        for hop in arrow.hops:
            _add(work, hop, arrow, at)


# --- what a patch removes -------------------------------------------------------------------------


def _remove(work: Compilation, patch: EdgePatch) -> None:
    graph = work.graph
    nodes: set[str] = set()
    edges: set[EdgeKey] = set()
    for index, text in enumerate(patch.without):
        if work.findings.enough:
            return
        selector, at = parse_selector(text), patch.node.find(("without", index))[0]
        if selector.kind in ("level", "task"):
            continue  # applied to the rows and tasks already
        found_nodes, found_edges = select(graph, selector)
        for part in parts(selector):
            if not any(select(graph, part)) and not _doubtful(work, part):
                hint = _added_here(patch, part) or closest(graph, part, text)
                work.report("G202", f"{tick(text)} matches nothing", at, hint)
                found_edges.clear()
                break
        if BOTTOM in found_nodes:
            work.report("G205", f"{tick(text)} would remove the input", at)
            found_nodes.clear()
        if (needed := _of_groups(graph, found_nodes)) is not None:
            work.report("G205", f"{tick(text)} would remove {needed}", at, NO_GROUPS)
            found_nodes.clear()
        _remember(work, found_nodes, found_edges, at)
        nodes |= found_nodes
        edges |= found_edges
    graph.remove_edges_from(edges)
    graph.remove_nodes_from(nodes)


def _of_groups(graph: Graph, nodes: set[str]) -> str | None:
    """The first of these nodes that groups need, in words; None if there is none."""
    needed = {
        node_name(Side.ENCODER, GROUPS): "the level of the groups",
        node_name(Side.DECODER, INPUT): "mu and pi of the groups",
    }
    found = [what for node, what in needed.items() if node in nodes]
    return found[0] if found and groups_of(graph) is not None else None


def _doubtful(work: Compilation, selector: Selector) -> bool:
    """Whether a mistake elsewhere may be the reason that a selector matches nothing."""
    if "levels" in work.unsure:
        return True
    unknown = (cell_of(work.graph, node).cell == UNKNOWN for node in work.graph)
    return selector.kind != "node" and any(unknown)


def _added_here(patch: EdgePatch, part: Selector) -> str:
    """A hint if the arrow to remove is added by the same patch, or by one that it inherits."""
    for arrow in patch.edges.add:
        for hop in arrow.hops:
            level = split_node(hop.target)[1]
            skips = part.role is Role.SKIP and matches(level, part.pattern)
            if skips or hop in part.arrows:
                shown = show_arrow(hop.source, hop.target, hop.delay)
                return f"`edges.add` brings `{shown}` after that; leave it out of `add` instead"
    return ""


def _remember(work: Compilation, nodes: set[str], edges: set[EdgeKey], at: Node) -> None:
    """Note which selector removes an edge, and whether together with the node it came from."""
    graph = work.graph
    for edge in edges:
        work.removed_edges.setdefault((edge[1], graph.edges[edge]["role"]), ("", at))
    for node in nodes:
        work.removed_nodes[node] = at
        for _, target, role in graph.out_edges(node, data="role"):
            work.removed_edges.setdefault((target, role), (node, at))


# --- roles and single arrows ----------------------------------------------------------------------


def _move(work: Compilation, role: Role, config: RoleConfig, at: Node) -> None:
    """Give a role another delay, other levels, another initial gain or another tap."""
    graph = work.graph
    if config.delay is not None:
        graph.graph["delays"][role] = config.delay
        for source, _, edge in graph.edges(data=True):
            if edge["role"] is role:
                delay = delay_of(graph, role, source)
                edge.update(delay=delay, place=at.place, path=at.path, declared=True)
    if config.levels is not None:
        _place(work, role, config, at)
    if config.gain is not None:
        work.gains[role] = at.get("gain") or at
        for _, _, edge in graph.edges(data=True):
            if edge["role"] is role:
                edge["gain"] = config.gain
    if config.tap is not None:
        work.taps[role] = (config.tap, at.get("tap") or at)
    if config.model_fields_set - {"levels"}:
        work.changed[str(at.place)] = role


def _change(work: Compilation, role: Role, config: SomeConfig, at: Node) -> None:
    """Give the arrows of a role at some levels another delay, initial gain, map or tap."""
    graph = work.graph
    for level, named in _named_levels(work, config.levels, at):
        targets = {node_name(side, level) for side in Side}
        found = [
            (source, target, edge)
            for source, target, edge in graph.edges(data=True)
            if edge["role"] is role and target in targets
        ]
        if not found and "levels" not in work.unsure:
            message = f"there is no {role} arrow at level `{level}` to change"
            others = {graph.nodes[b]["level"] for _, b, r in graph.edges(data="role") if r is role}
            there = [other for other in graph.graph["levels"] if other in others]
            hint = f"there is one at {some_of(there)}" if there else f"add one: `{role}: [{level}]`"
            work.report("G201", message, named, hint)
        for source, target, edge in found:
            edge.update(place=at.place, path=at.path, declared=True)
            if config.delay is not None and graph.nodes[source]["side"] is not Side.LATERAL:
                edge["delay"] = config.delay
            given = {word: getattr(config, word) for word in CHANGED}
            edge.update({word: value for word, value in given.items() if value is not None})
            if config.share is not None:
                edge["share"] = _owner(work, config.share, target, role)


def _place(work: Compilation, role: Role, config: RoleConfig, at: Node) -> None:
    """Give a role other levels."""
    graph = work.graph
    old = {(a, b, k) for a, b, k, r in graph.edges(keys=True, data="role") if r is role}
    _remember(work, set(), old, at)
    graph.remove_edges_from(old)
    for level, named in _levels(work, role, config, at):
        found = list(ends(graph, role, level))
        if not found and "levels" not in work.unsure:
            work.report("G201", *_no_ends(graph, role, level, named))
        fits = [pair for pair in found if accepts(graph, role, pair[1])]
        for source, target in fits or found:
            connect(graph, source, target, role, delay_of(graph, role, source), named)
    if isinstance(config.levels, tuple):
        _note_removed(graph, role, {graph.nodes[target]["level"] for _, target, _ in old})


def _note_removed(graph: Graph, role: Role, before: set[str]) -> None:
    """Add a note if a list of levels removes the arrows of others that had one."""
    now = {graph.nodes[target]["level"] for _, target, r in graph.edges(data="role") if r is role}
    if lost := [level for level in graph.graph["levels"] if level in before - now]:
        graph.graph["notes"].append(
            f"`edges.{role}` lists all levels with such an arrow, which removes those at"
            f" {some_of(lost)}; `without` removes arrows by name, `add` adds single ones,"
            f" `{role}: [{{levels: [...], delay: 1}}]` changes some"
        )


def _levels(
    work: Compilation, role: Role, config: RoleConfig, at: Node
) -> Iterator[tuple[str, Node]]:
    """The levels that a role is given, each with the place in the spec that names it."""
    graph = work.graph
    levels = graph.graph["levels"]
    if config.levels == "none":
        return
    if config.levels in ("all", "stateful"):
        for level in levels:
            if (config.levels == "all" or _stateful(graph, role, level)) and any(
                accepts(graph, role, target) for _, target in ends(graph, role, level)
            ):
                yield level, at
    elif isinstance(config.levels, tuple):
        yield from _named_levels(work, config.levels, at)


def _named_levels(
    work: Compilation, patterns: tuple[str, ...], at: Node
) -> Iterator[tuple[str, Node]]:
    """The levels that match any of the patterns, each with the place of its pattern."""
    levels, chosen = work.graph.graph["levels"], set[str]()
    for index, pattern in enumerate(patterns):
        named = (at.get("levels") or at).find((index,))[0]
        found = [level for level in levels if matches(level, pattern)]
        dropped = any(matches(pattern, level) for level in work.dropped)
        if not found and not dropped and "levels" not in work.unsure:
            hint = name_or_pattern_meant(pattern, levels)
            work.report("G201", f"no level {tick(pattern)}", named, hint)
        yield from ((level, named) for level in found if level not in chosen)
        chosen.update(found)


def _stateful(graph: Graph, role: Role, level: str) -> bool:
    sides = Side if role is Role.STATE else (Side.ENCODER,)
    nodes = [node_name(side, level) for side in sides]
    return any(node in graph and cell_of(graph, node).stateful for node in nodes)


def _no_ends(graph: Graph, role: Role, level: str, at: Node) -> tuple[str, Node, str]:
    """Why a role has no arrow at a level: a message, its place and a hint."""
    row = TABLE[role]
    other = level_at(graph, level, row.offset, row.target)
    source = node_name(row.source, other) if other else ""
    nodes = (node_name(row.target, level), source)
    missing = [node for node in nodes if node and node not in graph]
    hint = f"there is no `{missing[0]}`" if missing else "it is the first or last level"
    return f"no {role} arrow can be at level `{level}`", at, hint


def _add(
    work: Compilation, arrow: ArrowNotation, config: ArrowConfig | EndsConfig, at: Node
) -> None:
    """Add a declared arrow in the role that its ends and delay fit."""
    graph = work.graph
    for end in (arrow.source, arrow.target):
        if end not in graph:
            dropped = any(matches(end.partition(".")[2], level) for level in work.dropped)
            if not dropped and "levels" not in work.unsure:
                work.report("G201", f"no node {tick(end)}", at, missing_node(graph, end))
            return
    if is_input(arrow.target) and arrow.target != BOTTOM:  # it might be pruned with the arrow
        shown = show_arrow(arrow.source, arrow.target, arrow.delay)
        message = f"no arrow can lead to an input: {shown}"
        work.report("G204", message, at, "to the node that reads it?")
        return
    role = _role(graph, arrow)
    key = edge_key(role, arrow.source, arrow.delay)
    if graph.has_edge(arrow.source, arrow.target, key):
        if cell_of(graph, arrow.target).cell != UNKNOWN:
            shown = show_arrow(arrow.source, arrow.target, arrow.delay)
            edge = graph.edges[arrow.source, arrow.target, key]
            hint = f"it follows from the rows, as {role}"
            hint = f"from {edge['place']}" if edge["declared"] else hint
            if config.map == "identity":
                hint += "; a residual connection ends in a row of its own, `{cell: Sum}`"
            work.report("G206", f"`{shown}` is there already", at, hint)
        return
    options = {word: getattr(config, word) for word in OPTIONS}
    if config.share is not None:
        options["share"] = _owner(work, config.share, arrow.target, role)
    connect(graph, arrow.source, arrow.target, role, arrow.delay, at, options)
    if config.initial is not None:
        graph.nodes[arrow.source]["initial"] = config.initial


def _owner(work: Compilation, share: str, target: str, role: Role) -> str:
    """The arrow with which one into `target` shares weights, by the name of its module."""
    if share == OWN:
        return OWN
    if "->" in share:
        (arrow,) = parse_arrows(share)
        there = {arrow.source, arrow.target} <= set(work.graph)
        role = _role(work.graph, arrow) if there else role_of_dropped(work, arrow)
        return f"{arrow.target}.{edge_key(role, arrow.source, arrow.delay)}"
    side, _ = split_node(target)
    main = Role(side.value)  # the arrow from below, from above, or into a lateral cell
    return f"{node_name(side, share)}.{main if role is Role.SKIP else role}"


def _role(graph: Graph, arrow: ArrowNotation) -> Role:
    """The role of an arrow that is there, or that its ends and delay fit."""
    between: dict[str, EdgeAttributes] = graph.get_edge_data(arrow.source, arrow.target, default={})
    beside = {edge["delay"]: edge["role"] for edge in between.values()}
    if arrow.delay in beside:
        return beside[arrow.delay]
    level, cell = graph.nodes[arrow.target]["level"], cell_of(graph, arrow.target)
    for role in TABLE:
        fits = (arrow.source, arrow.target) in ends(graph, role, level)
        free = role in cell.takes and role not in beside.values()
        if fits and free and arrow.delay == delay_of(graph, role, arrow.source):
            return role
    return Role.SKIP
