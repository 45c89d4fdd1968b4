"""FFT convolution equals the direct sum: values, gradients, derivatives of gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, jvp, vmap

from ladderspec.api import build, load
from ladderspec.cells import Projection
from ladderspec.cells.functions import convolve
from ladderspec.ops import FastProject, choose, fft_conv, plain_project, transforms

sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
filters = st.tuples(st.integers(1, 9), st.integers(1, 9))


@given(sizes, filters, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_values_and_gradients_equal_the_direct_sum(size, filter, batch, source, target) -> None:
    torch.manual_seed(0)
    x = torch.randn(batch, source, *size, dtype=torch.float64, requires_grad=True)
    w = torch.randn(target, source, *filter, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(batch, target, *size, dtype=torch.float64)
    ours, theirs = fft_conv.fft_convolve(x, w), convolve(x, w)
    torch.testing.assert_close(ours, theirs)
    found = torch.autograd.grad(ours, (x, w), dy)
    torch.testing.assert_close(found, torch.autograd.grad(theirs, (x, w), dy))


def test_gradcheck_and_derivatives_of_gradients() -> None:
    x = torch.randn(2, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fft_conv.fft_convolve, (x, w))
    assert torch.autograd.gradgradcheck(fft_conv.fft_convolve, (x, w))
    dys = torch.randn(4, 2, 3, 5, 6, dtype=torch.float64)
    y = fft_conv.fft_convolve(x, w)
    many = torch.autograd.grad(y, x, dys, is_grads_batched=True, retain_graph=True)[0]
    one_by_one = [torch.autograd.grad(y, x, dy, retain_graph=True)[0] for dy in dys]
    torch.testing.assert_close(many, torch.stack(one_by_one))


@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_only_wanted_gradients(frozen: str) -> None:
    x = torch.randn(2, 2, 5, 5, requires_grad=frozen != "x")
    w = torch.randn(2, 2, 5, 5, requires_grad=frozen != "weight")
    fft_conv.fft_convolve(x, w).sum().backward()
    assert (x.grad is None) == (frozen == "x")
    assert (w.grad is None) == (frozen == "weight")


def test_float32_is_as_exact_as_the_direct_sum() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(4, 16, 32, 32), torch.randn(16, 16, 9, 9) / 36
    exact = convolve(x.double(), w.double())
    ours = (fft_conv.fft_convolve(x, w) - exact).abs().max()
    assert ours < 8 * (convolve(x, w) - exact).abs().max()


def test_where_it_pays() -> None:
    assert fft_conv.pays((32, 32, 32), (32, 32, 32), (9, 9), (1, 1), 16)
    assert not fft_conv.pays((32, 32, 32), (32, 32, 32), (9, 9), (1, 1), 1)
    assert not fft_conv.pays((32, 32, 32), (32, 32, 32), (3, 3), (1, 1), 64)
    assert not fft_conv.pays((32, 32, 32), (32, 16, 16), (9, 9), (2, 2), 64)
    assert not fft_conv.pays((32, 1, 88), (32, 1, 88), (1, 17), (1, 1), 64)


# --- the choice -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit.script`")  # torch.func.jvp uses it
def test_the_choice_is_plain_when_torch_rewrites_the_call() -> None:
    frames = torch.zeros(2, 3, 1, 4, 4)
    assert type(choose(frames)) is FastProject
    assert type(choose(frames.double())) is FastProject
    assert choose(frames.half()) is plain_project
    assert choose(frames.to("meta")) is plain_project
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert choose(frames) is plain_project
    seen = []
    vmap(lambda x: (seen.append(choose(x)), x)[1])(frames)
    jvp(lambda x: (seen.append(choose(x)), x)[1], (frames,), (frames,))
    assert seen == [plain_project, plain_project]


def test_both_choices_give_the_same_maps() -> None:
    projection = Projection("conv", (8, 16, 16), (8, 16, 16), (9, 9))
    x, w, b = torch.randn(64, 8, 16, 16), torch.randn(8, 8, 9, 9), torch.randn(8)
    assert fft_conv.pays(projection.source, projection.target, (9, 9), (1, 1), 64)
    ours, theirs = (project(projection, x, w, b) for project in (FastProject(), plain_project))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_a_network_with_wide_filters_learns_the_same(monkeypatch) -> None:
    """Costs and gradients of an RLadder in float64, with FFT convolution everywhere and nowhere."""
    net = build(load("specs/ommnist/rladder_tiny.yaml")).double()
    frames, label = torch.rand(3, 5, *net.shape).double(), torch.tensor([1, 2, 3])
    found = []
    for wide in (True, False):
        monkeypatch.setattr(fft_conv, "pays", lambda *sizes, on=wide: on and sizes[3] == (1, 1))
        net.zero_grad()
        cost = net.cost(frames, label).total
        cost.backward()
        found.append([cost.detach(), *(p.grad.clone() for p in net.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


# --- private functions of torch -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit.script`")  # torch.func.jvp uses it
def test_what_the_private_functions_of_torch_tell() -> None:
    """If one of these fails with a new torch, ladderspec/ops/transforms.py needs another way."""
    x = torch.zeros(2)
    assert not transforms.is_transformed()
    assert not transforms.has_tangents()
    assert not transforms.has_global_hooks()
    seen = {}
    jvp(lambda y: (seen.update(jvp=transforms.has_tangents()), y)[1], (x,), (x,))
    vmap(lambda y: (seen.update(vmap=transforms.is_transformed()), y)[1])(x)
    assert seen == {"jvp": True, "vmap": True}
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert transforms.has_global_hooks()
    handle.remove()


@pytest.mark.parametrize("mode", [FakeTensorMode, torch.inference_mode])
def test_bases_made_inside_of_a_mode_serve_calls_without_it(mode) -> None:
    """If this fails with a new torch, `_bases` of ladderspec/ops/fft_conv.py needs another way."""
    fft_conv._bases.cache_clear()
    with mode():
        fft_conv._bases((8, 8), (9, 9), torch.float64)
    x, weight = torch.rand(2, 1, 8, 8, dtype=torch.float64), torch.rand(3, 1, 9, 9).double()
    weight.requires_grad_()
    torch.testing.assert_close(fft_conv.fft_convolve(x, weight), convolve(x, weight))


def test_filters_are_transformed_once_for_all_t(monkeypatch) -> None:
    net, seen = build(load("specs/ommnist/rladder_tiny.yaml")).double(), []
    transform = fft_conv.filter_spectrum

    def spied(x, weight):
        seen.append(weight)
        return transform(x, weight)

    monkeypatch.setattr(fft_conv, "pays", lambda *sizes: sizes[3] == (1, 1))
    monkeypatch.setattr(fft_conv, "filter_spectrum", spied)
    frames, label = torch.rand(2, 5, *net.shape), torch.tensor([1, 2])
    cost = net.cost(frames, label).total
    assert len(seen) == len({*map(id, seen)}) > 10
    # A segment that is computed again computes its spectra again.
    again = net.cost(frames, label, checkpoint=2).total
    found = [torch.autograd.grad(each, [*net.parameters()]) for each in (cost, again)]
    torch.testing.assert_close(*found)


def test_functional_call_sees_other_weights() -> None:
    net = build(load("specs/ommnist/rladder_tiny.yaml")).eval()
    frames = torch.rand(2, 3, *net.shape)
    zeros = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    with torch.no_grad():
        other = functional_call(net, zeros, (frames,))
        assert not torch.equal(other["digit"], net(frames)["digit"])
