"""Plan -> steps: every node with its module and the places of what it reads, found once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn

from ladderspec.names import Role, Shape
from ladderspec.schedule.plan import Plan


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
    """One arrow, as its target reads it."""

    key: str
    slot: int
    delay: int
    may_lack: bool  # zeros from before the first t say nothing


@dataclass(frozen=True)
class Slot:
    """A row of values over time: a node's output, what it remembers besides, what tasks see."""

    name: str
    shape: Shape
    depth: int  # how many of its last values are carried
    owner: Home
    learned: str  # the owner's parameter with the value before the first t; "" for zeros

    def initial(self) -> Tensor | None:
        """One value per channel, (C, 1, 1) or (C,); None for zeros."""
        return self.parameter().view(-1, *(1 for _ in self.shape[1:])) if self.learned else None

    def parameter(self) -> Tensor:
        """The owner's, where it has learned one."""
        value: Tensor = getattr(self.owner.module, self.learned)
        return value


@dataclass(frozen=True, eq=False)
class Step:
    """One node: call the module with what it reads, put away what it gives."""

    node: str
    slot: int
    home: Home
    reads: tuple[Read, ...]
    state: tuple[tuple[str, int], ...]  # what the cell remembers, by its slot
    state_delay: int
    seen: int  # the slot that tasks read: logits where there are some; -1 where no task reads
    numbers: int  # of its output and its state, for one sample

    @property
    def module(self) -> nn.Module:
        return self.home.module

    @property
    def fills(self) -> tuple[int, ...]:
        """Its slots, but for the input, whose values are there already."""
        seen = (self.seen,) if self.seen >= 0 else ()
        return (self.slot, *(slot for _, slot in self.state), *seen) if self.reads else ()


class Reach(NamedTuple):
    """What steps that run one after the other have to do with all else."""

    enters: tuple[tuple[int, int], ...]  # slots that none of them fills, and how long before
    leaves: tuple[int, ...]  # slots that they fill


@dataclass(frozen=True)
class Layout:
    """All steps of a plan by node, in order, and the slots that they read and fill."""

    slots: tuple[Slot, ...]
    index: Mapping[str, int]  # slots by name
    steps: Mapping[str, Step]
    lead: int  # the largest delay of all
    reaches: dict[tuple[Step, ...], Reach] = field(default_factory=dict)

    def reach(self, steps: tuple[Step, ...]) -> Reach:
        """Of steps at one t, found once."""
        if steps not in self.reaches:
            self.reaches[steps] = _reach(steps)
        return self.reaches[steps]

    def seen(self, node: str) -> int:
        return self.steps[node].seen


def lay_out(plan: Plan, root: nn.Module) -> Layout:
    """Find a place for every value; the modules stand in `root` under the names of their nodes."""
    homes = {node: home_of(root, node) for node in plan.equations}
    slots: list[Slot] = []
    index: dict[str, int] = {}

    def place(name: str, shape: Shape, depth: int, owner: Home, learned: str) -> None:
        index[name] = len(slots)
        has = learned in dict(owner.module.named_parameters(recurse=False))
        slots.append(Slot(name, shape, depth, owner, learned if has else ""))

    read = {node for task in plan.tasks for node in task.at}
    for node, equation in plan.equations.items():
        kept, owner = plan.carry.get(node), homes[node]
        place(node, equation.shape, kept.depth if kept else 0, owner, "initial")
        for name, shape in equation.state:
            depth = kept.state_depth if kept else 0
            place(f"{node}.{name}", shape, depth, owner, f"initial_{name}")
        if node in read:
            place(f"{node}.seen", equation.shape, 0, owner, "")
    order = [node for phase in plan.phases for node in phase.nodes]
    steps = {node: _step(plan, node, homes[node], index) for node in order}
    lead = max((slot.depth for slot in slots), default=0)
    return Layout(tuple(slots), index, steps, lead)


def _reach(steps: tuple[Step, ...]) -> Reach:
    made: dict[int, None] = {}
    found: dict[tuple[int, int], None] = {}
    for step in steps:
        read = [(slot, delay) for _, slot, delay, _ in step.reads]
        read += [(slot, step.state_delay) for _, slot in step.state if step.state_delay]
        found |= {each: None for each in read if each[1] or each[0] not in made}
        made |= dict.fromkeys(step.fills)
    return Reach(tuple(found), tuple(made))


def _step(plan: Plan, node: str, home: Home, index: Mapping[str, int]) -> Step:
    equation = plan.equations[node]
    may_lack = getattr(home.module, "may_lack", lambda key: False)
    delays = [edge.delay for edge in equation.edges if edge.role is Role.STATE]
    seen = index.get(f"{node}.seen", -1)
    return Step(
        node=node,
        slot=index[node],
        home=home,
        reads=tuple(
            Read(edge.key, index[edge.source], edge.delay, may_lack(edge.key))
            for edge in equation.edges
        ),
        state=tuple((name, index[f"{node}.{name}"]) for name, _ in equation.state),
        state_delay=delays[0] if delays else 0,
        seen=seen,
        numbers=equation.numbers,
    )
