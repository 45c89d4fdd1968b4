"""The class of the network: its table in the constructor, its loop over t in `forward`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import networkx as nx

from ladderspec.cells.fields import Noise
from ladderspec.errors import UsageError
from ladderspec.export.classes import GROUPS
from ladderspec.export.source import block, fitted
from ladderspec.export.table import comment, fields_of, quoted, table_lines
from ladderspec.names import BOTTOM, Role, Shape, Side, is_input, node_name, split_node
from ladderspec.schedule.equations import equation_of
from ladderspec.wiring.graph import (
    Graph,
    copies,
    forms_of,
    in_order,
    is_tapped_by_arrows,
    now,
)
from ladderspec.wiring.readings import readouts_of
from ladderspec.wiring.sharing import holders

# --- what tasks see -------------------------------------------------------------------------------


class Output(NamedTuple):
    """One thing that a task sees."""

    name: str  # in the outputs of the network
    node: str
    shape: Shape
    text: str = ""  # what the task is
    module: str = ""  # the expression that makes what it owns; empty if it owns nothing
    stopped: bool = False  # no gradient flows back


def axes(graph: Graph) -> str:
    """The first axes of what a task sees: samples, t, groups."""
    time = "T" if graph.graph["frames"] else str(graph.graph["iterations"])
    return f"B, {time}, K" if copies(graph) else f"B, {time}"


def outputs_of(graph: Graph) -> list[Output]:
    """All that tasks see; without any task, every node."""
    found = []
    for name, node, full, head, shape, offset in readouts_of(graph):
        task = graph.graph["tasks"][name]["task"]
        given = ", ".join(map(str, head["weight"] if head else shape))
        module = f"Head({given})" if head else f"Offset({given})" if offset else ""
        if head and offset:
            module = f"HeadOffset({given}, offset={shape})"
        text = f"{task.kind} at {node}"
        found.append(Output(full, node, shape, text, module, not task.teaches))
    nodes = [] if graph.graph["tasks"] else [node for node in graph if not is_input(node)]
    return found or [Output(node, node, graph.nodes[node]["shape"]) for node in nodes]


# --- names ----------------------------------------------------------------------------------------


def variable(slot: str) -> str:
    """The variable of a node's output, or of a further value.

    >>> variable("encoder.top"), variable("encoder.top.c"), variable("decoder.top.normalised")
    ('e_top', 'c_top', 'z_d_top')
    """
    side, level, *further = slot.split(".")
    name = f"{Side(side).letter}_{level}"
    if not further:
        return name
    letter = {"normalised": "z"}.get(further[0], further[0])
    return f"{letter}_{level}" if side == Side.ENCODER else f"{letter}_{name}"


def access(name: str) -> str:
    """How the code reaches the module of a node, or of an edge: `encoder["conv_1"].state`."""
    side, level, *key = name.split(".")
    return ".".join([f"{side}[{quoted(level)}]", *key])


def _node(slot: str) -> str:
    return ".".join(slot.split(".")[:2])


# --- the class ------------------------------------------------------------------------------------


class Network:
    """The text of the network's class.

    Args:
        graph: The graph.
        modules: The expressions that make the modules, by node.
    """

    def __init__(self, graph: Graph, modules: Mapping[str, str]) -> None:
        self.graph, self.modules, self.outputs = graph, modules, outputs_of(graph)
        # Up and down the ladder, as far as the edges within one t allow.
        rank = {node: index for index, node in enumerate(in_order(graph))}
        order = nx.lexicographical_topological_sort(nx.DiGraph(now(graph)), rank.get)
        self.equations = {node: equation_of(graph, node) for node in order}
        self._check_variables()
        self.depths = self._depths()
        read = {edge.slot for each in self.equations.values() for edge in each.edges}
        self.read = read | {*self.depths, *(self._seen(each.node) for each in self.outputs)}
        self.learned = {  # initial values, by their slot: parameter and channels
            node + key.removeprefix("initial").replace("_", ".", 1): (key, each.shape[0])
            for node, declared in graph.nodes(data="cell_parameters")
            for key, each in declared.items()
            if key.startswith("initial")
        }
        shared = [(each.name, each.attributes["shared"]) for each in holders(graph)]
        self.shared = [(name, owner) for name, owner in shared if owner]
        self.inputs = forms_of(graph)
        self.arguments = {}  # the variables of `forward` that hold them
        for form in self.inputs:
            timed = "frames" if form.node == BOTTOM else f"{form.name}_frames"
            self.arguments[form.node] = timed if form.timed else variable(form.node)

    def _check_variables(self) -> None:
        """Refuse two values that would have one variable."""
        known: dict[str, str] = {}
        for node, cell in self.graph.nodes(data="cell"):
            for slot in [node, *(f"{node}.{name}" for name in cell.returns)]:
                name = variable(slot)
                for each in (name, f"past_{name}", f"previous_{name}"):
                    if known.setdefault(each, slot) != slot:
                        raise UsageError(
                            f"cannot export `{slot}` and `{known[each]}`: both would be `{each}` in"
                            " the file; rename one of them"
                        )

    def _depths(self) -> dict[str, int]:
        """How many past values of each slot are read, from the input up."""
        found: dict[str, int] = {}
        for node, equation in self.equations.items():
            for edge in equation.edges:
                states = equation.state if edge.role is Role.STATE else ()
                for slot in [edge.slot, *(f"{node}.{name}" for name, _ in states)]:
                    found[slot] = max(found.get(slot, 0), edge.delay)
        levels = self.graph.graph["order"]
        rank = {slot: levels[self.graph.nodes[_node(slot)]["level"]] for slot in found}
        return {slot: found[slot] for slot in sorted(found, key=rank.__getitem__) if found[slot]}

    def text(self, name: str, doc: Iterable[str]) -> str:
        """The class, in lines that fit."""
        several = len(self.inputs) > 1
        given = "inputs: dict[str, Tensor]" if several else f"{self.arguments[BOTTOM]}: Tensor"
        parts = [
            "\n".join(doc),
            block("def __init__(self) -> None:", self._constructor()),
            block(f"def forward(self, {given}) -> dict[str, Tensor]:", self._forward()),
        ]
        return fitted(block(f"class {name}(nn.Module):", ["\n\n".join(parts)]))

    def _sides(self, nodes: Iterable[str]) -> list[Side]:
        """The columns of the ladder that have modules."""
        there = {name.partition(".")[0] for name in (*self.modules, *self.learned, *nodes)}
        return [side for side in Side if side in there]

    # --- constructor ------------------------------------------------------------------------------

    def _constructor(self) -> Iterator[str]:
        yield "super().__init__()"
        for side in self._sides(owner for _, owner in self.shared):
            yield f"self.{side} = {side} = Modules()"
        yield from table_lines(self.graph, self.modules)
        top = node_name(Side.DECODER, self.graph.graph["levels"][-1])
        for node in self.modules:
            side, level = split_node(node)
            if node == top or side is Side.LATERAL:
                name = "top" if node == top else f"lateral of {level}"
                yield ""
                yield from comment(name, fields_of(self.graph.nodes[node]["cell"]))
                yield f"{access(node)} = {self.modules[node]}"
        initial = "Initial values of delayed edges, one number per channel."
        more = {"shared weights": self._shared(), initial: self._initial(), "tasks": self._tasks()}
        for title, assignments in more.items():
            if lines := [*assignments]:
                yield from ["", f"# {title}", *lines]

    def _shared(self) -> Iterator[str]:
        """What shares weights; owners that are no part of the network keep their tensors."""
        known = {each.name for each in holders(self.graph)}
        for _, owner in self.shared:
            for name in (_node(owner), owner):
                if name not in known:
                    known.add(name)
                    yield f"{access(name)} = nn.Module()"
        for name, owner in self.shared:
            yield f"share({access(owner)}, {access(name)})"

    def _initial(self) -> Iterator[str]:
        """Initial values that are learned; identity nodes have no module that could own theirs."""
        for slot, (name, channels) in self.learned.items():
            if slot not in self.modules and name == "initial":
                yield f"{access(slot)} = nn.Identity()"
            yield f"{access(_node(slot))}.{name} = nn.Parameter(torch.zeros({channels}))"

    def _tasks(self) -> Iterable[str]:
        """What the tasks own; if a task reads several nodes, by node."""
        lines = dict[str, None]()
        for each in (output for output in self.outputs if output.module):
            *path, last = [f"[{quoted(part)}]" for part in each.name.split(".")]
            for n in range(len(path) + 1):
                lines[f"self.task{''.join(path[:n])} = Modules()"] = None
            lines[f"self.task{''.join(path)}{last} = {each.module}"] = None
        return lines

    # --- forward ----------------------------------------------------------------------------------

    def _forward(self) -> Iterator[str]:
        timed, grouped = self.arguments[BOTTOM] == "frames", copies(self.graph) is not None
        iterations = self.graph.graph["iterations"]
        yield f'"""{self._about()}"""'
        for form in self.inputs if len(self.inputs) > 1 else ():
            yield f"{self.arguments[form.node]} = inputs[{quoted(form.name)}]"
        yield from self._noise(self.graph.nodes[BOTTOM]["cell"].noise)
        if grouped:
            for name in self.arguments.values():
                yield f"{name} = {name}.repeat_interleave({GROUPS}, dim=0)"
        if used := self._sides([]):
            yield f"{', '.join(used)} = {', '.join(f'self.{side}' for side in used)}"
        if iterations == 1 and not self.depths:  # one t, and nothing before it
            yield "t = 0"
            yield ""
            yield from self._iteration()
            seen = [f"{quoted(each.name)}: {self._sees(each)}[:, None]" for each in self.outputs]
            yield f"return {{{', '.join(seen)}}}"
            return
        yield from self._before()
        loop = "for t, e_input in enumerate(frames.unbind(dim=1)):"
        seen = [f"outputs[{quoted(each.name)}].append({self._sees(each)})" for each in self.outputs]
        body = [*self._inputs(), *self._iteration(), *seen]
        yield block(loop if timed else f"for t in range({iterations}):", body)
        stacked = "{name: torch.stack(seen, dim=1) for name, seen in outputs.items()}"
        if grouped:
            yield f"stacked = {stacked}"
            apart = f"x.unflatten(0, (-1, {GROUPS})).transpose(1, 2)"
            stacked = f"{{name: {apart} for name, x in stacked.items()}}"
        yield f"return {stacked}"

    def _about(self) -> str:
        shape = ", ".join(map(str, self.graph.nodes[BOTTOM]["shape"]))
        given = f"Frames (B, T, {shape})"
        if len(self.inputs) > 1:
            return f"All inputs by name -> what each task sees, ({axes(self.graph)}, ...)."
        if self.arguments[BOTTOM] != "frames":
            again = "" if self.graph.graph["iterations"] == 1 else ", the same at every t,"
            given = f"An input (B, {shape}){again}"
        return f"{given} -> what each task sees, ({axes(self.graph)}, ...)."

    def _noise(self, noise: Noise | None) -> Iterator[str]:
        x, found = self.arguments[BOTTOM], list[str]()
        if noise is not None and noise.gaussian:
            found.append(f"{x} = {x} + {noise.gaussian} * torch.randn_like({x})")
        if noise is not None and noise.flip:
            found.append(f"{x} = torch.where(torch.rand_like({x}) < {noise.flip}, 1 - {x}, {x})")
        if found:
            yield block("if self.training:", found)

    def _before(self) -> Iterator[str]:
        """The initial values of delayed edges."""
        start, x = [], self.arguments[BOTTOM]
        for slot, depth in self.depths.items():
            node, name = _node(slot), variable(slot)
            attributes = self.graph.nodes[node]
            shape = dict(self.equations[node].state).get(slot.split(".")[-1], attributes["shape"])
            sizes = ", ".join(map(str, shape))
            first = f"before({sizes})"
            if slot == node and attributes["cell"].first_value is not None:
                first = f"{access(node)}.first_value(batch)"
            elif slot in self.learned:
                source = f"{access(node)}.get_parameter({quoted(self.learned[slot][0])})"
                first = f"spread_channels({source}, batch, {sizes})"
            past = f"past_{name} = deque([{first}] * {depth}, maxlen={depth})"
            start.append(past if depth > 1 else f"{self._last(slot)} = {first}")
        text = "\n".join(start)
        if "batch" in text:
            yield f"batch = {x}.shape[0]"
        if "before(" in text:
            yield ""
            yield "def before(*shape: int) -> Tensor:"
            yield f"    return {x}.new_zeros({x}.shape[0], *shape)"
        if start:
            yield ""
            yield f"# Before the first t{'' if 'batch' in text else ', all is zero'}."
            yield from start
            yield ""
        empty = ", ".join(f"{quoted(each.name)}: []" for each in self.outputs)
        yield f"outputs: dict[str, list[Tensor]] = {{{empty}}}"

    def _inputs(self) -> Iterator[str]:
        """What the inputs give at one t."""
        for form in self.inputs:
            value, argument = variable(form.node), self.arguments[form.node]
            if form.node != BOTTOM and argument != value:
                yield f"{value} = {argument}[:, t]"
            if form.until is not None:
                yield f"if t >= {form.until}:"
                yield f"    {value} = torch.zeros_like({value})"

    # --- one t ------------------------------------------------------------------------------------

    def _iteration(self) -> Iterator[str]:
        """The nodes in order, then what is kept for later."""
        computed = [node for node in self.equations if not is_input(node)]
        runs = [
            (down, list(nodes))
            for down, nodes in groupby(computed, key=lambda n: split_node(n)[0] is Side.DECODER)
        ]
        for down, nodes in runs:
            if len(runs) > 1:
                yield "# Down the ladder." if down else "# Up the ladder."
            yield from map(self._equation, nodes)
            yield ""
        for slot, depth in self.depths.items():
            name = variable(slot)
            if depth > 1:
                yield f"past_{name}.append({name})"
            elif self._last(slot) != name:
                yield f"{self._last(slot)} = {name}"

    def _last(self, slot: str) -> str:
        """The variable that holds a value of t-1: another one, if t sets it before it is read."""
        order = list(self.equations)
        later = order[order.index(_node(slot)) + 1 :]
        edges = [edge for node in later for edge in self.equations[node].edges]
        read = any(edge.slot == slot and edge.delay for edge in edges)
        return f"previous_{variable(slot)}" if read else variable(slot)

    def _past(self, slot: str, delay: int) -> str:
        """What is read of a slot."""
        if not delay:
            return variable(slot)
        deep = self.depths[slot] > 1
        return f"past_{variable(slot)}[-{delay}]" if deep else self._last(slot)

    def _equation(self, node: str) -> str:
        equation = self.equations[node]
        given = {edge.key: self._past(edge.slot, edge.delay) for edge in equation.edges}
        if node not in self.modules:
            return f"{variable(node)} = {next(iter(given.values()))}"
        for edge in equation.edges:
            if edge.role is Role.STATE:
                given |= {n: self._past(f"{node}.{n}", edge.delay) for n, _ in equation.state}
        arguments = ", ".join(["t", *(f"{key}={text}" for key, text in given.items())])
        slots = [node, *(f"{node}.{name}" for name in self.graph.nodes[node]["cell"].returns)]
        slots += [f"{node}.normalised"] if is_tapped_by_arrows(self.graph, node) else []
        left = [variable(slot) if slot in self.read or len(slots) == 1 else "_" for slot in slots]
        return f"{', '.join(left)} = {access(node)}({arguments})"

    def _seen(self, node: str) -> str:
        """What a task sees of a node: the logits of a SoftMax, else the output."""
        logits = "logits" in self.graph.nodes[node]["cell"].returns
        return f"{node}.logits" if logits and self.graph.graph["tasks"] else node

    def _sees(self, output: Output) -> str:
        value = variable(self._seen(output.node)) + (".detach()" if output.stopped else "")
        key = "".join(f"[{quoted(part)}]" for part in output.name.split("."))
        return f"self.task{key}({value})" if output.module else value
