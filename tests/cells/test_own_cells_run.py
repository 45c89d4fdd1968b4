"""Results of `compute` of a user's own cell are checked against its declarations."""

from __future__ import annotations

import copy
import re
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from ladderspec import build, loads, nn
from ladderspec.cells import (
    ACTIVATIONS,
    NORMS,
    EncoderCell,
    Inlet,
    Norm,
    Parameters,
    Projection,
    Site,
    register,
    weight,
)
from ladderspec.cells.activations import Activation
from ladderspec.errors import SpecError, UsageError
from ladderspec.names import Role, Shape
from ladderspec.network.net import Net
from ladderspec.plugins import load_plugin

FRAMES = torch.rand(2, 3, 2, 4, 4)


class Odd(EncoderCell):
    """e = scale . e_below, returned in some `way`, of which only the first is right."""

    cell: Literal["Odd"] = "Odd"
    way: str = "right"

    takes: ClassVar = EncoderCell.takes | {Role.STATE}
    stateful: ClassVar = True
    returns: ClassVar = ("m",)

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return {"scale": weight(out[0])}

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        return {"m": out}

    @staticmethod
    def compute(
        encoder: Tensor, state: Tensor, m: Tensor | None = None, *, way: str, scale: Tensor
    ) -> Any:
        y = encoder * scale[:, None, None]
        if way == "array":
            return y.detach().numpy(), y
        return {
            "right": (y, y),
            "bare": y,
            "nothing": None,
            "dict": (y, {"m": y}),
            "list": [y, y],
            "three": (y, y, y),
            "channels": (y[:, :1], y),
            "batch": (y[:1], y),
            "forgets": (y, None),
            "size": (y, y[..., :2]),
        }[way]


class Reads(Odd):
    """Reads an edge that is not there."""

    cell: Literal["Reads"] = "Reads"  # type: ignore[assignment]

    @staticmethod
    def compute(a: Tensor, decoder_to_encoder: Tensor) -> Any:
        return a, decoder_to_encoder


class Normed(EncoderCell):
    """e = BN(e_below), without gain and offset."""

    cell: Literal["Normed"] = "Normed"

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    def node_norm(self) -> tuple[str, str, int]:
        return "norm", "batch", 1

    @staticmethod
    def compute(a: Tensor) -> Tensor:
        return a


class Misled(Normed):
    """Asks for a convolution that does not lead to its output."""

    cell: Literal["Misled"] = "Misled"  # type: ignore[assignment]

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("conv", inlet.shape, out, (3, 3), (2, 2))


@pytest.fixture(autouse=True, scope="module")
def odd_cells(cells_of_the_module: None) -> None:
    for cell in (Odd, Reads, Normed, Misled):
        register(cell)


def net(row: str = "cell: Odd", seed: int = 0) -> Net:
    rows = f"levels:\n  - {{name: odd, encoder: {{{row}}}}}\n"
    rows += "  - {name: top, encoder: {cell: Conv, channels: 3}}\n"
    return build(loads(f"input: {{channels: 2, size: 4}}\ntime: {{frames: 3}}\n{rows}"), seed)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("bare", "`compute` returns the output, `m`, says `returns`; it returned a Tensor"),
        ("nothing", "says `returns`; it returned a NoneType"),
        ("list", "says `returns`; it returned a list"),
        ("three", "says `returns`; it returned 3 values"),
        ("dict", "the `m` of `compute` is a dict, not a tensor"),
        ("channels", "output of `compute` is (2, 1, 4, 4), but `out_shape` says (2, 2, 4, 4)"),
        ("batch", "output of `compute` is (1, 2, 4, 4), but `out_shape` says (2, 2, 4, 4)"),
        ("array", "output of `compute` is a ndarray, not a tensor"),
        ("forgets", "the `m` of `compute` is a NoneType, not a tensor"),
        ("size", "`m` of `compute` is (2, 2, 4, 2), but `state_shapes` says (2, 2, 4, 4)"),
    ],
)
def test_a_mistake_is_reported_with_node_and_cell(way: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        net(f"cell: Odd, way: {way}")(FRAMES)
    assert str(refused.value).startswith("encoder.odd (Odd): ")
    assert message in str(refused.value)


FUNCTIONS = {
    "nothing": (lambda x: None, "returned None, not a tensor"),
    "array": (lambda x: x.detach().numpy(), "returned a ndarray, not a tensor"),
    "tuple": (lambda x: (x, x), "returned a tuple, not a tensor"),
    "channels": (lambda x: x[:, :1], "got (2, 2, 4, 4), but returned (2, 1, 4, 4)"),
    "type": (lambda x: x.double(), "got torch.float32, but returned torch.float64"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_so_is_one_of_an_activation_or_a_norm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, message = FUNCTIONS[name]

    class Mine(Norm):
        symbol = "M"

        @staticmethod
        def compute(x: Tensor, gain: Any, bias: Any, groups: int) -> Any:
            return function(x)

    monkeypatch.setitem(ACTIVATIONS, "mine", Activation("mine", function))
    monkeypatch.setitem(NORMS, "mine", Mine)
    row = "cell: Conv, channels: 2"
    with pytest.raises(UsageError, match=re.escape(f"odd (Conv): activation `mine` {message}")):
        net(f"{row}, activation: mine, norm: none")(FRAMES)
    with pytest.raises(UsageError, match=re.escape(f"norm `mine` {message}")):
        net(f"{row}, norm: mine")(FRAMES)


def test_an_edge_that_is_not_there_is_named() -> None:
    message = "reads `decoder_to_encoder`, but what arrives there is encoder, state"
    with pytest.raises(UsageError, match=rf"^encoder.odd \(Reads\): `compute` {message}"):
        net("cell: Reads")


def test_an_impossible_projection_is_a_mistake_at_its_place() -> None:
    with pytest.raises(SpecError) as refused:
        net("cell: Misled")
    message = "a conv edge from 2x4x4 to 2x4x4 cannot have stride (2, 2): it is 4x4 to 2x2"
    assert message in str(refused.value)
    assert "<text>:4:" in str(refused.value)


def test_the_check_compiles() -> None:
    one = net().eval()
    frames, carry = FRAMES[:, 0], one.initial_carry(2)
    with torch.no_grad():
        compiled = torch.compile(one.iterate, backend="eager", fullgraph=True)(frames, carry)
        plain = one.iterate(frames, carry)
    torch.testing.assert_close(compiled[1].values, plain[1].values)


def test_a_parameter_starts_from_seed_and_node() -> None:
    torch.manual_seed(1)
    one = net(seed=5).state_dict()
    torch.manual_seed(2)
    torch.testing.assert_close(net(seed=5).state_dict(), one)
    assert not torch.equal(net(seed=6).state_dict()["encoder.odd.scale"], one["encoder.odd.scale"])


def test_batch_norms_see_one_t_at_a_time() -> None:
    one = net("cell: Normed")
    other = copy.deepcopy(one)
    whole = one.values(FRAMES, "encoder.odd")
    assert isinstance(whole, Tensor)
    carry = other.initial_carry(2)
    for t, frame in enumerate(FRAMES.unbind(1)):
        carry = other.iterate(frame, carry)[1]
        mean, var = frame.mean((0, 2, 3)), frame.var((0, 2, 3), correction=0)
        wanted = (frame - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        torch.testing.assert_close(whole[:, t], wanted)
    norms = [each.get_submodule("encoder.odd").buffers() for each in (one, other)]
    for ours, theirs in zip(*norms, strict=True):
        assert ours.shape == (3, 2)  # of each t
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("@staticmethod", "# no decorator"), "`compute` of the cell Slip needs `@staticmethod`"),
        (('Literal["Slip"]', "str"), "the class Slip needs a name"),
        (('{"state"}', '{"stat"}'), "names 'stat', which is no role: did you mean `state`"),
        (("Slip", "Conv"), "there is a cell `Conv` in ladderspec: give yours another name"),
        (('EncoderCell.takes | {"state"}', '["encoder"]'), "is ['encoder'], not a set of roles"),
        (("def out_shape", "def shape"), "the cell Slip has no `out_shape`"),
        (("def compute", "def computes"), "the cell Slip has no `compute`"),
        (
            ("    def out_shape", "    returns: ClassVar = 'c'\n\n    def out_shape"),
            "is 'c', not a tup",
        ),
    ],
)
def test_mistakes_are_refused_when_a_cell_is_registered(change, message, tmp_path) -> None:
    text = SLIP.replace(*change)
    (tmp_path / "slip.py").write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        load_plugin(tmp_path / "slip.py")


SLIP = """
from typing import ClassVar, Literal
from ladderspec.cells import EncoderCell, register

@register
class Slip(EncoderCell):
    cell: Literal["Slip"] = "Slip"
    takes: ClassVar = EncoderCell.takes | {"state"}

    def out_shape(self, site):
        return site.main().shape

    @staticmethod
    def compute(a):
        return a
"""


DECLARES = {  # a method, what it returns, and the message
    "list": ("parameters(self, site, out)", "[zeros(2)]", "returned [Parameter("),
    "nothing": ("parameters(self, site, out)", "None", "returned None; it returns a dict of names"),
    "shape": ("parameters(self, site, out)", '{"w": (2,)}', "returned {'w': (2,)}; it returns a"),
    "dot": ("parameters(self, site, out)", '{"w.b": zeros(2)}', "it returns a dict of names"),
    "size": (
        "parameters(self, site, out)",
        '{"w": zeros(out[0] / 2)}',
        "the sizes of `w` are whole numbers above 0, not (1.0,)",
    ),
    "blocks": (
        "parameters(self, site, out)",
        '{"w": blocks(4, values=(1, 2, 3))}',
        "`w` has 3 values for 4 rows in equal blocks",
    ),
    "typo": (
        "parameters(self, site, out)",
        '{"w": zeros(self.units)}',
        "fails in slip.py:17 with AttributeError: 'Slip' object has no attribute 'units'",
    ),
    "no projection": ("project(self, site, inlet, out)", "out", "returned (2,); it returns a Pro"),
    "needs": ("needs(self, side)", '["encoder"]', "returned ['encoder']; it returns a set of role"),
    "norm": ("node_norm(self)", '"layer"', "returned 'layer'; it returns (name, norm, groups)"),
    "no norm": ("node_norm(self)", '("joint", "layr", 1)', "it returns (name, norm, groups)"),
    "constants": ("constants(self, site, out)", "[1]", "returned [1]; it returns a dict of names"),
    "states": ("state_shapes(self, out)", "[out]", "returned [(2,)]; it returns a dict of names"),
}


@pytest.mark.parametrize("name", DECLARES)
@pytest.mark.parametrize("way", ["spec", "module"])
def test_what_a_method_returns_is_checked(name, way, tmp_path, cells_of_the_module) -> None:
    method, value, message = DECLARES[name]
    text = SLIP.replace("import EncoderCell", "import EncoderCell, blocks, zeros")
    text = text.replace('takes: ClassVar = EncoderCell.takes | {"state"}\n', "")
    text += f"\n    def {method}:\n        return {value}\n"
    (tmp_path / "slip.py").write_text(text)
    load_plugin(tmp_path / "slip.py")
    spec = "input: {channels: 2}\nlevels: [{name: a, encoder: {cell: Slip}}]"
    make = (lambda: build(loads(spec))) if way == "spec" else (lambda: nn.Slip.of((2,)))
    with pytest.raises(UsageError) as refused:
        make()
    assert f"`{method.partition('(')[0]}` of the cell Slip" in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize("taken", ["forward", "encoder", "name"])
def test_a_parameter_cannot_have_a_name_of_the_module(taken, tmp_path, cells_of_the_module) -> None:
    text = SLIP.replace("import EncoderCell", "import EncoderCell, zeros")
    text = text.replace("compute(a)", f"compute(a, *, {taken})")
    text += f"\n    def parameters(self, site, out):\n        return {{'{taken}': zeros(2)}}\n"
    (tmp_path / "slip.py").write_text(text)
    load_plugin(tmp_path / "slip.py")
    with pytest.raises(UsageError, match=f"Slip: `parameters` names `{taken}`, which the module"):
        nn.Slip.of((2,))


def test_an_out_shape_that_is_none_is_reported_at_its_row(tmp_path, cells_of_the_module) -> None:
    text = SLIP.replace("return site.main().shape", "return 3").replace("Slip", "Slip3")
    (tmp_path / "slip3.py").write_text(text)
    load_plugin(tmp_path / "slip3.py")
    spec = "input: {channels: 2}\nlevels: [{name: a, encoder: {cell: Slip3}}]"
    with pytest.raises(SpecError, match="`out_shape` of the cell Slip3 returned 3, no shape"):
        loads(spec)
