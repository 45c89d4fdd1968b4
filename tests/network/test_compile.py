"""The network under torch.compile, torch.export and autocast."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.utils import _pytree

from ladderspec.api import build, load, loads
from ladderspec.language.spec import SET_BY_TORCH
from ladderspec.names import LEVEL_NAME
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.network.portable import Iteration, Unrolled

SMALL = """
input: {channels: 1, size: [6, 6]}
time: {frames: 4}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
  - {name: pool, encoder: Pool, decoder: {cell: convG3, filter: 4}}
  - {name: conv, encoder: {cell: Conv, channels: 3}, decoder: {cell: convG2}}
  - {name: top, encoder: {cell: LSTM, channels: 3}, decoder: G1}
  - {name: class, encoder: {cell: SoftMax, channels: 3}, decoder: Identity}
tasks:
  digit: {kind: classification, at: encoder.class}
  next: {kind: prediction, at: decoder.input}
"""


@pytest.fixture(autouse=True)
def _compiler(one_thread):
    yield
    torch.compiler.reset()


GROUPS = """
input: {channels: 1, size: [6, 6], noise: {gaussian: 0.2}}
time: {frames: 4}
groups: {count: 3, variance: {learned: 0.3}}
levels:
  - name: lstm
    encoder: {cell: ConvLSTM, channels: 2, filter: 4, stride: 2, norm: batch}
    decoder: {cell: Readout, filter: 4}
  - {name: conv, encoder: {cell: Conv, channels: 2}, decoder: convG1}
  - {name: class, encoder: {cell: SoftMax, channels: 11}, decoder: G1}
tasks:
  digit: {kind: classification, at: encoder.class, none: last}
  segment: {kind: grouping, ahead: 1}
"""
BITS = """
input: {channels: 7, noise: {flip: 0.2}}
time: {iterations: 2}
groups: {count: 2, likelihood: bernoulli}
levels:
  - {name: h, encoder: {cell: FC, channels: 5}, decoder: Readout}
  - {name: class, encoder: {cell: SoftMax, channels: 11}, decoder: G1}
tasks: {digit: {kind: classification, at: encoder.class, none: last}, segment: {kind: grouping}}
"""


def small(text: str = SMALL) -> Net:
    net = build(loads(text))
    for _ in range(2):
        net(torch.rand(5, 4, *net.shape))
    return net.eval()


def stream(iterate, frames: Tensor, carry: Carry) -> dict[str, Tensor]:
    steps = []
    with torch.no_grad():
        for frame in frames.unbind(1):
            outputs, carry = iterate(frame, carry)
            steps.append(outputs)
    return {name: torch.stack([step[name] for step in steps], dim=1) for name in steps[0]}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", [SMALL, GROUPS], ids=["plain", "groups"])
@pytest.mark.parametrize("counts", ["numbers", "data"])
def test_one_iteration_is_one_graph(counts, text):
    """With t as data, one graph serves every t; the start of groups has its own strides."""
    net, frames = small(text), torch.rand(2, 4, 1, 6, 6)
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph

    carry = net.initial_carry(2)
    carry = carry._replace(t=torch.tensor(0)) if counts == "data" else carry
    iterate = torch.compile(net.iterate, fullgraph=True, backend=counted)
    same(stream(iterate, frames, carry), net(frames))
    most = (2 if net.groups else 1) if counts == "data" else 4
    assert (len(graphs) == most) if counts == "data" else (1 <= len(graphs) <= most)


SPECS = [
    "specs/ommnist/rladder_tiny.yaml",
    "specs/music/rladder_tiny.yaml",
    "specs/related/ladder_tiny.yaml",
    GROUPS,
    BITS,
]
NAMES = ["rladder", "music", "ladder", "groups", "groups of bits"]


def made(spec: str) -> Net:
    return build(loads(spec) if "\n" in spec else load(spec))


def targets_of(net: Net, batch: int) -> dict[str, Tensor]:
    return {"label": torch.arange(batch) % 10}


@pytest.mark.parametrize("path", SPECS, ids=NAMES)
@pytest.mark.parametrize("called", [False, True], ids=["cold", "after a call"])
def test_cost_and_backward_of_a_sequence_are_one_graph(path, called):
    compiled_cost_is_one_graph(path, called)


@pytest.mark.parametrize("text", [SMALL, GROUPS], ids=["plain", "groups"])
def test_a_checkpointed_cost_is_one_graph(text):
    compiled_cost_is_one_graph(text, False, checkpoint=1)


def compiled_cost_is_one_graph(path: str, called: bool, **options: int) -> None:
    """Cold and after a call: one graph, the same numbers, nothing compiled at the second call."""
    net, plain = (made(path).double() for _ in range(2))
    net.noise = plain.noise = None
    time = () if net.plan.iterations else (2,)
    frames, targets = torch.rand(3, *time, *net.shape).double(), targets_of(net, 3)
    if called:
        for each in (net, plain):
            torch.manual_seed(1)  # of the start of groups
            each.cost(frames, targets).total.backward()
            each.zero_grad()
    graphs = []
    aot = torch._dynamo.lookup_backend("aot_eager")

    def counted(graph, inputs):
        graphs.append(graph)
        return aot(graph, inputs)

    compiled = torch.compile(
        lambda *given: net.cost(*given, **options).total, fullgraph=True, backend=counted
    )
    for _ in range(2):
        torch.manual_seed(1)
        cost = compiled(frames, targets)
        torch.manual_seed(1)
        expected = plain.cost(frames, targets).total
        torch.testing.assert_close(cost, expected)
        cost.backward(), expected.backward()
    for (name, ours), theirs in zip(net.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=name)
    for ours, theirs in zip(net.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert len(graphs) == 1


@pytest.mark.parametrize("path", SPECS, ids=NAMES)
@pytest.mark.parametrize("called", [False, True], ids=["cold", "after a call"])
def test_forward_of_a_sequence_is_one_graph(path, called):
    net = made(path).eval()
    time = () if net.plan.iterations else (2,)
    frames = torch.rand(3, *time, *net.shape)
    if called:
        net(frames)
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(net, fullgraph=True, backend=counted)
    with torch.no_grad():
        for _ in range(2):
            same(compiled(frames), net(frames))
    assert len(graphs) == 1


@pytest.mark.parametrize("text", [SMALL, GROUPS], ids=["plain", "groups"])
def test_export_of_one_iteration_with_any_batch(text):
    net = small(text)
    frame, carry = torch.rand(2, 1, 6, 6), net.initial_carry(2)._replace(t=torch.tensor(0))
    batch = Dim("batch", min=1, max=512)
    shapes = _pytree.tree_map(lambda value: {0: batch} if value.dim() else None, (frame, carry))
    program = export(Iteration(net), (frame, carry), dynamic_shapes=shapes).module()
    for size in (1, 5):
        frames = torch.rand(size, 4, 1, 6, 6)
        start = net.initial_carry(size)._replace(t=torch.tensor(0))
        same(stream(program, frames, start), net(frames))


@pytest.mark.parametrize("text", [SMALL, GROUPS], ids=["plain", "groups"])
def test_export_of_a_whole_sequence_with_any_batch(text):
    net, example = small(text), torch.rand(2, 4, 1, 6, 6)
    batch = Dim("batch", min=2, max=512)
    program = export(Unrolled(net), (example,), dynamic_shapes=({0: batch},)).module()
    frames = torch.rand(5, 4, 1, 6, 6)
    same(program(frames), net(frames))


def test_what_is_exported_has_the_weights_of_the_network():
    net = small()
    for module in (Iteration(net), Unrolled(net)):
        ours, theirs = list(module.parameters()), list(net.parameters())
        assert all(a is b for a, b in zip(ours, theirs, strict=True))
        assert "weights.encoder/class/bias" in module.state_dict()


@pytest.mark.parametrize(
    "name", ["half", "to", "type", "apply", "forward", "modules", "state_dict"]
)
def test_levels_and_tasks_with_names_of_torch(name):
    text = SMALL.replace("name: conv,", f"name: {name},").replace("next: {", f"{name}: {{")
    net = build(loads(text)).eval()
    frames = torch.rand(2, 4, 1, 6, 6)
    same(export(Unrolled(net), (frames,)).module()(frames), net(frames))
    assert f"encoder.{name}.encoder.weight" in net.state_dict()


def test_a_task_of_several_nodes_with_a_name_of_torch():
    text = SMALL + "  train: {kind: denoising, at: 'decoder.*', target: plain, head: 1}\n"
    assert build(loads(text)).train().eval()


def test_names_that_torch_sets_are_refused():
    assert {name for name in vars(nn.Module()) if LEVEL_NAME.fullmatch(name)} == SET_BY_TORCH


RLADDER = "specs/ommnist/rladder_tiny.yaml"


@pytest.mark.parametrize(
    "spec",
    [
        load(RLADDER),
        load(RLADDER, "no_decoder_to_encoder"),
        load(RLADDER, "temporal_baseline"),
        loads(GROUPS),
        loads(BITS),
    ],
    ids=["rladder", "no_decoder_to_encoder", "temporal_baseline", "groups", "groups of bits"],
)
def test_autocast(spec):
    net = build(spec)
    net.noise = None
    time = () if net.plan.iterations else (5,)
    frames, label = torch.rand(6, *time, *net.shape), torch.arange(6)
    torch.manual_seed(1)
    plain = net.cost(frames, label).total
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cost = net.cost(frames, label).total
    cost.backward()
    torch.testing.assert_close(cost, plain, rtol=0.05, atol=0.05)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
