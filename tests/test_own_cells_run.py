"""What the module of a user's own cell gives is checked at its first call, and only there."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import nn

from ladderspec import build, loads
from ladderspec.cells import EncoderCell, Inlet, Projection, Site, register
from ladderspec.errors import UsageError
from ladderspec.names import Shape
from ladderspec.network.net import Net

FRAMES = torch.rand(2, 3, 2, 4, 4)


class Odd(EncoderCell):
    """e = scale . e_below, given back in some `way`, of which only the first is right."""

    cell: Literal["Odd"] = "Odd"
    way: str = "right"

    takes: ClassVar = EncoderCell.takes | {"state"}
    stateful: ClassVar = True

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)

    def join(self, site: Site, out: Shape) -> dict[str, Shape]:
        return {"scale": (out[0],)}

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        return {"m": out}

    def build(self, site: Site, out: Shape) -> Any:
        return None if self.way == "no module" else OddModule(out[0], self.way)


class OddModule(nn.Module):
    def __init__(self, channels: int, way: str) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))  # bare: nothing but the seed can draw it
        self.way = way

    def forward(self, values: Any, previous: Any = None, when: Any = None) -> Any:
        y = values["encoder"] * self.scale[:, None, None]
        ways: dict[str, Any] = {
            "right": (y, {"m": y}),
            "bare": y,
            "nothing": None,
            "list": (y, [y]),
            "channels": (y[:, :1], {"m": y}),
            "batch": (y[:1], {"m": y}),
            "array": (y.detach().numpy(), {"m": y}),
            "forgets": (y, {}),
            "size": (y, {"m": y[..., :2]}),
        }
        if self.way == "arrow":
            return values["decoder_to_encoder"]
        return ways[self.way]


@pytest.fixture(autouse=True, scope="module")
def odd_cell(cells_of_the_module: None) -> None:
    register(Odd)


def net(way: str = "right", seed: int = 0) -> Net:
    rows = f"levels:\n  - {{name: odd, encoder: {{cell: Odd, way: {way}}}}}\n"
    rows += "  - {name: top, encoder: {cell: Conv, channels: 3}}\n"
    return build(loads(f"input: {{channels: 2, size: 4}}\ntime: {{frames: 3}}\n{rows}"), seed)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("bare", "as in `return y, {}`; it returned a tensor (2, 2, 4, 4)"),
        ("nothing", "as in `return y, {}`; it returned nothing"),
        ("list", "it returned a tuple of a tensor (2, 2, 4, 4), a list"),
        ("channels", "output of its module is (2, 1, 4, 4), but `out_shape` says (2, 2, 4, 4)"),
        ("batch", "output of its module is (1, 2, 4, 4), but `out_shape` says (2, 2, 4, 4)"),
        ("array", "output of its module must be a tensor, not a ndarray"),
        ("forgets", "returns no `m` in its dict, as `state_shapes` promises"),
        ("size", "`m` of its module is (2, 2, 4, 2), but `state_shapes` says (2, 2, 4, 4)"),
    ],
)
def test_a_mistake_is_named_where_it_is_made(way: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        net(way)(FRAMES)
    assert str(refused.value).startswith("encoder.odd (Odd): ")
    assert said in str(refused.value)


def test_an_arrow_that_is_not_there_is_named() -> None:
    said = "reads `decoder_to_encoder`, but what arrives there is encoder, state"
    with pytest.raises(UsageError, match=f"^encoder.odd: its module {said}"):
        net("arrow")(FRAMES)


def test_what_is_no_module_is_refused_by_build() -> None:
    with pytest.raises(UsageError, match=r"encoder.odd \(Odd\): `build` must return a module"):
        net("no module")


def test_later_calls_are_not_checked() -> None:
    one = net()
    cell = one.get_submodule("encoder.odd")
    assert len(cell._forward_hooks) == 1
    other = copy.deepcopy(one)
    one(FRAMES)
    assert len(cell._forward_hooks) == 0
    copied = other.get_submodule("encoder.odd")
    assert len(copied._forward_hooks) == 1  # a copy has a first call of its own
    other(FRAMES)
    assert len(copied._forward_hooks) == 0


def test_a_compiler_sees_no_check() -> None:
    one = net().eval()
    frames, carry = FRAMES[:, 0], one.initial_carry(2)
    with torch.no_grad():
        compiled = torch.compile(one.iterate, backend="eager", fullgraph=True)(frames, carry)
        plain = one.iterate(frames, carry)
    torch.testing.assert_close(compiled[1].values, plain[1].values)


def test_a_bare_parameter_starts_from_seed_and_node() -> None:
    torch.manual_seed(1)
    one = net(seed=5).state_dict()
    torch.manual_seed(2)
    torch.testing.assert_close(net(seed=5).state_dict(), one)
    assert not torch.equal(net(seed=6).state_dict()["encoder.odd.scale"], one["encoder.odd.scale"])


class Normed(EncoderCell):
    """e = BN(e_below), with torch's own batch norm."""

    cell: Literal["Normed"] = "Normed"

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)

    def build(self, site: Site, out: Shape) -> Any:
        return NormedModule(out[0])


class NormedModule(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)

    def forward(self, values: Any, previous: Any = None, when: Any = None) -> Any:
        return self.norm(values["encoder"]), {}


def test_batch_norms_of_torch_see_one_t_at_a_time() -> None:
    register(Normed)
    rows = "levels:\n  - {name: own, encoder: {cell: Normed}}\n"
    rows += "  - {name: top, encoder: {cell: Conv, channels: 3}}\n"
    one = build(loads(f"input: {{channels: 2, size: 4}}\ntime: {{frames: 3}}\n{rows}"))
    other = copy.deepcopy(one)
    whole = one.values(FRAMES, "encoder.own")
    carry = other.initial_carry(2)
    for t, frame in enumerate(FRAMES.unbind(1)):
        carry = other.iterate(frame, carry)[1]
        mean, var = frame.mean((0, 2, 3)), frame.var((0, 2, 3), correction=0)
        wanted = (frame - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        torch.testing.assert_close(whole[:, t], wanted)
    norms = [each.get_submodule("encoder.own").buffers() for each in (one, other)]
    for ours, theirs in zip(*norms, strict=True):
        torch.testing.assert_close(ours, theirs)
