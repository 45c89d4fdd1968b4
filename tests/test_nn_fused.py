"""What is computed in another way for speed: gates, norms in weights, norms of few numbers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from ladderspec.nn import BatchNorm, _few, _fused
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._norms import When
from ladderspec.nn._parts import gate, lstm_update
from ladderspec.nn.conv import Conv


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def maps(*shape: int) -> Tensor:
    value = torch.randn(*shape, dtype=torch.float64).to(memory_format=torch.channels_last)
    return value.requires_grad_()


def lstm_in_words(a: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
    i, f, o, g = a.chunk(4, dim=1)
    new = torch.sigmoid(i) * torch.tanh(g) + (0 if c is None else torch.sigmoid(f) * c)
    return torch.sigmoid(o) * torch.tanh(new), new


@pytest.mark.parametrize("few", [0, _fused.FEW])
@pytest.mark.parametrize("first", [True, False])
def test_lstm_update(first, few, monkeypatch):
    monkeypatch.setattr(_fused, "FEW", few)
    a, c = maps(2, 12, 3, 4), None if first else maps(2, 3, 3, 4)
    for ours, theirs in zip(lstm_update(a.clone(), c), lstm_in_words(a, c), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    torch.autograd.gradcheck(lambda a, c: lstm_update(a.clone(), c), (a, c))
    torch.autograd.gradgradcheck(lambda a, c: lstm_update(a.clone(), c), (a, c))


def test_a_sum_that_is_part_of_something_else(monkeypatch):
    monkeypatch.setattr(_fused, "FEW", 0)
    whole, c = maps(4, 12, 3, 4), maps(4, 3, 3, 4)
    part = (whole * 1).view(4, 12, 3, 4)
    assert part._is_view()
    for ours, theirs in zip(lstm_update(part, c), lstm_in_words(whole, c), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


def test_many_gradients_at_once(monkeypatch):
    monkeypatch.setattr(_fused, "FEW", 0)
    a, c, three = maps(2, 12, 3, 4), maps(2, 3, 3, 4), maps(2, 9, 3, 4)
    for y, inputs in ((lstm_update(a.clone(), c)[0], (a, c)), (gate(three), (three,))):
        towards = torch.randn(5, *y.shape, dtype=y.dtype)
        found = torch.autograd.grad(y, inputs, towards, is_grads_batched=True, retain_graph=True)
        for k, one in enumerate(towards):
            wanted = torch.autograd.grad(y, inputs, one, retain_graph=True)
            for some, other in zip(found, wanted, strict=True):
                torch.testing.assert_close(some[k], other)


def test_what_is_large_is_fused():
    h, c = lstm_update(maps(2, 4 * 64, 8, 8).clone(), maps(2, 64, 8, 8))
    assert {h.grad_fn.name(), c.grad_fn.name()} == {"LSTMUpdateBackward"}
    assert gate(maps(2, 3 * 64, 8, 8)).grad_fn.name() == "GatedMapsBackward"


def test_what_reads_the_sum_as_well_is_refused_rather_than_wrong():
    a = maps(2, 4 * 64, 8, 8).clone()
    other = a.square()
    h, _ = lstm_update(a, maps(2, 64, 8, 8))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (h.sum() + other.sum()).backward()


@pytest.mark.parametrize("few", [0, _fused.FEW])
def test_gate(few, monkeypatch):
    monkeypatch.setattr(_fused, "FEW", few)
    three = maps(2, 9, 3, 4)
    s, a, b = three.chunk(3, dim=1)
    expected = torch.sigmoid(s) * a + (1 - torch.sigmoid(s)) * b
    torch.testing.assert_close(gate(three), expected, rtol=0, atol=1e-14)
    torch.autograd.gradcheck(gate, (three,))
    torch.autograd.gradgradcheck(gate, (three,))


# --- norms folded into weights -------------------------------------------------------------------

KINDS = {
    "conv": Arrow("conv", (3, 6, 6), (4, 6, 6), (3, 3), norm="batch", iterations=3),
    "transposed": Arrow(
        "transposed", (3, 3, 3), (4, 6, 6), (3, 3), (2, 2), norm="batch", iterations=3
    ),
    "dense": Arrow("dense", (3, 2, 2), (4,), norm="batch", iterations=3),
    "dense to maps": Arrow("dense", (5,), (4, 2, 2), norm="batch", iterations=3),
}


def evaluated(kind: str) -> tuple[Arrow, Tensor]:
    """An arrow with statistics that differ from t to t, and something to send along it."""
    arrow = copy.deepcopy(KINDS[kind]).double().eval()
    with torch.no_grad():
        arrow.norm.running_mean.normal_()
        arrow.norm.running_var.uniform_(0.5, 2)
        arrow.gain.normal_()
    return arrow, torch.randn(2, *arrow.source, dtype=torch.float64)


def same(arrow: Arrow, x: Tensor, bias: Tensor, t: int = 0) -> None:
    expected = arrow(x, When(t), bias)  # not of a stream: nothing is folded
    with torch.no_grad():
        found = arrow(x, When(t, streams=True), bias)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folded_norm_equals_the_norm_at_every_t(kind):
    arrow, x = evaluated(kind)
    bias = torch.randn(4, dtype=torch.float64)
    for t in (0, 1, 2, 1, 5):
        same(arrow, x, bias, t)


@pytest.mark.parametrize("kind", ["conv", "transposed", "dense"])
@pytest.mark.parametrize("name", ["weight", "gain", "norm.running_mean", "norm.running_var"])
def test_a_folded_norm_notices_every_change(kind, name):
    arrow, x = evaluated(kind)
    bias = torch.randn(4, dtype=torch.float64)
    same(arrow, x, bias)
    assert arrow.kept
    with torch.no_grad():
        arrow.state_dict()[name].mul_(1.5)
    same(arrow, x, bias)
    with torch.no_grad():
        bias.add_(1)
    same(arrow, x, bias)
    arrow.load_state_dict({key: value + 0.5 for key, value in arrow.state_dict().items()})
    same(arrow, x, bias)
    arrow.float()
    same(arrow.double(), x, bias)


def test_folding_leaves_no_trace_in_the_state():
    arrow, x = evaluated("conv")
    names = list(arrow.state_dict())
    with torch.no_grad():
        arrow(x, When(streams=True))
    assert arrow.kept
    assert (
        list(arrow.state_dict())
        == names
        == [
            "weight",
            "gain",
            "norm.running_mean",
            "norm.running_var",
        ]
    )


def test_activations_overwrite_only_what_is_theirs():
    x = torch.randn(2, 3, 4, 4)
    before = x.clone()
    Conv({"encoder": Arrow("none", (3, 4, 4), (3, 4, 4))}, joint="layer")({"encoder": x})
    assert torch.equal(x, before)


# --- norms of what few numbers make --------------------------------------------------------------

FEW = {
    "3x3": Arrow("conv", (1, 6, 5), (24, 6, 5), (3, 3), norm="layer"),
    "stride 2": Arrow("conv", (1, 7, 6), (24, 4, 3), (3, 3), (2, 2), norm="layer"),
    "1x3": Arrow("conv", (1, 1, 9), (24, 1, 9), (1, 3), norm="layer"),
    "two channels": Arrow("conv", (2, 4, 4), (24, 4, 4), (1, 3), norm="layer"),
}


@pytest.fixture
def always_few(monkeypatch):
    monkeypatch.setattr(_few, "MANY", 0)


def learnt(arrow: Arrow) -> tuple[Arrow, Tensor, Tensor]:
    """An arrow with a gain of its own, something to send along it, and a bias."""
    arrow = copy.deepcopy(arrow).double()
    with torch.no_grad():
        arrow.gain.normal_()
    x = torch.rand(3, *arrow.source, dtype=torch.float64) + 2
    return arrow, x, torch.randn(24, dtype=torch.float64, requires_grad=True)


def in_words(arrow: Arrow, x: Tensor, bias: Tensor) -> Tensor:
    padding = (arrow.filter[0] // 2, arrow.filter[1] // 2)
    y = torch.nn.functional.conv2d(x, arrow.weight, None, arrow.stride, padding)
    return torch.nn.functional.group_norm(y, 1, arrow.gain, bias, 1e-5)


@pytest.mark.parametrize("case", FEW)
def test_few_numbers(case, always_few):
    arrow, x, bias = learnt(FEW[case])
    wanted = [*arrow.parameters(), bias]
    ours, theirs = arrow(x, bias=bias), in_words(arrow, x, bias)
    assert ours.grad_fn.name() == "ProductBackward"
    assert ours.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    towards = torch.randn_like(theirs)
    for one, other in zip(
        torch.autograd.grad(ours, wanted, towards),
        torch.autograd.grad(theirs, wanted, towards),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


def test_few_numbers_have_second_derivatives(always_few):
    arrow, x, bias = learnt(FEW["1x3"])

    def drive(weight: Tensor, gain: Tensor) -> Tensor:
        values = {"weight": weight, "gain": gain}
        names = dict(arrow.named_parameters())
        for name, value in values.items():
            del arrow._parameters[name]
            setattr(arrow, name, value)
        try:
            return arrow(x, bias=bias.detach())
        finally:
            for name in values:
                delattr(arrow, name)
                arrow.register_parameter(name, names[name])

    given = (arrow.weight, arrow.gain)
    assert torch.autograd.gradcheck(drive, given)
    assert torch.autograd.gradgradcheck(drive, given)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e4])
def test_few_numbers_that_are_all_alike(value, always_few):
    """Nothing to see but the border, or nothing at all; in float32."""
    arrow = copy.deepcopy(FEW["3x3"])
    x = torch.full((2, 1, 6, 5), value)
    bias = torch.randn(24)
    expected = in_words(arrow.double(), x.double(), bias.double()).float()
    torch.testing.assert_close(arrow.float()(x, bias=bias), expected, rtol=1e-4, atol=1e-5)


def test_few_numbers_with_a_large_mean(always_few):
    """The mean is taken away before squares are: they would swallow the rest in float32."""
    arrow = copy.deepcopy(FEW["1x3"])
    x = 1000 + torch.rand(2, 1, 1, 9)
    expected = in_words(arrow.double(), x.double(), torch.zeros(24).double())
    found = arrow.float()(x, bias=torch.zeros(24))
    by_torch = in_words(arrow, x, torch.zeros(24))
    assert (found - expected).abs().max() < 2 * (by_torch - expected).abs().max() + 1e-5


def test_only_many_values_from_few_numbers():
    def product(arrow: Arrow, batch: int) -> bool:
        return arrow(torch.rand(batch, *arrow.source)).grad_fn.name() == "ProductBackward"

    few = Arrow("conv", (1, 32, 32), (128, 32, 32), (3, 3), norm="layer")
    assert product(few, 2)
    assert not product(few, 1)
    assert not product(Arrow("conv", (4, 32, 32), (128, 32, 32), (3, 3), norm="layer"), 2)
    assert not product(Arrow("conv", (1, 32, 32), (128, 32, 32), (3, 3), norm="batch"), 2)
    assert not product(Arrow("conv", (1, 32, 32), (16, 32, 32), (3, 3), norm="layer"), 16)
    assert not product(Arrow("conv", (1, 32, 32), (128, 32, 32), (3, 3), norm="layer", groups=4), 2)


def test_few_numbers_whose_squares_cancel():
    """Filters that look for differences, where there are none: grey in three channels."""
    arrow = Arrow("conv", (3, 64, 64), (64, 64, 64), 1, norm="layer")
    with torch.no_grad():
        arrow.weight -= arrow.weight.mean(1, keepdim=True)
    x = (255 * torch.rand(4, 1, 64, 64)).expand(-1, 3, -1, -1)
    y = arrow(x)
    assert y.grad_fn.name() == "ProductBackward"
    assert y.isfinite().all()
    blob = torch.linspace(-1, 1, 64).square().neg().exp()
    x = (blob[:, None] * blob).expand(4, 3, 64, 64)
    exact = in_words(copy.deepcopy(arrow).double(), x.double(), torch.zeros(64).double())
    by_torch = in_words(arrow, x, torch.zeros(64))
    assert (arrow(x) - exact).abs().max() < 2 * (by_torch - exact).abs().max() + 1e-5


def test_few_numbers_read_the_weight_once(always_few):
    """Who makes weights anew at every reading gets the norm of what was used."""
    arrow, x, _ = learnt(FEW["3x3"])
    with torch.no_grad():
        arrow.gain.fill_(1)
    arrow.few_readings = 0

    class Anew(torch.nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            arrow.few_readings += 1
            return weight * torch.rand_like(weight)

    torch.nn.utils.parametrize.register_parametrization(arrow, "weight", Anew(), unsafe=True)
    arrow.few_readings = 0
    y = arrow(x)
    assert arrow.few_readings == 1
    torch.testing.assert_close(y.mean((1, 2, 3)), torch.zeros(3, dtype=torch.float64))
    var = y.square().mean((1, 2, 3))
    torch.testing.assert_close(var, torch.ones_like(var), rtol=1e-3, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_few_numbers_of_low_precision_step_aside(dtype, always_few):
    arrow = copy.deepcopy(FEW["3x3"]).to(dtype)
    y = arrow((255 * torch.rand(2, 1, 6, 5)).to(dtype))
    assert y.grad_fn.name() != "ProductBackward"
    assert y.isfinite().all()


def test_few_numbers_stay_where_they_are(always_few):
    arrow, x, bias = learnt(FEW["3x3"])
    with torch.no_grad(), torch.device("meta"):
        assert arrow(x, bias=bias).device == x.device


CHANGES = ["gradient", "hook", "norm", "size", "autocast", "forward", "linear"]


@pytest.mark.parametrize("change", CHANGES)
def test_few_numbers_step_aside(change, always_few):
    arrow, x, bias = learnt(FEW["3x3"])
    seen = []
    if change == "gradient":
        x.requires_grad_()
    elif change == "hook":
        arrow.norm.register_forward_hook(lambda *_: seen.append(1))
    elif change == "forward":
        theirs = arrow.norm.forward
        arrow.norm.forward = lambda *given: seen.append(1) or theirs(*given)
    elif change == "linear":
        theirs = arrow.linear
        arrow.linear = lambda *given, **named: seen.append(1) or theirs(*given, **named)
    elif change == "norm":
        arrow.norm = BatchNorm(24).double()
    elif change == "size":
        x = torch.rand(3, 1, 9, 9, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16, enabled=change == "autocast"):
        y = arrow(x, bias=bias)
    assert y.grad_fn.name() != "ProductBackward"
    assert y.shape == (3, 24, *x.shape[2:])
    assert bool(seen) is (change in ("hook", "forward", "linear"))
    if change == "gradient":
        y.sum().backward()
        assert x.grad is not None
