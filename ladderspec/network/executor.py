"""The executor: a loop over t, and over the nodes that are needed at t."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ladderspec.names import BOTTOM, Role, is_input
from ladderspec.network.carry import Carry
from ladderspec.network.history import History, Slot, channels_last
from ladderspec.nn import BatchNorm, CellModule, Edge, TimeStep
from ladderspec.ops import Plain, choose
from ladderspec.schedule.equations import Reader
from ladderspec.schedule.needs import need_masks
from ladderspec.schedule.plan import Plan

TAPPED = ("normalised", "mean", "std")  # what a cell whose norm is tapped returns besides
MOST_CACHED = 64  # kinds of calls whose needs are cached

Values = Mapping[str, Tensor]  # of the inputs by node: (B, T, ...), or (B, ...) for all t
Needs = dict[str, int]  # by node, the t at which it is needed: bit 0 is the first


class Home(NamedTuple):
    """Where a module stands: looked up at every call, so that another one can take its place."""

    parent: nn.Module
    key: str

    @property
    def module(self) -> nn.Module:
        # Not getattr: a level may be called `train`.
        return self.parent._modules[self.key]  # type: ignore[return-value]


def home_of(root: nn.Module, name: str) -> Home:
    """Where the module of a dotted name stands."""
    *path, last = name.split(".")
    for part in path:
        root = Home(root, part).module
    return Home(root, last)


class Read(NamedTuple):
    """One edge, as its target reads it."""

    key: str
    source: str  # the slot that it reads
    delay: int


@dataclass(frozen=True)
class ExecutorNode:
    """One node: its module, the edges that it reads, the slots that it fills besides its output."""

    name: str
    home: Home
    reads: tuple[Read, ...]
    states: tuple[tuple[str, str], ...]  # further values of the past that it reads, by slot
    state_delay: int
    keeps: tuple[tuple[str, str], ...]  # further values that it returns, by slot
    seen: str  # the slot that tasks read: logits if there are some, else the output


@dataclass(frozen=True)
class Call:
    """What a call asks for."""

    batch: int
    length: int
    ends: tuple[int, ...] | None = None  # of every sequence, if they differ
    readers: tuple[Reader, ...] | None = None  # None: everything at all t
    carries: bool = True
    keep: tuple[str, ...] = ()  # slots by name that are read at the end
    clean: bool = False  # without the noise of cells; norms return their moments
    counted: frozenset[str] = frozenset()  # nodes whose running statistics another pass counts


class Executor:
    """Runs the nodes of a plan, t by t."""

    def __init__(self, plan: Plan, root: nn.Module) -> None:
        self.plan = plan
        self.slots: dict[str, Slot] = {}
        edges = [edge for equation in plan.equations.values() for edge in equation.edges]
        self.tap_depths: dict[str, int] = {}  # the largest delay of arrows that carry a tap
        for edge in edges:
            if edge.tap:
                self.tap_depths[edge.slot] = max(self.tap_depths.get(edge.slot, 0), edge.delay)
        order = [node for phase in plan.phases for node in phase.nodes]
        self.nodes = {name: self._node(name, home_of(root, name)) for name in order}
        self.static = frozenset(n for phase in plan.phases if phase.static for n in phase.nodes)
        self.lead = max((slot.depth for slot in self.slots.values()), default=0)
        self.carried = [name for name, slot in self.slots.items() if slot.depth]
        self.learned = [
            (node, parameter, slot)
            for node in self.nodes.values()
            for parameter, slot in self._initial_parameters(node)
            if parameter in dict(node.home.module.named_parameters(recurse=False))
        ]
        self.noisy = [  # in the order in which their noise is drawn
            self.nodes[name]
            for name in plan.equations
            if getattr(self.nodes[name].home.module, "deviation", 0)
        ]
        self.cached: dict[Call, Needs] = {}

    def _node(self, name: str, home: Home) -> ExecutorNode:
        equation, carried = self.plan.equations[name], self.plan.carry.get(name)
        self.slots[name] = Slot(name, equation.shape, carried.depth if carried else 0)
        module = home.module
        states = dict(equation.state)
        keeps = []
        returned = module.cell.returns if isinstance(module, CellModule) else tuple(states)
        tapped = isinstance(module, CellModule) and module.tapped
        for further in (*returned, *(TAPPED if tapped else ())):
            slot = f"{name}.{further}"
            depth = carried.state_depth if carried and further in states else 0
            depth = max(depth, self.tap_depths.get(slot, 0))
            self.slots[slot] = Slot(slot, states.get(further, equation.shape), depth)
            keeps.append((further, slot))
        delays = [edge.delay for edge in equation.edges if edge.role is Role.STATE]
        logits = f"{name}.logits"
        return ExecutorNode(
            name,
            home,
            tuple(Read(e.key, e.slot, e.delay) for e in equation.edges),
            tuple((state, f"{name}.{state}") for state in states),
            delays[0] if delays else 0,
            tuple(keeps),
            logits if logits in self.slots else name,
        )

    # --- the loop ---------------------------------------------------------------------------------

    def run(self, frames: Values, call: Call, carry: Carry | None) -> History:
        """All values that a call asks for, from its inputs."""
        history = History(self.slots, self.lead, call.length, frames[BOTTOM], call.batch)
        history.begin({} if carry is not None else self.initial_values(call.batch), carry)
        steps = self.steps(frames, call, carry, choose(frames[BOTTOM]))
        self.loop(history, frames, self.needs(call), steps, self.droppable(call), call.counted)
        return history

    def loop(
        self,
        history: History,
        frames: Values,
        needs: Needs,
        steps: Iterator[TimeStep],
        droppable: list[str],
        counted: frozenset[str] = frozenset(),
        repeat_static: bool = True,
    ) -> None:
        """Fill a history that has its past."""
        self.read_input(history, frames)
        repeats = repeat_static and history.length > 1 and self.static_holds()
        static = self.static if repeats else frozenset()
        for t, each in enumerate(steps):
            again = replace(each, recomputed=True) if counted else each
            for name, node in self.nodes.items():
                step = again if name in counted else each
                if not needs[name] >> t & 1 or is_input(name):
                    continue
                if name not in static:
                    self.compute(node, t, history, step)
                elif history.at(name, t) is None:  # the same at every later t
                    times = needs[name].bit_count()
                    self.compute(node, t, history, replace(step, repeats=times))
                    for slot in (name, *(slot for _, slot in node.keeps)):
                        history.put_from(slot, t, history.rows[slot][history.lead + t])  # type: ignore[arg-type]
            if not torch.is_grad_enabled():
                history.drop(droppable, t)

    def compute(self, node: ExecutorNode, t: int, history: History, step: TimeStep) -> None:
        """One node at one t."""
        module = node.home.module
        values: dict[str, Tensor] = {}
        for key, source, delay in node.reads:
            value = history.at(source, t - delay)
            if value is None:  # it does not exist yet
                if isinstance(module, CellModule) and module.may_lack(key):
                    continue
                value = history.zeros(source)
            values[key] = value
        previous = None
        if node.states and Role.STATE in values:
            past = {state: history.at(slot, t - node.state_delay) for state, slot in node.states}
            previous = {state: value for state, value in past.items() if value is not None}
        output, further = module(values, previous, step)
        history.put(node.name, t, output)
        for name, slot in node.keeps:
            if name in further:  # the moments of a norm are there in clean passes
                history.put(slot, t, further[name])

    def read_input(self, history: History, frames: Values) -> None:
        """Put the inputs into a history."""
        for name, value in frames.items():
            if not self.is_timed(name, value):
                history.put_from(name, 0, channels_last(value))
                continue
            for t, frame in enumerate(value.unbind(1)):
                history.put(name, t, channels_last(frame))

    def is_timed(self, name: str, value: Tensor) -> bool:
        """Whether an input has a value for each t."""
        return value.dim() > 1 + len(self.slots[name].shape)

    def steps(
        self, frames: Values, call: Call, carry: Carry | None, ops: Plain
    ) -> Iterator[TimeStep]:
        """The time steps of a call."""
        start = 0 if carry is None else carry.t
        ends = None if call.ends is None else torch.tensor(call.ends, device=frames[BOTTOM].device)
        noise = self.draw_noise(frames[BOTTOM], call)
        for t in range(call.length):
            alive = None if ends is None else t < ends
            yield TimeStep(start + t, alive, ops=ops, noise=noise[t], clean=call.clean)

    def draw_noise(self, frames: Tensor, call: Call) -> list[dict[str, Tensor]]:
        """The noise of cells in training, for each t by node.

        It is drawn node by node, up the encoders and down the decoders, for all t; iterations on
        one input share it, as they share the noise of that input.
        """
        found: list[dict[str, Tensor]] = [{} for _ in range(call.length)]
        for node in self.noisy if not call.clean else ():
            module = cast(CellModule, node.home.module)
            for t, now in enumerate(found if module.training else ()):
                if t and self.plan.iterations:
                    now[node.name] = found[0][node.name]
                else:
                    shape = call.batch, *(module.normalised or ())
                    drawn = torch.randn(shape, dtype=frames.dtype, device=frames.device)
                    now[node.name] = channels_last(module.deviation * drawn)
        return found

    # --- what is needed ---------------------------------------------------------------------------

    def needs(self, call: Call) -> Needs:
        """At which t each node is needed."""
        key = replace(call, batch=0, ends=None if call.ends is None else ())
        if key in self.cached:
            return self.cached[key]
        if call.readers is None:
            found = dict.fromkeys(self.nodes, (1 << call.length) - 1)
        else:
            readers = call.readers + (tuple(self._carried_by(call)) if call.carries else ())
            found = need_masks(replace(self.plan, tasks=readers), call.length)
        if not torch.compiler.is_compiling():  # a compiled call writes nothing
            if len(self.cached) >= MOST_CACHED:
                self.cached.clear()
            self.cached[key] = found
        return found

    def _carried_by(self, call: Call) -> Iterator[Reader]:
        for node, carried in self.plan.carry.items():
            # A sequence may end at any t.
            depth = min(carried.depth, call.length) if call.ends is None else call.length
            when = (0.0,) * (call.length - depth) + (1.0,) * depth
            yield Reader(node, (node,), when, 0, 0, 0)

    def droppable(self, call: Call) -> list[str]:
        """The slots whose values nobody reads at the end."""
        reads = self.plan.tasks if call.readers is None else call.readers
        kept = {self.nodes[node].seen for reader in reads for node in reader.at}
        kept |= set(call.keep) | set(self.carried if call.ends is not None else ())
        return [name for name in self.slots if name not in kept and not is_input(name)]

    def has_unused_delays(self, call: Call) -> bool:
        """Whether a delayed edge is never read after its initial values."""
        needs = self.needs(call)
        edges = [edge for each in self.plan.equations.values() for edge in each.edges]
        return any(needs[e.target] and not needs[e.target] >> e.delay for e in edges)

    def static_holds(self) -> bool:
        """Whether what follows from the input alone is the same at every t.

        Batch norms with statistics for each t may differ in evaluation, dropout in training.
        """
        modules = [self.nodes[node].home.module for node in self.static]
        parts = [part for module in modules for part in module.modules()]
        if any(isinstance(part, Edge) and part.drop and part.training for part in parts):
            return False
        norms = [p for p in parts if isinstance(p, BatchNorm) and p.iterations > 1]
        norms = [norm for norm in norms if not norm.training]
        if not norms or torch.compiler.is_compiling():
            return not norms
        return all(
            bool((statistics == statistics[:1]).all())
            for norm in norms
            for statistics in (norm.running_mean, norm.running_var)
        )

    # --- before the first t, and after the last ---------------------------------------------------

    def initial_values(self, batch: int) -> dict[str, Tensor]:
        """Initial values other than zeros, (B, ...) by slot."""
        found = {}
        for slot, learned in self.learned_initial_values().items():
            shape = self.slots[slot].shape
            wide = learned.view(-1, *(1 for _ in shape[1:]))
            found[slot] = wide.expand(batch, *shape)
        for name in self.carried:
            module = self.nodes[name].home.module if name in self.nodes else None
            if isinstance(module, CellModule) and (first := module.first_value(batch)) is not None:
                found[name] = channels_last(first)
        return found

    def learned_initial_values(self) -> dict[str, Tensor]:
        """Learned initial values by slot: one number per channel."""
        return {slot: getattr(node.home.module, name) for node, name, slot in self.learned}

    def _initial_parameters(self, node: ExecutorNode) -> list[tuple[str, str]]:
        """The names that learned initial values of a node would have, by slot."""
        return [("initial", node.name), *((f"initial_{n}", slot) for n, slot in node.states)]

    def unread_initial_values(self, call: Call, carry: Carry | None) -> list[Tensor]:
        """Learned initial values that a call never reads."""
        learned = self.learned_initial_values()
        if not learned:
            return []
        needs = self.needs(call)
        read = {
            edge.source
            for each in self.plan.equations.values()
            for edge in each.edges
            if carry is None and not edge.tap and needs[edge.target] & ((1 << edge.delay) - 1)
        }
        return [v for slot, v in learned.items() if ".".join(slot.split(".")[:2]) not in read]

    def carry(self, history: History, call: Call, before: Carry | None) -> Carry:
        """What the next iteration reads of every sequence."""
        start = 0 if before is None else before.t
        values = {}
        for name in self.carried:
            ages = range(1, self.slots[name].depth + 1)
            values[name] = tuple(history.last(name, age, call.ends) for age in ages)
        if call.ends is None:
            return Carry(start + call.length, values)
        return Carry(start + torch.tensor(call.ends, device=history.like.device), values)
