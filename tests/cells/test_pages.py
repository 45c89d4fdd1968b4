"""docs/cells.md is enough to rebuild every family of cells, with torch.nn.functional alone."""

from __future__ import annotations

import hashlib
import runpy
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import ladderspec as ls
from ladderspec import nn
from ladderspec.cells import ACTIVATIONS, Activation, EncoderCell, Site, base
from ladderspec.cells.grouping import Groups
from ladderspec.names import Side

Shape = tuple[int, ...]
MAPS, HALF = (4, 7, 6), (6, 4, 3)


DOCS = Path(__file__).parents[2] / "docs"


def page() -> str:
    return str(runpy.run_path(str(DOCS / "make_cells.py"))["page"]())


def test_the_page_is_up_to_date() -> None:
    """`python docs/make_cells.py` writes it."""
    assert page() == (DOCS / "cells.md").read_text(encoding="utf-8")


class Doubled(EncoderCell):
    """y = 2 a"""

    cell: Literal["Doubled"] = "Doubled"

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    @staticmethod
    def compute(a: Tensor) -> Tensor:
        return 2 * a


def test_the_page_knows_new_activations_and_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    def cube(a: Tensor) -> Tensor:
        """a^3"""
        return a**3

    monkeypatch.setitem(ACTIVATIONS, "cube", Activation("cube", cube))
    monkeypatch.setitem(base._CELLS[Side.ENCODER], "Doubled", Doubled)
    text = page()
    assert "| `sigmoid` | 1 / (1 + exp(-a)) |\n| `cube` | a^3 |\n" in text
    _, found = text.split("### Doubled, encoder\n")
    assert found.split("###")[0].startswith("\n```\ny = 2 a\n```\n\n```python\ndef compute(")


# --- written from the page ------------------------------------------------------------------------


def conv(x: Tensor, weight: Tensor, s: int = 1, d: int = 1, groups: int = 1) -> Tensor:
    """Output j reads the inputs j s - p, ...; ceil(n / s) outputs."""
    pads: list[int] = []
    for n, taps in zip(x.shape[2:], weight.shape[2:], strict=True):
        k = d * (taps - 1) + 1
        p, m = (k - 1) // 2, -(-n // s)
        pads = [p, (m - 1) * s - p + k - n, *pads]
    padded = functional.pad(x, pads)
    return functional.conv2d(padded, weight, None, s, 0, d, groups)


def transposed(x: Tensor, weight: Tensor, s: int, size: tuple[int, int]) -> Tensor:
    """Input j adds x_j W_i to the outputs j s - p + i; those outside are dropped."""
    whole = functional.conv_transpose2d(x, weight, None, s)
    for axis, (n, k) in enumerate(zip(size, weight.shape[2:], strict=True), start=2):
        p = (k - 1) // 2
        whole = whole.narrow(axis, p, min(n, whole.shape[axis] - p))
        missing = [0, 0] * (3 - axis) + [0, n - whole.shape[axis]]
        whole = functional.pad(whole, missing)
    return whole


def layer(x: Tensor, groups: int = 1) -> Tensor:
    parts = x.reshape(len(x), groups, -1)
    mean, var = parts.mean(2, keepdim=True), parts.var(2, correction=0, keepdim=True)
    return ((parts - mean) / (var + 1e-5).sqrt()).view(x.shape)


def batch(x: Tensor) -> Tensor:
    axes = (0, *range(2, x.dim()))
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
    return (x - mean) / (var + 1e-5).sqrt()


def wide(values: Tensor, x: Tensor) -> Tensor:
    return values.view(-1, *(1 for _ in x.shape[2:]))


def f(u: Tensor, w: Tensor) -> Tensor:
    w0, w1, w2, w3, w4 = (wide(each, u) for each in w)
    return w0 * torch.sigmoid(w1 * u + w2) + w3 * u + w4


# --- cells ----------------------------------------------------------------------------------------


def made(kind: str, inputs: Any, **fields: Any) -> Any:
    """A cell in float64, away from its initial values."""
    torch.manual_seed(0)
    cell = getattr(nn, kind).of(inputs, **fields).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return cell


def values(inputs: dict[str, Shape]) -> dict[str, Tensor]:
    return {key: torch.randn(3, *shape, dtype=torch.float64) for key, shape in inputs.items()}


def check(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("filter", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_conv(filter: int, stride: int, dilation: int) -> None:
    cell = made("Conv", MAPS, channels=6, filter=filter, stride=stride, dilation=dilation)
    x = values({"encoder": MAPS})
    edge = cell.encoder
    y = batch(conv(x["encoder"], edge.weight, stride, dilation))
    wanted = functional.relu(y * wide(edge.gain, y) + wide(cell.bias, y))
    check(cell(x)[0], wanted)


@pytest.mark.parametrize("norm", ["none", "layer", "instance", {"kind": "group", "groups": 3}])
def test_norms_of_a_grouped_convolution(norm: Any) -> None:
    cell = made("Conv", MAPS, channels=6, channel_groups=2, norm=norm, activation="leaky_relu")
    x, edge = values({"encoder": MAPS}), cell.encoder
    y = conv(x["encoder"], edge.weight, groups=2)
    if norm != "none":
        groups = {"layer": 1, "instance": 6}.get(str(norm), 3)
        y = layer(y, groups) * wide(edge.gain, y)
    y = y + wide(cell.bias, y)
    check(cell(x)[0], torch.where(y < 0, 0.1 * y, y))


def test_dense_layers() -> None:
    shapes = {"encoder": MAPS, "skip_a": (5,)}
    x = values(shapes)
    cell = made("FC", shapes, channels=6, activation="tanh")
    terms = [batch(x[k].flatten(1) @ cell.edge(k).weight.T) * cell.edge(k).gain for k in x]
    check(cell(x)[0], torch.tanh(terms[0] + terms[1] + cell.bias))
    cell = made("FC", shapes, channels=6, norm="joint", activation="elu")
    total = x["encoder"].flatten(1) @ cell.encoder.weight.T + x["skip_a"] @ cell.skip_a.weight.T
    y = batch(total) * cell.gain + cell.bias
    check(cell(x)[0], torch.where(y > 0, y, y.exp() - 1))
    cell = made("SoftMax", shapes, channels=6, norm="none")
    y = x["encoder"].flatten(1) @ cell.encoder.weight.T + x["skip_a"] @ cell.skip_a.weight.T
    y = y + cell.bias
    check(cell(x)[1]["logits"], y)
    check(cell(x)[0], y.exp() / y.exp().sum(1, keepdim=True))


@pytest.mark.parametrize("filter", [3, 4])
@pytest.mark.parametrize("joint", [False, True])
def test_conv_lstm(filter: int, joint: bool) -> None:
    shapes = {"encoder": MAPS, "decoder_to_encoder": HALF}
    norm = {"norm": "joint"} if joint else {}
    cell = made("ConvLSTM", shapes, channels=5, filter=filter, stride=2, **norm)
    x = values({**shapes, "state": (5, 4, 3)})
    c = torch.randn(3, 5, 4, 3, dtype=torch.float64)
    terms = []
    for key, value in x.items():
        weight, stride = cell.edge(key).weight, 2 if key == "encoder" else 1
        same = (filter - (filter % 2 == 0)) if key != "encoder" else filter
        assert weight.shape[2:] == (same, same)
        y = conv(value, weight, stride)
        terms.append(y if joint else layer(y) * wide(cell.edge(key).gain, y))
    a = sum(terms[1:], terms[0])
    a = layer(a) * wide(cell.gain, a) if joint else a
    i, forget, o, g = (a + wide(cell.bias, a)).chunk(4, 1)
    new = forget.sigmoid() * c + i.sigmoid() * g.tanh()
    output, further = cell(x, {"c": c})
    check(further["c"], new)
    check(output, o.sigmoid() * new.tanh())


@pytest.mark.parametrize("joint", [False, True])
def test_gru(joint: bool) -> None:
    norm: dict[str, Any] = {"norm": {"kind": "layer", "terms": "joint" if joint else "separate"}}
    cell = made("GRU", (7,), channels=5, **norm)
    x = values({"encoder": (7,), "state": (5,)})
    a, s = (x[key] @ cell.edge(key).weight.T for key in x)
    if not joint:
        a = layer(a) * cell.encoder.gain + cell.bias
        s = layer(s) * cell.state.gain
    (a_r, a_z, a_n), (s_r, s_z, s_n) = a.chunk(3, 1), s.chunk(3, 1)
    gates = torch.cat([a_r + s_r, a_z + s_z, a_n], 1)
    gates = layer(gates) * cell.gain + cell.bias if joint else gates
    r, z, n = gates.chunk(3, 1)
    n = torch.tanh(n + r.sigmoid() * (s_n + cell.state_bias))
    check(cell(x)[0], (1 - z.sigmoid()) * n + z.sigmoid() * x["state"])


@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize(("filter", "stride"), [(2, 2), (3, 2), (2, 3), (3, 1), (5, 2)])
def test_pool(mode: str, filter: int, stride: int) -> None:
    x = values({"encoder": MAPS})
    maps, q = x["encoder"], max(filter - stride, 0) // 2
    rows = []
    for i in range(-(-MAPS[1] // stride)):
        top = max(i * stride - q, 0), i * stride - q + filter
        row = []
        for j in range(-(-MAPS[2] // stride)):
            window = maps[:, :, slice(*top), max(j * stride - q, 0) : j * stride - q + filter]
            row.append(window.amax((2, 3)) if mode == "max" else window.mean((2, 3)))
        rows.append(torch.stack(row, -1))
    cell = made("Pool", MAPS, mode=mode, filter=filter, stride=stride)
    check(cell(x)[0], torch.stack(rows, -2))


@pytest.mark.parametrize("filter", [1, 2, 3, 4, 6])
def test_conv_g3_and_its_transposed_convolution(filter: int) -> None:
    shapes = {"lateral": MAPS, "decoder": HALF}
    cell = made("ConvG3", shapes, filter=filter, inner=5)
    x = values(shapes)
    down = transposed(x["decoder"], cell.edge("decoder").weight, 2, MAPS[1:])
    across = conv(x["lateral"], cell.lateral.weight)
    down, across = (
        layer(y) * wide(cell.edge(key).gain, y)
        for key, y in (("decoder", down), ("lateral", across))
    )
    u = functional.relu(down + across + wide(cell.c, down))
    s = conv(u, cell.W_s).sigmoid()
    check(cell(x)[0], s * conv(u, cell.D) + (1 - s) * conv(u, cell.E))


def test_conv_g2_normalises_its_branches_apart() -> None:
    shapes = {"lateral": MAPS, "decoder": HALF}
    cell = made("ConvG2", shapes, inner=5)
    x = values(shapes)
    down = transposed(x["decoder"], cell.edge("decoder").weight, 2, MAPS[1:])
    across = conv(x["lateral"], cell.lateral.weight)
    a = layer(down, 3) * wide(cell.edge("decoder").gain, down)
    a = a + layer(across, 3) * wide(cell.lateral.gain, across) + wide(cell.c, a)
    one, two, s = f(a, cell.w).chunk(3, 1)
    check(cell(x)[0], conv(s * one + (1 - s) * two, cell.D))


@pytest.mark.parametrize("gate", ["none", "sigmoid"])
def test_gates(gate: str) -> None:
    shapes = {"lateral": (4,), "decoder": (7,)}
    x, cell = values(shapes), made("G1", shapes, gate=gate)
    u = batch(x["decoder"] @ cell.edge("decoder").weight.T + cell.b)
    s = f(u, cell.lateral.w_s)
    s = s.sigmoid() if gate == "sigmoid" else s
    check(cell(x)[0], s * x["lateral"] + (1 - s) * f(u, cell.w))
    shapes = {"lateral": MAPS, "decoder": HALF}
    x, cell = values(shapes), made("ConvG1", shapes, gate=gate, filter=4, norm="layer")
    u = transposed(x["decoder"], cell.edge("decoder").weight, 2, MAPS[1:])
    u = layer(u + wide(cell.b, u))
    s = f(u, cell.lateral.w_s)
    s = s.sigmoid() if gate == "sigmoid" else s
    check(cell(x)[0], s * x["lateral"] + (1 - s) * f(u, cell.w))


def test_sums_and_averages() -> None:
    shapes = {"encoder": MAPS, "skip_a": (4, 4, 3), "skip_b": MAPS}
    options = {"skip_a": {"map": "identity"}, "skip_b": {"map": "identity", "scale": -0.5}}
    cell = made("Sum", shapes, resample="bilinear", crelu=True, edges=options)
    x = values(shapes)
    fine = functional.interpolate(x["skip_a"], MAPS[1:], mode="bilinear", align_corners=False)
    total = x["encoder"] + fine - 0.5 * x["skip_b"]
    check(cell(x)[0], torch.cat([total.relu(), (-total).relu()], 1))
    y = torch.randn(3, 4, 4, 3, dtype=torch.float64)
    cell = made("Average", (4, 4, 3), out=MAPS)
    spread = y.repeat_interleave(2, 2).repeat_interleave(2, 3)[:, :, :7, :6]
    check(cell({"decoder": y})[0], spread)


def test_readout() -> None:
    cell = made("Readout", HALF, out=(1, 7, 6), groups=Groups(count=3), filter=4)
    with torch.no_grad():
        cell.mean.fill_(0.4)
        cell.std.fill_(0.7)
    x = values({"decoder": HALF})  # one sample of three groups
    a = batch(transposed(x["decoder"], cell.edge("decoder").weight, 2, (7, 6)))
    mu = (a[:, :1] * cell.c + cell.b) * 0.7 + 0.4
    pi = (cell.c_pi * a[:, 1:]).exp()
    check(cell(x)[0], torch.cat([mu, pi / pi.sum(0)], 1))


# --- initial values -------------------------------------------------------------------------------


def test_initial_values_follow_from_the_seed_and_the_name() -> None:
    net = ls.build(
        ls.loads(
            """
input: {channels: 3, size: [6, 6]}
levels:
  - name: a
    encoder: {cell: Conv, channels: 4, filter: 4, stride: 2, norm: none}
    decoder: {cell: Conv, filter: 5, norm: none, activation: none}
  - {name: b, encoder: {cell: Conv, channels: 4, norm: none, share: c}}
  - {name: c, encoder: {cell: Conv, channels: 4, norm: none}}
tasks: {pixels: {kind: denoising, at: decoder.input}, c: {kind: activity, at: encoder.c}}
"""
        ),
        seed=7,
    )
    weights = net.state_dict()
    variances = {
        "encoder.a.encoder.weight": 2 / (3 * 16),
        "decoder.input.decoder.weight": 1 / (4 * 25 / 4),
        "encoder.c.encoder.weight": 2 / (4 * 9),
    }
    for name, variance in variances.items():
        digest = hashlib.sha256(f"7/{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))
        drawn = torch.empty(weights[name].shape).normal_(0, variance**0.5, generator=generator)
        torch.testing.assert_close(weights[name], drawn, rtol=0, atol=0)
    assert "encoder.b.encoder.weight" not in weights


# --- a network ------------------------------------------------------------------------------------

NETWORK = """
input: {channels: 3, size: [13, 10], noise: {gaussian: 0.2}}
time: {frames: 4}
levels:
  - name: lstm
    encoder: {cell: ConvLSTM, channels: 5, filter: 4, stride: 2}
    decoder: {cell: convG3, filter: 6, inner: 7}
  - name: gru
    encoder: {cell: ConvGRU, channels: 4, filter: 3, stride: 3}
    decoder: {cell: convG1, filter: 4}
  - name: fc
    encoder: {cell: FC, channels: 6, noise: {gaussian: 0.3}, activation: elu}
    decoder: {cell: G1, norm: layer, gate: sigmoid}
tasks:
  next: {kind: prediction, at: decoder.input, cost: huber, delta: 0.3, weight: 2}
  act: {kind: activity, at: encoder.gru, when: [0, 1, 3, 0]}
"""


def test_a_network_and_its_costs_with_noise(one_thread: None) -> None:
    torch.manual_seed(0)
    net = ls.build(ls.loads(NETWORK)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    frames = torch.rand(5, 4, 3, 13, 10, dtype=torch.float64)
    net.set_offset(torch.full((3, 13, 10), 0.4))
    torch.manual_seed(7)
    costs = net.cost(frames)
    torch.manual_seed(7)
    x = frames + 0.2 * torch.randn_like(frames)
    noise = [0.3 * torch.randn(5, 6, dtype=torch.float64) for _ in range(4)]
    seen, gru = rebuilt(dict(net.state_dict()), x, noise)
    d = (seen + 0.4)[:, :-1] - frames[:, 1:]
    huber = torch.where(d.abs() <= 0.3, d**2 / 2, 0.3 * (d.abs() - 0.15)).mean()
    when = torch.tensor([0.0, 1, 3, 0], dtype=torch.float64)
    activity = (gru.abs().flatten(2).mean(2) * when).sum(1).mean() / 4
    for ours, theirs in ((costs["next"], huber), (costs["act"], activity)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
    torch.testing.assert_close(costs.total, 2 * huber + activity, rtol=0, atol=1e-9)


def rebuilt(p: dict[str, Tensor], x: Tensor, noise: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What the tasks read: decoder.input and encoder.gru, at every t."""
    h = c = down = x.new_zeros(5, 5, 7, 5)
    g = down_g = x.new_zeros(5, 4, 3, 2)
    seen, states = [], []

    def term(arrow: str, value: Tensor) -> Tensor:
        return layer(value) * wide(p[f"{arrow}.gain"], value)

    def same(arrow: str, value: Tensor, s: int = 1) -> Tensor:
        return term(arrow, conv(value, p[f"{arrow}.weight"], s))

    for t in range(4):
        a = same("encoder.lstm.encoder", x[:, t], 2) + same("encoder.lstm.state", h)
        a = a + same("encoder.lstm.decoder_to_encoder", down) + wide(p["encoder.lstm.bias"], a)
        i, forget, o, new = a.chunk(4, 1)
        c = forget.sigmoid() * c + i.sigmoid() * new.tanh()
        h = o.sigmoid() * c.tanh()
        a = same("encoder.gru.encoder", h, 3) + same("encoder.gru.decoder_to_encoder", down_g)
        a_r, a_z, a_n = (a + wide(p["encoder.gru.bias"], a)).chunk(3, 1)
        s_r, s_z, s_n = same("encoder.gru.state", g).chunk(3, 1)
        r, z = (a_r + s_r).sigmoid(), (a_z + s_z).sigmoid()
        new = (a_n + r * (s_n + wide(p["encoder.gru.state_bias"], s_n))).tanh()
        g = (1 - z) * new + z * g
        a = batch(functional.linear(g.flatten(1), p["encoder.fc.encoder.weight"])) + noise[t]
        e = functional.elu(a * p["encoder.fc.encoder.gain"] + p["encoder.fc.bias"])
        u = layer(functional.linear(e, p["decoder.gru.decoder.weight"]) + p["decoder.gru.b"])
        s = f(u, p["decoder.gru.lateral.w_s"]).sigmoid()
        down_g = (s * g.flatten(1) + (1 - s) * f(u, p["decoder.gru.w"])).view(g.shape)
        u = transposed(down_g, p["decoder.lstm.decoder.weight"], 3, (7, 5))
        u = batch(u + wide(p["decoder.lstm.b"], u))
        s = f(u, p["decoder.lstm.lateral.w_s"])
        down = s * h + (1 - s) * f(u, p["decoder.lstm.w"])
        u = transposed(down, p["decoder.input.decoder.weight"], 2, (13, 10))
        u = term("decoder.input.decoder", u) + same("decoder.input.lateral", x[:, t])
        u = (u + wide(p["decoder.input.c"], u)).relu()
        s = conv(u, p["decoder.input.W_s"]).sigmoid()
        y = s * conv(u, p["decoder.input.D"]) + (1 - s) * conv(u, p["decoder.input.E"])
        seen.append(y)
        states.append(g)
    return torch.stack(seen, 1), torch.stack(states, 1)


GRU = """
input: {channels: 3}
time: {frames: 3}
levels:
  - name: gru
    encoder: {cell: GRU, channels: 4, norm: {kind: layer, terms: joint}, noise: {gaussian: 0.3}}
tasks: {act: {kind: activity, at: encoder.gru}}
"""


def test_noise_in_the_gates_of_a_gru() -> None:
    net = ls.build(ls.loads(GRU)).double()
    p = {name.removeprefix("encoder.gru."): value for name, value in net.state_dict().items()}
    x, h = torch.rand(5, 3, 3, dtype=torch.float64), torch.zeros(5, 4, dtype=torch.float64)
    torch.manual_seed(7)
    ours = net.values(x, "encoder.gru")
    torch.manual_seed(7)
    noise = [0.3 * torch.randn(5, 12, dtype=torch.float64) for _ in range(3)]
    for t in range(3):
        a = functional.linear(x[:, t], p["encoder.weight"])
        s = functional.linear(h, p["state.weight"])
        z = layer(torch.cat([a[:, :8] + s[:, :8], a[:, 8:]], 1)) + noise[t]
        a_r, a_z, a_n = (z * p["gain"] + p["bias"]).chunk(3, 1)
        new = (a_n + a_r.sigmoid() * (s[:, 8:] + p["state_bias"])).tanh()
        h = (1 - a_z.sigmoid()) * new + a_z.sigmoid() * h
        torch.testing.assert_close(ours[:, t], h, rtol=0, atol=1e-9)


def test_filters_and_dilations_of_arrows() -> None:
    wired = ls.graph(ls.loads("""
input: {channels: 1, size: [8, 8]}
time: {frames: 3}
levels:
  - name: a
    encoder: {cell: Conv, channels: 4, dilation: 3, filter: 4}
    decoder: {cell: ConvLSTM, dilation: 2, filter: 4}
  - name: b
    encoder: {cell: ConvLSTM, channels: 4, stride: 2, dilation: 2, filter: 4}
    decoder: {cell: Conv, filter: 4}
edges: {add: [encoder.b(t-1) -> encoder.a, encoder.input(t-1) -> encoder.a], recurrent_decoder: [a]}
tasks: {x: {kind: prediction, at: decoder.input, head: 1}}
"""))  # fmt: skip
    found = {
        (target, key): (edge["projection"].filter[0], edge["projection"].dilation[0])
        for _, target, key, edge in wired.edges(keys=True, data=True)
    }
    assert found == {
        ("encoder.a", "encoder"): (4, 3),
        ("encoder.a", "skip_encoder_input_1"): (3, 1),
        ("encoder.a", "skip_encoder_b_1"): (4, 1),  # transposed
        ("encoder.b", "encoder"): (4, 2),
        ("encoder.b", "state"): (3, 2),
        ("decoder.a", "lateral"): (4, 1),
        ("decoder.a", "decoder"): (4, 1),  # transposed
        ("decoder.a", "recurrent_decoder"): (3, 1),
        ("decoder.input", "lateral"): (4, 2),
        ("decoder.input", "decoder"): (4, 2),
        ("decoder.input", "state"): (3, 2),
    }
