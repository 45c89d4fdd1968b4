"""The loop over t: one line per node, values in the paper's letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import networkx as nx

from ladderspec.export.uses import Arrow, Use
from ladderspec.names import Role, Shape, Side, node_name, split_node
from ladderspec.schedule.letters import LETTERS
from ladderspec.wiring.graph import Graph, in_order, now

INPUT = "encoder.input"


class Past(NamedTuple):
    """What a variable keeps: values of a node, and from how many t."""

    node: str
    depth: int


@dataclass(frozen=True)
class Unrolled:
    """The body of `forward`, from the uses of all nodes; `timed` are those called with t."""

    graph: Graph
    uses: Mapping[str, Use]
    timed: frozenset[str]

    @cached_property
    def order(self) -> list[str]:
        """Up and down the ladder, as far as the arrows within one t allow."""
        rank = {node: index for index, node in enumerate(in_order(self.graph))}
        return list(nx.lexicographical_topological_sort(nx.DiGraph(now(self.graph)), rank.get))

    # --- letters ---------------------------------------------------------------------------------

    def value(self, node: str) -> str:
        """The variable of a node's output."""
        side, level = split_node(node)
        return f"{LETTERS[side]}_{level}"

    def state(self, node: str) -> str:
        """That of the state of an LSTM; s, unless the encoder of the same level has one too."""
        side, level = split_node(node)
        encoder = self.uses.get(node_name(Side.ENCODER, level))
        both = side is Side.LATERAL and encoder is not None and encoder.piece == "lstm"
        return f"{'sh' if both else 's'}_{level}"

    def logits(self, node: str) -> str:
        return f"logits_{split_node(node)[1]}"

    def carried(self, arrow: Arrow) -> str:
        """The variable that an arrow reads, apart from its delay."""
        if arrow.role is Role.STATE and self.uses[arrow.source].piece == "lstm":
            return self.state(arrow.source)
        return self.value(arrow.source)

    # --- the past --------------------------------------------------------------------------------

    @cached_property
    def delayed(self) -> dict[str, Past]:
        """What delayed arrows read, by variable, from the input up."""
        found: dict[str, Past] = {}
        levels = self.graph.graph["order"]
        arrows = [arrow for node in self.order for arrow in self.uses[node].arrows if arrow.delay]
        for arrow in sorted(arrows, key=lambda arrow: levels[split_node(arrow.source)[1]]):
            name = self.carried(arrow)
            known = found.get(name, Past(arrow.source, 1))
            found[name] = known._replace(depth=max(known.depth, arrow.delay))
        return found

    @cached_property
    def overwritten(self) -> set[str]:
        """Variables that are read from t-1 after t has set them anew."""
        at = {node: index for index, node in enumerate(self.order)}
        return {
            self.carried(arrow)
            for node in self.order
            for arrow in self.uses[node].arrows
            if arrow.delay and at[arrow.source] < at[node]
        }

    def read(self, arrow: Arrow) -> str:
        """What an arrow brings."""
        name = self.carried(arrow)
        if not arrow.delay:
            return name
        if self.delayed[name].depth > 1:
            return f"past_{name}[-{arrow.delay}]"
        return self._kept(name)

    def _kept(self, name: str) -> str:
        """The variable that holds a value of t-1."""
        return f"previous_{name}" if name in self.overwritten else name

    def start(self) -> Iterator[str]:
        """What delayed arrows bring at first."""
        for name, (node, depth) in self.delayed.items():
            state = name != self.value(node)
            first = self._initial(node, state)
            if depth > 1 and state:
                yield f"{name} = {first}"
                first = name
            if depth > 1:
                yield f"past_{name} = deque([{first}] * {depth}, maxlen={depth})"
            else:
                yield f"{self._kept(name)} = {first}"

    def _initial(self, node: str, state: bool) -> str:
        facts = self.graph.nodes[node]
        shape: Shape = facts["shape"]
        names = ["initial", "initial_c"] if state else ["initial"]
        sizes = ", ".join(map(str, shape))
        values = [
            f'spread({access(node)}.get_parameter("{name}"), batch, {sizes})'
            if name in facts["own"]
            else f"zeros({sizes})"
            for name in names
        ]
        return values[0] if len(values) == 1 else f"({', '.join(values)})"

    # --- one t -----------------------------------------------------------------------------------

    def iteration(self) -> Iterator[str]:
        """One t: the nodes in order, then what is kept for later."""
        called = [node for node in self.order if self.is_called(node)]
        ways = [(down, list(nodes)) for down, nodes in groupby(called, key=_is_down)]
        for down, nodes in ways:
            if len(ways) > 1:
                yield "# Down the ladder." if down else "# Up the ladder."
            yield from map(self._equation, nodes)
            yield ""
        for name, (_, depth) in self.delayed.items():
            if depth > 1:
                yield f"past_{name}.append({name})"
            elif name in self.overwritten:
                yield f"{self._kept(name)} = {name}"

    def is_called(self, node: str) -> bool:
        """Whether the node has a module to call: not the input, nor a bare softmax for tasks."""
        bare = self.uses[node].piece == "" and self.graph.nodes[node]["cell"].cell == "SoftMax"
        return node != INPUT and (self._is_read(node) or not bare)

    def _equation(self, node: str) -> str:
        use = self.uses[node]
        reads = [
            f"{arrow.key}={self.read(arrow)}" if use.by_role else self.read(arrow)
            for arrow in use.arrows
        ]
        arguments = ", ".join([*(["t"] if node in self.timed else []), *reads])
        return f"{self._left(node)} = {access(node)}({arguments})"

    def _left(self, node: str) -> str:
        value = self.value(node)
        if self.uses[node].piece == "lstm":
            return f"{value if self._is_read(node) else '_'}, {self.state(node)}"
        if self.uses[node].piece == "softmax":
            told = node in self.seen and self.seen_at(node) != value
            logits = self.logits(node) if told else "_"
            return f"{value if self._is_read(node) else '_'}, {logits}"
        return value

    def _is_read(self, node: str) -> bool:
        """Whether something reads the output itself."""
        if node in self.seen and self.seen_at(node) == self.value(node):
            return True
        return self.value(node) in self.carried_values

    @cached_property
    def carried_values(self) -> set[str]:
        """The variables that arrows read."""
        return {self.carried(arrow) for use in self.uses.values() for arrow in use.arrows}

    @cached_property
    def seen(self) -> set[str]:
        """The nodes that tasks read; without tasks, all are looked at."""
        tasks = self.graph.graph["tasks"].values()
        return {node for task in tasks for node in task["at"]} or set(self.graph)

    def seen_at(self, node: str) -> str:
        """What a task sees of a node: the logits of a SoftMax, else the output."""
        use = self.uses[node]
        if self.graph.nodes[node]["cell"].cell != "SoftMax" or not self.graph.graph["tasks"]:
            return self.value(node)
        return self.logits(node) if use.piece == "softmax" else self.read(use.arrows[0])


def _is_down(node: str) -> bool:
    return split_node(node)[0] is Side.DECODER


def access(node: str) -> str:
    """How the code reaches a module."""
    side, level = split_node(node)
    return f'{side}["{level}"]'
