"""Several inputs: streaming, chunks, unequal lengths, checkpointing and generation agree."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor

from ladderspec.api import build, load, loads
from ladderspec.network.net import Net
from tests.network.test_equality import by_node, close, frames_of, gradients
from tests.random_specs import specs

SOME = settings(deadline=None, max_examples=30, phases=[Phase.generate])
TEXT = """
input: {channels: 1, size: 6, until: 3}
inputs:
  action: {channels: 4}
  goal: {channels: 2, size: 6, per: sequence}
  cue: {channels: 3, per: sequence, until: 2}
time: {frames: any}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 3}, decoder: convG3}
  - {name: conv, encoder: {cell: Conv, channels: 4, stride: 2, norm: batch}, decoder: convG3}
edges:
  add: [input.action -> encoder.lstm, input.action(t-2) -> encoder.conv, input.goal -> decoder.lstm,
        input.cue -> encoder.conv]
tasks: {next: {kind: prediction, at: decoder.input}}
"""


@pytest.fixture(autouse=True)
def _float64(one_thread):
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def some(net: Net, inputs: Any, rows: slice = slice(None), times: slice = slice(None)) -> Any:
    """Some sequences, and of inputs with a value for each frame some frames."""
    if isinstance(inputs, Tensor):
        inputs = {"input": inputs}
    timed = {form.name: form.timed for form in net.inputs.forms}
    return {n: v[rows, times] if timed[n] else v[rows] for n, v in inputs.items()}


def at(net: Net, inputs: Any, t: int) -> Any:
    """The inputs of one t."""
    now = some(net, inputs, times=slice(t, t + 1))
    return {f.name: now[f.name][:, 0] if f.timed else now[f.name] for f in net.inputs.forms}


def same(net: Net, ours: Any, theirs: Any, what: str) -> None:
    for name, seen in by_node(net, theirs).items():
        for node, value in seen.items():
            close(by_node(net, ours)[name][node], value, f"{what}: {name} at {node}")


# --- random specs ---------------------------------------------------------------------------------


@given(specs(inputs=True))
@SOME
def test_streaming_equals_the_whole(spec):
    net = build(spec).eval()
    inputs = frames_of(net, batch=2)
    with torch.no_grad():
        whole = net(inputs)
        for _ in range(4):  # the last ones are replayed
            carry = net.initial_carry(2)
            for t in range(whole.carry.t):
                outputs, carry = net.iterate(at(net, inputs, t), carry)
                for name, seen in by_node(net, outputs).items():
                    for node, value in seen.items():
                        close(value, by_node(net, whole)[name][node][:, t], f"{name}, t = {t + 1}")


@given(specs(inputs=True))
@SOME
def test_chunks_and_unequal_lengths_equal_the_whole(spec):
    net = build(spec).eval()
    if net.plan.iterations:
        return
    inputs, lengths = frames_of(net, batch=3, length=4), [2, 3, 1]
    with torch.no_grad():
        whole = net(some(net, inputs))
        first = net(some(net, inputs, times=slice(0, 2)))
        second = net(some(net, inputs, times=slice(2, None)), carry=first.carry)
        together = net(inputs, lengths)
        for name, seen in by_node(net, whole).items():
            for node, value in seen.items():
                parts = [by_node(net, part)[name][node] for part in (first, second)]
                close(torch.cat(parts, 1), value, f"chunks of {name}")
        for b, length in enumerate(lengths):
            row = slice(b, b + 1)
            alone = net(some(net, inputs, row, slice(0, length)))
            for name, seen in by_node(net, alone).items():
                for node, value in seen.items():
                    ours = by_node(net, together)[name][node][row, :length]
                    close(ours, value, f"{name} of sequence {b}")
        later = net(inputs, carry=together.carry)  # every sequence goes on at its own t
        for b, length in enumerate(lengths):
            row = slice(b, b + 1)
            alone = net(some(net, inputs, row, slice(0, length)))
            alone = net(some(net, inputs, row), carry=alone.carry)
            for name, seen in by_node(net, alone).items():
                for node, value in seen.items():
                    close(by_node(net, later)[name][node][row], value, f"{name}, later")


# --- one network ----------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", [True, 1, 3])
def test_checkpointing_changes_nothing(segment):
    net = build(loads(TEXT))
    inputs = frames_of(net, batch=3, length=5)
    plain = net.cost(inputs)
    less = net.cost(inputs, checkpoint=segment)
    close(less.total, plain.total, "cost")
    pairs = zip(*(gradients(c.total, net.parameters()) for c in (less, plain)), strict=True)
    for ours, theirs in pairs:
        close(ours, theirs, "gradient")


def test_what_is_hidden_changes_nothing():
    """Only the frames up to t = 3, and the cue up to t = 2, are seen; targets are all frames."""
    net = build(loads(TEXT)).eval()
    inputs = frames_of(net, batch=2, length=5)
    other = {**inputs, "input": inputs["input"].clone()}
    other["input"][:, 3:] = torch.rand_like(other["input"][:, 3:])
    same(net, net(other), net(inputs), "hidden frames")
    assert not torch.equal(net.cost(other)["next"], net.cost(inputs)["next"])
    values = net.values(inputs, "input.cue", "encoder.input", "input.goal")
    shown = inputs["cue"][:, None].expand(-1, 2, -1)
    assert torch.equal(values["input.cue"][:, :2], shown)
    assert not values["input.cue"][:, 2:].any()
    assert not values["encoder.input"][:, 3:].any()
    assert torch.equal(values["input.goal"], inputs["goal"][:, None].expand(-1, 5, -1, -1, -1))


def test_padding_is_never_read():
    net = build(loads(TEXT)).eval()
    inputs = frames_of(net, batch=2, length=4)
    spoilt = {name: value.clone() for name, value in inputs.items()}
    spoilt["action"][0, 2:] = torch.nan
    spoilt["input"][0, 2:] = torch.nan
    ours, theirs = net(spoilt, [2, 4]), net(inputs, [2, 4])
    close(ours["next"][0, :2], theirs["next"][0, :2], "first")
    close(ours["next"][1], theirs["next"][1], "second")


def test_generation_reads_further_inputs_of_later_frames():
    net = build(loads(TEXT.replace(", until: 3", ""))).eval()
    inputs = frames_of(net, batch=2, length=6)
    given = {**inputs, "input": inputs["input"][:, :3]}
    with torch.no_grad():
        later = net.generate(given, 4)
        frames = torch.cat([given["input"], later[:, :3]], 1)
        seen = net({**inputs, "input": frames})["next"]
    close(later, seen[:, 2:], "generated")
    with torch.no_grad():  # sequences of unequal length go on where they end
        ours = net.generate(given, 3, lengths=[3, 2])
        alone = {**some(net, inputs, slice(1, 2)), "input": inputs["input"][1:2, :2]}
        close(ours[:1], later[:1, :3], "first")
        close(ours[1:], net.generate(alone, 3), "second")
    message = "input `action` has 6 frames, but generating 5 frames after 3 reads 7: give its later"
    with pytest.raises(ValueError, match=message):
        net.generate(given, 5)


def test_compiled_and_exported_they_are_the_same():
    net = build(loads(TEXT)).eval()
    inputs = frames_of(net, batch=2, length=3)
    with torch.no_grad():
        same(net, torch.compile(net, backend="eager", fullgraph=True)(inputs), net(inputs), "eager")


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x["input"], "the network has 4 inputs: give {'input': ..., 'action': ..., "),
        (lambda x: {**x, "akcion": x["action"]}, "no input `akcion`: did you mean `action`?"),
        (lambda x: _without(x, "action"), "input `action` is missing: the network reads input, "),
        (lambda x: _without(x, "input"), "the frames are missing: the network reads input, "),
        (
            lambda x: {**x, "action": x["action"][:, :3]},
            "input `action` has 2 sequences of 3 frames, but the frames have 2 sequences of 4",
        ),
        (
            lambda x: {**x, "goal": x["goal"][:1]},
            "input `goal` has 1 sequence, but the frames have 2 sequences",
        ),
        (
            lambda x: {**x, "action": x["action"][..., :3]},
            "input `action` is (B, T, 4), but this is (2, 4, 3)",
        ),
        (
            lambda x: {**x, "goal": x["goal"][:, None]},
            "input `goal` is (B, 2, 6, 6), but this is (2, 1, 2, 6, 6)",
        ),
        (lambda x: {**x, "cue": "a"}, "input `cue` is a tensor or an array of numbers, not str"),
    ],
)
def test_wrong_inputs_are_refused(change, message):
    net = build(loads(TEXT))
    with pytest.raises(ValueError, match=re.escape(message)):
        net(change(frames_of(net, batch=2, length=4)))


def _without(inputs: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {n: value for n, value in inputs.items() if n != name}


def test_one_input_may_also_stand_in_a_mapping():
    net = build(load("specs/related/ladder_tiny.yaml")).eval()
    frames = frames_of(net, batch=2)
    same(net, net({"input": frames}), net(frames), "mapping")
    with pytest.raises(ValueError, match="no input `action`: there is input"):
        net({"input": frames, "action": frames})
