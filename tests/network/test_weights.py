"""Names, initial values, weights of other variants; and who learns."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given

from ladderspec.api import build, graph, load, loads
from ladderspec.wiring.graph import parameters
from tests.network.test_equality import _float64, close, frames_of, variants  # noqa: F401
from tests.network.test_time import SOME
from tests.random_specs import specs

OMMNIST = "specs/ommnist/rladder_tiny.yaml"
MUSIC = "specs/music/rladder_tiny.yaml"


def test_keys_are_the_names_of_the_diagram():
    spec = load(OMMNIST)
    keys = build(spec).state_dict().keys()
    assert {"encoder.lstm1.decoder_to_encoder.weight", "decoder.input.W_s"} <= keys
    nodes = set(graph(spec))
    owners = {".".join(key.split(".")[:2]) for key in keys if not key.startswith("task.")}
    assert owners <= nodes


@pytest.mark.parametrize("variant", [None, *load(OMMNIST).config.variants])
def test_parameters_are_as_many_as_predicted(variant):
    spec = load(OMMNIST, variant)
    assert sum(p.numel() for p in build(spec).parameters()) == parameters(graph(spec))


def test_two_variants_agree_on_what_they_share():
    whole, part = build(load(OMMNIST), seed=4), build(load(OMMNIST, "hierarchical_rnn"), seed=4)
    other = build(load(OMMNIST), seed=5)
    for name, value in part.state_dict().items():
        assert torch.equal(value, whole.state_dict()[name]), name
    weight = "encoder.conv_1.encoder.weight"
    assert not torch.equal(other.state_dict()[weight], whole.state_dict()[weight])


def test_adopting_keeps_what_both_have_and_names_the_rest():
    whole = build(load(OMMNIST), seed=1)
    part = build(load(OMMNIST, "no_decoder_to_encoder", set={"encoder.conv11.channels": 5}), seed=2)
    report = part.adopt(whole.state_dict())
    assert report.missing == ()
    assert report.unknown == tuple(k for k in whole.state_dict() if "decoder_to_encoder" in k)
    assert "encoder.conv11.encoder.weight" in report.reshaped
    for name in report.kept:
        assert torch.equal(part.state_dict()[name], whole.state_dict()[name])
    assert {*report.kept, *report.reshaped} == part.state_dict().keys()
    back = whole.adopt(part.state_dict())
    assert back.missing == report.unknown
    part.load_state_dict(part.state_dict())


@pytest.mark.parametrize(("path", "variant"), variants())
def test_every_parameter_learns(path, variant):
    """Distributed training needs a gradient, even of zeros, for every parameter."""
    width = {"params.width": 2} if "width" in load(path).config.params else {}
    net = build(load(path, variant, set=width))
    frames = frames_of(net)
    one = next(iter(frames.values())) if isinstance(frames, dict) else frames
    labels = torch.arange(len(one)) % 3
    targets = {"same": labels % 2} if "same" in net.tasks else {"label": labels}
    net.cost(frames, targets).total.backward()
    assert [name for name, p in net.named_parameters() if p.grad is None] == []


@given(specs())
@SOME
def test_a_copy_is_independent(spec):
    net = build(spec).eval()
    twin = copy.deepcopy(net)
    frames = frames_of(net)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
        before = net.values(frames, *net.plan.equations)
        for parameter in twin.parameters():
            parameter.sub_(1.0)
        after = twin.values(frames, *net.plan.equations)
    for node in net.plan.equations:
        close(after[node], before[node], node)


def test_learned_initial_values_are_used_and_learn():
    spec = loads(
        """
input: {channels: 2}
time: {frames: any}
levels:
  - {name: a, encoder: {cell: LSTM, channels: 3, initial: learned}, decoder: FC}
tasks: {clean: {kind: denoising, at: decoder.input}}
"""
    )
    net = build(spec)
    frames = torch.rand(4, 2, 2)
    before = net.cost(frames).total
    before.backward()
    assert net.get_parameter("encoder.a.initial").grad.any()
    assert net.get_parameter("encoder.a.initial_c").grad.any()
    with torch.no_grad():
        net.get_parameter("encoder.a.initial_c").fill_(2.0)
    assert not torch.equal(net.cost(frames).total, before)
    carry = net.initial_carry(3)
    assert torch.equal(carry.values["encoder.a.c"][0], torch.full((3, 3), 2.0))


def test_a_module_put_in_the_place_of_another_runs():
    net, other = build(load(OMMNIST), seed=1).eval(), build(load(OMMNIST), seed=2).eval()
    learned = "{cell: LSTM, channels: 3, initial: learned}"
    frames = torch.rand(2, 3, *net.shape)
    before = net.values(frames, "encoder.conv_1")
    net.encoder.conv_1 = other.encoder.conv_1
    assert not torch.equal(net.values(frames, "encoder.conv_1"), before)
    net.load_state_dict(other.state_dict())
    close(net(frames)["digit"], other(frames)["digit"], "digit")
    net.task.next_frame = copy.deepcopy(net.task.next_frame)
    net.set_offset(0.5)
    close(net(frames)["next_frame"], other(frames)["next_frame"] + 0.5, "offset")
    assert net.readouts["next_frame"]["decoder.input"] is net.task.next_frame
    rows = f"levels: [{{name: a, encoder: {learned}}}]"
    small = build(loads("input: {channels: 2}\ntime: {frames: any}\n" + rows))
    small.encoder.a = copy.deepcopy(small.encoder.a)
    with torch.no_grad():
        small.encoder.a.initial.fill_(2.0)
    assert torch.equal(small.initial_carry(1).values["encoder.a"][0], torch.full((1, 3), 2.0))


def test_weights_changed_by_way_of_data_count_at_the_next_call():
    """As teachers that follow their pupils are often written; torch does not count such changes."""
    net = build(load(OMMNIST)).eval()
    frames = torch.rand(2, 5, 1, 16, 16)
    with torch.no_grad():
        before = net.values(frames, "encoder.conv_2")
        for parameter in net.parameters():
            parameter.data.mul_(1.1)
        found = net.values(frames, "encoder.conv_2")
        assert not torch.equal(found, before)
        assert torch.equal(found, net.eval().values(frames, "encoder.conv_2"))
