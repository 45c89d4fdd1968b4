"""The plain walk over a graph against the paper's equations, written out as a loop by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ladderspec.api import graph, load, loads
from ladderspec.nn import TimeStep
from tests.interpreter import Interpreter, read

SPEC = """
name: reference
input: {channels: 1, size: 6}
time: {frames: any}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
  - {name: conv, encoder: {cell: Conv, channels: 3, stride: 2}, decoder: {cell: convG2, filter: 4}}
  - {name: top, encoder: {cell: LSTM, channels: 4}, decoder: G1}
  - {name: class, encoder: {cell: SoftMax, channels: 5}, decoder: Identity}
tasks:
  digit: {kind: classification, at: encoder.class}
  next: {kind: prediction, at: decoder.input}
"""


def _net(text: str, **changes: object) -> Interpreter:
    return Interpreter(graph(loads(text, **changes))).double()


def test_equations_1_to_3_written_out():
    net = _net(SPEC)
    e_, d_ = net.encoder, net.decoder
    xs = torch.randn(3, 4, 1, 6, 6, dtype=torch.float64)
    history = net(xs)

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(3, *shape, dtype=torch.float64)

    e2, s2, d2 = zeros(2, 6, 6), {"c": zeros(2, 6, 6)}, zeros(2, 6, 6)
    e4, s4, d4 = zeros(4), {"c": zeros(4)}, zeros(5)
    for t in range(4):
        step, e1 = TimeStep(t), xs[:, t]
        e2, s2 = e_.lstm({"encoder": e1, "decoder_to_encoder": d2, "state": e2}, s2, step)
        e3, _ = e_.conv({"encoder": e2}, None, step)
        e4, s4 = e_.top({"encoder": e3, "decoder_to_encoder": d4, "state": e4}, s4, step)
        e5, extras = getattr(e_, "class")({"encoder": e4}, None, step)
        d4, _ = d_.top({"decoder": e5}, None, step)
        d3, _ = d_.conv({"lateral": e3, "decoder": d4}, None, step)
        d2, _ = d_.lstm({"lateral": e2, "decoder": d3}, None, step)
        d1, _ = d_.input({"lateral": e1, "decoder": d2}, None, step)
        for node, value in (("encoder.top", e4), ("decoder.lstm", d2), ("decoder.input", d1)):
            torch.testing.assert_close(history[t][node][0], value, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(read(history, "encoder.class")[:, t], extras["logits"])
        torch.testing.assert_close(history[t]["encoder.lstm"][1]["c"], s2["c"])


def test_a_delay_of_two_reads_the_iteration_before_the_last():
    net = _net(SPEC, add="encoder.conv(t-2) -> encoder.lstm").eval()
    assert "skip_encoder_conv_2" in dict(net.encoder.lstm.named_children())
    xs = torch.randn(2, 5, 1, 6, 6, dtype=torch.float64)
    history = net(xs)
    for t in range(5):
        first = torch.zeros_like(history[0]["encoder.conv"][0])
        then = history[t - 2]["encoder.conv"][0] if t > 1 else first
        before = history[t - 1] if t else None
        values = {
            "encoder": xs[:, t],
            "skip_encoder_conv_2": then,
            "state": before["encoder.lstm"][0] if before else torch.zeros(2, 2, 6, 6).double(),
            "decoder_to_encoder": (
                before["decoder.lstm"][0] if before else torch.zeros(2, 2, 6, 6).double()
            ),
        }
        c = before["encoder.lstm"][1]["c"] if before else torch.zeros(2, 2, 6, 6).double()
        expected, _ = net.encoder.lstm(values, {"c": c})
        torch.testing.assert_close(history[t]["encoder.lstm"][0], expected)


def test_learned_initial_values_enter_at_the_first_iteration():
    text = SPEC.replace(
        "cell: ConvLSTM, channels: 2", "cell: ConvLSTM, channels: 2, initial: learned"
    )
    plain, net = _net(SPEC).eval(), _net(text).eval()
    xs = torch.randn(2, 3, 1, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(net(xs)[-1], plain(xs)[-1])
    with torch.no_grad():
        net.encoder.lstm.initial_c[:] = torch.tensor([1.0, -1.0])
    history = net(xs)
    c = torch.tensor([1.0, -1.0], dtype=torch.float64)[None, :, None, None].expand(2, 2, 6, 6)
    zeros = torch.zeros_like(c)
    values = {"encoder": xs[:, 0], "state": zeros, "decoder_to_encoder": zeros}
    expected, _ = net.encoder.lstm(values, {"c": c})
    torch.testing.assert_close(history[0]["encoder.lstm"][0], expected)


def test_the_input_too_can_have_a_learned_initial_value():
    text = SPEC.replace("{channels: 1, size: 6}", "{channels: 1, size: 6, initial: learned}")
    net = _net(text, add="encoder.input(t-1) -> encoder.conv").eval()
    xs = torch.randn(2, 2, 1, 6, 6, dtype=torch.float64)
    before = net(xs)[0]["encoder.conv"][0]
    with torch.no_grad():
        net.encoder.input.initial.fill_(1.0)
    after = net(xs)[0]["encoder.conv"][0]
    assert not torch.allclose(before, after)


def test_iterations_on_one_input_equal_frames_that_stand_still():
    still = SPEC.replace("frames: any", "iterations: 4").replace("prediction", "denoising")
    frames = SPEC.replace("frames: any", "frames: 4")
    x = torch.randn(3, 1, 6, 6, dtype=torch.float64)
    found = _net(still)(x)
    expected = _net(frames)(x[:, None].expand(-1, 4, -1, -1, -1))
    torch.testing.assert_close(found[-1], expected[-1])
    assert len(found) == 4


def test_unequal_lengths_equal_one_by_one_in_evaluation():
    net = _net(SPEC)
    xs, lengths = torch.randn(3, 4, 1, 6, 6, dtype=torch.float64), torch.tensor([4, 2, 3])
    net(xs, lengths)
    net.eval()
    together = read(net(xs, lengths), "decoder.input")
    for b, length in enumerate(lengths.tolist()):
        alone = read(net(xs[b : b + 1, :length]), "decoder.input")
        torch.testing.assert_close(together[b : b + 1, :length], alone)


SHIPPED = [
    "music/rladder_tiny",
    "ommnist/appendix_c",
    "related/blt",
    "related/feedback_convrnn",
    "related/ladder_tiny",
    "related/prednet",
    "related/residual_convgru",
    "related/unet",
    "related/video_ladder",
]


@pytest.mark.parametrize("path", SHIPPED)
def test_shipped_specs_run_and_every_parameter_learns(path):
    torch.manual_seed(0)
    # The start of the original Ladder lets decoders learn one after the other, from the top down.
    at_once = {"decoder.*.w": "even", "decoder.*.w_s": "even"}
    made = graph(load(f"specs/{path}.yaml", set=at_once if "/ladder" in path else {}))
    net = Interpreter(made)
    shape = made.nodes["encoder.input"]["shape"]
    steps = (3,) if made.graph["frames"] else ()
    history = net(torch.randn(3, *steps, *shape))
    total = sum(p.numel() for p in net.parameters())
    assert total == sum(n for _, n in made.nodes(data="parameters")) + sum(
        n for *_, n in made.edges(data="parameters")
    )
    seen = [read(history, node) for e in made.graph["tasks"].values() for node in e["at"]]
    # A weight for every number: behind a batch norm, a plain sum is constant.
    sum((torch.randn_like(value) * value).sum() for value in seen).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith(".b"):  # batch norm takes it out again
            assert parameter.grad.abs().max() > 1e-6, name
