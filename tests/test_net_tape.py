"""Calls that are written down give what plain ones give, and see what changes."""

from __future__ import annotations

import copy
import gc
import linecache
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor, nn
from torch.autograd import forward_ad

import ladderspec as ls
from ladderspec.network import engine, tape
from ladderspec.network import net as network
from ladderspec.network.net import Net
from ladderspec.network.steps import Step
from ladderspec.nn import BatchNorm, _arrow, _few, _fused
from ladderspec.schedule.phases import Kind
from tests.random_specs import sizes_of, specs
from tests.test_net_cost import targets_of

pytestmark = pytest.mark.usefixtures("one_thread")

SPECS = sorted(Path("specs").rglob("*_tiny.yaml"))
SPEC = """
input: {channels: 1, size: [8, 8]}
time: {frames: 2}
levels:
  - {name: a, encoder: {cell: Conv, channels: 3}, decoder: {cell: convG3, filter: 3}}
  - {name: b, encoder: {cell: ConvLSTM, channels: 2}, decoder: {cell: convG3, filter: 3}}
edges: {decoder_to_encoder: {delay: 2}}
tasks:
  digit: {kind: classification, at: encoder.b, head: 3}
  next_frame: {kind: prediction, at: decoder.input}
"""


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(tape, "OFTEN", 1)


def net_of(spec: Any) -> Net:
    """In evaluation, with weights and statistics that are not those of the start."""
    net = ls.build(spec, seed=0).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for x in (*net.parameters(), *net.buffers()):
            x.add_(0.1 * torch.rand(x.shape, generator=draw, dtype=x.dtype))
    return net


def written(net: Net) -> dict[Any, tape.Tape]:
    """All its tapes."""
    return {} if net.tapes.make is None else net.tapes.make.tapes


def small() -> Net:
    return net_of(ls.loads(SPEC))


def stream(net: Net, step: Callable[..., Any], batch: int = 2, length: int = 5) -> list[Tensor]:
    """All that comes out over some iterations, and the last carry."""
    draw = torch.Generator().manual_seed(1)
    carry, found = net.initial_carry(batch), []
    for _ in range(length):
        frame = torch.rand(batch, *net.shape, generator=draw).to(next(net.parameters()).dtype)
        outputs, carry = step(frame, carry)
        for seen in outputs.values():
            found += seen.values() if isinstance(seen, dict) else [seen]
    assert carry.t == length
    return found + [value for kept in carry.values.values() for value in kept]


@torch.no_grad()
def check(net: Net) -> None:
    """Plainly, while it is written down, and from the tape: bit by bit the same."""
    plain = stream(net, net._iterate)
    for _ in range(4):
        for ours, theirs in zip(stream(net, net.iterate), plain, strict=True):
            assert torch.equal(ours, theirs)


@torch.no_grad()
def warm(net: Net) -> Net:
    for _ in range(3):
        stream(net, net.iterate)
    assert written(net)
    return net


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs(path: Path) -> None:
    for variant in (None, *ls.load(path).variants):
        net = net_of(ls.load(path, variant=variant))
        check(net)
        assert written(net)


@settings(deadline=None, max_examples=60, derandomize=True, phases=[Phase.generate])
@given(specs())
def test_random_specs(spec: Any) -> None:
    net = net_of(spec)
    if max(sizes_of(net.graph).values()) < 20_000:
        check(net)


def test_gates_in_few_passes() -> None:
    net = net_of(ls.loads(SPEC))
    with torch.no_grad():
        plain = stream(net, net._iterate, batch=64)
        for _ in range(3):
            assert all(map(torch.equal, stream(net, net.iterate, batch=64), plain))
    assert written(net)


def test_a_stream_of_its_own_length_has_a_tape_for_every_set_of_statistics() -> None:
    net = warm(small())
    assert len(written(net)) == 2  # t = 1, and t = 2 with all that follow
    assert all(isinstance(each, tape.Tape) for each in written(net).values())


def test_few_iterations_are_not_written_down(monkeypatch) -> None:
    monkeypatch.setattr(tape, "OFTEN", 8)
    net = small()
    with torch.no_grad():
        stream(net, net.iterate, length=8)
        assert not written(net)
        stream(net, net.iterate, length=10)
        assert written(net)


# --- what changes is seen ------------------------------------------------------------------------


def _weights(net: Net) -> None:
    with torch.no_grad():
        net.get_parameter("encoder.a.encoder.weight").mul_(2)


def _unnormalised(net: Net) -> None:
    with torch.no_grad():
        net.get_parameter("encoder.b.state.weight").mul_(-1)


def _parameter(net: Net) -> None:
    arrow = net.get_submodule("encoder.a.encoder")
    arrow.weight = nn.Parameter(arrow.weight * 2)


def _behind_its_back(net: Net) -> None:
    rows = net.get_submodule("encoder.a.encoder")._parameters
    rows["weight"] = nn.Parameter(rows["weight"] * 2)


def _statistics(net: Net) -> None:
    net.get_buffer("encoder.a.encoder.norm.running_mean").add_(1)


def _state(net: Net) -> None:
    net.load_state_dict({name: 2 * value for name, value in net.state_dict().items()})


def _activation(net: Net) -> None:
    net.get_submodule("encoder.a").activation = torch.tanh


def _groups(net: Net) -> None:
    net.get_submodule("encoder.b.encoder").norm.groups = 2


def _module(net: Net) -> None:
    other = ls.build(ls.loads(SPEC), seed=5).eval()
    net.get_submodule("encoder")._modules["a"] = other.get_submodule("encoder.a")


def _offset(net: Net) -> None:
    net.set_offset(0.7)


def _double(net: Net) -> None:
    net.double()


def _data(net: Net) -> None:
    net.get_parameter("encoder.a.encoder.weight").data.mul_(3)
    net.float()  # what was made from weights is made anew where a module moves, or turns


def _adapted(net: Net) -> None:
    """Running statistics that follow new frames, while all else is in evaluation."""
    norm = net.get_submodule("encoder.a.encoder.norm")
    norm.train()
    with torch.no_grad():
        stream(net, net.iterate)
    norm.eval()


def _learnt(net: Net) -> None:
    """In evaluation, by an optimiser that changes weights uncounted."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, fused=True)
    frames = torch.rand(2, 2, 1, 8, 8)
    net.cost(frames, targets_of(net, frames)).total.backward()
    optimiser.step()


CHANGES = [
    _weights, _unnormalised, _parameter, _behind_its_back, _statistics, _state, _activation,
    _groups, _module, _offset, _double, _data, _adapted, _learnt,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_is_seen(change: Callable[[Net], None]) -> None:
    net = warm(small())
    before = stream(net, net._iterate)
    change(net)
    after = stream(net, net._iterate)
    assert any(not torch.equal(a, b.to(a.dtype)) for a, b in zip(after, before, strict=True))
    check(net)
    assert written(net)


def test_hooks_are_called_and_may_leave_again() -> None:
    net, seen = warm(small()), []
    with torch.no_grad():
        with net.get_submodule("encoder.b").register_forward_hook(lambda *_: seen.append(1)):
            stream(net, net.iterate)
        assert len(seen) == 5
        with nn.modules.module.register_module_forward_hook(lambda *_: seen.append(2)):
            stream(net, net.iterate)
        assert 2 in seen
    check(warm(net))


def test_streams_in_training_are_never_written_down() -> None:
    """Each one moves the running statistics, from which evaluation makes its weights."""
    net = warm(small()).train()
    with torch.no_grad():
        before = len(written(net))
        means = net.get_buffer("encoder.a.encoder.norm.running_mean")
        old = means.clone()
        for _ in range(4):
            stream(net, net.iterate)
    assert len(written(net)) == before
    assert not torch.equal(old, means)
    check(net.eval())


def test_gradients_flow_after_a_tape() -> None:
    net = warm(small())
    outputs, _ = net.iterate(torch.rand(2, 1, 8, 8), net.initial_carry(2))
    outputs["next_frame"].sum().backward()
    assert net.get_parameter("encoder.a.encoder.weight").grad is not None


def test_a_cell_with_a_forward_of_its_own_is_called() -> None:
    net, calls = warm(small()), []
    cell = net.get_submodule("encoder.a")
    plain = cell.forward
    cell.forward = lambda *args: calls.append(1) or plain(*args)
    with torch.no_grad():
        stream(net, net.iterate)
    assert len(calls) == 5
    assert not written(net)


@pytest.mark.parametrize("name", ["activation", "join", "project"])
def test_what_users_write_is_called(name: str) -> None:
    """Their Python may look at numbers, or at anything else."""
    net, calls = warm(small()), []
    cell = net.get_submodule("encoder.a")
    plain = getattr(cell, name)
    setattr(cell, name, lambda *args: calls.append(1) or plain(*args))
    check(net)
    assert len(calls) == 5 * 5
    assert not written(net)


def test_a_weight_that_is_no_parameter_is_read_every_time() -> None:
    net = small()
    arrow = net.get_submodule("encoder.a.encoder")
    weight = arrow.weight.detach().clone()
    del arrow.weight
    arrow.weight = weight
    check(net)
    weight.mul_(3)
    check(net)


def test_what_was_made_in_inference_mode_runs() -> None:
    with torch.inference_mode():
        net = small()
        check(net)


def test_a_network_that_is_ours_again_is_written_down_again() -> None:
    net = small()
    cell = net.get_submodule("encoder.a")
    cell.forward = cell.forward
    check(net)
    assert not written(net)
    del cell.forward
    for _ in range(4):
        check(net)
    assert written(net)


def test_noise_of_a_network_in_training_is_drawn() -> None:
    net = warm(net_of(ls.loads(SPEC.replace("input: {", "input: {noise: {gaussian: 0.5}, "))))
    net.training = True
    with torch.no_grad():
        one, other = stream(net, net.iterate), stream(net, net.iterate)
    assert not torch.equal(one[0], other[0])


def test_old_tapes_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "MOST", 3)
    net = small()
    with torch.no_grad():
        for batch in (1, 2, 3, 4):
            for _ in range(4):
                stream(net, net.iterate, batch)
        assert len(written(net)) == 3
        assert {key[2][1][0] for key in written(net)} == {3, 4}
    check(net)


def test_nothing_is_left_of_a_tape_that_was_thrown_away() -> None:
    net = warm(small())
    before = len(linecache.cache)
    tapes = [weakref.ref(each) for each in written(net).values()]
    for _ in range(5):
        _activation(net)
        warm(net)
    gc.collect()
    assert not any(each() for each in tapes)
    assert len(linecache.cache) == before


def test_autocast_is_asked_for_every_time() -> None:
    net = warm(small())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = stream(net, net.iterate)
        assert all(map(torch.equal, found, stream(net, net._iterate)))
    assert not all(map(torch.equal, found, stream(net, net._iterate)))


# --- training ------------------------------------------------------------------------------------


def plainly(net: Net) -> Net:
    """A network that writes nothing down."""
    net.tapes.player = lambda *_, **__: None  # type: ignore[method-assign]
    return net


def learn(net: Net, updates: int = 5, **options: Any) -> list[Tensor]:
    """Some updates; what they cost, and all weights and statistics at the end."""
    draw = torch.Generator().manual_seed(2)
    torch.manual_seed(3)
    found = []
    for _ in range(updates):
        time = () if net.plan.iterations else (min(net.plan.length or 4, 4),)
        frames = torch.rand(4, *time, *net.shape, generator=draw)
        costs = net.cost(frames, targets_of(net, frames), **options)
        net.zero_grad()
        costs.total.backward()
        found += [costs.total.detach(), *(cost.detach() for cost in costs.values())]
        with torch.no_grad():
            for parameter in net.parameters():
                if parameter.grad is not None:
                    parameter.sub_(1e-3 * parameter.grad)
    return found + list(net.state_dict().values())


def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other) or (one.isnan().all() and other.isnan().all())


def check_learning(spec: Any, before: Callable[[Net], object] = lambda net: None) -> None:
    """From the tape and plainly: bit by bit the same."""
    ours, theirs = (ls.build(spec, seed=0) for _ in range(2))
    before(ours)
    before(theirs)
    same(learn(ours), learn(plainly(theirs)))
    assert written(ours)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_learn(path: Path) -> None:
    for variant in (None, *ls.load(path).variants):
        check_learning(ls.load(path, variant=variant))


def test_larger_maps_learn() -> None:
    """With the gates of ConvLSTM and convG3 in one call each."""
    spec = ls.load("specs/ommnist/rladder.yaml", set={"params.width": 8})
    check_learning(spec)


def test_norms_of_few_numbers_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_few, "MANY", 0)
    for path in ("specs/ommnist/rladder_tiny.yaml", "specs/music/rladder_tiny.yaml"):
        check_learning(ls.load(path, set={"params.width": 5}))


@settings(deadline=None, max_examples=40, derandomize=True, phases=[Phase.generate])
@given(specs())
def test_random_specs_learn(spec: Any) -> None:
    net = ls.build(spec, seed=0)
    small = max(sizes_of(net.graph).values()) < 20_000
    if small and net.tasks and not net.plan.iterations and net.plan.length != "any":
        check_learning(spec)


def test_frozen_parts_and_parts_in_evaluation_stay() -> None:
    def freeze(net: Net) -> None:
        net.get_submodule("encoder.a").requires_grad_(False).eval()

    check_learning(ls.loads(SPEC), freeze)


def test_noise_is_drawn_every_time() -> None:
    spec = ls.loads(SPEC.replace("input: {", "input: {noise: {gaussian: 0.3}, "))
    check_learning(spec)


def test_evaluation_in_between_changes_nothing() -> None:
    ours, theirs = ls.build(ls.loads(SPEC), seed=0), plainly(ls.build(ls.loads(SPEC), seed=0))
    for net in (ours, theirs):
        learn(net)
        net.eval()
        with torch.no_grad():
            stream(net, net.iterate)
        net.train()
    before = dict(written(ours))
    for one, other in zip(learn(ours), learn(theirs), strict=True):
        assert torch.equal(one, other)
    assert before.items() <= written(ours).items()  # what is written down stays


def test_tasks_and_weights_may_change() -> None:
    ours, theirs = ls.build(ls.loads(SPEC), seed=0), plainly(ls.build(ls.loads(SPEC), seed=0))
    for options in ({}, {"tasks": ["digit"]}, {"weights": {"digit": 3.0}}, {"checkpoint": 1}, {}):
        for one, other in zip(learn(ours, **options), learn(theirs, **options), strict=True):
            assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # where no input learns
def test_hooks_of_the_backward_pass_are_called() -> None:
    net = ls.build(ls.loads(SPEC), seed=0)
    learn(net)
    calls: list[int] = []
    hooks = [
        net.get_submodule("encoder.b").register_full_backward_pre_hook(lambda *_: calls.append(1)),
        net.get_submodule("task.digit").register_full_backward_hook(lambda *_: calls.append(2)),
    ]
    learn(net)
    assert calls.count(1) >= 5
    assert calls.count(2) == 5
    for hook in hooks:
        hook.remove()


def test_what_is_the_same_at_every_t_is_asked_for_every_time() -> None:
    """It follows from the numbers of running statistics, where norms are in evaluation."""
    spec = ls.loads("""
input: {channels: 4}
time: {iterations: 3}
levels:
  - {name: a, encoder: {cell: FC, channels: 5, norm: batch, statistics: per_iteration}, decoder: G1}
  - {name: b, encoder: {cell: LSTM, channels: 3}, decoder: G1}
tasks: {digit: {kind: classification, at: encoder.b}}
""")
    ours, theirs = ls.build(spec, seed=0), plainly(ls.build(spec, seed=0))
    for net in (ours, theirs):
        net.get_submodule("encoder").eval()
        learn(net)
        with torch.no_grad():
            for mean in (b for name, b in net.named_buffers() if name.endswith("running_mean")):
                mean.copy_(torch.linspace(-1, 1, mean.numel()).view_as(mean))
    for one, other in zip(learn(ours), learn(theirs), strict=True):
        assert torch.equal(one, other)


def test_streams_between_updates_see_every_update() -> None:
    """Also where batch norms stay in evaluation, and the optimiser counts nothing."""
    found = []
    for net in (ls.build(ls.loads(SPEC), seed=0), plainly(ls.build(ls.loads(SPEC), seed=0))):
        for part in net.modules():
            if isinstance(part, BatchNorm):
                part.eval()
        optimiser = torch.optim.Adam(net.parameters(), lr=0.05, fused=True)
        frames = torch.rand(4, 2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        labels = torch.zeros(4, 8, 8).long()
        for _ in range(6):
            optimiser.zero_grad()
            net.cost(frames, labels).total.backward()
            optimiser.step()
            with torch.no_grad():
                outputs, _ = net.iterate(frames[:, 0], net.initial_carry(4))
            found.append(outputs["next_frame"])
    assert all(map(torch.equal, found[:6], found[6:]))


def test_numbers_that_change_often_are_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "OFTEN", 4)
    net = small()
    with torch.no_grad():
        for _ in range(10):
            for _ in range(3):
                net.iterate(torch.rand(2, 1, 8, 8), net.initial_carry(2))
            _weights(net)
    assert not written(net)


def test_recording_keeps_no_value_for_longer_than_needed() -> None:
    alive: list[weakref.ref[Tensor]] = []

    def plain(x: Tensor) -> Tensor:
        for _ in range(5):
            x = x + 1
            alive.append(weakref.ref(x))
        assert sum(each() is not None for each in alive) == 1
        return x

    found, again = tape.record(plain, (torch.zeros(2),), ())
    assert torch.equal(found, again(torch.zeros(2)))


def test_anomalies_are_found_where_they_are() -> None:
    net = ls.build(ls.loads(SPEC), seed=0)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        learn(net)
    assert not written(net)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own tangents
def test_tangents_are_there() -> None:
    net = ls.build(
        ls.loads("""
input: {channels: 4}
time: {frames: 2}
levels: [{name: a, encoder: {cell: FC, channels: 3, norm: none}}]
tasks: {digit: {kind: classification, at: encoder.a}}
""")
    )
    frames, labels = torch.rand(4, 2, 4), torch.zeros(4).long()
    with forward_ad.dual_level():
        moving = forward_ad.make_dual(frames, torch.ones_like(frames))
        for _ in range(4):
            cost = net.cost(moving, labels).total
            assert forward_ad.unpack_dual(cost).tangent is not None
    assert not written(net)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own tangents
def test_tangents_are_those_of_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fused, and channels-last layer norms are no obstacle."""
    monkeypatch.setattr(_fused, "FEW", 0)
    monkeypatch.setattr(_few, "MANY", 0)
    net = ls.build(ls.loads(SPEC), seed=0)
    learn(net)
    net = net.double()
    frames, way = torch.rand(2, 4, 2, 1, 8, 8, dtype=torch.float64).unbind()
    labels = {"label": torch.zeros(4, 8, 8).long()}
    with forward_ad.dual_level():
        moving = forward_ad.make_dual(frames, way)
        tangent = forward_ad.unpack_dual(net.cost(moving, labels).total).tangent
    ends = [net.cost(frames + step * way, labels).total for step in (-1e-6, 1e-6)]
    torch.testing.assert_close(tangent, (ends[1] - ends[0]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_gradients_of_frames_are_there() -> None:
    net = ls.build(ls.loads(SPEC), seed=0)
    learn(net)
    frames = torch.rand(4, 2, 1, 8, 8, requires_grad=True)
    net.cost(frames, {"label": torch.zeros(4, 8, 8).long()}).total.backward()
    assert frames.grad is not None


def test_mistakes_are_told_as_before() -> None:
    net = ls.build(ls.loads(SPEC), seed=0)
    learn(net)
    with pytest.raises(ValueError, match="labels are from 0 to 2"):
        net.cost(torch.rand(4, 2, 1, 8, 8), {"label": torch.full((4, 8, 8), 7)})


# --- one t after the other -----------------------------------------------------------------------


@pytest.fixture
def _t_by_t(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with long sequences, with all that these do otherwise."""
    monkeypatch.setattr(network, "LONG", 1)
    monkeypatch.setattr(engine, "LONG", 1)
    monkeypatch.setattr(_arrow, "HEAVY", 0)


def is_one_t(key: Any) -> bool:
    return isinstance(key[0][0], tuple) and all(isinstance(step, Step) for step in key[0][0])


def check_long(spec: Any) -> None:
    """From tapes of single t and plainly, learning and in evaluation: bit by bit the same."""
    ours, theirs = ls.build(spec, seed=0), plainly(ls.build(spec, seed=0))
    has_ends = not ours.plan.iterations and ours.plan.length not in (1, 2, 3)
    for options in ({}, {"lengths": [4, 2, 4, 1]} if has_ends else {}):
        same(learn(ours, **options), learn(theirs, **options))
    parts = {id(x) for x in (*ours.parameters(), *ours.buffers())}
    for key, each in written(ours).items():
        assert is_one_t(key)
        assert {id(x) for x in each.constants} <= parts, "a value of one call is on the tape"
    before = len(written(ours))
    frames = torch.rand(4, *(() if ours.plan.iterations else (4,)), *ours.shape)
    nodes = list(ours.engine.layout.steps)
    ours.eval()
    theirs.eval()
    with torch.no_grad():
        for _ in range(4):
            one, other = ours.values(frames, nodes), theirs.values(frames, nodes)
            same(list(one.values()), list(other.values()))
    for each in written(ours).values():
        assert {id(x) for x in each.constants} <= parts
    loops = any(phase.kind is Kind.LOOP for phase in ours.plan.phases)
    assert len(written(ours)) > before or not loops


@pytest.mark.usefixtures("_t_by_t")
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_learn_t_by_t(path: Path) -> None:
    for variant in (None, *ls.load(path).variants):
        check_long(ls.load(path, variant=variant))


@pytest.mark.usefixtures("_t_by_t")
@settings(deadline=None, max_examples=40, derandomize=True, phases=[Phase.generate])
@given(specs())
def test_random_specs_learn_t_by_t(spec: Any) -> None:
    net = ls.build(spec, seed=0)
    if max(sizes_of(net.graph).values()) < 20_000 and net.tasks:
        check_long(spec)


def test_long_sequences_learn_in_chunks() -> None:
    """What is carried may bring gradients, or not."""
    spec, found = ls.load("specs/music/rladder_tiny.yaml"), []
    frames = torch.rand(3, 40, 1, 1, 88, generator=torch.Generator().manual_seed(0))
    for net in (ls.build(spec, seed=0), plainly(ls.build(spec, seed=0))):
        carry, total = net.initial_carry(3), 0
        for i, chunk in enumerate(frames.split(10, dim=1)):
            costs = net.cost(chunk, carry=carry)
            total = total + costs.total
            carry = costs.carry if i % 2 else costs.carry.detach()
        total.backward()
        found.append([total.detach(), *(p.grad for p in net.parameters())])
        assert bool(written(net)) is (len(found) == 1)
    same(*found)


def test_sequences_of_any_length_share_their_tapes() -> None:
    net = ls.build(ls.load("specs/music/rladder_tiny.yaml"), seed=0)
    found = []
    for length in (10, 11, 12, 30, 17):
        net.cost(torch.rand(3, length, 1, 1, 88), lengths=[length, 9, 8]).total.backward()
        found.append(dict(written(net)))
    assert not found[0]  # it may be the only call
    assert len(found[1]) == 2  # the first t, and all others
    assert found[1] == found[2] == found[3] == found[4]


@torch.no_grad()
@pytest.mark.parametrize("long", [True, False])
def test_evaluation_sees_every_update_and_is_written_down_once(long: bool) -> None:
    net = ls.build(ls.load("specs/ommnist/rladder_tiny.yaml"), seed=0).eval()
    frames = torch.rand(2, 9 if long else 5, *net.shape)
    targets = targets_of(net, frames)
    known = None
    for change in (None, None, None, _louder, _louder_data, _shifted, _shifted):
        if change is not None:
            known = known or dict(written(net))
            change(net)
        ours, theirs = (
            twin.cost(frames, targets).total for twin in (net, plainly(copy.deepcopy(net)))
        )
        assert torch.equal(ours, theirs)
    assert known
    assert written(net) == known


def _louder(net: Net) -> None:
    for parameter in net.parameters():
        parameter.mul_(1.1)


def _louder_data(net: Net) -> None:
    for parameter in net.parameters():
        parameter.data.mul_(1.1)


def _shifted(net: Net) -> None:
    for buffer in net.buffers():
        buffer.add_(0.1)


def test_other_weights_for_one_call_are_not_kept() -> None:
    net = ls.build(ls.load("specs/music/rladder_tiny.yaml"), seed=0)
    frames = torch.rand(2, 9, *net.shape)
    for _ in range(4):
        weights = {name: 1.1 * p.detach() for name, p in net.named_parameters()}
        watched = [weakref.ref(weight) for weight in weights.values()]
        found = torch.func.functional_call(net, weights, (frames,))["next_notes"]
        twin = plainly(ls.build(ls.load("specs/music/rladder_tiny.yaml"), seed=0))
        twin.load_state_dict(weights, strict=False)
        torch.testing.assert_close(found, twin(frames)["next_notes"].detach())
        del weights, found
        gc.collect()
        assert not any(each() is not None for each in watched)
    assert not written(net)


@torch.no_grad()
def test_where_nobody_can_listen_nothing_is_written_down() -> None:
    """Inside the functions of a tensor's subclass, or of somebody who looks on."""
    net = small()
    frames = torch.rand(2, 9, 1, 8, 8)
    wanted = plainly(copy.deepcopy(net))(frames)["digit"]
    with torch._C.DisableTorchFunction():
        for _ in range(4):
            assert torch.equal(net(frames)["digit"], wanted)
            check(net)
    assert not written(net)
    check(net)
    assert written(net)


def test_too_many_kinds_are_written_down_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "MOST", 2)
    records = []
    plain = tape.record
    monkeypatch.setattr(tape, "record", lambda *args: records.append(1) or plain(*args))
    net = small()
    with torch.no_grad():
        for _ in range(100):
            for batch in (1, 2, 3):
                net.iterate(torch.rand(batch, 1, 8, 8), net.initial_carry(batch))
    assert len(records) < 50


def test_no_value_of_a_long_sequence_is_kept() -> None:
    net = ls.build(ls.load("specs/music/rladder_tiny.yaml"), seed=0)
    frames = torch.rand(3, 20, 1, 1, 88)
    for _ in range(3):
        total = net.cost(frames).total
        total.backward()
    assert written(net)
    watched = [weakref.ref(frames), weakref.ref(total)]
    del frames, total
    gc.collect()
    assert not any(each() is not None for each in watched)


# --- what comes in -------------------------------------------------------------------------------


@torch.no_grad()
def test_frames_and_carries_may_lie_in_memory_as_they_like() -> None:
    net = warm(small())
    carry = net.initial_carry(2)
    frame = torch.rand(2, 8, 8, 1)
    _, carry = net._iterate(frame.permute(0, 3, 1, 2), carry)
    mixed = dict(reversed(carry.values.items()))
    for each in (frame.permute(0, 3, 1, 2), frame.transpose(1, 2).permute(0, 3, 2, 1)):
        ours = net.iterate(each, carry._replace(values=mixed))
        theirs = net._iterate(each.contiguous(), carry)
        assert torch.equal(ours[0]["digit"], theirs[0]["digit"])


@torch.no_grad()
def test_one_tensor_may_be_carried_under_two_names() -> None:
    net = small()
    carry, frame = net.initial_carry(2), torch.rand(2, 1, 8, 8)
    same, other = torch.rand(2, 2, 8, 8), torch.rand(2, 2, 8, 8)
    alike = carry._replace(values=carry.values | {"encoder.b": (same,), "encoder.b.c": (same,)})
    apart = carry._replace(values=carry.values | {"encoder.b": (same,), "encoder.b.c": (other,)})
    for each in [alike] * 3 + [apart] * 2:  # written down with one, repeated with the other
        ours, theirs = net.iterate(frame, each), net._iterate(frame, each)
        assert torch.equal(ours[0]["digit"], theirs[0]["digit"])
    assert written(net)


def test_copies_and_pickles_write_their_own() -> None:
    net = warm(small())
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert not written(twin)
        _weights(twin)
        check(twin)
    check(net)


@torch.no_grad()
def test_no_value_is_kept() -> None:
    net = warm(small())
    frame = torch.rand(2, 1, 8, 8)
    outputs, carry = net.iterate(frame, net.initial_carry(2))
    watched = [weakref.ref(frame), *map(weakref.ref, outputs.values())]
    watched += [weakref.ref(value) for kept in carry.values.values() for value in kept]
    del frame, outputs, carry
    gc.collect()
    assert not any(each() is not None for each in watched)
