"""Checks of the hand-written networks: sizes, shapes, gradients, streaming, normalisation."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.handwritten import (
    BatchNorm,
    ConvG3,
    ConvLSTMCell,
    HierarchicalRNN,
    LayerNorm,
    LSTMCell,
    MusicRLadder,
    RecurrentNet,
    RLadder,
    TemporalBaseline,
    ladder_function,
)

COUNTS = {
    RLadder: 2_861_140,
    TemporalBaseline: 229_908,
    HierarchicalRNN: 351_348,
    MusicRLadder: 3_220_871,
}
NETS = list(COUNTS)


pytestmark = pytest.mark.usefixtures("one_thread")


def make_frames(net: RecurrentNet, batch: int, steps: int) -> Tensor:
    if isinstance(net, MusicRLadder):
        return (torch.rand(batch, steps, 1, 1, 88) < 0.05).float()
    return torch.rand(batch, steps, 1, 32, 32)


def cost_of(net: RecurrentNet, frames: Tensor) -> Tensor:
    return net.cost(frames, torch.randint(10, (frames.shape[0],)))


@pytest.mark.parametrize("cls", NETS)
def test_parameter_count(cls):
    assert sum(p.numel() for p in cls().parameters()) == COUNTS[cls]


def test_parameter_counts_of_the_rladder_by_part():
    net = RLadder()
    assert sum(p.numel() for p in net.encoder.parameters()) == 425_972
    by_decoder = {
        f"dec{level}": sum(p.numel() for p in getattr(net, f"dec{level}").parameters())
        for level in range(1, 16)
    }
    assert by_decoder == {
        "dec1": 85_728,
        "dec2": 21_600,
        "dec3": 21_600,
        "dec4": 21_600,
        "dec5": 76_896,
        "dec6": 169_056,
        "dec7": 61_632,
        "dec8": 86_208,
        "dec9": 86_208,
        "dec10": 307_392,
        "dec11": 246_144,
        "dec12": 135_360,
        "dec13": 33_888,
        "dec14": 1_071_104,
        "dec15": 10_752,
    }


@pytest.mark.parametrize("cls", NETS)
@pytest.mark.parametrize("steps", [1, 3])
def test_shapes(cls, steps):
    net = cls()
    frames = make_frames(net, 2, steps)
    outputs = net(frames)
    shapes = {name: tuple(value.shape) for name, value in outputs.items()}
    expected = {"digit": (2, steps, 10), "next_frame": tuple(frames.shape)}
    names = {RLadder: ["digit", "next_frame"], MusicRLadder: ["next_frame"]}.get(cls, ["digit"])
    assert shapes == {name: expected[name] for name in names}
    assert all(value.isfinite().all() for value in outputs.values())


@pytest.mark.parametrize("cls", [RLadder, TemporalBaseline, HierarchicalRNN])
def test_cost_of_one_frame_is_the_classification_cost(cls):
    net = cls()
    frames = make_frames(net, 3, 1)
    labels = torch.tensor([1, 2, 3])
    expected = functional.cross_entropy(net(frames)["digit"][:, 0], labels)
    torch.testing.assert_close(net.cost(frames, labels), expected)


def test_music_cost_needs_two_frames():
    with pytest.raises(ValueError, match="two frames"):
        MusicRLadder().cost(torch.zeros(2, 1, 1, 1, 88))


def test_rladder_cost_is_cross_entropy_plus_weighted_pixel_error():
    net = RLadder(prediction_weight=7.0)
    frames = make_frames(net, 2, 3)
    labels = torch.tensor([4, 9])
    outputs = net(frames)
    error = ((outputs["next_frame"][:, :2] - frames[:, 1:]) ** 2).sum() / (2 * 2 * 32 * 32)
    expected = functional.cross_entropy(outputs["digit"][:, 2], labels) + 7.0 * error
    torch.testing.assert_close(net.cost(frames, labels), expected)


def test_music_cost_is_nats_per_predicted_step():
    net = MusicRLadder()
    frames = make_frames(net, 3, 4)
    p = torch.sigmoid(net(frames)["next_frame"][:, :-1])
    x = frames[:, 1:]
    nll = -(x * p.log() + (1 - x) * (1 - p).log()).sum() / (3 * 3)
    torch.testing.assert_close(net.cost(frames), nll)


@pytest.mark.parametrize("cls", NETS)
def test_every_parameter_gets_a_gradient(cls):
    net = cls()
    cost_of(net, make_frames(net, 4, 4)).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if name.endswith(".linear.bias"):  # of G1: batch norm removes it
            continue
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("cls", NETS)
def test_evaluation_of_one_sequence(cls):
    net = cls()
    frames = make_frames(net, 4, 6)
    with torch.no_grad():
        net(frames[:, :5])
        net.eval()
        together = net(frames)
        alone = net(frames[:1])
    for name, value in alone.items():
        assert value.isfinite().all()
        torch.testing.assert_close(value, together[name][:1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cls", NETS)
def test_streaming_equals_forward(cls):
    net = cls().eval()
    frames = make_frames(net, 2, 3)
    with torch.no_grad():
        expected = net(frames)
        state = net.initial_state(2)
        for t in range(3):
            outputs, state = net.iterate(frames[:, t], state)
            for name, value in outputs.items():
                torch.testing.assert_close(value, expected[name][:, t])
    assert state.t == 3


@pytest.mark.parametrize("cls", [RLadder, MusicRLadder])
def test_the_decoder_reaches_the_encoder_of_the_next_iteration_only(cls):
    net = cls().eval()
    first = net.lstm2 if cls is MusicRLadder else net.encoder.lstm2
    frames = make_frames(net, 2, 2)
    with torch.no_grad():
        before = net(frames)["next_frame"]
        first.conv_d.weight.mul_(-1.0)
        after = net(frames)["next_frame"]
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert not torch.allclose(after[:, 1], before[:, 1])


def test_batch_norm_keeps_one_set_of_running_statistics_per_iteration():
    norm = BatchNorm(3, iterations=2)
    batches = [torch.randn(8, 3, 2, 2) + shift for shift in (0.0, 5.0, 9.0)]
    references = [nn.BatchNorm2d(3), nn.BatchNorm2d(3)]
    for t, x in enumerate(batches):
        torch.testing.assert_close(norm(x, t), references[min(t, 1)](x))
    for t, reference in enumerate(references):
        torch.testing.assert_close(norm.running_mean[t], reference.running_mean)
        torch.testing.assert_close(norm.running_var[t], reference.running_var)
        reference.eval()
    norm.eval()
    for t, x in enumerate(batches):
        torch.testing.assert_close(norm(x, t), references[min(t, 1)](x))


def test_layer_norm_is_group_norm_with_one_group_and_no_bias():
    x = torch.randn(2, 4, 3, 5)
    norm = LayerNorm(4)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(4))
    flat = x.flatten(1)
    std = (flat.var(dim=1, unbiased=False) + 1e-5).sqrt()
    normal = (x - flat.mean(dim=1)[:, None, None, None]) / std[:, None, None, None]
    torch.testing.assert_close(norm(x), normal * norm.weight[:, None, None])
    assert not norm(torch.zeros(1, 4, 2, 2)).any()


def test_lstm_cell_equals_torch():
    cell = LSTMCell(5, 3)
    reference = nn.LSTMCell(5, 3)
    order = [0, 1, 3, 2]  # i, f, o, g to the i, f, g, o of torch

    def reorder(value: Tensor) -> Tensor:
        chunks = value.chunk(4)
        return torch.cat([chunks[k] for k in order])

    with torch.no_grad():
        reference.weight_ih.copy_(reorder(cell.linear_x.weight))
        reference.weight_hh.copy_(reorder(cell.linear_h.weight))
        reference.bias_ih.copy_(reorder(cell.linear_x.bias))
        reference.bias_hh.zero_()
    x, h, c = torch.randn(2, 5), torch.randn(2, 3), torch.randn(2, 3)
    for value, expected in zip(cell(x, (h, c)), reference(x, (h, c)), strict=True):
        torch.testing.assert_close(value, expected)


def test_forget_bias_starts_at_one():
    assert LSTMCell(5, 2).linear_x.bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    bias = ConvLSTMCell(1, 2, (3, 3)).bias.flatten()
    assert bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


def test_ladder_function():
    w = torch.tensor([1.5, -2.0, 0.25, 0.5, -0.1], dtype=torch.float64)
    value = ladder_function(torch.tensor(0.7, dtype=torch.float64), w)
    assert value.item() == pytest.approx(0.610733624576, abs=1e-11)


def test_even_kernels_pad_two_before_and_three_after():
    cell = ConvG3(1, 1, 6, upsample=True)
    lateral = torch.randn(2, 1, 8, 8)
    seen = {}
    cell.norm_lateral.register_forward_pre_hook(lambda _, args: seen.update(b=args[0]))
    cell.norm_top.register_forward_pre_hook(lambda _, args: seen.update(a=args[0]))
    out = cell(torch.randn(2, 1, 4, 4), lateral)
    expected = functional.conv2d(functional.pad(lateral, (2, 3, 2, 3)), cell.conv_lateral.weight)
    torch.testing.assert_close(seen["b"], expected)
    assert seen["a"].shape == out.shape == lateral.shape
