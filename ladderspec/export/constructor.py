"""The constructor of the network: the rows of the table, then what else it owns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from ladderspec.export.code import WIDTH, fit
from ladderspec.export.readouts import Readout
from ladderspec.export.reserved import RESERVED
from ladderspec.export.rows import comment, quoted, rows_of, write
from ladderspec.export.said import said
from ladderspec.export.unroll import INPUT, access
from ladderspec.names import Side, node_name, split_node
from ladderspec.wiring.graph import Graph

INDENT = " " * 8
TABLE_WIDTH = 100  # its rows are easier to compare when each is a line


def constructor(
    graph: Graph, modules: Mapping[str, str], readouts: Sequence[Readout]
) -> Iterator[str]:
    """Its body; `modules` are expressions by node."""
    yield f"{INDENT}super().__init__()"
    dictionary = _dictionary(split_node(node)[1] for node in modules)
    for side in sides(modules):
        yield f"{INDENT}self.{side} = {side} = {dictionary}()"
    yield from _unbroken(_table(graph, modules))
    for line in (*_learned(graph), *_tasks([each for each in readouts if each.module])):
        yield from fit(f"{INDENT}{line}".rstrip())


def _table(graph: Graph, modules: Mapping[str, str]) -> Iterator[str]:
    yield from write(rows_of(graph, modules))
    top = node_name(Side.DECODER, graph.graph["levels"][-1])
    if top in modules:
        yield from _single(graph, modules, top, "top")
    for node in modules:
        side, level = split_node(node)
        if side is Side.LATERAL:
            yield from _single(graph, modules, node, f"lateral of {level}")


def _unbroken(rows: Iterable[str]) -> list[str]:
    """The table; where some of its lines are long, formatters are told to leave it alone."""
    lines = [part for row in rows for part in fit(f"{INDENT}{row}".rstrip(), TABLE_WIDTH)]
    if all(len(line) <= WIDTH for line in lines):
        return lines
    return ["", f"{INDENT}# fmt: off", *lines[1:], f"{INDENT}# fmt: on"]


def sides(modules: Iterable[str]) -> list[Side]:
    """The columns of the ladder that have modules."""
    there = {split_node(node)[0] for node in modules}
    return [side for side in Side if side in there]


def _dictionary(names: Iterable[str]) -> str:
    return "nn.ModuleDict" if RESERVED.isdisjoint(names) else "Levels"


def _single(graph: Graph, modules: Mapping[str, str], node: str, name: str) -> Iterator[str]:
    yield ""
    yield from comment(name, said(graph.nodes[node]["cell"]))
    yield f"{access(node)} = {modules[node]}"


def _learned(graph: Graph) -> Iterator[str]:
    """Initial values that are learned."""
    learned = [
        (node, name, shape[0])
        for node, own in graph.nodes(data="own")
        for name, shape in own.items()
        if name.startswith("initial")
    ]
    if learned:
        yield ""
        yield "# What delayed arrows bring at the first t, by channel."
    for node, name, channels in learned:
        if node == INPUT:
            yield f"{access(node)} = nn.Identity()"
        yield f"{access(node)}.{name} = nn.Parameter(torch.zeros({channels}))"


def _tasks(readouts: Sequence[Readout]) -> Iterator[str]:
    """What the tasks own."""
    if not readouts:
        return
    yield ""
    yield "# tasks"
    dictionary = _dictionary(part for each in readouts for part in each.name.split("."))
    yield f"self.task = {dictionary}()"
    for task, group in groupby(readouts, key=lambda each: each.task):
        owned = list(group)
        module = _by_node(owned, dictionary) if owned[0].several else owned[0].module
        yield f"self.task[{quoted(task)}] = {module}"


def _by_node(readouts: Sequence[Readout], dictionary: str) -> str:
    """Where a task reads several nodes: by side, then by level."""
    found = []
    for side, group in groupby(readouts, key=lambda each: split_node(each.node)[0]):
        inner = [f"{quoted(split_node(each.node)[1])}: {each.module}" for each in group]
        found.append(f"{quoted(side)}: {dictionary}({{{', '.join(inner)}}})")
    return f"{dictionary}({{{', '.join(found)}}})"
