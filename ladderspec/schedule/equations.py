"""The equation of one node: the arrows it reads, what it remembers, and the work it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ladderspec.names import Role, Shape, show_arrow, size_of
from ladderspec.wiring.graph import Graph, copies_of


class Term(NamedTuple):
    """One arrow: what its target reads, and from how many iterations ago."""

    source: str
    target: str
    key: str
    role: Role
    delay: int
    tap: str = ""  # the further value of its source that it carries, if not the output

    @property
    def slot(self) -> str:
        """The name of the value that it carries."""
        return f"{self.source}.{self.tap}" if self.tap else self.source

    def __str__(self) -> str:
        return show_arrow(self.source, self.target, self.delay)


@dataclass(frozen=True)
class Equation:
    """The computation of one node, with its work for one t of one sample, all groups."""

    node: str
    cell: str
    edges: tuple[Term, ...]  # in the order of their roles
    shape: Shape
    state: tuple[tuple[str, Shape], ...]  # what the cell remembers besides its output
    stateful: bool
    initial: str  # what delayed arrows carry before the first t
    parameters: int  # of the node and of the arrows that enter it
    multiplications: int
    copies: int = 1  # one for each group
    share: str | None = None  # the node with which it shares weights

    @property
    def elements(self) -> int:
        """The number of elements of its output and its state."""
        elements = size_of(self.shape) + sum(size_of(shape) for _, shape in self.state)
        return self.copies * elements


@dataclass(frozen=True)
class Reader:
    """The reads of one task: which nodes, when, and the work of its own read-out."""

    name: str
    at: tuple[str, ...]
    when: str | tuple[float, ...]  # last, all, or a weight for each t
    ahead: int  # the target of t is that many frames later
    parameters: int
    multiplications: int
    clean: tuple[str, ...] = ()  # the nodes of a pass without noise that it compares with


def equation_of(graph: Graph, node: str) -> Equation:
    attributes = graph.nodes[node]
    cell, shape = attributes["cell"], attributes["shape"]
    arrows = list(graph.in_edges(node, keys=True, data=True))
    edges = [
        Term(source, node, key, edge["role"], edge["delay"], tap_of(edge))
        for source, _, key, edge in arrows
    ]
    return Equation(
        node=node,
        cell=cell.cell,
        edges=tuple(sorted(edges, key=lambda edge: (edge.role.order, edge.key, edge.source))),
        shape=shape,
        state=tuple(cell.state_shapes(shape).items()),
        stateful=cell.stateful,
        initial=attributes["initial"],
        parameters=attributes["parameters"] + sum(edge.get("parameters", 0) for *_, edge in arrows),
        multiplications=multiplications(graph, node),
        copies=copies_of(graph, node),
        share=attributes.get("share"),
    )


def tap_of(edge: Mapping[str, Any]) -> str:
    """The further value that an arrow carries; empty if it is the output."""
    tap = edge.get("tap")
    return "" if tap in (None, "output") else str(tap)


def reader_of(graph: Graph, name: str) -> Reader:
    entry = graph.graph["tasks"][name]
    task = entry["task"]
    shapes = [graph.nodes[node]["shape"] for node in entry["at"]]
    heads = [(weight, out) for out in shapes for weight in task.head_parameters(out).values()]
    work = sum(_uses(weight, out) for weight, out in heads) * copies_of(graph, entry["at"][0])
    parameters = entry["parameters"]
    clean = tuple(dict.fromkeys(source for source, _ in entry["clean"].values()))
    return Reader(name, tuple(entry["at"]), task.when, task.horizon, parameters, work, clean)


def multiplications(graph: Graph, node: str) -> int:
    """Multiply-adds of a node for one t of one sample, all groups: those of its linear maps.

    Each arrow that enters has its own map; the gates of LSTM and GRU are rows of these maps. What
    the node owns itself counts if it is a weight: a filter (W_s, D, E of convG3; D of convG2) is
    used at every position of the output, a matrix once. Biases, gains and the coefficients of
    f(u, w) are applied elementwise and are not counted, nor are norms, activations and pools.
    """
    attributes = graph.nodes[node]
    arrows = graph.in_edges(node, data="projection")
    total: int = sum(each.multiplications for *_, each in arrows if each is not None)
    weights = [
        each.shape
        for each in attributes["cell_parameters"].values()
        if not each.elementwise and not each.buffer
    ]
    total += sum(_uses(weight, attributes["shape"]) for weight in weights)
    return total * copies_of(graph, node)


def _uses(weight: Shape, out: Shape) -> int:
    """Multiply-adds of a weight: a filter at all positions of `out`, a matrix once, a vector never.

    >>> _uses((8, 4, 1, 1), (8, 5, 5)), _uses((8, 4), (8, 5, 5)), _uses((8,), (8, 5, 5))
    (800, 32, 0)
    """
    if len(weight) < 2:
        return 0
    return size_of(weight) * (size_of(out[1:]) if len(weight) > 2 else 1)
