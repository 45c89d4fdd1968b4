"""The constructor of the network: the rows of the table, then what else it owns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from ladderspec.export.code import fit
from ladderspec.export.readouts import Readout
from ladderspec.export.rows import comment, quoted, rows_of, said, write
from ladderspec.export.unroll import INPUT, access
from ladderspec.names import Side, node_name, split_node
from ladderspec.wiring.graph import Graph

INDENT = " " * 8


def constructor(
    graph: Graph, modules: Mapping[str, str], readouts: Sequence[Readout]
) -> Iterator[str]:
    """Its body; `modules` are expressions by node."""
    yield f"{INDENT}super().__init__()"
    dictionary = _dictionary(split_node(node)[1] for node in modules)
    for side in sides(modules):
        yield f"{INDENT}self.{side} = {side} = {dictionary}()"
    owned = [each for each in readouts if each.module]
    for line in (*_table(graph, modules), *_gains(graph), *_learned(graph), *_tasks(owned)):
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


def _gains(graph: Graph) -> Iterator[str]:
    """Initial norm gains that the classes of the file do not set by themselves."""
    found = []
    for _, node, key, facts in graph.edges(keys=True, data=True):
        usual = 1.0
        if graph.nodes[node]["cell"].stateful and key not in ("encoder", "lateral"):
            usual = 1 / 8 if key == "state" else 1 / 64
        projection = facts["projection"]
        if projection.norm != "none" and projection.gain != usual:
            found.append(f"{access(node)}.{key}.gain.data.fill_({projection.gain:g})")
    if found:
        yield ""
        yield "# initial gains of norms"
    yield from found


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
