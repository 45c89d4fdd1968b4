"""Graph -> Plan: the phases of a network, what is carried over time, and what the costs need.

Also what phases take: parameters, floating-point operations, and memory for the backward pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ladderspec.display import svg
from ladderspec.names import Role, Shape, show_arrow
from ladderspec.schedule.equations import Equation, Reader, equation_of, reader_of
from ladderspec.schedule.phases import Kind, Phase, find_phases
from ladderspec.wiring.graph import Graph, copies, in_order, steps_of


@dataclass(frozen=True)
class Carried:
    """The history of a node that the next t needs: last values of its output and of its state."""

    depth: int  # the largest delay that leaves the node
    state: tuple[tuple[str, Shape], ...]
    state_depth: int  # the delay of its state arrow; 0 if it has no state besides its output
    initial: str


@dataclass(frozen=True)
class Plan:
    """The phases of a network in order, and what is carried from one t to the next."""

    name: str
    title: str
    length: int | None  # how many frames or iterations, if that is fixed
    iterations: bool  # t counts iterations on one input, not frames
    phases: tuple[Phase, ...]
    equations: Mapping[str, Equation]
    carry: Mapping[str, Carried]
    tasks: tuple[Reader, ...]
    groups: int | None = None  # how many copies of the network there are
    graph: Graph | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        from ladderspec.schedule.plan_text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        count = sum(len(phase.nodes) for phase in self.phases)
        phases = [
            f"{phase.kind.value}: {len(phase.nodes)} of {count} nodes" for phase in self.phases
        ]
        return "\n  ".join([f"<plan of {self.name}", *phases, "print(plan) has its equations>"])

    def _repr_svg_(self) -> str | None:
        return svg(self.graph, plan=True) if self.graph is not None else None


def schedule(graph: Graph) -> Plan:
    """The plan of a graph with shapes."""
    equations = {node: equation_of(graph, node) for node in in_order(graph)}
    plan = Plan(
        name=graph.graph["name"],
        title=graph.graph["title"],
        length=steps_of(graph),
        iterations=graph.graph["frames"] is None,
        phases=find_phases(graph, equations),
        equations=equations,
        carry=_carry(equations),
        tasks=tuple(reader_of(graph, name) for name in graph.graph["tasks"]),
        groups=copies(graph),
        graph=graph,
    )
    check(plan, graph)
    return plan


# --- what is carried ------------------------------------------------------------------------------


def depths(equations: Mapping[str, Equation]) -> dict[str, int]:
    """How many of its last values the next iteration reads: of every node, state and tap."""
    found = defaultdict[str, int](int)
    for equation in equations.values():
        for edge in equation.edges:
            states = equation.state if edge.role is Role.STATE else ()
            for name in (edge.source, edge.slot, *(f"{edge.source}.{key}" for key, _ in states)):
                found[name] = max(found[name], edge.delay)
    return found


def _carry(equations: Mapping[str, Equation]) -> dict[str, Carried]:
    """The last k values of every node that a delayed arrow leaves, k the largest delay."""
    depth = depths(equations)
    found = {}
    for node, each in equations.items():
        if depth[node]:
            state_depth = max((depth[f"{node}.{key}"] for key, _ in each.state), default=0)
            found[node] = Carried(depth[node], each.state, state_depth, each.initial)
    return found


# --- what is needed -------------------------------------------------------------------------------

Needs = dict[str, int]  # by node, the t at which it is needed, as bits: bit 0 is t = 1
Reads = Iterable[tuple[str, int]]  # a node, and the t at which it is read


def times(reader: Reader, length: int) -> int:
    """The t at which a task reads, as bits: bit 0 is t = 1.

    Only if there is a target: t = 1..length - ahead. `last` is the last of them. Weights are
    those of t = 1, 2, ...; beyond the last weight nothing is read.
    """
    last = max(0, length - reader.ahead)
    if isinstance(reader.when, tuple):
        return sum(1 << t for t, weight in enumerate(reader.when[:last]) if weight > 0)
    every = (1 << last) - 1
    return every if reader.when == "all" else every ^ (every >> 1)


def reads_of(readers: Iterable[Reader], length: int) -> list[tuple[str, int]]:
    """Nodes that tasks read, with the t of each.

    A task whose weight is 0 still reads: its cost is reported.
    """
    return [(node, times(reader, length)) for reader in readers for node in reader.at]


def need_masks(plan: Plan, length: int, reads: Reads) -> Needs:
    """For every node, at which of t = 1..length it is needed for what is read.

    What is needed is no prefix: with a state of delay 2, the last t needs every second one before
    it.
    """
    masks = dict.fromkeys(plan.equations, 0)
    for node, read in reads:
        masks[node] |= read
    for phase in reversed(plan.phases):
        if phase.kind is not Kind.ONCE:
            _need_past(plan, phase, masks, length)
        for node in reversed(phase.nodes):
            for edge in plan.equations[node].edges:
                masks[edge.source] |= masks[node] >> edge.delay
    return masks


def _need_past(plan: Plan, phase: Phase, masks: Needs, length: int) -> None:
    """Inside a loop, backwards over t.

    Every node of a loop is read inside it. So once all nodes were needed at as many t in a row as
    the largest delay, they are all needed at every earlier t.
    """
    inside = set(phase.nodes)
    edges = {
        node: [(e.source, e.delay) for e in plan.equations[node].edges if e.source in inside]
        for node in phase.nodes
    }
    enough, in_a_row = max(edge.delay for edge in phase.carries), 0
    for t in reversed(range(length)):
        for node in reversed(phase.nodes):
            if masks[node] >> t & 1:
                for source, delay in edges[node]:
                    if delay <= t:
                        masks[source] |= 1 << (t - delay)
        in_a_row = in_a_row + 1 if all(masks[node] >> t & 1 for node in phase.nodes) else 0
        if in_a_row == enough:
            for node in phase.nodes:
                masks[node] |= (1 << t) - 1
            break


# --- what it takes --------------------------------------------------------------------------------

BYTES = 4  # of a number in float32


@dataclass(frozen=True)
class Work:
    """For one sample, at each t.

    A FLOP is half a multiply-add of a linear map; norms, activations, gates and pools are left out.
    Bytes are those of the outputs and states of all nodes in float32, as the backward pass needs
    them; values inside cells are left out.
    """

    parameters: int
    flop_each: int
    bytes_each: int


def work_of(plan: Plan, phases: Iterable[Phase], readers: Iterable[Reader] = ()) -> Work:
    """The work of phases, and of the tasks' own read-outs."""
    equations = [plan.equations[node] for phase in phases for node in phase.nodes]
    both: list[Equation | Reader] = [*equations, *readers]
    return Work(
        parameters=sum(each.parameters for each in both),
        flop_each=sum(2 * each.multiplications for each in both),
        bytes_each=sum(BYTES * each.elements for each in equations),
    )


def flop_of_costs(plan: Plan, length: int) -> int:
    """The operations that the costs need, forward: only the (node, t) that they read."""
    total = sum(2 * each.multiplications * times(each, length).bit_count() for each in plan.tasks)
    passes = [plan.tasks]
    if any(each.clean for each in plan.tasks):  # a second one, without noise
        passes.append(tuple(replace(each, at=each.clean or each.at) for each in plan.tasks))
    for readers in passes:
        for node, mask in need_masks(plan, length, reads_of(readers, length)).items():
            total += 2 * plan.equations[node].multiplications * mask.bit_count()
    return total


# --- check ----------------------------------------------------------------------------------------


class PlanError(Exception):
    """A plan that does not fit its graph: a mistake of this program, not of a spec."""


def check(plan: Plan, graph: Graph) -> None:
    """Check the rules of a plan; a message names the node or arrow that breaks one."""
    for rule in (_each_node_once, _known_before_use, _carry_is_read):
        for problem in rule(plan, graph):
            raise PlanError(f"plan of {plan.name}: {problem}")


def _each_node_once(plan: Plan, graph: Graph) -> Iterator[str]:
    count = dict.fromkeys(graph, 0)
    for phase in plan.phases:
        for node in phase.nodes:
            count[node] = count.get(node, 0) + 1
    yield from (f"{node} is in {n} phases" for node, n in count.items() if n != 1)


def _known_before_use(plan: Plan, graph: Graph) -> Iterator[str]:
    at = {node: (index, phase) for index, phase in enumerate(plan.phases) for node in phase.nodes}
    order = {node: index for index, node in enumerate(at)}
    for source, target, delay in graph.edges(data="delay"):
        looped = delay and at[source] == at[target] and at[target][1].kind is not Kind.ONCE
        if order[source] >= order[target] and not looped:
            yield f"{show_arrow(source, target, delay)} reads what is not there yet"


def _carry_is_read(plan: Plan, graph: Graph) -> Iterator[str]:
    depth = dict.fromkeys(graph, 0)
    for source, _, delay in graph.edges(data="delay"):
        depth[source] = max(depth[source], delay)
    for node, read in depth.items():
        carried = plan.carry[node].depth if node in plan.carry else 0
        if carried != read:
            yield f"{node} is read {read} iterations later, but {carried} values of it are carried"
