"""The cells' formulas by hand, and where they coincide with torch's own modules."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells import ACTIVATIONS, Projection
from ladderspec.cells.functions import general_convolve
from ladderspec.names import Side
from ladderspec.nn import (
    FC,
    G1,
    GRU,
    LSTM,
    Average,
    Conv,
    ConvG1,
    ConvG2,
    ConvG3,
    ConvGRU,
    ConvLSTM,
    Edge,
    Identity,
    LayerNorm,
    Pool,
    SoftMax,
    Sum,
    convolve,
    convolve_transposed,
    f,
)
from tests.cell_examples import Row


@pytest.fixture(autouse=True)
def _float64():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _randomise(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()


def test_f():
    w = torch.tensor([1.5, -2.0, 0.25, 0.5, -0.1])
    assert f(torch.tensor(0.7), w).item() == pytest.approx(0.610733624576, abs=1e-11)


def test_f_has_its_own_weights_for_every_unit():
    u, w = torch.randn(2, 3), torch.randn(5, 3)
    for b in range(2):
        for i in range(3):
            w0, w1, w2, w3, w4 = w[:, i]
            by_hand = w0 / (1 + torch.exp(-(w1 * u[b, i] + w2))) + w3 * u[b, i] + w4
            torch.testing.assert_close(f(u, w)[b, i], by_hand)


# --- linear maps ----------------------------------------------------------------------------------

sizes = st.integers(1, 9)
filters = st.integers(1, 7)
strides = st.integers(1, 4)


@settings(max_examples=60, deadline=None)
@given(sizes, filters, strides)
def test_convolution_written_out(n, k, s):
    x, weight = torch.randn(1, 1, 1, n), torch.randn(1, 1, 1, k)
    y = convolve(x, weight, stride=(1, s))
    assert y.shape[-1] == -(-n // s)
    for j in range(y.shape[-1]):
        places = [(i, j * s - (k - 1) // 2 + i) for i in range(k)]
        by_hand = sum(weight[0, 0, 0, i] * x[0, 0, 0, p] for i, p in places if 0 <= p < n)
        torch.testing.assert_close(y[0, 0, 0, j], torch.as_tensor(by_hand))


@settings(max_examples=60, deadline=None)
@given(sizes, filters, strides, st.integers(1, 3))
def test_dilated_convolution_written_out(n, k, s, d):
    x, weight = torch.randn(1, 1, n, 1), torch.randn(1, 1, k, 1)
    y = general_convolve(x, weight, stride=(s, 1), dilation=(d, 1))
    assert y.shape[2] == -(-n // s)
    for j in range(y.shape[2]):
        places = [(i, j * s - d * (k - 1) // 2 + d * i) for i in range(k)]
        terms = [weight[0, 0, i, 0] * x[0, 0, p, 0] for i, p in places if 0 <= p < n]
        torch.testing.assert_close(y[0, 0, j, 0], sum(terms, torch.zeros(())))


def test_channel_groups_convolve_blocks_of_channels():
    cell = Conv.of((4, 5, 5), channels=6, channel_groups=2, norm="none", activation="none")
    _randomise(cell)
    x = torch.randn(2, 4, 5, 5)
    parts = zip(x.chunk(2, 1), cell.encoder.weight.chunk(2), strict=True)
    y = torch.cat([functional.conv2d(part, w, padding=1) for part, w in parts], 1)
    torch.testing.assert_close(cell({"encoder": x})[0], y + cell.bias[:, None, None])


def test_dilation_is_that_of_the_filters_from_below_and_of_the_state():
    shapes = {"encoder": (2, 6, 6), "decoder_to_encoder": (3, 6, 6)}
    cell = ConvGRU.of(shapes, channels=3, dilation=2)
    spacing = {key: cell.edge(key).projection.dilation for key in cell.keys}
    assert spacing == {"encoder": (2, 2), "state": (2, 2), "decoder_to_encoder": (1, 1)}


@settings(max_examples=60, deadline=None)
@given(st.tuples(sizes, sizes), st.tuples(filters, filters), st.tuples(strides, strides))
def test_transposed_is_the_transpose(size, filter, stride):
    small = [-(-n // s) for n, s in zip(size, stride, strict=True)]
    x, y = torch.randn(1, 2, *size), torch.randn(1, 3, *small)
    weight = torch.randn(3, 2, *filter)
    there = (convolve(x, weight, stride=stride) * y).sum()
    back = convolve_transposed(y, weight, stride=stride, size=size)
    assert back.shape == x.shape
    torch.testing.assert_close((x * back).sum(), there)


def test_the_notes_come_back_in_the_sizes_they_left():
    for small, big in ((6, 11), (11, 22), (22, 44), (44, 88)):
        up = Edge(Projection("transposed", (2, 1, small), (3, 1, big), (1, 3), (1, 2)))
        assert up(torch.randn(1, 2, 1, small)).shape == (1, 3, 1, big)


def test_a_filter_of_six_doubles_as_torch_does():
    up = Edge(Projection("transposed", (2, 4, 4), (3, 8, 8), (6, 6), (2, 2)))
    x = torch.randn(1, 2, 4, 4)
    expected = functional.conv_transpose2d(x, up.weight, stride=2, padding=2)
    torch.testing.assert_close(up(x), expected)


def test_an_even_filter_pads_two_before_and_three_after():
    edge = Edge(Projection("conv", (2, 8, 8), (3, 8, 8), (6, 6)))
    x = torch.randn(1, 2, 8, 8)
    expected = functional.conv2d(functional.pad(x, (2, 3, 2, 3)), edge.weight)
    torch.testing.assert_close(edge(x), expected)


def test_dense_flattens_and_reshapes():
    edge = Edge(Projection("dense", (2, 3, 3), (4, 2, 2)))
    x, bias = torch.randn(5, 2, 3, 3), torch.randn(4)
    expected = (x.reshape(5, 18) @ edge.weight.T).view(5, 4, 2, 2) + bias[:, None, None]
    torch.testing.assert_close(edge(x, bias=bias), expected)


@pytest.mark.parametrize("kind", ["none", "spread", "dense", "conv", "transposed"])
def test_every_edge_adds_a_bias(kind):
    target = (2, 4, 4) if kind in ("spread", "transposed") else (2, 2, 2)
    stride = (2, 2) if kind in ("spread", "transposed") else (1, 1)
    edge = Edge(Projection(kind, (2, 2, 2), target, stride=stride))
    x, bias = torch.randn(3, 2, 2, 2), torch.randn(2)
    torch.testing.assert_close(edge(x, bias=bias), edge(x) + bias[:, None, None])


# --- against torch --------------------------------------------------------------------------------


def _unroll(cell: nn.Module, xs: Tensor) -> Tensor:
    h, extras = cell({"encoder": xs[0]})
    hs = [h]
    for x in xs[1:]:
        h, extras = cell({"encoder": x, "state": h}, extras)
        hs.append(h)
    return torch.stack(hs)


def test_lstm_equals_torch():
    cell = LSTM.of((5,), channels=3)
    _randomise(cell)
    theirs = nn.LSTM(5, 3)

    def reorder(value: Tensor) -> Tensor:  # i, f, o, g to the i, f, g, o of torch
        i, f, o, g = value.chunk(4)
        return torch.cat([i, f, g, o])

    with torch.no_grad():
        theirs.weight_ih_l0.copy_(reorder(cell.encoder.weight))
        theirs.weight_hh_l0.copy_(reorder(cell.state.weight))
        theirs.bias_ih_l0.copy_(reorder(cell.bias))
        theirs.bias_hh_l0.zero_()
    xs = torch.randn(4, 2, 5)
    torch.testing.assert_close(_unroll(cell, xs), theirs(xs)[0])


def test_gru_equals_torch():
    cell = GRU.of((5,), channels=3)
    _randomise(cell)
    theirs = nn.GRU(5, 3)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(cell.encoder.weight)
        theirs.weight_hh_l0.copy_(cell.state.weight)
        theirs.bias_ih_l0.copy_(cell.bias)
        theirs.bias_hh_l0.zero_()
        theirs.bias_hh_l0[6:] = cell.state_bias
    xs = torch.randn(4, 2, 5)
    torch.testing.assert_close(_unroll(cell, xs), theirs(xs)[0])


@pytest.mark.parametrize(("conv", "dense"), [(ConvLSTM, LSTM), (ConvGRU, GRU)])
def test_on_one_pixel_convolutional_and_dense_cells_agree(conv, dense):
    pixel = conv.of((5, 1, 1), channels=3, filter=1, norm="none")
    vector = dense.of((5,), channels=3)
    _randomise(vector)
    shapes = {name: p.shape for name, p in pixel.named_parameters()}
    pixel.load_state_dict({k: v.view(shapes[k]) for k, v in vector.state_dict().items()})
    xs = torch.randn(3, 2, 5)
    torch.testing.assert_close(_unroll(pixel, xs[..., None, None]).flatten(2), _unroll(vector, xs))


# --- by hand --------------------------------------------------------------------------------------


def test_conv_lstm():
    cell = ConvLSTM.of({"encoder": (2, 4, 4), "decoder_to_encoder": (2, 4, 4)}, channels=3)
    _randomise(cell)
    x, d, h, c = (torch.randn(2, n, 4, 4) for n in (2, 2, 3, 3))

    def term(value: Tensor, edge: Edge) -> Tensor:
        a = functional.conv2d(value, edge.weight, padding=1)
        return functional.group_norm(a, 1) * edge.gain[:, None, None]

    values = {"encoder": x, "state": h, "decoder_to_encoder": d}
    a = sum(term(value, cell.edge(key)) for key, value in values.items())
    i, f, o, g = (a + cell.bias[:, None, None]).chunk(4, dim=1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    output, extras = cell(values, {"c": c})
    torch.testing.assert_close(extras["c"], new)
    torch.testing.assert_close(output, o.sigmoid() * new.tanh())


def test_g1():
    cell = G1.of({"lateral": (2, 3, 3), "decoder": (5,)})
    _randomise(cell)
    v_top, h = torch.randn(4, 5), torch.randn(4, 2, 3, 3)
    u = functional.batch_norm(v_top @ cell.decoder.weight.T + cell.b, None, None, training=True)
    s = f(u, cell.lateral.w_s)
    y = s * h.flatten(1) + (1 - s) * f(u, cell.w)
    output, _ = cell({"lateral": h, "decoder": v_top})
    torch.testing.assert_close(output, y.view_as(h))
    alone = G1.of((5,), out=(2, 3, 3))
    weights = {k: v for k, v in cell.state_dict().items() if not k.startswith("lateral.")}
    alone.load_state_dict(weights)
    torch.testing.assert_close(alone({"decoder": v_top})[0], f(u, cell.w).view_as(h))
    with pytest.raises(ValueError, match="G1 needs a value for lateral"):
        cell({"decoder": v_top})


def test_conv_g1():
    cell = ConvG1.of({"lateral": (2, 4, 4), "decoder": (3, 2, 2)}, filter=4)
    _randomise(cell)
    v_top, h = torch.randn(4, 3, 2, 2), torch.randn(4, 2, 4, 4)
    a = functional.conv_transpose2d(v_top, cell.decoder.weight, cell.b, 2, 1)
    u = functional.batch_norm(a, None, None, training=True)
    s = f(u, cell.lateral.w_s[:, :, None, None])
    y = s * h + (1 - s) * f(u, cell.w[:, :, None, None])
    torch.testing.assert_close(cell({"lateral": h, "decoder": v_top})[0], y)


def test_conv_g2():
    cell = ConvG2.of({"lateral": (2, 4, 4), "decoder": (3, 4, 4)}, channels=5, inner=2)
    _randomise(cell)
    values = {"lateral": torch.randn(2, 2, 4, 4), "decoder": torch.randn(2, 3, 4, 4)}
    branches = []
    for part in (slice(0, 2), slice(2, 4), slice(4, 6)):  # mu_1, mu_2, s
        u = cell.c[part, None, None]
        for key, value in values.items():
            a = functional.conv2d(value, cell.edge(key).weight[part], padding=1)
            u = u + functional.group_norm(a, 1) * cell.edge(key).gain[part, None, None]
        branches.append(f(u, cell.w[:, part, None, None]))
    mu_1, mu_2, s = branches
    y = functional.conv2d(s * mu_1 + (1 - s) * mu_2, cell.D)
    torch.testing.assert_close(cell(values)[0], y)


def test_conv_g3():
    cell = ConvG3.of({"lateral": (2, 4, 4), "decoder": (5, 4, 4)}, inner=3, inner_filter=3)
    _randomise(cell)
    values = {"lateral": torch.randn(2, 2, 4, 4), "decoder": torch.randn(2, 5, 4, 4)}
    u = sum(
        functional.group_norm(functional.conv2d(value, cell.edge(key).weight, padding=1), 1)
        * cell.edge(key).gain[:, None, None]
        for key, value in values.items()
    )
    u = torch.relu(u + cell.c[:, None, None])
    s, D_u, E_u = (functional.conv2d(u, w, padding=1) for w in (cell.W_s, cell.D, cell.E))
    y = s.sigmoid() * D_u + (1 - s.sigmoid()) * E_u
    torch.testing.assert_close(cell(values)[0], y)


JOINT_LAYER = {"kind": "layer", "terms": "joint"}


def test_joint_norm_normalises_the_sum():
    shapes = {"encoder": (2, 4, 4), "decoder_to_encoder": (3, 4, 4)}
    cell = Conv.of(shapes, channels=3, norm=JOINT_LAYER)
    _randomise(cell)
    values = {key: torch.randn(2, *shape) for key, shape in shapes.items()}
    total = sum(convolve(value, cell.edge(key).weight) for key, value in values.items())
    expected = torch.relu(LayerNorm()(total, cell.gain, cell.bias))
    torch.testing.assert_close(cell(values)[0], expected)


def test_joint_norm_of_conv_g2_normalises_each_branch():
    cell = ConvG2.of((3, 4, 4), out=(2, 4, 4), norm="joint")
    _randomise(cell)
    v_top = torch.randn(2, 3, 4, 4)
    parts = convolve(v_top, cell.decoder.weight).chunk(3, dim=1)
    normal = torch.cat([functional.group_norm(part, 1) for part in parts], dim=1)
    u = normal * cell.gain[:, None, None] + cell.c[:, None, None]
    mu_1, mu_2, s = f(u, cell.w[:, :, None, None]).chunk(3, dim=1)
    torch.testing.assert_close(cell({"decoder": v_top})[0], s * mu_1 + (1 - s) * mu_2)


def test_joint_norm_of_a_gru_leaves_what_the_reset_gate_scales():
    cell = GRU.of((5,), channels=3, norm=JOINT_LAYER)
    _randomise(cell)
    x, h = torch.randn(2, 5), torch.randn(2, 3)
    a = h @ cell.state.weight.T
    total = x @ cell.encoder.weight.T + torch.cat([a[:, :6], torch.zeros(2, 3)], dim=1)
    r, z, n = LayerNorm()(total, cell.gain, cell.bias).chunk(3, dim=1)
    n = torch.tanh(n + r.sigmoid() * (a[:, 6:] + cell.state_bias))
    expected = (1 - z.sigmoid()) * n + z.sigmoid() * h
    torch.testing.assert_close(cell({"encoder": x, "state": h})[0], expected)


def test_softmax_gives_probabilities_and_keeps_its_logits():
    cell = SoftMax.of((4,), channels=3)
    _randomise(cell)
    x = torch.randn(5, 4)
    a = functional.batch_norm(x @ cell.encoder.weight.T, None, None, training=True)
    output, extras = cell({"encoder": x})
    torch.testing.assert_close(extras["logits"], a * cell.encoder.gain + cell.bias)
    torch.testing.assert_close(output, extras["logits"].softmax(1))


def test_fc_takes_the_shape_of_its_level():
    cell = FC.of({"decoder": (4,)}, out=(2, 3, 3), norm="none", activation="none")
    _randomise(cell)
    x = torch.randn(5, 4)
    expected = (x @ cell.decoder.weight.T + cell.bias).view(5, 2, 3, 3)
    torch.testing.assert_close(cell({"decoder": x})[0], expected)


@pytest.mark.parametrize("mode", ["max", "average"])
@settings(max_examples=40, deadline=None)
@given(n=sizes, k=filters, s=strides)
def test_pool_written_out(mode, n, k, s):
    x = torch.randn(1, 1, n, 1)
    pool = Pool.of((1, n, 1), mode=mode, filter=(k, 1), stride=(s, 1))
    y, _ = pool({"encoder": x})
    assert y.shape == (1, 1, -(-n // s), 1)
    for j in range(y.shape[2]):
        first = j * s - max(k - s, 0) // 2
        window = x[0, 0, max(first, 0) : first + k, 0]
        torch.testing.assert_close(y[0, 0, j, 0], window.max() if mode == "max" else window.mean())


def test_average_spreads_each_value_over_its_window():
    v_top = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    cell = Average.of((1, 2, 2), out=(1, 3, 5))
    rows = [[1, 1, 1, 2, 2], [1, 1, 1, 2, 2], [3, 3, 3, 4, 4]]
    assert cell({"decoder": v_top})[0].tolist() == [[rows]]
    vector = Average.of((2,), out=(2, 1, 2))
    assert vector({"decoder": torch.tensor([[1.0, 2.0]])})[0].tolist() == [[[[1, 1]], [[2, 2]]]]


def test_identity_is_no_copy():
    cell, x = Identity.of((3,)), torch.randn(2, 3)
    assert cell({"decoder": x})[0] is x


def test_the_leak_is_that_of_the_ladder():
    assert ACTIVATIONS["leaky_relu"].compute(torch.tensor(-1.0)).item() == pytest.approx(-0.1)


# --- recurrent decoders ---------------------------------------------------------------------------


def _decoder_terms(name: str) -> tuple[nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    """A recurrent decoder of maps of one size, values of its edges and their normalised maps."""
    shapes = {"decoder": (3, 4, 5), "lateral": (2, 4, 5), "state": (2, 4, 5)}
    row = Row(name, Side.DECODER, shapes, level=(2, 4, 5), row=(3, 4, 5))
    cell = row.build()
    _randomise(cell)
    values = row.values()
    terms = {
        key: functional.group_norm(functional.conv2d(x, cell.edge(key).weight, padding=1), 1)
        * cell.edge(key).gain[:, None, None]
        for key, x in values.items()
    }
    return cell, values, terms


def test_conv_lstm_as_a_decoder():
    cell, values, terms = _decoder_terms("ConvLSTM")
    c = torch.randn(3, 2, 4, 5)
    a = sum(terms.values()) + cell.bias[:, None, None]
    i, f_, o, g = a[:, :2], a[:, 2:4], a[:, 4:6], a[:, 6:]
    new = f_.sigmoid() * c + i.sigmoid() * g.tanh()
    y, extras = cell(values, {"c": c})
    torch.testing.assert_close(extras["c"], new)
    torch.testing.assert_close(y, o.sigmoid() * new.tanh())


def test_conv_gru_as_a_decoder():
    cell, values, terms = _decoder_terms("ConvGRU")
    state = terms.pop("state")
    a = sum(terms.values()) + cell.bias[:, None, None]
    r, z = (a[:, :2] + state[:, :2]).sigmoid(), (a[:, 2:4] + state[:, 2:4]).sigmoid()
    n = torch.tanh(a[:, 4:] + r * (state[:, 4:] + cell.state_bias[:, None, None]))
    torch.testing.assert_close(cell(values)[0], (1 - z) * n + z * values["state"])


def test_soft_max_of_places_is_over_channels():
    cell = SoftMax.of((2, 3, 4), channels=5, weights="conv", norm="none")
    _randomise(cell)
    x = torch.randn(2, 2, 3, 4)
    y, extras = cell({"encoder": x})
    for row in range(3):
        for column in range(4):
            logits = x[:, :, row, column] @ cell.encoder.weight[:, :, 0, 0].T + cell.bias
            torch.testing.assert_close(extras["logits"][:, :, row, column], logits)
            exp = logits.exp()
            torch.testing.assert_close(y[:, :, row, column], exp / exp.sum(1, keepdim=True))


# --- arrows without weights -----------------------------------------------------------------------


def test_a_residual_is_added_to_the_pre_activation():
    shapes = {"encoder": (2, 4, 5), "skip_encoder_a_0": (3, 4, 5)}
    options = {"skip_encoder_a_0": {"map": "identity", "scale": -2.0}}
    cell = Conv.of(shapes, channels=3, norm="none", edges=options)
    _randomise(cell)
    x, y = torch.randn(2, 2, 4, 5), torch.randn(2, 3, 4, 5)
    a = functional.conv2d(x, cell.encoder.weight, cell.bias, padding=1) - 2 * y
    torch.testing.assert_close(cell({"encoder": x, "skip_encoder_a_0": y})[0], a.relu())
    assert not list(cell.edge("skip_encoder_a_0").parameters())


@pytest.mark.parametrize("size", [(2, 3), (3, 3), (8, 10)])
def test_nearest_takes_the_place_whose_centre_is_nearest(size):
    edge = Edge(Projection("resampled", (1, *size), (1, 4, 5), factor=-1.0))
    x = torch.randn(1, 1, *size)
    y = edge(x)
    for row in range(4):
        for column in range(5):
            i, j = int((row + 0.5) * size[0] / 4), int((column + 0.5) * size[1] / 5)
            torch.testing.assert_close(y[0, 0, row, column], -x[0, 0, i, j])


def test_bilinear_weighs_the_nearest_centres():
    edge = Edge(Projection("resampled", (1, 2, 1), (1, 4, 1), mode="bilinear"))
    y = edge(torch.tensor([[[[1.0], [5.0]]]]))
    torch.testing.assert_close(y.flatten(), torch.tensor([1.0, 2.0, 4.0, 5.0]))


def test_concatenated_relu_gives_both_signs_of_an_error():
    shapes = {"encoder": (1, 2, 2), "upward_diagonal": (1, 2, 2)}
    cell = Sum.of(shapes, crelu=True, edges={"upward_diagonal": {"scale": -1.0}})
    seen, expected = torch.tensor([[3.0, 1.0], [0.0, 2.0]]), torch.tensor([[1.0, 4.0], [0.0, 2.5]])
    values = {"encoder": seen[None, None], "upward_diagonal": expected[None, None]}
    above, below = torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 3.0], [0.0, 0.5]])
    torch.testing.assert_close(cell(values)[0], torch.stack([above, below])[None])
