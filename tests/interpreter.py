"""The plainest way to run a spec: every node at every t, one after the other. No plan.

This is what a compiled network must equal: outputs, gradients and running statistics.
"""

from __future__ import annotations

import networkx as nx
import torch
from torch import Tensor, nn

from ladderspec.names import Shape
from ladderspec.network.modules import nest_cells
from ladderspec.nn import TimeStep, initialise
from ladderspec.wiring.graph import Graph, copies, groups_of, in_order

Iteration = dict[str, tuple[Tensor, dict[str, Tensor]]]  # by node: output, extras


class Interpreter(nn.Module):
    """Walks the graph of a spec over t, with the cell modules as they are."""

    def __init__(self, graph: Graph, seed: int = 0) -> None:
        super().__init__()
        self.graph = graph
        now = nx.MultiDiGraph()
        now.add_nodes_from(graph)
        now.add_edges_from((a, b) for a, b, delay in graph.edges(data="delay") if delay == 0)
        self.order = list(nx.topological_sort(now))
        self.cells = nest_cells(self, graph)
        initialise(self, seed)

    def forward(
        self,
        frames: Tensor | dict[str, Tensor],
        lengths: Tensor | None = None,
        clean: bool = False,
    ) -> list[Iteration]:
        """All nodes at all t, from frames (B, T, ...) or from one input (B, ...) for all t.

        Several inputs stand by name. K groups stand side by side: sample b of group k is b K + k.
        A clean pass has no noise.
        """
        given = frames if isinstance(frames, dict) else {"input": frames}
        over_frames = self.graph.graph["frames"] is not None
        if groups := copies(self.graph):
            given = {
                name: torch.cat([x.expand(groups, *x.shape) for x in value])
                for name, value in given.items()
            }
            lengths = None if lengths is None else lengths[:, None].expand(-1, groups).flatten()
        self.starts: dict[str, Tensor] = {}  # one draw per pass
        for node, delay in [(a, delay) for a, _, delay in self.graph.edges(data="delay")]:
            if delay and self.graph.nodes[node]["cell"].cell == "Readout":
                self.before(node, given["input"])
        bottom = given["input"]
        length = bottom.shape[1] if over_frames else self.graph.graph["iterations"]
        noise = self.noise(len(bottom), length) if self.training and not clean else {}
        history: list[Iteration] = []
        for t in range(length):
            now = {node: drawn[min(t, len(drawn) - 1)] for node, drawn in noise.items()}
            alive = None if lengths is None else t < lengths
            step = TimeStep(t, alive, noise=now, clean=clean)
            history.append({})
            for node in self.order:
                history[t][node] = self.compute(node, t, given, history, step)
        return history

    def noise(self, batch: int, length: int) -> dict[str, Tensor]:
        """The noise of cells by node, (T, B, ...); iterations on one input share theirs."""
        times = 1 if self.graph.graph["frames"] is None else length
        found = {}
        for node in in_order(self.graph):
            cell = self.graph.nodes[node]["cell"]
            if cell.cell != "Input" and cell.noise:
                shape = self.cells[node].normalised
                drawn = [torch.randn(batch, *shape) for _ in range(times)]
                found[node] = cell.noise.gaussian * torch.stack(drawn)
        return found

    def shown(self, node: str, t: int, given: dict[str, Tensor]) -> Tensor:
        """The value of an input at one t: zeros after the last t of `until`."""
        side, name = node.split(".")
        cell, value = self.graph.nodes[node]["cell"], given[name]
        timed = cell.per == "frame" if side == "input" else self.graph.graph["frames"] is not None
        now = value[:, t] if timed else value
        return now if cell.until is None or t < cell.until else torch.zeros_like(now)

    def compute(
        self,
        node: str,
        t: int,
        given: dict[str, Tensor],
        history: list[Iteration],
        step: TimeStep,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One node at one t."""
        if self.graph.nodes[node]["cell"].cell == "Input":
            return self.shown(node, t, given), {}
        frame = given["input"]
        values, previous = {}, None
        for source, _, key, edge in self.graph.in_edges(node, keys=True, data=True):
            past = t - edge["delay"]
            known = history[past][source] if past >= 0 else self.before(source, frame)
            tap = edge["tap"]
            values[key] = known[0] if tap in (None, "output") else known[1][tap]
            if key == "state":
                previous = known[1]
        result: tuple[Tensor, dict[str, Tensor]] = self.cells[node](values, previous, step)
        return result

    def before(self, node: str, frame: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """What a node gives before the first iteration: zeros, or what was learned."""
        facts = self.graph.nodes[node]
        if facts["cell"].cell == "Readout":
            if node not in self.starts:
                self.starts[node] = self.start_of_groups(node, len(frame))
            return self.starts[node], {}
        learned = dict(self.cells[node].named_parameters(recurse=False))

        def start(name: str, shape: Shape) -> Tensor:
            zeros = frame.new_zeros(frame.shape[0], *shape)
            if name not in learned:
                return zeros
            return zeros + learned[name].view(-1, *(1 for _ in shape[1:]))

        shape = facts["shape"]
        extras = facts["cell"].state_shapes(shape)
        past = {k: start(f"initial_{k}", s) for k, s in extras.items()}
        taps = dict.fromkeys(("normalised", "logits"), start("", shape))
        return start("initial", shape), {**taps, **past}

    def start_of_groups(self, node: str, batch: int) -> Tensor:
        """mu is the mean of the data, pi random: as the docs say, sample by sample."""
        groups, module, shape = (
            groups_of(self.graph),
            self.cells[node],
            self.graph.nodes[node]["shape"],
        )
        assert groups is not None
        buffer = torch.cat([module.noise] * (batch // groups.count))
        noise = torch.randn(buffer.shape) if self.training else buffer
        channels = len(module.mean)
        found = []
        for sample in noise.split(groups.count):
            logits = groups.start.group * sample[:, :1] + groups.start.pixel * sample[:, 1:]
            pi = (logits.exp() / logits.exp().sum(0)).view(groups.count, -1, *shape[1:])
            mean = module.mean.view(-1, *(1 for _ in shape[1:]))
            mu = mean.expand(groups.count, channels, *shape[1:])
            found.append(torch.cat([mu, pi], 1))
        return torch.cat(found)


def apart(value: Tensor, graph: Graph) -> Tensor:
    """(B K, T, ...) -> (B, T, K, ...), if there are groups."""
    if groups := copies(graph):
        return torch.stack([value[k::groups] for k in range(groups)], 2)
    return value


def read(history: list[Iteration], node: str) -> Tensor:
    """What a task sees of a node, (B, T, ...): logits where there are some, else the output."""
    seen = [extras.get("logits", output) for output, extras in (at[node] for at in history)]
    return torch.stack(seen, dim=1)
