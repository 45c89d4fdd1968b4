"""Shared weights: which cells and arrows use the same tensors, under whose name, if they fit.

`share` names the declared owner, a cell or an arrow. Its tensors keep the owner's name, even if an
ablation removes the owner: those that share with it then still share, from the same initial values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ladderspec.cells import Parameters
from ladderspec.cells.parameters import shareable
from ladderspec.errors import did_you_mean, tick
from ladderspec.names import GROUPS, INPUT, TABLE, Role, Side, show_arrow, show_shape, split_node
from ladderspec.text.notation import ArrowNotation
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import EdgeAttributes, Graph, in_order
from ladderspec.wiring.wire import Compilation
from ladderspec.wording import some_of

OWN = "none"  # `share: none`: an arrow that does not share although its cell does
KINDS = {"dense": "a dense map", "conv": "a convolution", "transposed": "a transposed convolution"}


# --- names ----------------------------------------------------------------------------------------


def name_owners(work: Compilation) -> None:
    """Find the node that each `share` of a cell means."""
    nodes, strays = work.graph.nodes, dict[str, str]()
    for node, at in work.shares.items():
        name = str(at.value)
        owner = _owner(work, node, name, at)
        if owner in work.graph and _moved(work, str(owner), name):
            owner = strays.setdefault(str(owner), node)
        elif owner == node and not _dropped(work, name):
            work.report("G210", f"{node} shares weights with itself", at, "name another row")
        nodes[node]["share"] = None if owner == node else owner
    for node, at in work.shares.items():
        owner = nodes[node]["share"] or ""
        if owner in work.graph and (first := nodes[owner]["share"]):
            _report_chain(work, node, owner, first, at)


def _owner(work: Compilation, node: str, name: str, at: Node) -> str | None:
    """The node that a cell shares with; None, and a finding, if there is none."""
    side, dot, level = name.partition(".")
    row = level if dot else name
    if not dot:
        side, level = split_node(node)[0], name
        if side == Side.DECODER and name in work.rows:
            below = [INPUT, *work.rows[: work.rows.index(name)]]  # its decoder makes the last
            level = next(
                each for each in reversed(below) if not _dropped(work, each) or _dropped(work, name)
            )
    owner = f"{side}.{level}"
    if owner in work.graph or _dropped(work, row):
        return owner
    if "levels" in work.unsure:
        return None
    there = [each for each in work.graph if each.startswith(f"{side}.")]
    message = f"no {'node' if dot else 'row'} {tick(name)} to share weights with"
    hint = did_you_mean(name, list(work.graph) if dot else work.rows)
    if row in [INPUT, GROUPS, *work.rows]:
        message = f"row `{row}` has no {side} to share weights with"
        message = message if not dot else f"no node {tick(name)} to share weights with"
        hint = hint if dot else ""
    hint = hint or (f"there are {some_of(there)}" if there else "")
    work.report("G201", message, at, hint)
    return None


def _dropped(work: Compilation, level: str) -> bool:
    """Whether a patch dropped the row of this level."""
    return level in work.rows and level not in work.graph.graph["levels"]


def _moved(work: Compilation, owner: str, row: str) -> bool:
    """Whether the row of a decoder was dropped, and another row makes that estimate now."""
    other = work.graph.nodes[owner]["cell"].share != row
    return _dropped(work, row) and split_node(owner)[0] is Side.DECODER and other


def role_of_dropped(work: Compilation, arrow: ArrowNotation) -> Role:
    """The role of an arrow whose level was dropped, by the order of all rows."""
    order = {level: index for index, level in enumerate([INPUT, *work.rows])}
    (source, low), (target, high) = split_node(arrow.source), split_node(arrow.target)
    offset = order.get(low, 0) - order.get(high, 0)
    for role, row in TABLE.items():
        delay = work.graph.graph["delays"][role]
        if (row.source, row.target, row.offset, delay) == (source, target, offset, arrow.delay):
            return role
    return Role.SKIP


def check_owners(work: Compilation) -> None:
    """Every arrow that is shared exists, or was removed, and does not share by itself."""
    graph = work.graph
    there = {f"{b}.{k}": (b, k, edge) for _, b, k, edge in graph.edges(keys=True, data=True)}
    for name, (target, key, edge) in there.items():
        owner = declared(graph, target, key, edge)
        if owner == name:
            message = f"an arrow into {target} shares weights with itself"
            work.report("G210", message, edge, "name another level or arrow")
        elif owner and edge["share"] and owner not in there and not _removed(work, owner):
            _report_no_arrow(work, owner, edge)
        elif (
            owner in there
            and (first := declared(graph, *there[owner]))
            and (
                edge["share"] or there[owner][2]["share"]  # of cells it is reported already
            )
        ):
            _report_chain(work, name, owner, first, edge)


def _removed(work: Compilation, arrow: str) -> bool:
    """Whether a patch removed an arrow, by its name."""
    node, _, key = arrow.rpartition(".")
    role = Role(key) if key in set(Role) else Role.SKIP
    gone = node in work.removed_nodes or (node, role) in work.removed_edges
    return gone or _dropped(work, split_node(node)[1]) or "levels" in work.unsure


def _report_no_arrow(work: Compilation, arrow: str, at: EdgeAttributes) -> None:
    node, _, key = arrow.rpartition(".")
    levels = work.graph.graph["levels"]
    _, level = split_node(node)
    found = [show_arrow(a, node, d) for a, _, d in work.graph.in_edges(node, data="delay")]
    hint = f"there are {some_of(found)}" if found else ""
    message = f"there is no such arrow into {node} to share weights with"
    if key in set(Role):
        message = f"no {key} arrow leads to {node}, so there are no weights to share"
    if level not in levels:
        message = f"no level {tick(level)} to share weights with"
        hint = did_you_mean(level, levels) or f"there are {some_of(levels)}"
    work.report("G201", message, at, hint)


def _report_chain(work: Compilation, name: str, owner: str, first: str, at: Any) -> None:
    last, middle, source = (_text(each) for each in (name, owner, first))
    message = f"{last} shares weights with {middle}, which shares them with {source}"
    work.report("G210", message, at, f"let both share with {source}")


def _text(name: str) -> str:
    """A node as it is called, or an arrow by its role."""
    if name.count(".") < 2:
        return name
    node, _, key = name.rpartition(".")
    return f"the {Role.SKIP if key.startswith(Role.SKIP) else key} arrow of {node}"


def declared(graph: Graph, target: str, key: str, edge: EdgeAttributes) -> str | None:
    """The name under which an arrow shares: its own `share`, else with the cell that it enters."""
    share, owner = edge["share"], graph.nodes[target]["share"]
    if share is not None:
        return None if share == OWN else share
    return f"{owner}.{key}" if owner and edge["role"] is not Role.SKIP else None


# --- parameters -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A cell or an arrow that has parameters, by the name of its module."""

    name: str
    text: str  # as messages call it
    kind: str
    parameters: Parameters  # that can be shared
    attributes: Any
    owner: str | None  # the name under which it shares
    explicit: bool  # by a `share` of its own


def holders(graph: Graph) -> Iterator[Holder]:
    """All cells and arrows whose parameters are known, in the order of an iteration."""
    for node in in_order(graph):
        attributes = graph.nodes[node]
        cell, parameters = attributes["cell"], attributes.get("cell_parameters")
        if parameters is None:
            continue
        share = attributes["share"]
        kind = f"{'an' if cell.cell[:1] in 'AEIOU' else 'a'} {cell.cell}"
        yield Holder(node, node, kind, shareable(parameters), attributes, share, share is not None)
        for source, _, key, edge in graph.in_edges(node, keys=True, data=True):
            if "projection" in edge:
                map, text = edge["projection"], show_arrow(source, node, edge["delay"])
                kind, explicit = KINDS.get(map.kind, map.kind), edge["share"] is not None
                owner = declared(graph, node, key, edge)
                name = f"{node}.{key}"
                yield Holder(name, text, kind, shareable(map.parameters), edge, owner, explicit)


def share(work: Compilation) -> None:
    """Check that what is shared fits, and count it once: for its owner, or for the first of them.

    Sets `shared`, the name of the module under which shared tensors are registered.
    """
    known = {holder.name: holder for holder in holders(work.graph)}
    first: dict[str, Holder] = {}
    shares, unlike = set[str](), set[str]()  # cells that share anything, or cannot
    for holder in known.values():
        holder.attributes["shared"] = None
        if holder.owner is None or not holder.parameters:
            if holder.owner and holder.explicit and "role" in holder.attributes:
                _refuse(work, holder, f"{holder.text} has no weights to share")
            continue
        shares.add(holder.name if "cell" in holder.attributes else holder.name.rpartition(".")[0])
        reference = known.get(holder.owner) or first.setdefault(holder.owner, holder)
        if reference.owner is not None and reference.name == holder.owner:
            if not work.findings:  # of a graph from a file
                owners = reference.name, reference.owner
                _report_chain(work, holder.name, *owners, holder.attributes)
            continue
        if any(holder.name.startswith(f"{node}.") for node in unlike):
            continue
        if not _fits(work, holder, reference):
            unlike |= {holder.name} if "cell" in holder.attributes else set()
            continue
        holder.attributes["shared"] = holder.owner
        if reference is not holder:
            size = sum(parameter.size for parameter in holder.parameters.values())
            holder.attributes["parameters"] -= size
    for holder in known.values():
        if "cell" in holder.attributes and holder.owner and holder.name not in shares:
            _refuse(work, holder, f"{holder.text} is {holder.kind}, which has no weights to share")


def _fits(work: Compilation, holder: Holder, other: Holder) -> bool:
    """Whether two holders are of one kind, with parameters of the same names and shapes."""
    cell = "cell" in holder.attributes
    with_other = f"cannot share weights with {other.text}"
    if holder.kind != other.kind:
        message = f"{holder.text} is {holder.kind} and {with_other}, {other.kind}"
        hint = "both must be the same cell" if cell else "both must be maps of one kind"
        return _refuse(work, holder, message, _instead(holder) or hint)
    ours, theirs = holder.parameters, other.parameters
    for name in [*ours, *(each for each in theirs if each not in ours)]:
        if name not in ours or name not in theirs:
            there = holder.text if name in ours else other.text
            message = f"{holder.text} {with_other}: only {there} has a parameter `{name}`"
            return _refuse(work, holder, message, _instead(holder) or "give both the same norm")
        if ours[name].shape != theirs[name].shape:
            shapes = show_shape(ours[name].shape), show_shape(theirs[name].shape)
            message = f"{holder.text} {with_other}: `{name}` is {shapes[0]}, not {shapes[1]}"
            hint = "channels and filters must be the same; sizes and strides may differ"
            return _refuse(work, holder, message, _instead(holder) or hint)
    return True


def _instead(holder: Holder) -> str:
    """How an arrow that shares because its cell does can have weights of its own."""
    if "cell" in holder.attributes or holder.explicit:
        return ""
    node, _, role = holder.name.rpartition(".")
    level = split_node(node)[1]
    if role == Role.ENCODER:
        return ""
    return f"let it have its own: `edges: {{{role}: [{{levels: [{level}], share: none}}]}}`"


def _refuse(work: Compilation, holder: Holder, message: str, hint: str = "") -> bool:
    work.report("G210", message, holder.attributes, hint)
    return False
