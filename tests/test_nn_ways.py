"""Convolutions by way of waves, or with gradients by tiles: the same numbers as place by place."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses import FakeTensorMode

import ladderspec as ls
from ladderspec.nn import _tiles, _wide
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._parts import convolve
from ladderspec.nn._waves import three

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def always_wide(monkeypatch):
    monkeypatch.setattr(_wide, "GAIN", 0)
    monkeypatch.setattr(_wide, "WIDE", 0)


@pytest.fixture
def always_tiled(monkeypatch):
    monkeypatch.setattr(_tiles, "GAIN", 0)
    monkeypatch.setattr(_wide, "WIDE", math.inf)


either = pytest.mark.parametrize("conv", [_wide.wide_conv, _tiles.tiled_conv])


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


sizes = st.integers(1, 9)
tiles = st.integers(1, 4)


@given(st.integers(1, 3), sizes, sizes, sizes, sizes)
@settings(deadline=None, max_examples=80)
def test_same_numbers_place_by_place(channels, height, width, h, w):
    """Odd and even sizes, filters that are larger than the map among them."""
    x, weight = drawn(2, channels, height, width), drawn(3, channels, h, w)
    same_numbers(_wide.wide_conv, x, weight)


@given(st.integers(1, 5), st.integers(1, 3), tiles, tiles, st.sampled_from([0, 400, 2000, 10**6]))
@settings(deadline=None, max_examples=80)
def test_same_numbers_tile_by_tile(samples, channels, rows, columns, near):
    """Of dy where x has two channels or three, of x where it has one."""
    x, weight = drawn(samples, channels, 4 * rows, 4 * columns), drawn(2, channels, 3, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tiles, "NEAR", near)
        same_numbers(_tiles.tiled_conv, x, weight)
        same_numbers(_tiles.tiled_conv, x.to(memory_format=torch.channels_last), weight)


def same_numbers(conv: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor) -> None:
    ours, theirs = conv(x, weight), convolve(x, weight)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)
    towards = torch.randn_like(theirs)
    for one, other in zip(
        torch.autograd.grad(ours, (x, weight), towards),
        torch.autograd.grad(theirs, (x, weight), towards),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_a_sum_over_places_by_hand():
    """A filter that looks one place to the left and two up, at the border too."""
    x = torch.arange(12.0).view(1, 1, 3, 4)
    weight = torch.zeros(1, 1, 5, 5)
    weight[0, 0, 0, 1] = 1
    expected = torch.zeros(3, 4)
    expected[2, 1:] = torch.tensor([0.0, 1.0, 2.0])
    torch.testing.assert_close(_wide.wide_conv(x, weight)[0, 0], expected, rtol=0, atol=1e-5)


@either
def test_gradients_and_their_derivatives(conv):
    given = drawn(2, 2, 4, 8), drawn(2, 2, 3, 3)
    assert torch.autograd.gradcheck(conv, given)
    assert torch.autograd.gradgradcheck(conv, given)


@either
def test_derivatives_where_a_weight_comes_again(conv):
    """As over time: what x was made from is not asked twice, nor are hooks called twice."""
    x, weight = drawn(2, 2, 4, 4), drawn(2, 2, 3, 3)

    def after_two(conv: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> Tensor:
        return conv(torch.tanh(conv(x, weight)), weight)

    calls = []
    handle = weight.register_hook(lambda gradient: calls.append(1) or 2 * gradient)
    found = [
        torch.autograd.grad(after_two(each, weight).square().sum(), weight, create_graph=True)[0]
        for each in (conv, convolve)
    ]
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)
    assert len(calls) == 2
    handle.remove()
    assert torch.autograd.gradgradcheck(lambda w: after_two(conv, w), weight)


@either
def test_many_gradients_at_a_time(conv):
    given = drawn(2, 2, 4, 4), drawn(2, 2, 3, 3)
    many = torch.randn(3, 2, 2, 4, 4, dtype=torch.float64)
    found = [
        torch.autograd.grad(each(*given), given, many, is_grads_batched=True)
        for each in (conv, convolve)
    ]
    torch.testing.assert_close(*found)


@either
@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_only_the_gradients_that_are_wanted(conv, frozen):
    given = {"x": drawn(2, 2, 8, 8), "weight": drawn(3, 2, 3, 3)}
    given[frozen].requires_grad_(False)
    conv(**given).square().sum().backward()
    (other,) = given.keys() - {frozen}
    assert given[frozen].grad is None
    found, given[other].grad = given[other].grad, None
    convolve(given["x"], given["weight"]).square().sum().backward()
    torch.testing.assert_close(found, given[other].grad)
    assert torch.autograd.gradgradcheck(conv, tuple(given.values()))


def roundings(
    conv: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor, towards: Tensor
) -> list[float]:
    """Errors of y, dx and dweight in float32, as multiples of those of a sum over places."""
    exact = [y := convolve(x, weight), *torch.autograd.grad(y, (x, weight), towards)]

    def errors(conv: Callable[[Tensor, Tensor], Tensor]) -> list[float]:
        given = [each.detach().float().requires_grad_() for each in (x, weight)]
        found = [y := conv(*given), *torch.autograd.grad(y, given, towards.float())]
        off = zip(found, exact, strict=True)
        return [float((a - b).detach().norm() / b.detach().norm()) for a, b in off]

    ours, theirs = errors(conv), errors(convolve)
    assert min(*ours, *theirs) > 1e-8
    return [one / other for one, other in zip(ours, theirs, strict=True)]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_roundings_of_waves_are_of_the_same_order(kind):
    x, weight = drawn(8, 32, 16, 16), drawn(32, 32, 9, 9)
    if kind == "sparse":
        x = (x.detach() - 1.5).relu().requires_grad_()
    towards = torch.randn(8, 32, 16, 16, dtype=torch.float64)
    assert max(roundings(_wide.wide_conv, x, weight, towards)) < 4


@pytest.mark.parametrize(("kind", "most"), [("dense", 7), ("sparse", 11)])
@pytest.mark.parametrize("channels", [32, 64])
def test_roundings_of_tiles(channels, kind, most):
    x, weight = drawn(8, channels, 16, 16), drawn(64, channels, 3, 3)
    towards = torch.randn(8, 64, 16, 16, dtype=torch.float64)
    if kind == "sparse":
        towards *= torch.rand_like(towards) < 0.1
    y, dx, dweight = roundings(_tiles.tiled_conv, x, weight, towards)
    assert y == 1
    assert 2 < dx < most
    assert dweight < most


def test_samples_stay_apart():
    x, weight = drawn(3, 2, 6, 6), drawn(2, 2, 5, 5)
    with torch.no_grad():
        x[1] = math.nan
    y = _wide.wide_conv(x, weight)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()


def test_gradients_of_samples_stay_apart():
    x, weight = drawn(3, 2, 8, 8), drawn(2, 2, 3, 3)
    towards = torch.ones(3, 2, 8, 8, dtype=torch.float64)
    towards[1] = math.nan
    (dx,) = torch.autograd.grad(_tiles.tiled_conv(x, weight), x, towards)
    assert dx[1].isnan().all()
    assert dx[[0, 2]].isfinite().all()


@either
@pytest.mark.parametrize("more", [False, True])
def test_backward_under_autocast_keeps_its_precision(conv, more):
    given = drawn(2, 8, 8, 8, dtype=torch.float32), drawn(8, 8, 3, 3, dtype=torch.float32)
    towards = torch.randn(2, 8, 8, 8)
    expected = torch.autograd.grad(convolve(*given), given, towards)
    y = conv(*given)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(y, given, towards, create_graph=more)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@either
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_of_weights_are_laid_out_as_they_are(conv, layout):
    x, weight = drawn(2, 3, 8, 8), drawn(4, 3, 3, 3)
    weight = weight.detach().to(memory_format=layout).requires_grad_()
    _, gradient = torch.autograd.grad(conv(x, weight).sum(), (x, weight))
    assert gradient.stride() == weight.stride()


@either
@pytest.mark.parametrize("kind", ["one number", "by channel", "transposed", "every second"])
def test_gradients_of_any_layout(conv, kind):
    given = drawn(2, 3, 8, 8), drawn(4, 3, 3, 3)
    wide = torch.randn(2, 4, 16, 16, dtype=torch.float64)
    towards = {
        "one number": torch.ones((), dtype=torch.float64).expand(2, 4, 8, 8),
        "by channel": wide[:, :, :1, :1].expand(2, 4, 8, 8),
        "transposed": wide[:, :, :8, :8].transpose(2, 3),
        "every second": wide[:, :, ::2, ::2],
    }[kind]
    found = torch.autograd.grad(conv(*given), given, towards)
    torch.testing.assert_close(found, torch.autograd.grad(convolve(*given), given, towards))


def test_no_samples():
    given = drawn(0, 2, 8, 8), drawn(3, 2, 3, 3)
    dx, dweight = torch.autograd.grad(_tiles.tiled_conv(*given).sum(), given)
    assert dx.shape == (0, 2, 8, 8)
    assert torch.equal(dweight, torch.zeros_like(dweight))


# --- where it is used -----------------------------------------------------------------------------


def by_waves(arrow: Arrow, x: Tensor) -> bool:
    return arrow.linear(x).grad_fn.name() == "WideConvBackward"


def by_tiles(arrow: Arrow, x: Tensor) -> bool:
    return arrow.linear(x).grad_fn.name() == "TiledConvBackward"


def arrow(filter: int, channels: int = 32, size: int = 16, stride: int = 1) -> Arrow:
    target = (channels, size // stride, size // stride)
    return Arrow("conv", (channels, size, size), target, filter, stride)


def batch(arrow: Arrow, size: int) -> Tensor:
    return torch.rand(size, *arrow.source, requires_grad=True)


def test_tiles_only_where_they_pay():
    wide, large = arrow(3, 64), Arrow("conv", (32, 32, 32), (128, 32, 32), 3)
    assert by_tiles(wide, batch(wide, 16))
    assert by_tiles(large, batch(large, 16))
    assert not by_tiles(wide, batch(wide, 2))
    assert not by_tiles(arrow(3, 32), batch(arrow(3, 32), 16))
    assert not by_tiles(arrow(3, 64, 18), batch(arrow(3, 64, 18), 16))
    assert not by_tiles(arrow(3, 64, stride=2), batch(arrow(3, 64, stride=2), 16))
    assert not by_tiles(arrow(3, 64, 64), batch(arrow(3, 64, 64), 16))  # too large to stay near
    assert not by_tiles(arrow(1, 64), batch(arrow(1, 64), 16))
    assert not by_tiles(wide, batch(wide, 16).detach())
    torch.set_num_threads(2)
    assert not by_tiles(wide, batch(wide, 16))


def test_tiles_leave_the_forward_pass_alone(always_tiled, monkeypatch):
    arrow = Arrow("conv", (64, 16, 16), (64, 16, 16), 3)
    x, bias = batch(arrow, 4), torch.rand(64)
    found = arrow.linear(x), arrow.linear(x, bias)
    assert found[0].grad_fn.name() == "TiledConvBackward"
    monkeypatch.setattr(_tiles, "TiledConv", None)  # nobody asks for it without gradients
    with torch.no_grad():
        assert torch.equal(found[0], arrow.linear(x))
    arrow.way = None
    assert torch.equal(found[0], arrow.linear(x))
    assert torch.equal(found[1], arrow.linear(x, bias))


def test_waves_only_where_they_pay():
    assert by_waves(arrow(9), batch(arrow(9), 16))
    assert by_waves(arrow(6, 64), batch(arrow(6, 64), 16))
    assert not by_waves(arrow(9), batch(arrow(9), 1))
    assert not by_waves(arrow(3, 64), batch(arrow(3, 64), 64))
    assert not by_waves(arrow(9, stride=2), batch(arrow(9, stride=2), 16))
    assert not by_waves(arrow(9, 1), batch(arrow(9, 1), 16))
    assert not by_waves(arrow(9, 64, 4), batch(arrow(9, 64, 4), 16))  # most of it sees the margin
    transposed = Arrow("transposed", (32, 16, 16), (32, 16, 16), 9)
    assert not by_waves(transposed, batch(transposed, 16))
    assert not by_waves(Arrow("conv", (64, 1, 88), (64, 1, 88), (1, 9)), torch.rand(64, 64, 1, 88))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of torch.func
@pytest.mark.parametrize("change", ["size", "autocast", "float16", "tangents", "vmap"])
@pytest.mark.parametrize("way", ["waves", "tiles"])
def test_it_steps_aside(way, change, request):
    request.getfixturevalue({"waves": "always_wide", "tiles": "always_tiled"}[way])
    other_way = {"waves": by_waves, "tiles": by_tiles}[way]
    arrow = Arrow("conv", (2, 8, 8), (3, 8, 8), 3)
    x = batch(arrow, 4)
    assert other_way(arrow, x)
    if change == "size":
        assert not other_way(arrow, torch.rand(4, 2, 12, 12, requires_grad=True))
    elif change == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            assert not other_way(arrow, x)
    elif change == "float16":
        assert not other_way(copy.deepcopy(arrow).half(), x.half())
    elif change == "tangents":
        _, tangent = torch.func.jvp(arrow.linear, (x,), (x,))
        torch.testing.assert_close(tangent, arrow.linear(x))
    else:
        many = torch.func.vmap(lambda one: arrow.linear(one[None])[0])(x)
        torch.testing.assert_close(many, arrow.linear(x))


def test_a_bias_and_a_folded_norm(always_wide):
    arrow = Arrow("conv", (2, 6, 6), (3, 6, 6), 5, norm="batch").double().eval()
    x, bias = torch.rand(4, 2, 6, 6, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    arrow.norm.running_mean.normal_()
    expected = arrow(x, bias=bias)  # with gradients the norm is apart
    three.cache_clear()
    with torch.inference_mode(), torch.device("meta"):
        torch.testing.assert_close(arrow(x, bias=bias), expected.detach())
    again = arrow(x, bias=bias)  # with matrices that were made in inference mode
    torch.testing.assert_close(again, expected)
    again.sum().backward()


def test_matrices_that_were_made_where_nothing_is_learnt():
    _tiles.values_of.cache_clear()
    with torch.inference_mode(), torch.device("meta"):
        _tiles.values_of(torch.float64)
    same_numbers(_tiles.tiled_conv, drawn(2, 2, 4, 4), drawn(2, 2, 3, 3))


def test_tensors_without_numbers_leave_nothing_behind(always_wide):
    arrow = Arrow("conv", (2, 6, 6), (3, 6, 6), 5)
    three.cache_clear()
    with FakeTensorMode():
        Arrow("conv", (2, 6, 6), (3, 6, 6), 5).linear(torch.rand(4, 2, 6, 6))
    assert by_waves(arrow, torch.rand(4, 2, 6, 6))


@pytest.mark.parametrize(
    "made", [lambda: three((4, 4), (3, 3), torch.float32)[0].rows, lambda: _values()[0]]
)
def test_matrices_have_numbers_wherever_they_are_made(made):
    three.cache_clear()
    _tiles.values_of.cache_clear()
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert type(made()) is Tensor


def _values() -> _tiles.Values:
    return _tiles.values_of(torch.float32)


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
def test_tracing_steps_aside(always_tiled):
    arrow = Arrow("conv", (2, 8, 8), (3, 8, 8), 3)
    x = batch(arrow, 4)
    traced = torch.jit.trace(arrow, x)
    torch.testing.assert_close(traced(x), arrow(x))
    assert "TiledConv" not in str(traced.inlined_graph)


def test_a_tape_knows_how_many_threads_there_are(always_tiled):
    net = ls.build(ls.load("specs/ommnist/rladder_tiny.yaml", set={"params.width": 4}), seed=0)
    frames, digits = torch.rand(2, 3, *net.shape), torch.tensor([1, 2])

    def tiled(times: int) -> int:
        for _ in range(times):
            costs = net.cost(frames, digits)
        return _made_by(costs.total, "TiledConvBackward")

    by_one = tiled(1)
    assert by_one > 0
    assert tiled(20) == by_one
    torch.set_num_threads(2)
    assert tiled(20) == 0


@pytest.mark.parametrize("path", ["ommnist/rladder_tiny.yaml", "related/video_ladder.yaml"])
@pytest.mark.parametrize("way", ["waves", "tiles"])
def test_networks_learn_the_same(way, path, monkeypatch):
    """Cost and gradients of a whole network in float64, t by t and from a tape."""
    spec = ls.load(f"specs/{path}", set={"params.width": 4})
    module, name = {"waves": (_wide, "WideConv"), "tiles": (_tiles, "TiledConv")}[way]

    def learnt(gain: float, times: int) -> list[Tensor]:
        monkeypatch.setattr(module, "GAIN", gain)
        net = ls.build(spec, seed=0).double()
        torch.manual_seed(1)
        frames = torch.rand(3, 3, *net.shape, dtype=torch.float64)
        targets = torch.randint(2, (3,)) if "digit" in net.tasks else None
        for _ in range(times):
            net.zero_grad()
            costs = net.cost(frames, targets)
            costs.total.backward()
        assert bool(_made_by(costs.total, f"{name}Backward")) is (gain == 0)
        return [costs.total.detach(), *(p.grad for p in net.parameters() if p.grad is not None)]

    monkeypatch.setattr(_wide, "GAIN", math.inf)
    monkeypatch.setattr(_wide, "WIDE", 0 if way == "waves" else math.inf)
    expected = learnt(math.inf, 1)
    for times in (1, 20):
        for one, other in zip(learnt(0, times), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def _made_by(value: Tensor, name: str) -> int:
    """How many such nodes the gradient of a value goes through."""
    found, waiting, seen = 0, [value.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            found += node.name() == name
            waiting += [after for after, _ in node.next_functions]
    return found
