"""A decoder inverts its row with the row's own stride, where a smaller one fits the sizes too."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from ladderspec import build, graph, loads
from ladderspec.export import to_python
from ladderspec.language.read import Spec
from ladderspec.wiring import graph_json

AMBIGUOUS = [(9, 4), (88, 16), (10, 4), (7, 3), (25, 8), (9, 100)]  # ceil(n / s) fits a smaller s


def ladder(row: str, size: str, more: str = "") -> Spec:
    head = f"input: {{channels: 1, size: {size}}}\ntime: {{iterations: 2}}\nlevels:\n"
    return loads(f"{head}  - {{name: a, {row}}}\n{more}")


def exported(spec: Spec) -> nn.Module:
    module = ModuleType("model")
    exec(compile(to_python(spec, "Exported"), "model.py", "exec"), module.__dict__)
    model: nn.Module = module.Exported()
    return model


def estimates(spec: Spec, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
    """`decoder.input` at the first t, of the network and of the exported file."""
    net, file = build(spec).eval(), exported(spec).eval()
    net.load_state_dict(net.state_dict() | weights)
    file.load_state_dict(net.state_dict())
    found = file(x)
    assert "decoder.input" in found
    return [net.values(x, "decoder.input")[:, 0], found["decoder.input"][:, 0]]


@pytest.mark.parametrize(("n", "s"), AMBIGUOUS)
def test_average_spreads_over_the_windows_of_its_pool(n: int, s: int) -> None:
    row = f"encoder: {{cell: Pool, mode: average, filter: [1, {s}]}}, decoder: Average"
    x = torch.zeros(1, 1, 1, n)
    for i in range(n):
        x[..., i] = i // s  # constant within a window, so that the mean is the window's number
    for y in estimates(ladder(row, f"[1, {n}]"), {}, x):
        assert y.flatten().tolist() == [i // s for i in range(n)]


def transposed(v: Tensor, w: Tensor, n: int, s: int) -> Tensor:
    """Each value adds the filter, centred where the row's convolution had centred it."""
    y = torch.zeros(n)
    for j in range(len(v)):
        for k in range(len(w)):
            i = j * s + k - (len(w) - 1) // 2
            if 0 <= i < n:
                y[i] += w[k] * v[j]
    return y


def strided(x: Tensor, w: Tensor, s: int) -> Tensor:
    y = torch.zeros(-(-len(x) // s))
    for j in range(len(y)):
        for k in range(len(w)):
            i = j * s + k - (len(w) - 1) // 2
            if 0 <= i < len(x):
                y[j] += w[k] * x[i]
    return y


@pytest.mark.parametrize(("n", "s"), AMBIGUOUS)
@pytest.mark.parametrize("k", [3, 4, 6])
def test_a_decoder_transposes_the_convolution_of_its_row(n: int, s: int, k: int) -> None:
    plain = "norm: none, activation: none"
    row = (
        f"encoder: {{cell: Conv, channels: 1, filter: [1, {k}], stride: [1, {s}], {plain}}},"
        f" decoder: {{cell: Conv, filter: [1, {k}], {plain}}}"
    )
    up, down, x = torch.randn(k), torch.randn(k), torch.randn(n)
    weights = {"encoder.a.encoder.weight": up, "decoder.input.decoder.weight": down}
    shaped = {key: w.view(1, 1, 1, k) for key, w in weights.items()}
    spec = ladder(row, f"[1, {n}]", "without: [lateral]\n")
    for y in estimates(spec, shaped, x.view(1, 1, 1, n)):
        wanted = transposed(strided(x, up, s), down, n, s)
        torch.testing.assert_close(y.flatten(), wanted)


def strides(spec: Spec) -> dict[tuple[str, str], tuple[str, tuple[int, int]]]:
    edges = graph(spec).edges(data="projection")
    return {(a, b): (projection.kind, projection.stride) for a, b, projection in edges}


@pytest.mark.parametrize("cell", ["Conv", "convG1", "convG2", "convG3"])
@pytest.mark.parametrize("encoder", ["Conv", "ConvLSTM", "ConvGRU", "Pool"])
def test_every_decoder_of_maps_knows_the_stride_of_its_row(encoder: str, cell: str) -> None:
    words = "filter: 4" if encoder == "Pool" else "channels: 1, stride: 4"
    found = strides(
        ladder(f"encoder: {{cell: {encoder}, {words}}}, decoder: {{cell: {cell}}}", "9")
    )
    assert found["encoder.a", "decoder.input"] == ("transposed", (4, 4))


def test_arrows_across_several_rows_have_the_product_of_their_strides() -> None:
    more = """\
  - {name: b, encoder: {cell: Conv, channels: 2, stride: 4}, decoder: Identity}
laterals: {input: {cell: Conv, channels: 1, stride: 16}}
edges:
  upward_diagonal: all
  downward_diagonal: all
  add: [encoder.b -> decoder.input, encoder.input -> encoder.b, encoder.b(t-1) -> encoder.a]
"""
    spec = ladder("encoder: {cell: Conv, channels: 2, stride: 3}, decoder: Conv", "25", more)
    found = strides(spec)
    assert found["decoder.a", "decoder.input"] == ("transposed", (12, 12))  # a copy of level b
    assert found["encoder.b", "decoder.input"] == ("transposed", (12, 12))
    assert found["encoder.input", "encoder.b"] == ("conv", (12, 12))
    assert found["encoder.b", "encoder.a"] == ("transposed", (4, 4))
    assert found["decoder.input", "encoder.a"] == ("conv", (3, 3))  # upward diagonal
    assert found["lateral.input", "decoder.input"] == ("transposed", (16, 16))
    again = graph_json.loads(graph_json.dumps(graph(spec)))
    assert [e for *_, e in again.edges(data="projection")] == [
        e for *_, e in graph(spec).edges(data="projection")
    ]
