"""The plan against brute force: a plain loop over t, and reachability over (node, t)."""

import json
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.handwritten import HierarchicalRNN, MusicRLadder, RLadder, TemporalBaseline
from ladderspec.api import graph, load, loads
from ladderspec.cells import Projection
from ladderspec.cells.feedforward import FC
from ladderspec.cells.input import Input
from ladderspec.cells.recurrent import GRU, LSTM, ConvLSTM
from ladderspec.language.read import Spec
from ladderspec.names import Role, Side, edge_key, split_node
from ladderspec.schedule.phases import Kind, Why, explain
from ladderspec.schedule.plan import (
    Plan,
    PlanError,
    check,
    flop_of_costs,
    need_masks,
    reads_of,
    schedule,
    work_of,
)
from ladderspec.schedule.plan_text import WIDTH, as_dict, to_text
from ladderspec.tasks import Classification, Denoising, Prediction
from ladderspec.wiring.graph import parameters

OMMNIST = "specs/ommnist/rladder.yaml"
MUSIC = "specs/music/rladder.yaml"


def plan_of(path: str, *variant: str) -> Plan:
    return schedule(graph(load(path, list(variant))))


def kinds(plan: Plan) -> list[tuple[str, int]]:
    return [(phase.kind.value, len(phase.nodes)) for phase in plan.phases]


# --- known networks ------------------------------------------------------------------------------


def test_the_ladder_is_one_loop() -> None:
    plan = plan_of(OMMNIST)
    assert kinds(plan) == [("once", 1), ("loop", 31), ("once", 1)]
    first, _, last = plan.phases
    assert (first.nodes, last.nodes) == (("encoder.input",), ("decoder.input",))
    assert set(plan.carry) == {f"{s}.{n}" for s in ("encoder", "decoder") for n in RECURRENT}
    assert all(kept.depth == 1 for kept in plan.carry.values())
    assert plan.carry["encoder.top"].state == (("c", (16,)),)
    assert plan.carry["encoder.top"].state_depth == 1
    assert plan.carry["decoder.top"].state_depth == 0


RECURRENT = ("lstm1", "lstm6", "top")


def test_without_decoder_to_encoder_the_recurrent_cells_stand_alone() -> None:
    plan = plan_of(OMMNIST, "no_decoder_to_encoder")
    assert kinds(plan) == [
        ("once", 1), ("loop", 1), ("once", 4), ("loop", 1),
        ("once", 8), ("loop", 1), ("once", 17),
    ]  # fmt: skip
    lone = [phase.nodes[0] for phase in plan.phases if phase.kind is not Kind.ONCE]
    assert lone == [f"encoder.{level}" for level in RECURRENT]
    assert set(plan.carry) == set(lone)


@pytest.mark.parametrize(
    ("path", "variant", "expected"),
    [
        (MUSIC, [], [("once", 1), ("loop", 15), ("once", 1)]),
        (
            MUSIC,
            ["no_decoder_to_encoder"],
            [("once", 1), *[("loop", 1)] * 5, ("once", 1), ("loop", 1), ("once", 9)],
        ),
        (OMMNIST, ["no_prediction"], [("once", 1), ("loop", 31)]),
        (OMMNIST, ["temporal_baseline"], [("once", 13), ("loop", 1), ("once", 1)]),
        ("specs/ommnist/appendix_c.yaml", [], [("once", 1), ("loop", 32)]),
        ("specs/related/video_ladder.yaml", [], [("once", 4), *[("loop", 1)] * 3, ("once", 4)]),
        ("specs/related/feedback_convrnn.yaml", [], [("once", 1), ("loop", 4), ("once", 2)]),
    ],
)
def test_phases_of_shipped_specs(
    path: str, variant: list[str], expected: list[tuple[str, int]]
) -> None:
    assert kinds(plan_of(path, *variant)) == expected


def needs(
    plan: Plan, length: int, tasks: Sequence[str] | None = None
) -> dict[str, tuple[bool, ...]]:
    """At which of t = 1..length each node is needed."""
    readers = [reader for reader in plan.tasks if tasks is None or reader.name in tasks]
    masks = need_masks(plan, length, reads_of(readers, length))
    return {node: tuple(bool(mask >> t & 1) for t in range(length)) for node, mask in masks.items()}


def test_the_last_decoder_pass_is_not_needed() -> None:
    for variant in ([], ["no_decoder_to_encoder"]):
        plan = plan_of(OMMNIST, *variant)
        found = needs(plan, 5)
        for node, needed in found.items():
            side, _ = split_node(node)
            assert needed == (True,) * 4 + (side is Side.ENCODER,), node
    only_digit = needs(plan, 5, ["digit"])
    assert only_digit["encoder.class"] == (False,) * 4 + (True,)
    assert only_digit["encoder.top"] == (True,) * 5
    assert not any(any(only_digit[node]) for node in only_digit if node.startswith("decoder"))


# --- work ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "path", "variant", "frame"),
    [
        (RLadder, OMMNIST, [], (1, 1, 32, 32)),
        (HierarchicalRNN, OMMNIST, ["hierarchical_rnn"], (1, 1, 32, 32)),
        (TemporalBaseline, OMMNIST, ["temporal_baseline"], (1, 1, 32, 32)),
        (MusicRLadder, MUSIC, [], (1, 1, 1, 88)),
    ],
)
def test_flop_equal_those_counted_in_the_hand_written_networks(
    network: type, path: str, variant: list[str], frame: tuple[int, ...]
) -> None:
    plan = plan_of(path, *variant)
    net = network().eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net.iterate(torch.zeros(frame), net.initial_state(1))
    assert work_of(plan, plan.phases).flop_each == counter.get_total_flops()


# One row above an input of 4x8x8: cell, what comes down to it, multiply-adds by hand.
FILTER, AREA = 3 * 3, 8 * 8
CELLS = {
    "encoder": [
        ("{cell: Conv, channels: 6}", FILTER * 4 * 6 * AREA),
        ("{cell: Conv, channels: 6, stride: 2}", FILTER * 4 * 6 * AREA // 4),
        ("{cell: ConvLSTM, channels: 6}", FILTER * (4 + 6) * 24 * AREA),
        ("{cell: ConvGRU, channels: 6}", FILTER * (4 + 6) * 18 * AREA),
        ("{cell: LSTM, channels: 6}", (256 + 6) * 24),
        ("{cell: GRU, channels: 6}", (256 + 6) * 18),
        ("{cell: FC, channels: 6}", 256 * 6),
        ("{cell: SoftMax, channels: 6}", 256 * 6),
        ("{cell: Pool, mode: max, filter: 2}", 0),
    ],
    "decoder": [
        ("{cell: Conv}", FILTER * (4 + 6) * 4 * AREA),
        ("{cell: convG1}", FILTER * 6 * 4 * AREA),
        ("{cell: convG2}", FILTER * (4 + 6) * 12 * AREA),
        ("{cell: convG2, inner: 5}", (FILTER * (4 + 6) * 15 + 5 * 4) * AREA),
        ("{cell: convG3}", (FILTER * (4 + 6) * 6 + 3 * 6 * 4) * AREA),
        ("{cell: convG3, inner: 5, inner_filter: 3}", FILTER * ((4 + 6) * 5 + 3 * 5 * 4) * AREA),
        ("{cell: G1}", 6 * AREA * 256),
        ("{cell: FC}", (6 * AREA + 256) * 256),
        ("{cell: Identity}", 0),
    ],
}


@pytest.mark.parametrize(
    ("side", "cell", "expected"), [(side, *row) for side in CELLS for row in CELLS[side]]
)
def test_multiply_adds_of_every_cell_by_hand(side: str, cell: str, expected: int) -> None:
    row = f"encoder: {cell}" if side == "encoder" else f"{BELOW}, decoder: {cell}"
    text = f"name: one\ninput: {{channels: 4, size: 8}}\nlevels: [{{name: a, {row}}}]\n"
    plan = schedule(graph(loads(text)))
    node = "encoder.a" if side == "encoder" else "decoder.input"
    assert plan.equations[node].multiplications == expected


BELOW = "encoder: {cell: Conv, channels: 6}"


def test_the_heads_of_tasks_are_counted() -> None:
    spec = load(MUSIC, "encoder_only")
    plan = schedule(graph(spec))
    work = work_of(plan, plan.phases, plan.tasks)
    assert work.parameters == parameters(graph(spec))
    assert work.flop_each - work_of(plan, plan.phases).flop_each == 2 * 96 * 88


def test_costs_take_less() -> None:
    plan = plan_of(OMMNIST)
    down = sum(e.multiplications for n, e in plan.equations.items() if n.startswith("decoder"))
    assert flop_of_costs(plan, 5) == 5 * work_of(plan, plan.phases).flop_each - 2 * down


# --- random graphs -------------------------------------------------------------------------------

CELLS_AT = {Side.ENCODER: "input a b c", Side.LATERAL: "a", Side.DECODER: "input a b"}
NODES = [f"{side}.{level}" for side, levels in CELLS_AT.items() for level in levels.split()]
PLAIN, STATES = FC(channels=2), [GRU(channels=2), LSTM(channels=2), ConvLSTM(channels=2)]


@st.composite
def graphs(draw: st.DrawFn) -> nx.MultiDiGraph:
    """Any graph that is acyclic without its delayed arrows; some cells have a state."""
    order = ["encoder.input", *draw(st.permutations(NODES[1:]))]
    order = order[: draw(st.integers(2, len(order)))]
    iterations = draw(st.sampled_from([None, 4]))
    built = empty_graph(frames="any" if iterations is None else None, iterations=iterations)
    for node in order:
        cell = draw(st.sampled_from([PLAIN, PLAIN, *STATES])) if node != order[0] else Input()
        add_node(built, node, cell)
        if cell.stateful:
            add_arrow(built, node, node, draw(st.sampled_from([1, 1, 2])), Role.STATE)
    index = st.integers(0, len(order) - 1)
    arrow = st.tuples(index, index, st.sampled_from([0, 0, 1, 2, 3]))
    for a, b, delay in draw(st.lists(arrow, min_size=len(order), max_size=24)):
        if b and (delay or a < b):
            add_arrow(built, order[a], order[b], delay)
    for name in draw(st.sets(st.sampled_from(["last", "all", "ahead", "weights"]))):
        add_task(built, name, draw(st.sampled_from(order)))
    return built


def empty_graph(**time: object) -> nx.MultiDiGraph:
    levels = ["input", "a", "b", "c"]
    return nx.MultiDiGraph(name="random", title="", levels=levels, tasks={}, **time)


def add_node(built: nx.MultiDiGraph, node: str, cell: object) -> None:
    side, level = split_node(node)
    facts = {
        "initial": "zeros",
        "parameters": 0,
        "cell_parameters": {},
        "shape": (2,),
        "share": None,
    }
    built.add_node(node, side=side, level=level, cell=cell, **facts)


def add_arrow(
    built: nx.MultiDiGraph, source: str, target: str, delay: int, role: Role = Role.SKIP
) -> None:
    facts = {"role": role, "delay": delay, "projection": Projection("dense", (2,), (2,))}
    built.add_edge(source, target, key=edge_key(role, source, delay), **facts)


def add_task(built: nx.MultiDiGraph, name: str, node: str) -> None:
    task = {
        "last": Classification(kind="classification", at=node),
        "all": Denoising(kind="denoising", at=node),
        "ahead": Prediction(kind="prediction", at=node, ahead=2),
        "weights": Denoising(kind="denoising", at=node, when=(0.0, 1.0, 0.0, 0.5)),
    }[name]
    built.graph["tasks"][name] = {"task": task, "at": [node], "clean": {}, "parameters": 0}


class Names(dict[object, int]):
    """A number for every distinct value, so that equal values are equal numbers."""

    def __missing__(self, value: object) -> int:
        self[value] = len(self)
        return self[value]


def compute(
    built: nx.MultiDiGraph, node: str, t: int, read: Callable[[str, int], int], names: Names
) -> int:
    """A symbol for the value of `node` at t; `read(source, t)` gives that of its operands."""
    if node == "encoder.input":
        return names["x", None if built.graph["iterations"] else t]
    arrows = sorted(built.in_edges(node, keys=True, data="delay"))
    return names[(node, *(read(s, t - delay) for s, _, _, delay in arrows))]


def plain_loop(built: nx.MultiDiGraph, length: int, names: Names) -> dict[tuple[str, int], int]:
    """All values, node by node within t, without any plan."""
    today = nx.DiGraph((a, b) for a, b, delay in built.edges(data="delay") if delay == 0)
    today.add_nodes_from(built)
    values: dict[tuple[str, int], int] = {}
    for t in range(1, length + 1):
        for node in nx.topological_sort(today):
            values[node, t] = compute(
                built, node, t, lambda s, u: values[s, u] if u > 0 else names["initial", s], names
            )
    return values


class Run:
    """Executes a plan on symbols, chunk by chunk; forgets all but the carry between chunks."""

    def __init__(self, built: nx.MultiDiGraph, plan: Plan, names: Names) -> None:
        self.built, self.plan, self.names = built, plan, names
        self.kept = {
            (node, t): names["initial", node]
            for node, carried in plan.carry.items()
            for t in range(1 - carried.depth, 1)
        }
        self.counts: Counter[tuple[str, int]] = Counter()
        self.seen: dict[tuple[str, int], int] = {}

    def chunk(self, first: int, last: int) -> None:
        here = dict(self.kept)  # what is in memory
        for phase in self.plan.phases:
            times = range(first, last + 1)
            if phase.kind is Kind.ONCE:
                order = [(node, t) for node in phase.nodes for t in times]
            else:
                order = [(node, t) for t in times for node in phase.nodes]
            for node, t in order:
                value = compute(self.built, node, t, lambda s, u: here[s, u], self.names)
                here[node, t] = self.seen[node, t] = value
                self.counts[node, t] += 1
            for node in set(phase.nodes) & self.plan.carry.keys():
                back = range(last + 1 - self.plan.carry[node].depth, last + 1)
                self.kept |= {(node, t): here[node, t] for t in back}
        self.kept = {
            (node, t): value
            for (node, t), value in self.kept.items()
            if t > last - self.plan.carry[node].depth
        }


@given(graphs(), st.lists(st.integers(1, 4), min_size=1, max_size=3))
@settings(deadline=None, max_examples=300)
def test_phases_compute_every_value_once_and_chunks_equal_the_whole(
    built: nx.MultiDiGraph, chunks: list[int]
) -> None:
    plan, names = schedule(built), Names()
    run, start = Run(built, plan, names), 0
    for length in chunks:
        run.chunk(start + 1, start + length)
        start += length
    assert run.seen == plain_loop(built, start, names)
    assert set(run.counts.values()) == {1}


@given(graphs())
@settings(deadline=None, max_examples=200)
def test_phases_are_the_components(built: nx.MultiDiGraph) -> None:
    plan = schedule(built)
    found = {frozenset(phase.nodes) for phase in plan.phases if phase.kind is not Kind.ONCE}
    looped = {node for node in built if built.has_edge(node, node)}
    components = map(frozenset, nx.strongly_connected_components(built))
    assert found == {each for each in components if len(each) > 1 or each & looped}
    for one, two in pairwise(plan.phases):
        assert one.kind is not Kind.ONCE or two.kind is not Kind.ONCE


def test_loops_that_are_ready_run_before_what_they_feed() -> None:
    built = empty_graph(frames="any", iterations=None)
    add_node(built, "encoder.input", Input())
    for node in ("encoder.a", "encoder.b", "decoder.a", "decoder.b"):
        add_node(built, node, PLAIN)
    for level in ("a", "b"):
        add_arrow(built, "encoder.input", f"encoder.{level}", 0)
        add_arrow(built, f"encoder.{level}", f"encoder.{level}", 1)
        add_arrow(built, f"encoder.{level}", f"decoder.{level}", 0)
    assert kinds(schedule(built)) == [("once", 1), ("loop", 1), ("loop", 1), ("once", 2)]


def past(built: nx.MultiDiGraph, node: str) -> set[str]:
    return nx.ancestors(built, node) | {node}


@given(graphs(), st.integers(1, 9))
@settings(deadline=None, max_examples=300)
def test_needs_equal_reachability_over_node_and_time(built: nx.MultiDiGraph, length: int) -> None:
    reached = set()
    for name, entry in built.graph["tasks"].items():
        read = {
            "last": [length],
            "all": range(1, length + 1),
            "ahead": range(1, length - 1),
            "weights": [t for t in (2, 4) if t <= length],
        }[name]
        reached |= {(node, t) for node in entry["at"] for t in read}
    todo = deque(reached)
    while todo:
        node, t = todo.popleft()
        for source, _, delay in built.in_edges(node, data="delay"):
            if t > delay and (source, t - delay) not in reached:
                reached.add((source, t - delay))
                todo.append((source, t - delay))
    expected = {n: tuple((n, t) in reached for t in range(1, length + 1)) for n in built}
    assert needs(schedule(built), length) == expected


@given(graphs())
@settings(deadline=None, max_examples=200)
def test_reasons_hold(built: nx.MultiDiGraph) -> None:
    plan = schedule(built)
    home = {node: phase for phase in plan.phases for node in phase.nodes}
    today = nx.DiGraph((a, b) for a, b, delay in built.edges(data="delay") if delay == 0)
    today.add_nodes_from(built)
    for node, reason in explain(plan).items():
        inside = home[node].carries
        closing = [
            e for e in inside
            if e.source != e.target
            and nx.has_path(today, e.target, node) and nx.has_path(today, node, e.source)
        ]  # fmt: skip
        fed = [n for n in nx.descendants(built, node) if home[n].kind is not Kind.ONCE]
        match reason.why:
            case Why.CYCLE:
                assert reason.edges[0] in closing
            case Why.LONG_CYCLE:
                out, back = reason.edges
                assert not closing
                assert out in inside
                assert back in inside
                assert nx.has_path(today, node, out.source)
                assert nx.has_path(today, back.target, node)
            case Why.OWN:
                assert {(e.source, e.target) for e in reason.edges} == {(node, node)}
            case Why.ALONE:
                assert not any(d for *_, d in built.in_edges(past(built, node), data="delay"))
            case Why.BEFORE:
                assert fed
            case Why.AFTER:
                assert not fed


@given(graphs())
@settings(deadline=None, max_examples=100)
def test_every_plan_prints(built: nx.MultiDiGraph) -> None:
    plan = schedule(built)
    text = to_text(plan)
    assert text.count(" = ") - text.count("at t = ") == len(built)
    assert max(map(len, text.splitlines())) <= WIDTH
    json.dumps(as_dict(plan))


LONE = """
name: lone
input: {channels: 3}
time: {frames: any}
levels:
  - {name: a, encoder: {cell: FC, channels: 4}}
  - {name: b, encoder: %s}
  - {name: c, encoder: {cell: FC, channels: 2}}
tasks: {read: {kind: classification, at: encoder.c}}
"""


def test_a_state_of_delay_two_is_needed_at_every_second_t() -> None:
    text = LONE % "{cell: LSTM, channels: 4}" + "edges: {state: {delay: 2}}\n"
    found = needs(schedule(graph(loads(text))), 6)
    assert found["encoder.b"] == (False, True, False, True, False, True)


# --- the rules -----------------------------------------------------------------------------------


def test_a_broken_plan_is_refused() -> None:
    built = graph(load(OMMNIST))
    plan = schedule(built)
    first, loop, last = plan.phases
    backwards = replace(loop, nodes=loop.nodes[::-1])
    for broken, message in [
        (replace(plan, phases=(loop, first, last)), "encoder.input -> encoder.lstm1 reads what is"),
        (replace(plan, phases=(first, backwards, last)), "reads what is not there yet"),
        (replace(plan, phases=(first, loop)), "decoder.input is in 0 phases"),
        (replace(plan, phases=(first, loop, last, last)), "decoder.input is in 2 phases"),
        (replace(plan, phases=(first, replace(loop, kind=Kind.ONCE), last)), r"\(t-1\) -> .*yet"),
        (replace(plan, carry={}), "encoder.lstm1 is read 1 iterations later, but 0"),
    ]:
        with pytest.raises(PlanError, match=message):
            check(broken, built)


# --- text ----------------------------------------------------------------------------------------

DELAYS = """
name: delays
input: {channels: 3}
time: {iterations: 4}
levels:
  - {name: a, encoder: {cell: FC, channels: 4}, decoder: FC}
  - {name: b, encoder: {cell: FC, channels: 4}, decoder: FC}
  - {name: c, encoder: {cell: GRU, channels: 2}, decoder: FC}
  - {name: long_name_of_a_level, encoder: {cell: LSTM, channels: 2, norm: layer}, decoder: FC}
laterals: {a: {cell: FC, channels: 4}}
edges:
  decoder_to_encoder: none
  add:
    - encoder.input(t-1) -> encoder.b
    - encoder.a(t-3) -> encoder.long_name_of_a_level
    - decoder.b(t-2) -> encoder.c
    - encoder.c(t-1) -> decoder.c
    - decoder.c(t-1) -> encoder.c
tasks:
  read: {kind: classification, at: encoder.long_name_of_a_level, when: [0, 0.5, 0, 1]}
  clean: {kind: denoising, at: decoder.input, when: last}
"""


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("rladder", load(OMMNIST)),
        ("rladder.no_decoder_to_encoder", load(OMMNIST, "no_decoder_to_encoder")),
        ("music", load(MUSIC)),
        ("delays", loads(DELAYS)),
    ],
)
def test_golden(name: str, spec: Spec, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.plan.txt", str(schedule(graph(spec))))


def test_as_dict_says_the_same() -> None:
    plan = plan_of(OMMNIST)
    found = json.loads(json.dumps(as_dict(plan)))
    assert [len(phase["nodes"]) for phase in found["phases"]] == [1, 31, 1]
    assert found["parameters"] == 2_861_140
    assert not any("frees" in phase for phase in found["phases"])
    assert found["carry"]["encoder.top"] == {"values": 1, "state": {"c": 1}, "initial": "zeros"}
    assert found["tasks"]["next_frame"] == {"at": ["decoder.input"], "t": "1..4"}
    assert found["phases"][2]["nodes"][0]["equation"] == (
        "d_input = convG3(lateral=e_input, decoder=d_lstm1)"
    )


def test_planning_needs_no_torch() -> None:
    rooms = "import sys; from ladderspec.schedule import plan_text"
    code = f"{rooms}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_three_thousand_rows_are_no_trouble() -> None:
    built = empty_graph(frames="any", iterations=None)
    built.graph["levels"] = ["input", *(f"r{i}" for i in range(3000))]
    names = built.graph["levels"]
    add_node(built, "encoder.input", Input())
    for below, level in pairwise(names):
        add_node(built, f"encoder.{level}", PLAIN)
        add_arrow(built, f"encoder.{below}", f"encoder.{level}", 0, Role.ENCODER)
    for above, level in zip([*names[1:], None], names, strict=True):
        add_node(built, f"decoder.{level}", PLAIN)
        add_arrow(built, f"encoder.{level}", f"decoder.{level}", 0, Role.LATERAL)
        if above:
            add_arrow(built, f"decoder.{above}", f"decoder.{level}", 0, Role.DECODER)
        if level != "input":
            add_arrow(built, f"decoder.{level}", f"encoder.{level}", 1, Role.DECODER_TO_ENCODER)
    add_task(built, "all", "decoder.input")
    plan = schedule(built)
    assert len(plan.phases[1].nodes) == 6000
    assert to_text(plan)
    assert needs(plan, 100)["decoder.r7"] == (True,) * 100
