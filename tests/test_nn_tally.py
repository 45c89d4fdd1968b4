"""Weights that learn from several t at once have the gradients that autograd alone would find."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ladderspec as ls
from ladderspec.network import engine
from ladderspec.nn import _arrow, _tally
from ladderspec.nn._packed import packs
from ladderspec.nn._tally import Conv, Tally

CONVS = [
    (Conv((1, 1), (0, 1)), (3, 2, 1, 3)),
    (Conv((1, 2), (0, 1)), (3, 2, 1, 3)),
    (Conv((2, 2), (1, 2)), (3, 2, 3, 5)),
    (Conv((1, 2), (0, 1), True, (0, 1)), (2, 3, 1, 3)),
    (Conv((2, 1), (1, 0), True, (0, 0)), (2, 3, 3, 1)),
]


def _case(conv: Conv, shape: tuple[int, ...]) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(0)
    inputs = shape[0] if conv.transposed else shape[1]
    frames = [torch.randn(4, inputs, 5, 7, dtype=torch.float64) for _ in range(9)]
    weight = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    return frames, weight


def _chain(conv: Conv, tally: Tally | None, frames: list[Tensor], weight: Tensor) -> Tensor:
    """A cost in which every use of the weight depends on the one before it."""
    total, scale = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    for x in frames:
        y = (
            conv.forward(x * scale, weight)
            if tally is None
            else tally.convolve(x * scale, weight, conv)
        )
        scale = torch.tanh(y.mean())
        total = total + (y**2).mean()
    return total


@pytest.mark.parametrize(("conv", "shape"), CONVS)
@pytest.mark.parametrize("enough", [1, 50, 10_000])
def test_gradients_are_those_of_autograd(conv, shape, enough, monkeypatch):
    monkeypatch.setattr(_tally, "ENOUGH", enough)
    frames, weight = _case(conv, shape)
    (plain,) = torch.autograd.grad(_chain(conv, None, frames, weight), weight)
    (tallied,) = torch.autograd.grad(_chain(conv, Tally(), frames, weight), weight)
    torch.testing.assert_close(tallied, plain, rtol=1e-11, atol=1e-11)


@pytest.mark.skipif(not packs(torch.zeros(1)), reason="no oneDNN here: filters are never packed")
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(("conv", "shape"), CONVS)
def test_packed_filters_give_the_same_numbers(conv, shape, layout):
    """In float32, there and back, and for maps of another size than the first."""
    tally, (frames, exact) = Tally(), _case(conv, shape)
    weight = exact.detach().float().requires_grad_()
    for given in (frames[0], frames[1][:2, :, :4, :6], frames[2]):
        x = given.float().contiguous(memory_format=layout).requires_grad_()
        inputs = given.clone().requires_grad_(), exact
        y, wanted = tally.convolve(x, weight, conv), conv.forward(*inputs)
        assert next(iter(tally.sums.values()))[1].there is not None
        towards = torch.randn_like(wanted)
        found = torch.autograd.grad(y, (x, weight), towards.float())
        known = torch.autograd.grad(wanted, inputs, towards)
        for one, other in zip((y, *found), (wanted, *known), strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-4)


def test_who_switches_onednn_off_gets_no_packed_filter():
    weight = torch.zeros(3, 2, 1, 3)
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not packs(weight)
    finally:
        torch._C._set_mkldnn_enabled(before)
    assert not packs(weight.requires_grad_() * 2), "made anew at every call"


def test_a_pass_that_was_for_something_else_leaves_nothing_behind():
    conv, shape = CONVS[0]
    frames, weight = _case(conv, shape)
    (plain,) = torch.autograd.grad(_chain(conv, None, frames, weight), weight)
    frames[0].requires_grad_()
    cost = _chain(conv, Tally(), frames, weight)
    torch.autograd.grad(cost, frames[0], retain_graph=True)
    (once,) = torch.autograd.grad(cost, weight, retain_graph=True)
    (twice,) = torch.autograd.grad(cost, weight)
    torch.testing.assert_close(once, plain)
    torch.testing.assert_close(twice, plain)


def test_gradients_have_gradients():
    conv, shape = CONVS[1]
    frames, weight = _case(conv, shape)

    def second(tally: Tally | None) -> Tensor:
        cost = _chain(conv, tally, frames[:3], weight)
        (first,) = torch.autograd.grad(cost, weight, create_graph=True)
        return torch.autograd.grad((first**2).sum(), weight)[0]

    torch.testing.assert_close(second(Tally()), second(None))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_frozen_weight_has_none(dtype):
    conv, shape = CONVS[0]
    frames, weight = _case(conv, shape)
    frames, frozen = [x.to(dtype) for x in frames], weight.detach().to(dtype)
    frames[0].requires_grad_()
    (with_tally,) = torch.autograd.grad(_chain(conv, Tally(), frames, frozen), frames[0])
    (without,) = torch.autograd.grad(_chain(conv, None, frames, frozen), frames[0])
    torch.testing.assert_close(with_tally, without)


def test_a_network_learns_alike_with_and_without(monkeypatch):
    monkeypatch.setattr(_arrow, "HEAVY", 0)
    spec = ls.load("specs/music/rladder_tiny.yaml")
    notes = (torch.rand(3, 12, 1, 1, 88, generator=torch.Generator().manual_seed(0)) < 0.1).double()

    def gradients() -> tuple[dict[str, Tensor], int]:
        uses = 0
        plain = Tally.convolve

        def counted(self: Tally, *args: object) -> Tensor:
            nonlocal uses
            uses += 1
            return plain(self, *args)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Tally, "convolve", counted)
            net = ls.build(spec, seed=3).double()
            net.cost(notes, lengths=[12, 9, 5]).total.backward()
        return {name: p.grad for name, p in net.named_parameters() if p.grad is not None}, uses

    tallied, uses = gradients()
    monkeypatch.setattr(engine, "LONG", 100)
    plain, none = gradients()
    assert uses > 50
    assert none == 0
    assert tallied.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(tallied[name], gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", ["stride: [1, 2]", "stride: [1, 1]"])
def test_tied_weights_of_two_arrows_each_have_their_own_stride_and_size(size):
    text = f"""
input: {{channels: 2, size: [1, 16]}}
time: {{frames: 10}}
levels:
  - {{name: a, encoder: {{cell: Conv, channels: 2, filter: [1, 3]}}}}
  - {{name: pool, encoder: {{cell: Pool, mode: max, filter: [1, 2], stride: [1, 2]}}}}
  - {{name: b, encoder: {{cell: Conv, channels: 2, filter: [1, 3], {size}}}}}
  - {{name: c, encoder: {{cell: LSTM, channels: 3}}}}
tasks: {{label: {{kind: classification, at: encoder.c, head: 3}}}}
"""
    frames = torch.randn(3, 10, 2, 1, 16, generator=torch.Generator().manual_seed(1))
    label = {"label": torch.tensor([0, 1, 2])}

    def gradients(length: int) -> list[Tensor]:
        net = ls.build(ls.loads(text), seed=0)
        one, other = (net.get_submodule(f"encoder.{level}.encoder") for level in "ab")
        other.weight = one.weight
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "LONG", length)
            patch.setattr(_arrow, "HEAVY", 0)
            net.cost(frames, label).total.backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    for tallied, plain in zip(gradients(8), gradients(100), strict=True):
        torch.testing.assert_close(tallied, plain)
