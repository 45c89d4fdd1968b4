"""Related architectures that need no plug-in: they compute what their papers say, and learn."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import ladderspec as ls
from ladderspec.network.net import Net

RESIDUAL, BLT, PREDNET, DENSENET, SIAMESE = (
    f"specs/related/{name}.yaml"
    for name in ("residual_convgru", "blt", "prednet", "densenet_block", "siamese")
)


def made(path: str) -> Net:
    torch.manual_seed(0)
    return ls.build(ls.load(path, set=["params.width=6"]))


def test_residual_connections_add_what_goes_around_a_conv_gru() -> None:
    net, frames = made(RESIDUAL), torch.rand(2, 5, 1, 32, 32)
    stem, gru, total = (net.values(frames, f"encoder.{name}") for name in ("stem", "gru1", "sum1"))
    torch.testing.assert_close(total, stem + gru)
    gru, top = (net.values(frames, f"encoder.{name}") for name in ("gru2", "sum2"))
    torch.testing.assert_close(top, total + gru)


@pytest.mark.parametrize(
    ("error", "below", "predicted"),
    [("error0", "input", "input"), ("error1", "pool1", "pool1"), ("error2", "pool2", "pool2")],
)
def test_prednet_compares_each_layer_with_its_earlier_prediction(
    error: str, below: str, predicted: str
) -> None:
    net, frames = made(PREDNET), torch.rand(2, 5, 1, 32, 32)
    seen = net.values(frames, f"encoder.{below}")
    expected = net.values(frames, f"decoder.{predicted}")
    expected = torch.cat([torch.zeros_like(expected[:, :1]), expected[:, :-1]], 1)
    positive, negative = (seen - expected).relu(), (expected - seen).relu()
    torch.testing.assert_close(
        net.values(frames, f"encoder.{error}"), torch.cat([positive, negative], 2)
    )


def test_blt_without_its_past_is_its_bottom_up_variant_at_first() -> None:
    net, frames = made(BLT).eval(), torch.rand(2, 1, 32, 32)
    torch.manual_seed(0)
    bottom_up = ls.build(ls.load(BLT, variant="b", set=["params.width=6"])).eval()
    ours, theirs = (each.values(frames, "encoder.class") for each in (net, bottom_up))
    torch.testing.assert_close(ours[:, 0], theirs[:, 0])
    assert not torch.allclose(ours[:, 1], theirs[:, 1], atol=1e-6)


def test_the_towers_of_a_siamese_network_compute_the_same() -> None:
    torch.manual_seed(0)
    net = ls.build(ls.load(SIAMESE, set=["params.width=6"])).double()
    left, right = torch.rand(2, 3, 1, 32, 32, dtype=torch.float64)
    ours = net.values({"input": left, "right": right}, "encoder.difference")
    theirs = net.values({"input": right, "right": left}, "encoder.difference")
    plus, minus = ours.chunk(2, 2)
    torch.testing.assert_close(theirs, torch.cat([minus, plus], 2), rtol=1e-9, atol=1e-9)
    alike = net.values({"input": left, "right": left}, "encoder.difference")
    assert alike.abs().max() < 1e-9


def test_a_layer_of_a_densenet_block_convolves_the_concatenation_of_all_before() -> None:
    net, x = made(DENSENET).double(), torch.rand(3, 1, 32, 32, dtype=torch.float64)
    names = ["stem", "dense_1", "dense_2", "dense_3"]
    before = torch.cat([net.values(x, f"encoder.{name}")[:, 0] for name in names], 1)
    cell = net.encoder.dense_4
    keys = [*(f"skip_encoder_{name}_0" for name in names[:-1]), "encoder"]
    weight = torch.cat([cell.edge(key).weight for key in keys], 1)
    y = functional.conv2d(before, weight, padding=1)
    wanted = functional.batch_norm(y, None, None, cell.gain, cell.bias, training=True).relu()
    torch.testing.assert_close(net.values(x, "encoder.dense_4")[:, 0], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("path", [RESIDUAL, BLT, PREDNET, DENSENET])
def test_a_few_updates_lower_the_cost(path: str) -> None:
    net = made(path)
    still = path in (BLT, DENSENET)
    frames = (
        torch.rand(4, 1, 32, 32) if still else torch.rand(4, 1, 1, 32, 32).expand(4, 5, 1, 32, 32)
    )
    targets = (torch.tensor([0, 1, 2, 3]),) if still else ()
    optimiser = torch.optim.Adam(net.parameters(), 0.003)
    costs = []
    for _ in range(12):
        cost = net.cost(frames, *targets).total
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        costs.append(cost.item())
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert costs[-1] < 0.8 * costs[0]
