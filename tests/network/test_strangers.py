"""Networks whose modules users change: hooks, replaced methods, copies, torch.func."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import prune

import ladderspec as ls
from ladderspec.nn import LSTM, Conv, ConvLSTM

pytestmark = pytest.mark.usefixtures("one_thread")

FRAMES = torch.randn(3, 4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
SPEC = """
input: {channels: 1, size: [8, 8]}
time: {frames: 4}
levels:
  - {name: a, encoder: {cell: Conv, channels: 3}}
  - {name: b, encoder: {cell: ConvLSTM, channels: 2}}
tasks: {label: {kind: classification, at: encoder.b, head: 3}}
"""


def net() -> Any:
    return ls.build(ls.loads(SPEC), seed=0)


@pytest.mark.parametrize("name", ["encoder.a", "encoder.a.encoder", "encoder.b.state"])
@pytest.mark.parametrize("before", [True, False])
def test_hooks_are_called(name: str, before: bool) -> None:
    one, seen = net(), []
    part = one.get_submodule(name)
    watch = part.register_forward_pre_hook if before else part.register_forward_hook
    watch(lambda *_: seen.append(name))
    one(FRAMES)
    assert seen


def test_hooks_on_all_modules_see_every_cell() -> None:
    one, seen = net(), set()
    with torch.nn.modules.module.register_module_forward_hook(lambda part, *_: seen.add(part)):
        one(FRAMES)
    assert {one.get_submodule("encoder.a"), one.get_submodule("encoder.a.encoder")} <= seen


def test_a_cell_may_have_a_forward_of_its_own() -> None:
    one = net()
    cell, calls = one.get_submodule("encoder.a"), []
    plain = cell.forward
    cell.forward = lambda *args: calls.append(1) or plain(*args)
    one(FRAMES)
    assert calls


def test_pruned_weights_are_learned() -> None:
    one = net()
    prune.l1_unstructured(one.get_submodule("encoder.a.encoder"), "weight", amount=0.5)
    optimiser = torch.optim.SGD(one.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        one.cost(FRAMES, {"label": torch.ones(3, 8, 8, dtype=torch.int64)}).total.backward()
        optimiser.step()
    weight = one.get_submodule("encoder.a.encoder").weight
    assert weight.eq(0).float().mean() >= 0.5


def test_a_copy_computes_with_its_own_weights() -> None:
    one = net().eval()
    with torch.no_grad():
        one(FRAMES)
        other = copy.deepcopy(one)
        for parameter in other.parameters():
            parameter.mul_(2).add_(0.1)
        fresh = net().eval()
        fresh.load_state_dict(other.state_dict())
        torch.testing.assert_close(other(FRAMES)["label"], fresh(FRAMES)["label"])


@pytest.mark.parametrize("grad", [True, False])
def test_a_call_leaves_its_arguments_as_they_are(grad: bool) -> None:
    shapes = {"encoder": (2, 8, 8), "decoder_to_encoder": (2, 8, 8)}
    for cell in (Conv.of(shapes, channels=3), ConvLSTM.of(shapes, channels=3)):
        values = {key: torch.randn(2, *shape) for key, shape in shapes.items()}
        previous = None
        if cell.cell.stateful:
            values["state"], previous = torch.randn(2, 3, 8, 8), {"c": torch.randn(2, 3, 8, 8)}
        before = copy.deepcopy((values, previous))
        with torch.set_grad_enabled(grad):
            first, again = cell(values, previous), cell(values, previous)
        torch.testing.assert_close((values, previous), before, rtol=0, atol=0)
        torch.testing.assert_close(first, again, rtol=0, atol=0)


def test_torch_func_differentiates_a_network() -> None:
    one = ls.build(ls.load("specs/music/rladder_tiny.yaml"), seed=0).eval()
    notes = (torch.rand(2, 10, 1, 1, 88, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    weights = dict(one.named_parameters())

    def cost(given: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(
            _Cost(one), {f"net.{k}": v for k, v in given.items()}, notes
        )

    found = torch.func.grad(cost)(weights)
    one.cost(notes).total.backward()
    for name, parameter in one.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-5)


class _Cost(torch.nn.Module):
    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, notes: Tensor) -> Tensor:
        total: Tensor = self.net.cost(notes).total
        return total


def test_a_cell_of_its_own_class_may_replace_another() -> None:
    class Doubled(Conv):
        def forward(self, *args: Any) -> Any:
            y, extras = super().forward(*args)
            return 2 * y, extras

    one, other = net().eval(), net().eval()
    cell = other.get_submodule("encoder.a")
    cell.__class__ = Doubled
    with torch.no_grad():
        seen, doubled = one.values(FRAMES, "encoder.a"), other.values(FRAMES, "encoder.a")
    torch.testing.assert_close(doubled, 2 * seen)


LONE = """
input: {channels: 3}
time: {frames: any}
levels: [{name: top, encoder: {cell: LSTM, channels: 4}, decoder: {cell: FC, norm: none}}]
tasks: {next: {kind: prediction, at: decoder.input}}
"""


def stepwise(one: Any, frames: Tensor) -> Tensor:
    carry, seen = one.initial_carry(len(frames)), []
    for frame in frames.unbind(1):
        outputs, carry = one.iterate(frame, carry)
        seen.append(outputs["next"])
    return torch.stack(seen, 1)


class Silent(torch.nn.Module):
    """Called like a cell, returns nothing but zeros."""

    def forward(self, values: Any, previous: Any = None, step: Any = None) -> Any:
        zeros = values["encoder"].new_zeros(len(values["encoder"]), 4)
        return zeros, {"c": zeros}


def test_another_module_may_replace_a_lone_lstm() -> None:
    frames = torch.rand(2, 5, 3, generator=torch.Generator().manual_seed(0))
    one, seen = ls.build(ls.loads(LONE)).eval(), []
    plain = one(frames)["next"]
    handle = one.get_submodule("encoder.top").register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(one(frames)["next"], plain)
    assert len(seen) == 5
    handle.remove()
    for stranger in (LSTM.of((3,), channels=4, norm="layer"), Silent()):
        one = ls.build(ls.loads(LONE)).eval()
        one.encoder.top = stranger
        torch.testing.assert_close(one(frames)["next"], stepwise(one, frames))


def test_frozen_edges_in_front_of_layer_norms() -> None:
    """Their maps need no gradient, but gains and biases do."""
    frames, label = torch.rand(4, 5, 1, 16, 16), torch.arange(4)
    whole, part = (ls.build("specs/ommnist/rladder_tiny.yaml").double() for _ in range(2))
    frozen = ("encoder.lstm1.encoder.", "decoder.input.lateral.weight")
    for name, parameter in part.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    for one in (whole, part):
        one.cost(frames.double(), label).total.backward()
    wanted = dict(whole.named_parameters())
    for name, parameter in part.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, wanted[name].grad, atol=1e-11, rtol=1e-8)
        else:
            assert parameter.grad is None


def test_networks_are_pickled() -> None:
    spec = LONE.replace("cell: FC, norm: none", "cell: FC, norm: none, activation: none")
    one = ls.build(ls.loads(spec)).eval()
    frames = torch.rand(2, 4, 3)
    other = pickle.loads(pickle.dumps(one))
    assert torch.equal(one(frames)["next"], other(frames)["next"])


def test_a_carry_is_no_parameter() -> None:
    spec = LONE.replace("channels: 4}", "channels: 4, initial: learned}")
    one = ls.build(ls.loads(spec))
    before = one.encoder.top.initial.detach().clone() + 1
    with torch.no_grad():
        one.encoder.top.initial.add_(1)
        one.initial_carry(1).values["encoder.top"][0].zero_()
    assert torch.equal(one.encoder.top.initial, before)
