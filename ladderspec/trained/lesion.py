"""Lesions: arrows, nodes or tasks are removed from a trained network."""

from __future__ import annotations

from collections.abc import Sequence

from ladderspec.errors import UsageError, did_you_mean, tick
from ladderspec.text.notation import NotationProblem, Selector, matches, parse_selector
from ladderspec.wiring.checks import check, needed
from ladderspec.wiring.graph import Graph, in_order
from ladderspec.wiring.selection import closest, select
from ladderspec.wiring.shapes import infer
from ladderspec.wiring.sharing import holders
from ladderspec.wiring.wire import Compilation, prune
from ladderspec.wording import first_of


def lesion(graph: Graph, without: Sequence[str]) -> Graph:
    """The graph without what the selectors select, and without what is then unused."""
    result = graph.copy()
    for text in without:
        _remove(result, text)
    _refuse_read(result, without)
    work = Compilation(result)
    prune(work)
    _refuse_needed(result, without)
    check(work)
    infer(work)
    work.findings.raise_if_any()
    return result


def notes_on(graph: Graph, without: Sequence[str]) -> list[str]:
    """Notes on weights that a lesion leaves in place, because a removed part shares them."""
    left = list(holders(lesion(graph, without)))
    there, notes = {holder.name for holder in left}, []
    for gone in holders(graph):
        node = ".".join(gone.name.split(".")[:2])
        if gone.name in there or (gone.name != node and node not in there):
            continue  # an arrow goes with its node
        name = gone.attributes["shared"] or gone.name
        users = [each.text for each in left if name in (each.attributes["shared"], each.name)]
        if gone.parameters and users:
            used = first_of(users, 2)
            notes.append(
                f"{gone.text} is removed, but its weights are shared and stay in use: {used}"
            )
    return notes


def _remove(graph: Graph, text: str) -> None:
    try:
        selector = parse_selector(text)
    except NotationProblem as problem:
        meant = f"did you mean `task.{text}`?" if text in graph.graph["tasks"] else problem.hint
        hint = f"; {meant}" if meant else ""
        raise UsageError(f"--without {text}: {problem.message}{hint}") from None
    if selector.kind == "task":
        _remove_tasks(graph, selector)
    elif selector.kind == "level":
        raise UsageError(
            f"--without {text}: a level of a trained network cannot be removed: its neighbours"
            " would have to be trained again; remove arrows or nodes"
        )
    else:
        nodes, edges = select(graph, selector)
        if not nodes and not edges:
            hint = closest(graph, selector, text)
            raise UsageError(f"--without {text} matches nothing" + (f"; {hint}" if hint else ""))
        graph.remove_edges_from(edges)
        graph.remove_nodes_from(nodes)


def _refuse_read(graph: Graph, without: Sequence[str]) -> None:
    """A task cannot read a node that was removed."""
    for name, entry in graph.graph["tasks"].items():
        for node in entry["at"]:
            if node not in graph:
                raise UsageError(
                    f"--without {', '.join(without)}: task `{name}` reads {node};"
                    f" remove `task.{name}` too, or arrows only"
                )


def _refuse_needed(graph: Graph, without: Sequence[str]) -> None:
    """A cell cannot work without an arrow that it needs."""
    for node in in_order(graph):
        for role in needed(graph, node):
            lacks = f"cannot be without its {role} arrow" if role else "would get no arrow at all"
            cell = graph.nodes[node]["cell"].cell
            raise UsageError(f"--without {', '.join(without)}: {cell} at {node} {lacks}")


def _remove_tasks(graph: Graph, selector: Selector) -> None:
    tasks = graph.graph["tasks"]
    gone = [name for name in tasks if matches(name, selector.pattern)]
    if not gone:
        hint = did_you_mean(selector.pattern, tasks)
        raise UsageError(f"no task {tick(selector.pattern)}" + (f"; {hint}" if hint else ""))
    for name in gone:
        del tasks[name]
