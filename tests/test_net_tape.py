"""Iterations that are written down give what plain ones give, as long as nothing changes."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor, nn

import ladderspec as ls
from ladderspec.network import tape
from ladderspec.network.net import Net
from tests.random_specs import sizes_of, specs

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
  label: {kind: classification, at: encoder.b, head: 3}
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
    assert net.tapes.tapes
    return net


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs(path: Path) -> None:
    for variant in (None, *ls.load(path).variants):
        net = net_of(ls.load(path, variant=variant))
        check(net)
        assert net.tapes.tapes


@settings(deadline=None, max_examples=60, derandomize=True, phases=[Phase.generate])
@given(specs())
def test_random_specs(spec: Any) -> None:
    net = net_of(spec)
    if max(sizes_of(net.graph).values()) < 20_000:
        check(net)


def test_a_stream_of_its_own_length_has_a_tape_for_every_set_of_statistics() -> None:
    net = warm(small())
    assert len(net.tapes.tapes) == 2  # t = 1, and t = 2 with all that follow
    assert all(isinstance(each, tape.Tape) for each in net.tapes.tapes.values())


def test_few_iterations_are_not_written_down(monkeypatch) -> None:
    monkeypatch.setattr(tape, "OFTEN", 8)
    net = small()
    with torch.no_grad():
        stream(net, net.iterate, length=8)
        assert not net.tapes.tapes
        stream(net, net.iterate, length=10)
        assert net.tapes.tapes


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


CHANGES = [
    _weights, _unnormalised, _parameter, _behind_its_back, _statistics, _state, _activation,
    _groups, _module, _offset, _double,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_is_seen(change: Callable[[Net], None]) -> None:
    net = warm(small())
    before = stream(net, net._iterate)
    change(net)
    after = stream(net, net._iterate)
    assert any(not torch.equal(a, b.to(a.dtype)) for a, b in zip(after, before, strict=True))
    check(net)
    assert net.tapes.tapes


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


def test_training_is_never_written_down() -> None:
    net = warm(small()).train()
    with torch.no_grad():
        before = net.get_buffer("encoder.a.encoder.norm.running_mean").clone()
        stream(net, net.iterate)
    assert not net.tapes.tapes
    assert not torch.equal(before, net.get_buffer("encoder.a.encoder.norm.running_mean"))


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
    assert not net.tapes.tapes


def test_autocast_is_asked_for_every_time() -> None:
    net = warm(small())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = stream(net, net.iterate)
        assert all(map(torch.equal, found, stream(net, net._iterate)))
    assert not all(map(torch.equal, found, stream(net, net._iterate)))


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
        assert torch.equal(ours[0]["label"], theirs[0]["label"])


@torch.no_grad()
def test_one_tensor_may_be_carried_under_two_names() -> None:
    net = warm(small())
    carry, frame = net.initial_carry(2), torch.rand(2, 1, 8, 8)
    same = torch.rand(2, 2, 8, 8)
    alike = carry._replace(values=carry.values | {"encoder.b": (same,), "encoder.b.c": (same,)})
    for each in [alike] * 3 + [carry] * 2:  # written down with one, repeated with the other
        ours, theirs = net.iterate(frame, each), net._iterate(frame, each)
        assert torch.equal(ours[0]["label"], theirs[0]["label"])


def test_copies_and_pickles_write_their_own() -> None:
    net = warm(small())
    twin = copy.deepcopy(net)
    assert not twin.tapes.tapes
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
