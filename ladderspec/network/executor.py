"""The executor: for each t, for each node that is needed at t, read its edges, call its module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ladderspec.names import BOTTOM, Role, is_input
from ladderspec.network.carry import Carry
from ladderspec.network.history import History, Slot, channels_last
from ladderspec.nn import CellModule, TimeStep
from ladderspec.nn.modules import ModulePath, path_to
from ladderspec.ops import choose
from ladderspec.schedule.equations import Equation, Reader
from ladderspec.schedule.needs import Needs, need_masks
from ladderspec.schedule.plan import Plan

TAPPED = ("normalised", "mean", "std")  # what a cell whose norm is tapped returns besides

Values = Mapping[str, Tensor]  # of the inputs by node: (B, T, ...), or (B, ...) for all t


class ExecutorNode(NamedTuple):
    """One node: what it computes, its module, and the slot that tasks read."""

    equation: Equation
    path: ModulePath
    seen: str  # its logits if there are some, else its output


@dataclass(frozen=True)
class Call:
    """What a call asks for."""

    batch: int
    length: int
    ends: tuple[int, ...] | None = None  # of every sequence, if they differ
    readers: tuple[Reader, ...] | None = None  # None: everything at all t
    carries: bool = True
    keep: tuple[str, ...] = ()  # further slots that are read at the end
    clean: bool = False  # without the noise of cells; norms return their moments
    counted: frozenset[str] = frozenset()  # nodes whose running statistics another pass counts


class Executor:
    """Runs the nodes of a plan, t by t."""

    def __init__(self, plan: Plan, root: nn.Module) -> None:
        self.plan = plan
        self.slots: dict[str, Slot] = {}
        self.nodes: dict[str, ExecutorNode] = {}
        self.learned: dict[str, tuple[ModulePath, str]] = {}  # initial values by slot: parameters
        depths = _depths(plan)
        for name in (node for phase in plan.phases for node in phase.nodes):
            equation, path = plan.equations[name], path_to(root, name)
            module = cast(CellModule, path.module)
            state = dict(equation.state)
            further = (*module.cell.returns, *(TAPPED if module.tapped else ()))
            self.slots[name] = Slot(name, equation.shape, depths[name])
            for key in further:
                slot = f"{name}.{key}"
                self.slots[slot] = Slot(slot, state.get(key, equation.shape), depths[slot])
            seen = f"{name}.logits" if "logits" in further else name
            self.nodes[name] = ExecutorNode(equation, path, seen)
            initial = {"initial": name} | {f"initial_{key}": f"{name}.{key}" for key in state}
            for parameter in initial.keys() & module.declared.keys():
                self.learned[initial[parameter]] = path, parameter
        self.carried = [name for name, slot in self.slots.items() if slot.depth]
        modules = {name: cast(CellModule, self.nodes[name].path.module) for name in plan.equations}
        # In the order in which their noise is drawn.
        self.noisy = [name for name, module in modules.items() if module.deviation]

    # --- the loop ---------------------------------------------------------------------------------

    def run(self, frames: Values, call: Call, carry: Carry | None) -> History:
        """All values that a call asks for, from its inputs."""
        history = self.begin(frames, call, carry)
        self.loop(history, self.needs(call), self.steps(frames, call, carry), call)
        return history

    def begin(self, frames: Values, call: Call, carry: Carry | None) -> History:
        """A history with its past and its inputs."""
        history = History(self.slots, call.length, frames[BOTTOM], call.batch)
        history.begin(self.initial_values(call.batch) if carry is None else {}, carry)
        self.read_input(history, frames)
        return history

    def loop(self, history: History, needs: Needs, steps: Iterable[TimeStep], call: Call) -> None:
        """Fill a history that has its past and its inputs."""
        kept = self.kept(call)
        for t, step in enumerate(steps):
            for name, node in self.nodes.items():
                if needs[name] >> t & 1 and not is_input(name):
                    counted = name in call.counted
                    self.compute(
                        node, t, history, replace(step, recomputed=True) if counted else step
                    )
            if not torch.is_grad_enabled():
                history.drop(t, kept)

    def compute(self, node: ExecutorNode, t: int, history: History, step: TimeStep) -> None:
        """One node at one t."""
        module, name = node.path.module, node.equation.node
        values: dict[str, Tensor] = {}
        previous: dict[str, Tensor] = {}
        for edge in node.equation.edges:
            value = history.at(edge.slot, t - edge.delay)
            if value is None:  # it does not exist yet
                if isinstance(module, CellModule) and module.may_lack(edge.key):
                    continue
                value = history.zeros(edge.slot)
            values[edge.key] = value
            if edge.role is Role.STATE:
                for key, _ in node.equation.state:
                    if (past := history.at(f"{name}.{key}", t - edge.delay)) is not None:
                        previous[key] = past
        output, further = module(values, previous or None, step)
        history.put(name, t, output)
        for key, value in further.items():
            if (slot := f"{name}.{key}") in self.slots:
                history.put(slot, t, value)

    def read_input(self, history: History, frames: Values) -> None:
        """Put the inputs into a history."""
        for name, value in frames.items():
            if self.is_timed(name, value):
                each = [channels_last(frame) for frame in value.unbind(1)]
            else:
                each = [channels_last(value)] * history.length
            history.rows[name][history.lead :] = each

    def is_timed(self, name: str, value: Tensor) -> bool:
        """Whether an input has a value for each t."""
        return value.dim() > 1 + len(self.slots[name].shape)

    def steps(self, frames: Values, call: Call, carry: Carry | None) -> Iterator[TimeStep]:
        """The time steps of a call."""
        bottom = frames[BOTTOM]
        start, ops, noise = (
            0 if carry is None else carry.t,
            choose(bottom),
            self.draw_noise(bottom, call),
        )
        ends = None if call.ends is None else torch.tensor(call.ends, device=bottom.device)
        for t in range(call.length):
            alive = None if ends is None else t < ends
            yield TimeStep(start + t, alive, ops=ops, noise=noise[t], clean=call.clean)

    def draw_noise(self, frames: Tensor, call: Call) -> list[dict[str, Tensor]]:
        """The noise of cells in training, for each t by node.

        It is drawn node by node, up the encoders and down the decoders, for all t; iterations on
        one input share it, as they share the noise of that input.
        """
        found: list[dict[str, Tensor]] = [{} for _ in range(call.length)]
        for name in self.noisy if not call.clean else ():
            module = cast(CellModule, self.nodes[name].path.module)
            for t, now in enumerate(found if module.training else ()):
                if t and self.plan.iterations:
                    now[name] = found[0][name]
                else:
                    shape = call.batch, *(module.normalised or ())
                    drawn = torch.randn(shape, dtype=frames.dtype, device=frames.device)
                    now[name] = channels_last(module.deviation * drawn)
        return found

    # --- what is needed, and what is kept ---------------------------------------------------------

    def needs(self, call: Call) -> Needs:
        """At which t each node is needed."""
        if call.readers is None:
            return dict.fromkeys(self.nodes, (1 << call.length) - 1)
        readers = list(call.readers)
        for name, carried in self.plan.carry.items() if call.carries else ():
            # A sequence may end at any t.
            depth = min(carried.depth, call.length) if call.ends is None else call.length
            when = (0.0,) * (call.length - depth) + (1.0,) * depth
            readers.append(Reader(name, (name,), when, 0, 0, 0))
        return need_masks(self.plan, call.length, readers)

    def kept(self, call: Call) -> set[str]:
        """The slots whose values are read at the end."""
        readers = self.plan.tasks if call.readers is None else call.readers
        found = {self.nodes[node].seen for reader in readers for node in reader.at} | {*call.keep}
        return found if call.ends is None else found | {*self.carried}

    def has_unused_delays(self, call: Call) -> bool:
        """Whether a delayed edge is never read after its initial values."""
        needs = self.needs(call)
        edges = [edge for each in self.plan.equations.values() for edge in each.edges]
        return any(needs[e.target] and not needs[e.target] >> e.delay for e in edges)

    # --- before the first t -----------------------------------------------------------------------

    def initial_values(self, batch: int) -> dict[str, Tensor]:
        """Initial values other than zeros, (B, ...) by slot."""
        found = {}
        for slot, learned in self.learned_initial_values().items():
            shape = self.slots[slot].shape
            found[slot] = learned.view(-1, *(1 for _ in shape[1:])).expand(batch, *shape)
        for name in self.carried:
            module = self.nodes[name].path.module if name in self.nodes else None
            if isinstance(module, CellModule) and (first := module.first_value(batch)) is not None:
                found[name] = channels_last(first)
        return found

    def learned_initial_values(self) -> dict[str, Tensor]:
        """Learned initial values by slot: one number per channel."""
        return {slot: getattr(path.module, name) for slot, (path, name) in self.learned.items()}


def _depths(plan: Plan) -> dict[str, int]:
    """How many of its last values the next iteration reads, by slot."""
    found = defaultdict[str, int](int)
    for equation in plan.equations.values():
        for edge in equation.edges:
            states = [f"{edge.source}.{key}" for key, _ in equation.state]
            for slot in (edge.source, edge.slot, *(states if edge.role is Role.STATE else ())):
                found[slot] = max(found[slot], edge.delay)
    return found
