"""The class of the network: its table in the constructor, its loop over t in `forward`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import networkx as nx

from ladderspec.cells.fields import Noise
from ladderspec.export.classes import sides_of
from ladderspec.export.instances import GROUPS
from ladderspec.export.source import fit
from ladderspec.export.table import comment, fields_of, quoted, rows_of, write
from ladderspec.names import BOTTOM, Role, Shape, Side, is_input, node_name, split_node
from ladderspec.schedule.equations import Term, equation_of
from ladderspec.schedule.letters import LETTERS
from ladderspec.wiring.graph import (
    Graph,
    TaskAttributes,
    copies,
    forms_of,
    in_order,
    is_tapped_by_arrows,
    now,
)
from ladderspec.wiring.sharing import holders

# --- what tasks see -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """One thing that a task sees."""

    task: str
    node: str
    shape: Shape
    task_text: str = ""  # what the task is
    module: str = ""  # the expression that makes what it owns; empty if it owns nothing
    stopped: bool = False  # no gradient flows back
    several: bool = False  # the task sees other nodes too

    @property
    def name(self) -> str:
        """Its name in the outputs of the network."""
        return f"{self.task}.{self.node}" if self.several else self.task

    @property
    def access(self) -> str:
        """How the code reaches its module."""
        return "".join(f'["{part}"]' for part in self.name.split("."))


def axes(graph: Graph) -> str:
    """The first axes of what a task sees: samples, t, groups."""
    time = "T" if graph.graph["frames"] else str(graph.graph["iterations"])
    return f"B, {time}, K" if copies(graph) else f"B, {time}"


def outputs_of(graph: Graph) -> list[Output]:
    """All that tasks see; without any task, every node."""
    tasks = graph.graph["tasks"]
    if not tasks:
        nodes = [node for node in graph if not is_input(node)]
        return [Output(node, node, graph.nodes[node]["shape"]) for node in nodes]
    return [each for name in tasks for each in _of_task(graph, name, tasks[name])]


def _of_task(graph: Graph, name: str, entry: TaskAttributes) -> Iterator[Output]:
    task = entry["task"]
    several = len(entry["at"]) > 1
    for node in entry["at"]:
        source: Shape = graph.nodes[node]["shape"]
        shape = (task.head, *source[1:]) if task.head else source
        module = _module(source, shape, bool(task.head), task.starts_at_mean and not several)
        text = f"{task.kind} at {node}"
        yield Output(name, node, shape, text, module, not task.teaches, several)


def _module(source: Shape, shape: Shape, headed: bool, offset: bool) -> str:
    sizes = ", ".join(map(str, shape))
    vector = len(shape) == 1
    if headed and offset:
        return f"{'Linear' if vector else 'Conv'}Offset({source[0]}, {sizes})"
    if headed:
        linear = "nn.Linear({}, {})" if vector else "nn.Conv2d({}, {}, 1)"
        return linear.format(source[0], shape[0])
    return f"Offset({sizes})" if offset else ""


# --- the loop over t ------------------------------------------------------------------------------


class Past(NamedTuple):
    """What a variable keeps: values of a node, from how many t, and the shape of one."""

    node: str
    depth: int
    initial: str  # the name of its learned initial value, if there is one
    shape: Shape
    drawn: bool  # its cell has a `first_value`


@dataclass(frozen=True)
class Loop:
    """One line per node, values in the paper's letters; `modules` are the nodes that have one."""

    graph: Graph
    modules: Mapping[str, str]

    @cached_property
    def order(self) -> list[str]:
        """Up and down the ladder, as far as the edges within one t allow."""
        rank = {node: index for index, node in enumerate(in_order(self.graph))}
        return list(nx.lexicographical_topological_sort(nx.DiGraph(now(self.graph)), rank.get))

    @cached_property
    def edges(self) -> dict[str, tuple[Term, ...]]:
        return {node: equation_of(self.graph, node).edges for node in self.graph}

    def value(self, node: str) -> str:
        """The variable of a node's output."""
        side, level = split_node(node)
        return f"{LETTERS[side]}_{level}"

    def further(self, node: str, name: str) -> str:
        """The variable of a further value of a node, like c_top."""
        side, level = split_node(node)
        return f"{name}_{level}" if side is Side.ENCODER else f"{name}_{LETTERS[side]}_{level}"

    def read(self, edge: Term) -> str:
        """The variable that an edge reads."""
        return self.further(edge.source, edge.tap) if edge.tap else self.value(edge.source)

    def states(self, node: str) -> dict[str, Shape]:
        attributes = self.graph.nodes[node]
        found: dict[str, Shape] = attributes["cell"].state_shapes(attributes["shape"])
        return found if any(edge.role is Role.STATE for edge in self.edges[node]) else {}

    @cached_property
    def delayed(self) -> dict[str, Past]:
        """What delayed edges read, by variable, from the input up."""
        found: dict[str, Past] = {}
        levels = self.graph.graph["order"]
        edges = [edge for node in self.order for edge in self.edges[node] if edge.delay]
        for edge in sorted(edges, key=lambda edge: levels[self.graph.nodes[edge.source]["level"]]):
            shape = self.graph.nodes[edge.source]["shape"]
            self._remember(found, self.read(edge), edge, "" if edge.tap else "initial", shape)
            if edge.role is Role.STATE:
                for name, size in self.states(edge.target).items():
                    variable = self.further(edge.target, name)
                    self._remember(found, variable, edge, f"initial_{name}", size)
        return found

    def _remember(
        self, found: dict[str, Past], name: str, edge: Term, initial: str, shape: Shape
    ) -> None:
        learned = initial if initial in self.graph.nodes[edge.source]["own"] else ""
        drawn = initial == "initial" and self.graph.nodes[edge.source]["cell"].first_value
        known = found.get(name, Past(edge.source, 1, learned, shape, bool(drawn)))
        found[name] = known._replace(depth=max(known.depth, edge.delay))

    @cached_property
    def overwritten(self) -> set[str]:
        """Variables that are read from t-1 after t has set them."""
        at = {node: index for index, node in enumerate(self.order)}
        return {
            self.read(edge)
            for node in self.order
            for edge in self.edges[node]
            if edge.delay and at[edge.source] < at[node]
        }

    def _past(self, name: str, delay: int) -> str:
        if not delay:
            return name
        return f"past_{name}[-{delay}]" if self.delayed[name].depth > 1 else self._last(name)

    def _last(self, name: str) -> str:
        """The variable that holds a value of t-1."""
        return f"previous_{name}" if name in self.overwritten else name

    def start(self) -> Iterator[str]:
        """What delayed edges bring at first."""
        for name, (node, depth, learned, shape, drawn) in self.delayed.items():
            sizes = ", ".join(map(str, shape))
            first = f"before({sizes})"
            if drawn:
                first = f"{access(node)}.first_value(batch)"
            elif learned:
                source = f'{access(node)}.get_parameter("{learned}")'
                first = f"spread_channels({source}, batch, {sizes})"
            if depth > 1:
                yield f"past_{name} = deque([{first}] * {depth}, maxlen={depth})"
            else:
                yield f"{self._last(name)} = {first}"

    def iteration(self) -> Iterator[str]:
        """One t: the nodes in order, then what is kept for later."""
        computed = [node for node in self.order if not is_input(node)]
        runs = [(down, list(nodes)) for down, nodes in groupby(computed, key=_is_down)]
        for down, nodes in runs:
            if len(runs) > 1:
                yield "# Down the ladder." if down else "# Up the ladder."
            yield from map(self._equation, nodes)
            yield ""
        for name, past in self.delayed.items():
            if past.depth > 1:
                yield f"past_{name}.append({name})"
            elif name in self.overwritten:
                yield f"{self._last(name)} = {name}"

    def _equation(self, node: str) -> str:
        edges = self.edges[node]
        reads = [self._past(self.read(edge), edge.delay) for edge in edges]
        if node not in self.modules:
            return f"{self.value(node)} = {reads[0]}"
        given = [f"{edge.key}={read}" for edge, read in zip(edges, reads, strict=True)]
        delays = [edge.delay for edge in edges if edge.role is Role.STATE]
        for name in self.states(node):
            given.append(f"{name}={self._past(self.further(node, name), delays[0])}")
        return f"{self._left(node)} = {access(node)}({', '.join(['t', *given])})"

    def _left(self, node: str) -> str:
        cell, value = self.graph.nodes[node]["cell"], self.value(node)
        tapped = is_tapped_by_arrows(self.graph, node)
        returned = [*cell.returns, *(["normalised"] if tapped else [])]
        if not returned:
            return value
        read = value in self._read or self.seen_at(node) == value
        names = [self.further(node, name) for name in returned]
        states = {self.further(node, name) for name in self.states(node)} | self._read
        wanted = [n if n in states or n == self.seen_at(node) else "_" for n in names]
        return ", ".join([value if read else "_", *wanted])

    @cached_property
    def _read(self) -> set[str]:
        """The variables that edges read."""
        return {self.read(edge) for edges in self.edges.values() for edge in edges}

    def seen_at(self, node: str) -> str:
        """What a task sees of a node: the logits of a SoftMax, else the output; "" if none does."""
        tasks = self.graph.graph["tasks"].values()
        if tasks and not any(node in task["at"] for task in tasks):
            return ""
        logits = "logits" in self.graph.nodes[node]["cell"].returns and bool(tasks)
        return self.further(node, "logits") if logits else self.value(node)


def _is_down(node: str) -> bool:
    return split_node(node)[0] is Side.DECODER


def access(name: str) -> str:
    """How the code reaches the module of a node, or of an edge: `encoder["conv_1"].state`."""
    side, level, *key = name.split(".")
    return ".".join([f'{side}["{level}"]', *key])


# --- the class ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """The text of the network's class, from the expressions of its modules by node."""

    graph: Graph
    modules: Mapping[str, str]

    @cached_property
    def outputs(self) -> list[Output]:
        return outputs_of(self.graph)

    @cached_property
    def loop(self) -> Loop:
        return Loop(self.graph, self.modules)

    @cached_property
    def learned(self) -> list[tuple[str, str, int]]:
        """Initial values that are learned: the node, their name, their channels."""
        return [
            (node, name, parameter.shape[0])
            for node, own in self.graph.nodes(data="own")
            for name, parameter in own.items()
            if name.startswith("initial")
        ]

    def lines(self, name: str, doc: Sequence[str]) -> Iterator[str]:
        """The class, in lines that fit."""
        yield f"class {name}(nn.Module):"
        yield from (f"    {line}".rstrip() for line in doc)
        yield ""
        yield "    def __init__(self) -> None:"
        for line in self.constructor():
            yield from fit(f"        {line}".rstrip())
        yield ""
        given = ", ".join(f"{name}: Tensor" for name in self.arguments.values())
        yield from fit(f"    def forward(self, {given}) -> dict[str, Tensor]:")
        for line in self.forward():
            yield from fit(f"        {line}".rstrip())

    # --- constructor ------------------------------------------------------------------------------

    def constructor(self) -> Iterator[str]:
        yield "super().__init__()"
        nodes = [*self.modules, *(node for node, _, _ in self.learned)]
        nodes += [".".join(owner.split(".")[:2]) for _, owner in self.shared]
        dictionary = _dictionary(split_node(node)[1] for node in nodes)
        for side in sides_of(nodes):
            yield f"self.{side} = {side} = {dictionary}()"
        yield from write(rows_of(self.graph, self.modules))
        top = node_name(Side.DECODER, self.graph.graph["levels"][-1])
        laterals = [node for node in self.modules if split_node(node)[0] is Side.LATERAL]
        for node in [*([top] if top in self.modules else []), *laterals]:
            name = "top" if node == top else f"lateral of {split_node(node)[1]}"
            yield ""
            yield from comment(name, fields_of(self.graph.nodes[node]["cell"]))
            yield f"{access(node)} = {self.modules[node]}"
        yield from self._shared()
        yield from self._initial_values()
        yield from self._tasks([each for each in self.outputs if each.module])

    @cached_property
    def shared(self) -> list[tuple[str, str]]:
        """What shares weights, and with what, by the names of modules."""
        found = [(each.name, each.attributes["shared"]) for each in holders(self.graph)]
        return [(name, owner) for name, owner in found if owner]

    def _shared(self) -> Iterator[str]:
        """What shares weights; owners that are no part of the network keep their tensors."""
        known = {each.name for each in holders(self.graph)}
        if self.shared:
            yield ""
            yield "# shared weights"
        for _, owner in self.shared:
            node = ".".join(owner.split(".")[:2])
            for name in (node, owner):
                if name not in known:
                    known.add(name)
                    yield f"{access(name)} = nn.Module()"
        for name, owner in self.shared:
            yield f"share({access(owner)}, {access(name)})"

    def _initial_values(self) -> Iterator[str]:
        if self.learned:
            yield ""
            yield "# What delayed edges bring at the first t, by channel."
        for node, name, channels in self.learned:
            if node not in self.modules and name == "initial":
                yield f"{access(node)} = nn.Identity()"
            yield f"{access(node)}.{name} = nn.Parameter(torch.zeros({channels}))"

    def _tasks(self, owned: Sequence[Output]) -> Iterator[str]:
        """What the tasks own."""
        if not owned:
            return
        dictionary = _dictionary(part for each in owned for part in each.name.split("."))
        yield ""
        yield "# tasks"
        yield f"self.task = {dictionary}()"
        for task, group in groupby(owned, key=lambda each: each.task):
            outputs = list(group)
            module = outputs[0].module
            if outputs[0].several:
                module = _by_node(outputs, dictionary)
            yield f"self.task[{quoted(task)}] = {module}"

    # --- forward ----------------------------------------------------------------------------------

    @property
    def argument(self) -> str:
        return "e_input" if self.graph.graph["frames"] is None else "frames"

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of `forward` by the node of their input."""
        found = {BOTTOM: self.argument}
        for form in forms_of(self.graph)[1:]:
            found[form.node] = f"{form.name}_frames" if form.timed else self.loop.value(form.node)
        return found

    @property
    def once(self) -> bool:
        """Whether there is one t, and nothing before it."""
        return self.graph.graph["iterations"] == 1 and not self.loop.delayed

    def forward(self) -> Iterator[str]:
        yield f'"""{self._about()}"""'
        yield from self._noise(self.graph.nodes[BOTTOM]["cell"].noise)
        if copies(self.graph):
            for name in self.arguments.values():
                yield f"{name} = {name}.repeat_interleave({GROUPS}, dim=0)"
        used = sides_of([*self.modules, *(node for node, _, _ in self.learned)])
        if used:
            yield f"{', '.join(used)} = {', '.join(f'self.{side}' for side in used)}"
        if self.once:
            yield "t = 0"
            yield ""
            yield from self.loop.iteration()
            seen = [f"{quoted(each.name)}: {self._sees(each)}[:, None]" for each in self.outputs]
            yield f"return {{{', '.join(seen)}}}"
            return
        yield from self._before()
        over_frames = self.argument == "frames"
        yield (
            "for t, e_input in enumerate(frames.unbind(dim=1)):"
            if over_frames
            else f"for t in range({self.graph.graph['iterations']}):"
        )
        for line in [*self._inputs(), *self.loop.iteration()]:
            yield f"    {line}" if line else ""
        for each in self.outputs:
            yield f"    outputs[{quoted(each.name)}].append({self._sees(each)})"
        if copies(self.graph):
            yield "stacked = {name: torch.stack(seen, dim=1) for name, seen in outputs.items()}"
            apart = f"x.unflatten(0, (-1, {GROUPS})).transpose(1, 2)"
            yield f"return {{name: {apart} for name, x in stacked.items()}}"
        else:
            yield "return {name: torch.stack(seen, dim=1) for name, seen in outputs.items()}"

    def _inputs(self) -> Iterator[str]:
        """What the inputs give at one t."""
        for (node, argument), form in zip(
            self.arguments.items(), forms_of(self.graph), strict=True
        ):
            value, until = self.loop.value(node), form.until
            if node != BOTTOM and argument != value:
                yield f"{value} = {argument}[:, t]"
            if until is not None:
                yield f"if t >= {until}:"
                yield f"    {value} = torch.zeros_like({value})"

    def _about(self) -> str:
        shape = ", ".join(map(str, self.graph.nodes[BOTTOM]["shape"]))
        steps = self.graph.graph["iterations"]
        seen = axes(self.graph)
        if self.argument == "frames":
            return f"Frames (B, T, {shape}) -> what each task sees, ({seen}, ...)."
        again = "" if steps == 1 else ", the same at every t,"
        return f"An input (B, {shape}){again} -> what each task sees, ({seen}, ...)."

    def _noise(self, noise: Noise | None) -> Iterator[str]:
        x = self.argument
        if noise is not None and (noise.gaussian or noise.flip):
            yield "if self.training:"
            if noise.gaussian:
                yield f"    {x} = {x} + {noise.gaussian} * torch.randn_like({x})"
            if noise.flip:
                yield f"    {x} = torch.where(torch.rand_like({x}) < {noise.flip}, 1 - {x}, {x})"

    def _before(self) -> Iterator[str]:
        start = list(self.loop.start())
        text = "\n".join(start)
        if "batch" in text:
            yield f"batch = {self.argument}.shape[0]"
        if "before(" in text:
            yield ""
            yield "def before(*shape: int) -> Tensor:"
            yield f"    return {self.argument}.new_zeros({self.argument}.shape[0], *shape)"
        if start:
            yield ""
            yield f"# Before the first t{'' if 'batch' in text else ', all is zero'}."
            yield from start
            yield ""
        empty = ", ".join(f"{quoted(each.name)}: []" for each in self.outputs)
        yield f"outputs: dict[str, list[Tensor]] = {{{empty}}}"

    def _sees(self, output: Output) -> str:
        value = self.loop.seen_at(output.node)
        value += ".detach()" if output.stopped else ""
        return f"self.task{output.access}({value})" if output.module else value


def _dictionary(names: Iterator[str]) -> str:
    """nn.ModuleDict refuses names that it has itself."""
    return "nn.ModuleDict" if RESERVED.isdisjoint(names) else "Levels"


def _by_node(outputs: Sequence[Output], dictionary: str) -> str:
    """If a task reads several nodes: by side, then by level."""
    found = []
    for side, group in groupby(outputs, key=lambda each: split_node(each.node)[0]):
        inner = [f"{quoted(split_node(each.node)[1])}: {each.module}" for each in group]
        found.append(f"{quoted(side)}: {dictionary}({{{', '.join(inner)}}})")
    return f"{dictionary}({{{', '.join(found)}}})"


# Names that nn.ModuleDict has itself, so that it refuses a module of that name.
RESERVED = frozenset(
    """
    add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
    get_submodule half ipu items keys load_state_dict modules mtia named_buffers named_children
    named_modules named_parameters parameters pop register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state
    set_submodule share_memory state_dict to to_empty train training type update values xpu
    zero_grad
    """.split()  # noqa: SIM905 (a list of a line each would be long)
)
