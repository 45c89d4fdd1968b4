"""Take arrows out of a trained network: the other meaning of what an arrow was worth."""

from __future__ import annotations

from collections.abc import Sequence

from ladderspec.errors import Findings, UsageError, did_you_mean, tick
from ladderspec.text.notation import NotationProblem, Selector, matches, parse_selector
from ladderspec.wiring import shapes, variant
from ladderspec.wiring.checks import check, needed
from ladderspec.wiring.graph import Graph, in_order
from ladderspec.wiring.selection import closest, select


def lesion(graph: Graph, without: Sequence[str]) -> Graph:
    """The graph without what the selectors mean, and without what nothing reads any more."""
    result: Graph = graph.copy()
    result.graph["tasks"] = dict(graph.graph["tasks"])
    for text in without:
        _remove(result, text)
    _refuse_read(result, without)
    variant.prune(result)
    _refuse_needed(result, without)
    findings = Findings()
    check(result, findings)
    shapes.infer(result, findings)
    findings.raise_if_any()
    return result


def _remove(graph: Graph, text: str) -> None:
    try:
        selector = parse_selector(text)
    except NotationProblem as problem:
        hint = f"; {problem.hint}" if problem.hint else ""
        raise UsageError(f"--without {text}: {problem.message}{hint}") from None
    if selector.kind == "task":
        _remove_tasks(graph, selector)
    elif selector.kind == "level":
        raise UsageError(
            f"--without {text}: a level of a trained network cannot be taken out, its neighbours"
            " would have to learn anew; take out arrows or nodes"
        )
    else:
        nodes, edges = select(graph, selector)
        if not nodes and not edges:
            hint = closest(graph, selector, text)
            raise UsageError(f"--without {text} matches nothing" + (f"; {hint}" if hint else ""))
        graph.remove_edges_from(edges)
        graph.remove_nodes_from(nodes)


def _refuse_read(graph: Graph, without: Sequence[str]) -> None:
    """A task cannot read what is gone."""
    for name, entry in graph.graph["tasks"].items():
        for node in entry["at"]:
            if node not in graph:
                raise UsageError(
                    f"--without {', '.join(without)}: task `{name}` reads {node};"
                    f" take out `task.{name}` too, or arrows only"
                )


def _refuse_needed(graph: Graph, without: Sequence[str]) -> None:
    """A cell cannot go on without an arrow that it needs."""
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
