"""Plan -> torch: a module that unrolls time by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ladderspec.cells.grouping import Groups
from ladderspec.display import svg
from ladderspec.errors import UsageError, tick
from ladderspec.names import BOTTOM, is_input
from ladderspec.network.checkpointing import run_checkpointed
from ladderspec.network.costs import (
    Costs,
    Targets,
    TaskCost,
    check_tasks,
    costs_of,
    later,
    mean_of_nodes,
    tied,
)
from ladderspec.network.executor import Call, Executor, clean_slots
from ladderspec.network.generate import generate
from ladderspec.network.history import Carry, History, channels_last, unfold, unfold_carry
from ladderspec.network.inputs import (
    Frames,
    Given,
    Inputs,
    Lengths,
    check_count,
    check_names,
    nodes_of,
)
from ladderspec.network.modules import TaskReadout, nest_cells, set_statistic
from ladderspec.network.replay import Replay
from ladderspec.nn import CellModule, initialise
from ladderspec.nn.modules import module_at, nest
from ladderspec.schedule.plan import Plan
from ladderspec.wiring.graph import Graph, copies, describe
from ladderspec.wiring.readings import readouts_of

GROUPS_NODE = "encoder.groups"


class Outputs(dict[str, Any]):
    """The values that tasks read, by task, (B, T, ...); by node if a task reads several."""

    carry: Carry


class Net(nn.Module):
    """The network of a plan. Time runs over frames (B, T, ...), or over iterations on (B, ...)."""

    def __init__(self, graph: Graph, plan: Plan, seed: int = 0) -> None:
        super().__init__()
        self.graph, self.plan = graph, plan
        entries = graph.graph["tasks"]
        self.tasks = {name: entry["task"] for name, entry in entries.items()}
        self.node_weights = {
            name: entry["task"].node_weights(entry["at"]) for name, entry in entries.items()
        }
        nest_cells(self, graph)
        self.readout_forms = readouts_of(graph)
        for form in self.readout_forms:
            readout = TaskReadout(form, self.tasks[form.task].teaches)
            nest(self, {f"task.{form.name}": readout})
        initialise(self, seed)
        # Convolutions with such weights return maps in that format. (torch's stubs lack it.)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.noise = graph.nodes[BOTTOM]["cell"].noise
        self.shape = tuple(graph.nodes[BOTTOM]["shape"])
        self.groups = copies(graph)
        self.executor = Executor(plan, self)
        self.replay = Replay()
        self.inputs = Inputs(graph, self.executor.slots, self.groups)

    @property
    def is_random(self) -> bool:
        """Whether a call in training draws random numbers."""
        return self.noise is not None or self.groups is not None or bool(self.executor.noisy)

    @property
    def readouts(self) -> dict[str, dict[str, TaskReadout]]:
        """The read-out of each task, by the node that it reads."""
        found: dict[str, dict[str, TaskReadout]] = {name: {} for name in self.tasks}
        for form in self.readout_forms:
            readout = module_at(self, f"task.{form.name}")
            found[form.task][form.node] = cast(TaskReadout, readout)
        return found

    # --- all t at once ---------------------------------------------------------------------------

    def forward(
        self, frames: Frames, lengths: Lengths = None, carry: Carry | None = None
    ) -> Outputs:
        """All outputs at all t, and the carry.

        Args:
            frames: The input, (B, T, ...); one input (B, ...) if time runs over iterations. A
                network with several inputs takes them by name: `{"input": ..., "action": ...}`;
                those per sequence are (B, ...).
            lengths: The length of each sequence, if they differ. Outputs beyond the end of a
                sequence mean nothing.
            carry: What the network remembers of earlier frames. Default: the initial values.
        """
        shown = self._shown(self._enter(frames, lengths, carry))
        history = self.executor.run(shown, self.executor.call(shown))
        times = list(range(shown.length))
        outputs = Outputs(self._outputs(history, times, lambda value: value.transpose(0, 1)))
        outputs.carry = self._carry(history, shown)
        return outputs

    def cost(
        self,
        frames: Frames,
        targets: Targets = None,
        lengths: Lengths = None,
        *,
        carry: Carry | None = None,
        tasks: Collection[str] | None = None,
        weights: Mapping[str, float] | None = None,
        checkpoint: bool | int = False,
    ) -> Costs:
        """The cost of every task, computing only what the costs read.

        Args:
            frames: The input, as for `forward`.
            targets: Fields of the data by name, (B, ...) or (B, T, ...) over time. A field under
                the name of a task is used as it is, one target for each t.
            lengths: The length of each sequence, if they differ.
            carry: What the network remembers of earlier frames. `costs.carry` is then the next
                carry, so that sequences can be trained in chunks.
            tasks: The tasks that count. Default: all.
            weights: Weights by task, instead of those of the spec.
            checkpoint: Activation checkpointing in segments of so many t; True chooses their
                length. Less memory for a second forward pass.
        """
        given = self._enter(frames, lengths, carry)
        counting = (tasks,) if isinstance(tasks, str) else self.tasks if tasks is None else tasks
        check_tasks(self.tasks, targets, counting, weights or {})
        chosen = {name: task for name, task in self.tasks.items() if name in counting}
        readers = self.plan.tasks if carry is None else later(self.plan.tasks, carry.t)
        found = costs_of(chosen, readers, given, targets, self.groups is not None)
        shown, clean = self._shown(given), None
        counted: list[str] = []  # nodes whose statistics the pass without noise counts
        if (clean_call := self._clean_call(shown, found)) is not None:
            clean = self._run(self._shown(given, noise=False), clean_call, checkpoint)
            counted = [node for node, mask in clean_call.needs.items() if mask]
        reads = [read for each in found for read in each.reads(each.reader.at)]
        call = self.executor.call(shown, reads, carries=carry is not None, counted=counted)
        history = self._run(shown, call, checkpoint)
        costs = Costs()
        costs.total = zero = given.frames.new_zeros(())
        for each in found:
            cost = self._cost(each, history, clean) if each.times else tied(zero, self.parameters())
            weight = (weights or {}).get(each.name, each.task.weight_at())
            costs[each.name], costs.total = cost, costs.total + weight * cost
        if carry is not None:
            costs.carry = self._carry(history, shown)
        elif self.executor.has_unused_delays(call):
            costs.total = tied(costs.total, self.parameters())
        if learned := self.executor.learned_initial_values():  # a call need not read them
            costs.total = tied(costs.total, learned.values())
        return costs

    def _cost(self, task: TaskCost, history: History, clean: History | None) -> Tensor:
        """The cost of one task, whose nodes are read at some t."""
        costs, slots = {}, clean_slots(self.graph, task.name)
        for node, seen in self._see(history, task.name, task.times).items():
            if clean is not None and node in slots:
                there = [slot for slot in slots[node] if clean.at(slot, task.times[0]) is not None]
                given = [clean.series(slot, task.times) for slot in there]
                costs[node] = task.clean_cost(seen, *given)
            else:
                costs[node] = task.cost(seen, self.likelihood())
        return mean_of_nodes(costs, self.node_weights[task.name])

    def _clean_call(self, shown: Given, costs: Sequence[TaskCost]) -> Call | None:
        """The pass without noise, if a task compares with it.

        It also computes what the other tasks read: running statistics are those of this pass.
        """
        if not any(each.task.clean for each in costs):
            return None
        reads = [read for each in costs for read in each.reads(each.reader.clean or each.reader.at)]
        slots = [slots for each in costs for slots in clean_slots(self.graph, each.name).values()]
        return self.executor.call(shown, reads, carries=False, keep=sum(slots, ()), clean=True)

    def values(
        self,
        frames: Frames,
        *nodes: str | Sequence[str],
        lengths: Lengths = None,
        carry: Carry | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """The values of nodes at all t, (B, T, ...): `net.values(frames, "decoder.conv_2")`.

        Args:
            frames: The input, as for `forward`.
            *nodes: Names of nodes, or a list of them. `encoder.lstm1.c` is a further state of that
                cell.
            lengths: The length of each sequence, if they differ.
            carry: What the network remembers of earlier frames.

        Returns:
            The values of one node, or for several nodes a dict by name.
        """
        names = nodes_of(nodes, self.executor.slots, self.graph)
        shown = self._shown(self._enter(frames, lengths, carry))
        every = (1 << shown.length) - 1
        reads = [(".".join(name.split(".")[:2]), every) for name in names]
        call = self.executor.call(shown, reads, carries=False, keep=names)
        history = self.executor.run(shown, call)
        times, found = list(range(shown.length)), {}
        for name in names:
            series = unfold(history.series(name, times), self.groups, 1).transpose(0, 1)
            found[name] = series[:, :, 0] if self.groups and is_input(name) else series
        return found[nodes[0]] if len(found) == 1 and isinstance(nodes[0], str) else found

    # --- one t after the other -------------------------------------------------------------------

    def initial_carry(self, batch: int) -> Carry:
        """The carry of the first iteration.

        Args:
            batch: The number of sequences.
        """
        if not torch.compiler.is_compiling():
            check_count(batch, 1, "a batch is a number of sequences")
        like = next(self.parameters(), torch.zeros(()))
        folded = batch * (self.groups or 1)
        start = History(self.executor.slots, 0, like.new_empty(folded))
        start.begin(self.executor.initial_values(folded), None)
        values = {
            # Apart from each other: torch.export takes one tensor twice for one input.
            name: tuple(channels_last(value).clone() for value in kept)
            for name, kept in start.carry().values.items()
        }
        return unfold_carry(Carry(0, values), self.groups)

    def iterate(self, frame: Frames, carry: Carry) -> tuple[dict[str, Any], Carry]:
        """One t.

        Args:
            frame: The input at this t, (B, ...); several inputs by name, as for `forward`.
            carry: The carry of the iteration before; the first is `initial_carry`.

        Returns:
            What each task reads, by its name, and the next carry.
        """
        shown = self._shown(self._enter(frame, None, carry, alone=True))

        def plain() -> tuple[dict[str, Any], Carry]:
            history = self.executor.run(shown, self.executor.call(shown))
            outputs = self._outputs(history, [0], lambda value: value[0])
            return outputs, self._carry(history, shown)

        return self.replay.iterate(self, plain, shown)

    def generate(
        self,
        frames: Frames,
        n: int,
        sample: bool = False,
        lengths: Lengths = None,
        carry: Carry | None = None,
    ) -> Tensor:
        """The next n frames (B, n, ...): predictions are fed back as input.

        Args:
            frames: The input, as for `forward`. Further inputs with a value for each frame go
                on: n - 1 values more than there are frames.
            n: The number of frames to generate, at most 100,000; `iterate` has no limit.
            sample: With `cost: bce`, samples instead of probabilities.
            lengths: The length of each sequence, if they differ.
            carry: What the network remembers of earlier frames.
        """
        return generate(self, frames, n, sample, lengths, carry)

    # --- weights ---------------------------------------------------------------------------------

    def set_offset(self, mean: Tensor | float, task: str | None = None) -> None:
        """Let the output of a prediction or denoising task start at the mean of the data.

        Args:
            mean: A number or a frame: the mean pixel; with `cost: bce`, the rate of ones.
            task: The task. Default: all tasks that have an offset.
        """
        known = [name for name, task in self.tasks.items() if task.starts_at_mean]
        check_names([] if task is None else [task], known, "task with an offset")
        for name in known if task is None else [task]:
            for readout in self.readouts[name].values():
                readout.start_at(mean, logits=self.tasks[name].logits)

    def set_data_statistics(self, mean: Tensor | float, std: Tensor | float) -> None:
        """Let the groups start at the mean of the data, and their outputs vary as the data do.

        Args:
            mean: The mean of the input: a number, or one for each channel.
            std: Its standard deviation, likewise.
        """
        if self.groups is None:
            raise ValueError("only networks with groups keep the mean and spread of their data")
        for module in map(self.executor.module, self.executor.nodes):
            if isinstance(module, CellModule) and module.cell.first_value is not None:
                set_statistic(module, "mean", mean)
                set_statistic(module, "std", std)

    def _repr_svg_(self) -> str | None:
        return svg(self.graph)

    def __repr__(self) -> str:
        return f"<network {describe(self.graph)}\n  print(net.encoder) lists its modules>"

    def adopt(self, weights: Mapping[str, Tensor]) -> Adopted:
        """Copy the weights of another variant that have the same name and shape.

        Args:
            weights: The `state_dict` of the other network.

        Returns:
            The names of what was copied, and of what differs.

        Raises:
            UsageError: if `weights` are no tensors by name.
        """
        if not isinstance(weights, Mapping) or not all(map(torch.is_tensor, weights.values())):
            given = tick(weights) if isinstance(weights, str) else f"a {type(weights).__name__}"
            raise UsageError(
                f"adopt takes tensors by name, as `state_dict` gives them, not {given};"
                " `ladderspec.open_net(FOLDER).state_dict()` reads those of a saved network"
            )
        own = self.state_dict()
        shared = [name for name in own if name in weights]
        kept = [name for name in shared if own[name].shape == weights[name].shape]
        self.load_state_dict({name: weights[name] for name in kept}, strict=False)
        return Adopted(
            tuple(kept),
            tuple(name for name in own if name not in weights),
            tuple(name for name in weights if name not in own),
            tuple(name for name in shared if name not in kept),
        )

    # --- one call --------------------------------------------------------------------------------

    def _enter(
        self, frames: Frames, lengths: Lengths, carry: Carry | None, alone: bool = False
    ) -> Given:
        """Check the arguments of a call."""
        like = None if torch.compiler.is_compiling() else next(self.parameters(), None)
        return self.inputs.check(frames, like, lengths, carry, alone)

    def _shown(self, given: Given, noise: bool = True) -> Given:
        """Prepare inputs for the executor: with noise in training, and for every group."""
        return self.inputs.shown(given, self.noise if noise and self.training else None)

    def _run(self, shown: Given, call: Call, checkpoint: bool | int) -> History:
        if checkpoint is False:
            return self.executor.run(shown, call)
        return run_checkpointed(self.executor, shown, call, checkpoint)

    def _carry(self, history: History, shown: Given) -> Carry:
        """The carry of the next iteration, as users see it."""
        return unfold_carry(history.carry(shown.start, shown.ends), self.groups)

    def _outputs(
        self, history: History, times: list[int], form: Callable[[Tensor], Tensor]
    ) -> dict[str, Any]:
        """The values that tasks read, in some form, by task; by node if a task reads several."""
        found = {}
        for name in self.tasks:
            seen = self._see(history, name, times)
            by_node = {node: form(value) for node, value in seen.items()}
            found[name] = by_node if len(by_node) > 1 else next(iter(by_node.values()))
        return found

    def likelihood(self) -> dict[str, Any]:
        """The arguments of the cost of groups besides their mu and pi."""
        if self.groups is None:
            return {}
        module = module_at(self, GROUPS_NODE)
        cell = cast(Groups, module.cell)
        learned = getattr(module, "log_variance", None)
        variance = cell.initial_variance if learned is None else learned.exp()
        return {"likelihood": cell.likelihood, "variance": variance}

    def _see(self, history: History, name: str, times: list[int]) -> dict[str, Tensor]:
        """The values that a task reads, by node, (n, B, ...); with groups, (n, B, K, ...)."""
        nodes = self.executor.nodes
        return {
            node: unfold(readout(history.series(nodes[node].seen, times)), self.groups, 1)
            for node, readout in self.readouts[name].items()
        }


class Adopted(NamedTuple):
    """The outcome of `adopt`, by the names of parameters and buffers."""

    kept: tuple[str, ...]
    missing: tuple[str, ...]  # not in what was given: left as they were
    unknown: tuple[str, ...]  # given, but not here
    reshaped: tuple[str, ...]  # in both, but of another shape: left as they were
