"""The executor: for each t, for each node that is needed at t, read its edges, call its module."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ladderspec.names import Role, is_input
from ladderspec.network.history import History, Slot, channels_last
from ladderspec.network.inputs import Given
from ladderspec.nn import CellModule, TimeStep
from ladderspec.nn.modules import Declared, module_at, share_again
from ladderspec.ops import choose
from ladderspec.schedule.equations import Term
from ladderspec.schedule.plan import Needs, Plan, Reads, depths, need_masks
from ladderspec.wiring.graph import Graph

TAPPED = ("normalised", "moments")  # what a cell whose norm is tapped returns besides


def clean_slots(graph: Graph, task: str) -> dict[str, tuple[str, ...]]:
    """By node, what a task compares it with in a pass without noise: a value, then moments.

    The moments are those of a batch norm: other cells have none.
    """
    return {
        node: tuple(f"{target}.{name}" for name in TAPPED) if tap == "normalised" else (target,)
        for node, (target, tap) in graph.graph["tasks"][task]["clean"].items()
    }


class ExecutorNode(NamedTuple):
    """One node: what it reads, and the slots of its values."""

    name: str
    edges: tuple[Term, ...]
    state: Mapping[str, str]  # what its `state` edge brings besides the output
    further: Mapping[str, str]  # all values besides the output
    seen: str  # what tasks see: the slot of its logits if it has some, else of its output


@dataclass(frozen=True)
class Call:
    """The request of a call, resolved by `Executor.call`."""

    needs: Needs  # at which t each node is needed
    kept: frozenset[str]  # the slots whose values are read at the end
    clean: bool = False  # without the noise of cells; norms return their moments
    counted: frozenset[str] = frozenset()  # nodes whose running statistics another pass counts


class Executor:
    """Runs the nodes of a plan, t by t."""

    def __init__(self, plan: Plan, root: nn.Module) -> None:
        self.plan, self.root = plan, root
        self.slots: dict[str, Slot] = {}
        self.nodes: dict[str, ExecutorNode] = {}
        self.learned: dict[str, tuple[str, str]] = {}  # initial values by slot: node, parameter
        depth = depths(plan.equations)
        for name in (node for phase in plan.phases for node in phase.nodes):
            equation, module = plan.equations[name], self.module(name)
            shapes = dict(equation.state)
            keys = (*module.cell.returns, *(TAPPED if module.tapped else ()))
            further = {key: f"{name}.{key}" for key in keys}
            state = {key: further[key] for key in shapes}
            for key, slot in {"": name, **further}.items():
                self.slots[slot] = Slot(shapes.get(key, equation.shape), depth[slot])
            seen = further.get("logits", name)
            self.nodes[name] = ExecutorNode(name, equation.edges, state, further, seen)
            initial = {"initial": name} | {f"initial_{key}": slot for key, slot in state.items()}
            for parameter in initial.keys() & module.declared.keys():
                self.learned[initial[parameter]] = name, parameter
        self.computed = [node for node in self.nodes.values() if not is_input(node.name)]
        self.carried = [name for name, slot in self.slots.items() if slot.depth]
        # In the order in which their noise is drawn.
        self.noisy = [name for name in plan.equations if self.module(name).deviation]
        names = {id(module): name for name, module in root.named_modules()}
        self.shares = {  # by the name of a module, that of the module whose weights it reads
            name: names[id(module.lender[0])]
            for name, module in root.named_modules()
            if isinstance(module, Declared) and module.lender
        }

    def module(self, node: str) -> CellModule:
        return cast(CellModule, module_at(self.root, node))

    # --- the loop ---------------------------------------------------------------------------------

    def run(self, given: Given, call: Call) -> History:
        """All values that a call asks for, from its inputs."""
        history = self.begin(given)
        self.loop(history, self.steps(given, call), call)
        return history

    def begin(self, given: Given) -> History:
        """A history with its past and its inputs."""
        history = History(self.slots, given.length, given.frames)
        history.begin(self.initial_values(given.batch) if given.carry is None else {}, given.carry)
        self.read_input(history, given.values)
        return history

    def loop(self, history: History, steps: Iterable[TimeStep], call: Call) -> None:
        """Fill a history that has its past and its inputs."""
        for name, owner in self.shares.items():
            share_again(self.root, name, owner)
        nodes = [
            (node, self.module(node.name), call.needs[node.name], node.name in call.counted)
            for node in self.computed
        ]
        passing = [
            (row, self.slots[name].depth)
            for name, row in history.rows.items()
            if name not in call.kept
        ]
        for t, step in enumerate(steps):
            again = replace(step, recomputed=True) if call.counted else step
            for node, module, needed, counted in nodes:
                if needed >> t & 1:
                    compute(node, module, t, history, again if counted else step)
            for row, depth in passing:  # let go of what no later t reads
                row[history.lead + t - depth] = None

    def read_input(self, history: History, values: Mapping[str, Tensor]) -> None:
        """Put the inputs, (B, T, ...) or (B, ...) for all t, into a history."""
        for name, value in values.items():
            if self.is_timed(name, value):
                each = [channels_last(frame) for frame in value.unbind(1)]
            else:
                each = [channels_last(value)] * history.length
            history.rows[name][history.lead :] = each

    def is_timed(self, name: str, value: Tensor) -> bool:
        """Whether an input has a value for each t."""
        return value.dim() > 1 + len(self.slots[name].shape)

    def steps(self, given: Given, call: Call) -> Iterator[TimeStep]:
        """The time steps of a call."""
        project, noise = choose(given.frames), self.draw_noise(given, call)
        ends = None if given.ends is None else torch.tensor(given.ends, device=given.frames.device)
        for t in range(given.length):
            alive = None if ends is None else t < ends
            now = given.start + t
            yield TimeStep(now, alive, project=project, noise=noise[t], clean=call.clean)

    def draw_noise(self, given: Given, call: Call) -> list[dict[str, Tensor]]:
        """The noise of cells in training, for each t by node.

        It is drawn node by node, up the encoders and down the decoders, for all t; iterations on
        one input share it, as they share the noise of that input.
        """
        found: list[dict[str, Tensor]] = [{} for _ in range(given.length)]
        kind, device = given.frames.dtype, given.frames.device
        for name in self.noisy if not call.clean else ():
            module = self.module(name)
            for t, now in enumerate(found if module.training else ()):
                if t and self.plan.iterations:
                    now[name] = found[0][name]
                else:
                    shape = given.batch, *(module.normalised or ())
                    drawn = torch.randn(shape, dtype=kind, device=device)
                    now[name] = channels_last(module.deviation * drawn)
        return found

    # --- what is needed, and what is kept ---------------------------------------------------------

    def call(
        self,
        given: Given,
        reads: Reads | None = None,
        *,
        carries: bool = True,
        keep: Collection[str] = (),
        clean: bool = False,
        counted: Collection[str] = (),
    ) -> Call:
        """Resolve which nodes a call needs at which t, and which values it keeps.

        Args:
            given: What the call was given.
            reads: What is read at the end. Default: what tasks see, computing all nodes at all t.
            carries: Whether the next carry is read too.
            keep: Further slots that are read at the end.
            clean: Whether the noise of cells is left out.
            counted: Nodes whose running statistics another pass counts.
        """
        every = (1 << given.length) - 1
        if reads is None:
            needs = dict.fromkeys(self.nodes, every)
            reads = [(node, every) for task in self.plan.tasks for node in task.at]
        else:
            # The last t are carried on; a sequence may end at any t.
            carried = self.plan.carry.items() if carries else ()
            past = [(n, every if given.ends else every ^ every >> c.depth) for n, c in carried]
            needs = need_masks(self.plan, given.length, [*reads, *past])
        kept = {self.nodes[node].seen for node, _ in reads} | {*keep}
        kept |= {*self.carried} if given.ends else set()
        return Call(needs, frozenset(kept), clean, frozenset(counted))

    def has_unused_delays(self, call: Call) -> bool:
        """Whether a delayed edge is never read after its initial values."""
        edges = [edge for each in self.plan.equations.values() for edge in each.edges]
        return any(call.needs[e.target] and not call.needs[e.target] >> e.delay for e in edges)

    # --- before the first t -----------------------------------------------------------------------

    def initial_values(self, batch: int) -> dict[str, Tensor]:
        """Initial values other than zeros, (B, ...) by slot."""
        found = {}
        for slot, learned in self.learned_initial_values().items():
            shape = self.slots[slot].shape
            found[slot] = learned.view(-1, *(1 for _ in shape[1:])).expand(batch, *shape)
        for name in self.carried:
            module = self.module(name) if name in self.nodes else None
            if isinstance(module, CellModule) and (first := module.first_value(batch)) is not None:
                found[name] = channels_last(first)
        return found

    def learned_initial_values(self) -> dict[str, Tensor]:
        """Learned initial values by slot: one number per channel."""
        return {slot: getattr(self.module(at), name) for slot, (at, name) in self.learned.items()}


def compute(
    node: ExecutorNode, module: CellModule, t: int, history: History, step: TimeStep
) -> None:
    """One node at one t."""
    rows, now = history.rows, history.lead + t
    values: dict[str, Tensor] = {}
    previous: dict[str, Tensor] = {}
    for edge in node.edges:
        value = rows[edge.slot][now - edge.delay]
        if value is None:  # it does not exist yet
            if isinstance(module, CellModule) and module.may_lack(edge.key):
                continue
            value = history.zeros(edge.slot)
        values[edge.key] = value
        for name, slot in node.state.items() if edge.role is Role.STATE else ():
            if (past := rows[slot][now - edge.delay]) is not None:
                previous[name] = past
    rows[node.name][now], further = module(values, previous or None, step)
    for key, value in further.items():
        if key in node.further:
            rows[node.further[key]][now] = value
