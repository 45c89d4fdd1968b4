"""Time: chunks, streaming, unequal lengths, closed loops, few and many iterations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ladderspec.api import build, load, loads
from ladderspec.language.read import Spec
from ladderspec.names import BOTTOM
from ladderspec.network.history import Carry
from ladderspec.network.inputs import Given
from ladderspec.network.net import Net
from tests.network.test_equality import _float64, by_node, close, frames_of, pair_of  # noqa: F401
from tests.random_specs import specs

OMMNIST = "specs/ommnist/rladder_tiny.yaml"
MUSIC = "specs/music/rladder_tiny.yaml"
SOME = settings(deadline=None, max_examples=40, derandomize=True, phases=[Phase.generate])


def trained(spec: Spec) -> Net:
    """In evaluation, with running statistics that differ from t to t."""
    net, _ = pair_of(spec)
    for _ in range(2):
        net(frames_of(net, length=5))
    return net.eval()


def same_carry(ours: Carry, theirs: Carry, rows: slice = slice(None)) -> None:
    assert ours.values.keys() == theirs.values.keys()
    for name, kept in ours.values.items():
        for value, expected in zip(kept, theirs.values[name], strict=True):
            close(value[rows], expected, f"carry of {name}")


def over_frames(net: Net) -> bool:
    return not net.plan.iterations


def test_in_training_too_values_that_no_later_t_reads_are_let_go() -> None:
    net = build(load(OMMNIST))
    given = Given({BOTTOM: torch.rand(2, 5, *net.shape)}, 5, None, None)
    call = net.executor.call(given)
    history = net.executor.run(given, call)
    for name, slot in net.executor.slots.items():
        there = [value is not None for value in history.rows[name]]
        wanted = 5 if name in call.kept else slot.depth
        assert there == [False] * (len(there) - wanted) + [True] * wanted, name


@given(specs(), st.lists(st.integers(1, 3), min_size=2, max_size=3))
@SOME
def test_chunks_with_carried_state_equal_the_whole(spec, sizes):
    net = trained(spec)
    if not over_frames(net):
        return
    with torch.no_grad():
        frames = torch.rand(2, sum(sizes), *net.shape)
        whole, carry, parts = net(frames), None, []
        for chunk in frames.split(sizes, dim=1):
            out = net(chunk, carry=carry)
            parts.append(by_node(net, out))
            carry = out.carry
        for name, seen in by_node(net, whole).items():
            for node, value in seen.items():
                joined = torch.cat([part[name][node] for part in parts], dim=1)
                close(joined, value, f"{name} at {node}")
        same_carry(carry, whole.carry)
        assert carry.t == whole.carry.t == sum(sizes)


@given(specs())
@SOME
def test_streaming_equals_the_whole(spec):
    net = trained(spec)
    with torch.no_grad():
        frames = frames_of(net, batch=2)
        whole, carry = net(frames), net.initial_carry(2)
        for t in range(whole.carry.t):
            frame = frames[:, t] if over_frames(net) else frames
            outputs, carry = net.iterate(frame, carry)
            for name, seen in by_node(net, outputs).items():
                for node, value in seen.items():
                    close(value, by_node(net, whole)[name][node][:, t], f"{name} at t = {t + 1}")
        same_carry(carry, whole.carry)


@given(specs())
@SOME
def test_unequal_lengths_equal_one_by_one_in_evaluation(spec):
    net = trained(spec)
    if not over_frames(net):
        return
    with torch.no_grad():
        frames, lengths = torch.rand(3, 4, *net.shape), [2, 4, 1]
        more = torch.rand(3, 2, *net.shape)
        together = net(frames, torch.tensor(lengths))
        later = net(more, carry=together.carry)
        for b, length in enumerate(lengths):
            alone = net(frames[b : b + 1, :length])
            for name, seen in by_node(net, alone).items():
                for node, value in seen.items():
                    ours = by_node(net, together)[name][node][b : b + 1, :length]
                    close(ours, value, f"{name} of sequence {b}")
            same_carry(together.carry, alone.carry, slice(b, b + 1))
            assert together.carry.t[b] == alone.carry.t
            alone = net(more[b : b + 1], carry=alone.carry)
            for name, seen in by_node(net, alone).items():
                for node, value in seen.items():
                    ours = by_node(net, later)[name][node][b : b + 1]
                    close(ours, value, f"{name} of sequence {b}, later")


def test_in_training_statistics_come_from_who_is_alive():
    """A dead sequence says nothing to the others; from its end on it is as if it were not there."""
    spec = load(OMMNIST)
    whole, part = (pair_of(spec)[0] for _ in range(2))
    part.load_state_dict(whole.state_dict())
    frames = torch.rand(5, 3, *whole.shape)
    junk = frames.clone()
    junk[4, 2:] = 7.0
    a = whole(frames, [3, 3, 3, 3, 2])
    b = part(junk, [3, 3, 3, 3, 2])
    close(a["digit"][:4], b["digit"][:4], "those alive")
    for name, buffer in whole.named_buffers():
        close(dict(part.named_buffers())[name], buffer, name)
    four, _ = pair_of(spec)
    four.load_state_dict(whole.state_dict())
    assert not torch.equal(a["digit"][0, 2], whole(frames)["digit"][0, 2])


def test_one_frame_and_a_thousand():
    for path in (OMMNIST, MUSIC):
        net = trained(load(path))
        with torch.no_grad():
            assert next(iter(net(torch.rand(2, 1, *net.shape)).values())).shape[:2] == (2, 1)
    frames = torch.rand(1, 1000, *net.shape)
    with torch.no_grad():
        out = net(frames)
        again = net(frames[:, 600:], carry=net(frames[:, :600]).carry)
    assert out["next_notes"].shape == (1, 1000, *net.shape)
    assert out.carry.t == again.carry.t == 1000
    close(again["next_notes"], out["next_notes"][:, 600:], "the last 400")


LONG = """
input: {channels: 2}
time: {frames: any}
levels:
  - {name: a, encoder: {cell: FC, channels: 3, norm: none}}
  - {name: b, encoder: {cell: CELL, channels: 4}}
  - {name: c, encoder: {cell: FC, channels: 2, norm: layer}}
tasks: {digit: {kind: classification, at: encoder.c, when: all}}
"""


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_a_thousand_frames_train(cell):
    net, plain = pair_of(loads(LONG.replace("CELL", cell)))
    assert [phase.kind.value for phase in net.plan.phases] == ["once", "loop", "once"]
    frames = torch.rand(2, 1000, 2)
    ours, theirs = net(frames)["digit"], plain(frames)
    expected = torch.stack([at["encoder.c"][0] for at in theirs], dim=1)
    close(ours, expected, "digit")
    found = torch.autograd.grad(ours.square().sum(), list(net.parameters()))
    wanted = torch.autograd.grad(expected.square().sum(), list(plain.parameters()))
    for a, b in zip(found, wanted, strict=True):
        close(a, b, "gradient")


def test_a_batch_of_one_in_evaluation():
    net = trained(load(OMMNIST))
    frames = torch.rand(3, 4, *net.shape)
    with torch.no_grad():
        whole, one = net(frames), net(frames[:1])
    close(one["digit"], whole["digit"][:1], "digit")


def test_truncated_back_propagation_cuts_the_gradient():
    net, _ = pair_of(load(MUSIC))
    frames = torch.rand(2, 4, *net.shape, requires_grad=True)
    first = net.cost(frames[:, :2], carry=net.initial_carry(2))
    assert first.carry is not None
    through = net.cost(frames[:, 2:], carry=first.carry).total
    assert torch.autograd.grad(through, frames)[0][:, :2].abs().sum() > 0
    first = net.cost(frames[:, :2], carry=net.initial_carry(2))
    cut = net.cost(frames[:, 2:], carry=first.carry.detach()).total
    gradient = torch.autograd.grad(cut, frames)[0]
    assert gradient[:, :2].abs().sum() == 0
    assert gradient[:, 2].abs().sum() > 0


# --- closed loop ----------------------------------------------------------------------------------


def test_generate_feeds_its_prediction_back():
    net = trained(load(OMMNIST))
    frames = torch.rand(2, 3, *net.shape)
    with torch.no_grad():
        future = net.generate(frames, 3)
        longer = frames
        for t in range(3):
            step = net(longer)["next_frame"][:, -1]
            close(future[:, t], step, f"frame {t}")
            longer = torch.cat([longer, step[:, None]], dim=1)
        assert net.generate(frames, 0).shape == (2, 0, *net.shape)
        with pytest.raises(ValueError, match="no distribution to sample"):
            net.generate(frames, 2, sample=True)


def test_generate_gives_probabilities_or_samples_of_notes():
    net = trained(load(MUSIC))
    frames = (torch.rand(3, 4, *net.shape) > 0.5).to(torch.get_default_dtype())
    with torch.no_grad():
        future = net.generate(frames, 3, lengths=[4, 2, 3])
        assert ((future > 0) & (future < 1)).all()
        close(future[1:2], net.generate(frames[1:2, :2], 3), "a shorter beginning")
        drawn = net.generate(frames, 3, sample=True)
    assert set(drawn.unique().tolist()) <= {0.0, 1.0}


def test_nothing_to_feed_back():
    net = build(load("specs/ommnist/temporal_baseline_tiny.yaml"))
    with pytest.raises(ValueError, match="no task predicts the next frame"):
        net.generate(torch.rand(1, 2, *net.shape), 2)


# --- values and noise -----------------------------------------------------------------------------


@given(specs())
@SOME
def test_every_node_can_be_read_by_name(spec):
    net, plain = pair_of(spec)
    frames = frames_of(net)
    torch.manual_seed(0)  # of the noise inside cells
    history = plain(frames)
    nodes = list(net.plan.equations)
    torch.manual_seed(0)
    values = net.values(frames, *nodes, *nodes[:1])
    for node in nodes:
        seen = values[node] if isinstance(values, dict) else values
        close(seen, torch.stack([at[node][0] for at in history], dim=1), node)


def test_values_of_one_node_and_of_a_state():
    net = trained(load(OMMNIST))
    frames = torch.rand(2, 3, *net.shape)
    assert net.values(frames, "decoder.conv_2").shape == (2, 3, 4, 16, 16)
    both = net.values(frames, "encoder.lstm1", "encoder.lstm1.c")
    close(both["encoder.lstm1.c"][:, -1], net(frames).carry.values["encoder.lstm1.c"][0], "c")
    with pytest.raises(ValueError, match=r"no node decoder.nothing.*; there are encoder.input, "):
        net.values(frames, "decoder.nothing")


NOISY = """
input: {channels: 2, noise: NOISE}
time: {frames: any}
levels: [{name: a, encoder: {cell: FC, channels: 3, norm: none, activation: none}, decoder: FC}]
tasks: {clean: {kind: denoising, at: decoder.input}}
"""


@pytest.mark.parametrize("noise", ["{gaussian: 0.5}", "{flip: 0.25}"])
def test_noise_enters_at_the_input_in_training_only(noise):
    net = build(loads(NOISY.replace("NOISE", noise)))
    frames = torch.ones(200, 5, 2)
    torch.manual_seed(3)
    seen = net.values(frames, "encoder.input")
    assert isinstance(seen, Tensor)
    if "flip" in noise:
        assert set(seen.unique().tolist()) == {0.0, 1.0}
        assert abs(seen.mean() - 0.75) < 0.05
    else:
        assert abs(seen.std() - 0.5) < 0.05
    torch.manual_seed(3)
    noisy = net(frames)["clean"]
    torch.manual_seed(3)
    cost = net.cost(frames)["clean"]  # against the frames without their noise
    close(cost, (noisy - frames).square().mean(), "cost")
    net.eval()
    assert torch.equal(net.values(frames, "encoder.input"), frames)


def test_frames_of_another_shape_are_refused():
    net = build(load(OMMNIST))
    with pytest.raises(ValueError, match=r"frames are \(B, T, 1, 16, 16\), but these are \(2, 16,"):
        net(torch.rand(2, 16, 16))
    with pytest.raises(ValueError, match="lengths are 2 whole numbers from 0 to 3"):
        net(torch.rand(2, 3, 1, 16, 16), lengths=[3, 4])


ITERATED = """
input: {channels: 1, size: [4, 4]}
time: {iterations: 3}
levels:
  - {name: conv, encoder: {cell: Conv, channels: 2, statistics: shared}, decoder: {cell: Conv}}
  - {name: top, encoder: {cell: LSTM, channels: 3}, decoder: {cell: FC}}
tasks: {clean: {kind: denoising, at: decoder.input, when: last}}
"""


def test_what_follows_from_still_input_counts_when_it_is_needed():
    """Running statistics are those of a plain loop over the same t."""
    nets = [build(loads(ITERATED)) for _ in range(2)]
    frames = torch.rand(4, 1, 4, 4)
    for net, again in zip(nets, (False, True), strict=True):
        net.cost(frames, checkpoint=again)
    for (name, one), (_, other) in zip(*(net.named_buffers() for net in nets), strict=True):
        torch.testing.assert_close(one, other, msg=name)


def test_a_frozen_batch_norm_has_statistics_of_its_own_at_every_t():
    net = build(loads(ITERATED.replace("statistics: shared", "statistics: per_iteration")))
    for name, value in net.named_buffers():
        if "running_mean" in name:
            value.normal_()
    frames = torch.rand(4, 1, 4, 4)
    wanted = net.eval().values(frames, "encoder.conv")
    net.train()
    net.encoder.conv.eval()
    torch.testing.assert_close(net.values(frames, "encoder.conv"), wanted)


def test_the_carry_of_sequences_that_end_early():
    spec = """
input: {channels: 3}
time: {frames: any}
levels:
  - {name: a, encoder: {cell: FC, channels: 4, norm: none}}
  - {name: b, encoder: {cell: FC, channels: 4, norm: none}}
  - {name: c, encoder: {cell: FC, channels: 3, norm: none}}
edges: {add: ["encoder.a(t-1) -> encoder.b"]}
tasks: {next: {kind: prediction, at: encoder.c, when: last}}
"""
    net = build(loads(spec)).eval()
    frames, begun = torch.rand(2, 8, 3), net.initial_carry(2)
    wanted = net(frames, [2, 8], begun).carry.values["encoder.a"][0]
    assert wanted[0].abs().sum() > 0
    found = net.cost(frames, None, [2, 8], carry=begun).carry.values["encoder.a"][0]
    torch.testing.assert_close(found, wanted)


WEIGHED = """
input: {channels: 3}
time: {frames: 4}
levels:
  - {name: top, encoder: {cell: LSTM, channels: 4}}
  - {name: class, encoder: {cell: SoftMax, channels: 3, norm: none}}
tasks: {k: {kind: classification, at: encoder.class, when: [0, 0, 1, 3]}}
"""


def test_weights_over_time_go_on_in_the_next_chunk():
    net = build(loads(WEIGHED)).eval()
    frames, label = torch.rand(2, 4, 3), torch.tensor([0, 2])
    first = net.cost(frames[:, :2], label, carry=net.initial_carry(2))
    assert first["k"] == 0
    later = net.cost(frames[:, 2:], label, carry=first.carry)
    torch.testing.assert_close(later["k"], net.cost(frames, label)["k"])
    uneven = net(frames, [2, 3], net.initial_carry(2)).carry
    with pytest.raises(ValueError, match="sequences ended at different t"):
        net.cost(frames, label, carry=uneven)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_parameter_has_a_gradient_at_any_length(length):
    net = build(load(MUSIC))
    frames = (torch.rand(2, length, 1, 1, 88) < 0.1).float()
    net.cost(frames).total.backward()
    assert [name for name, p in net.named_parameters() if p.grad is None] == []


LEARNED = """
input: {channels: 2}
time: {frames: any}
levels:
  - {name: a, encoder: {cell: FC, channels: 2}, decoder: {cell: FC, initial: learned}}
  - {name: class, encoder: {cell: SoftMax, channels: 3}}
edges: {add: [decoder.input(t-1) -> encoder.class]}
tasks: {k: {kind: classification, at: encoder.class, when: last}}
"""


def test_first_values_that_nobody_reads_have_a_gradient_too():
    """Distributed training waits for it."""
    net = build(loads(LEARNED))
    frames, label = torch.rand(3, 4, 2), torch.tensor([0, 1, 2])
    assert "decoder.input.initial" in dict(net.named_parameters())
    for carry in (None, net(frames).carry.detach()):
        net.zero_grad()
        net.cost(frames, label, carry=carry).total.backward()
        assert [name for name, p in net.named_parameters() if p.grad is None] == []
    net.zero_grad()
    net.cost(frames, label, carry=net(frames).carry.detach(), tasks=[]).total.backward()
    learnt = [name for name, p in net.named_parameters() if p.grad is not None]
    assert learnt == ["decoder.input.initial"], "who has no part in it does not move"
