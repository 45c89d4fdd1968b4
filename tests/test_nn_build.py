"""From words to modules: names, initial values, users' own cells."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import nn

from ladderspec.cells import EncoderCell, Inlet, Projection, Site
from ladderspec.corridor import build, graph, load, loads
from ladderspec.errors import UsageError
from ladderspec.names import Role, Side
from ladderspec.nn import Arrow, Conv, initialise
from ladderspec.nn._build import build_cell
from ladderspec.nn._own import hashed
from ladderspec.wiring import graph_json
from tests.interpreter import Interpreter

TINY = "specs/ommnist/rladder_tiny.yaml"


def _net(variant: str | None = None, seed: int = 0) -> Interpreter:
    return Interpreter(graph(load(TINY, variant)), seed)


# --- initial values -------------------------------------------------------------------------------


def test_variants_agree_on_all_that_they_share():
    whole = dict(_net().named_parameters())
    for variant in ("no_decoder_to_encoder", "hierarchical_rnn", "no_prediction"):
        part = dict(_net(variant).named_parameters())
        assert part.keys() < whole.keys()
        for name, parameter in part.items():
            assert torch.equal(parameter, whole[name]), name


def test_another_seed_draws_other_weights():
    one, other = (dict(_net(seed=seed).named_parameters()) for seed in (0, 1))
    for name in one:
        drawn = name.endswith((".weight", ".D", ".E", ".W_s"))
        assert torch.equal(one[name], other[name]) != drawn, name


def test_initial_values_do_not_depend_on_the_global_seed_or_the_precision():
    torch.manual_seed(1)
    single = Interpreter(graph(load(TINY)))
    torch.manual_seed(2)
    double = Interpreter(graph(load(TINY))).double()
    initialise(double, 0)
    for a, b in zip(single.parameters(), double.parameters(), strict=True):
        assert torch.equal(a.double(), b)


def test_every_name_has_its_own_seed_the_same_everywhere():
    assert hashed(0, "encoder.top.bias") == 13511107750903659139
    assert len({hashed(seed, name) for seed in (0, 1) for name in "abc"}) == 6


def test_starts():
    whole = dict(_net().named_parameters())
    assert whole["encoder.lstm1.bias"].tolist() == [2.0] * 4 + [-1.0] * 4 + [2.0] * 4 + [0.0] * 4
    assert whole["encoder.top.bias"][16:32].eq(1).all()
    assert whole["decoder.pool14.w"][:2].eq(1).all()
    assert not whole["decoder.pool14.lateral.w_s"][2:].any()
    for name, parameter in whole.items():
        if name.endswith(".gain"):
            past = {"state": 1 / 8, "decoder_to_encoder": 1 / 64}
            assert parameter.eq(past.get(name.split(".")[-2], 1)).all(), name


@pytest.mark.parametrize("kind", ["dense", "conv", "transposed"])
def test_a_drive_is_about_as_large_as_what_arrives(kind):
    small, big = (16, 8, 8), (16, 16, 16)
    source, target = {
        "dense": ((256,), (256,)),
        "conv": (big, small),
        "transposed": (small, big),
    }[kind]
    arrow = Arrow(kind, source, target, (6, 6), (2, 2))
    initialise(arrow, 0)
    drive = arrow(torch.randn(8, *source))[..., 2:-2]
    assert 0.8 < drive.std() < 1.2


def test_weights_under_relu_start_larger_where_no_norm_follows():
    plain = Conv({"encoder": Arrow("conv", (64, 4, 4), (64, 4, 4), (3, 3))})
    normed = Conv({"encoder": Arrow("conv", (64, 4, 4), (64, 4, 4), (3, 3), norm="batch")})
    linear = Conv({"encoder": Arrow("conv", (64, 4, 4), (64, 4, 4), (3, 3))}, activation="none")
    ratio = plain.encoder.weight.std() / linear.encoder.weight.std()
    assert ratio.item() == pytest.approx(2**0.5, rel=0.05)
    ratio = normed.encoder.weight.std() / linear.encoder.weight.std()
    assert ratio.item() == pytest.approx(1, rel=0.05)


# --- names ----------------------------------------------------------------------------------------


def test_levels_may_be_called_like_methods_of_a_module():
    text = """
    name: t
    input: {channels: 2}
    time: {frames: 2}
    levels:
      - {name: train, encoder: {cell: FC, channels: 3}}
      - {name: type, encoder: {cell: FC, channels: 3}}
    """
    net = Interpreter(graph(loads(text))).double().eval()
    assert "encoder.train.encoder.weight" in net.state_dict()
    assert net(torch.randn(1, 2, 2).double())[1]["encoder.type"][0].shape == (1, 3)


def test_learned_initial_values_are_parameters_of_their_node():
    text = """
    name: t
    input: {channels: 2, size: 4}
    time: {frames: 3}
    levels:
      - {name: a, encoder: {cell: ConvLSTM, channels: 3, initial: learned}}
    """
    net = Interpreter(graph(loads(text)))
    names = {name: tuple(p.shape) for name, p in net.encoder.a.named_parameters(recurse=False)}
    assert names == {"bias": (12,), "initial": (3,), "initial_c": (3,)}
    assert not net.encoder.a.initial.any()


def test_statistics_per_iteration_need_a_fixed_number():
    words = {"channels": 2, "statistics": "per_iteration"}
    cell = _words(Side.ENCODER, "Conv", words)
    site = Site(Side.ENCODER, (Inlet("encoder", Role.ENCODER, 0, (1, 4, 4)),))
    out = cell.out_shape(site)
    arguments = (
        cell,
        site,
        out,
        cell.join(site, out),
        {"encoder": cell.project(site, site.inlets[0], out)},
    )
    assert build_cell(*arguments, 3).encoder.norm.running_mean.shape == (3, 2)
    with pytest.raises(ValueError, match="not fixed"):
        build_cell(*arguments, None)


def _words(side: Side, cell: str, fields: dict[str, Any]) -> Any:
    from ladderspec.cells import registered

    return registered(side)[cell](**fields)


# --- a user's own cell ----------------------------------------------------------------------------


class Scale(EncoderCell):
    """e = scale . e_below + shift . d, with raw values by arrow; not registered, only built."""

    cell: Literal["Scale"] = "Scale"
    extra: bool = False
    constant: float | None = None

    def out_shape(self, site: Site) -> tuple[int, ...]:
        return site.main().shape

    def project(self, site: Site, inlet: Inlet, out: tuple[int, ...]) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)

    def join(self, site: Site, out: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        return {"linear.weight": (out[0], out[0]), "linear.bias": (out[0],)}

    def build(self, site: Site, out: tuple[int, ...]) -> nn.Module:
        module = _Scale(out[0])
        if self.extra:
            module.register_parameter("more", nn.Parameter(torch.zeros(1)))
        if self.constant is not None:
            nn.init.constant_(module.linear.weight, self.constant)
        return module


class _Scale(nn.Module):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.linear = nn.Linear(units, units)

    def forward(self, values, previous=None, when=None):
        return self.linear(values["encoder"]) + values["decoder_to_encoder"], {}


def _scale(
    own: dict[str, tuple[int, ...]] | None = None, name: str = "", seed: int = 0, **fields: Any
) -> nn.Module:
    words = Scale(**fields)
    inlets = (
        Inlet("encoder", Role.ENCODER, 0, (3,)),
        Inlet("decoder_to_encoder", Role.DECODER_TO_ENCODER, 1, (3,)),
    )
    site = Site(Side.ENCODER, inlets)
    projections = {inlet.key: words.project(site, inlet, (3,)) for inlet in inlets}
    promised = {**words.join(site, (3,)), **(own or {})}
    return build_cell(words, site, (3,), promised, projections, name=name, seed=seed)


def test_a_users_cell_builds_itself_and_gets_the_raw_values():
    module = _scale({"initial": (3,)})
    x, d = torch.randn(2, 3), torch.randn(2, 3)
    output, extras = module({"encoder": x, "decoder_to_encoder": d})
    torch.testing.assert_close(output, module.linear(x) + d)
    assert extras == {}
    assert module.initial.shape == (3,)


def test_a_users_cell_starts_from_seed_and_name():
    before = torch.get_rng_state()
    one, other = (_scale(name="encoder.a", seed=3) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(one.state_dict(), other.state_dict())
    for another in (_scale(name="encoder.a", seed=4), _scale(name="encoder.b", seed=3)):
        assert not torch.equal(one.linear.weight, another.linear.weight)


def test_a_users_cell_keeps_the_start_that_it_gave_itself():
    module = _scale(constant=0.25)
    initialise(module, 0)
    assert (module.linear.weight == 0.25).all()


def test_a_users_cell_keeps_its_promises():
    with pytest.raises(UsageError, match=r"encoder.a \(Scale\): parameters differ .* more 1"):
        _scale(name="encoder.a", extra=True)


GAINS = """
name: gains
input: {channels: 1, size: [8, 8]}
time: {frames: 3}
edges: {decoder_to_encoder: {levels: all}, add: [{arrow: encoder.input(t-1) -> encoder.b, gain: 2}]}
levels:
  - {name: a, encoder: {cell: Conv, channels: 4}, decoder: {cell: convG3}}
  - {name: b, encoder: {cell: ConvLSTM, channels: 4}, decoder: {cell: convG3}}
  - {name: top, encoder: {cell: LSTM, channels: 4}, decoder: G1}
tasks:
  next: {kind: prediction, at: decoder.input, cost: mse}
variants:
  half: {edges: {decoder_to_encoder: {gain: 0.5}}}
"""


@pytest.mark.parametrize(("variant", "feedback"), [(None, 1 / 64), ("half", 0.5)])
def test_norm_gains_start_as_the_spec_says(variant: str | None, feedback: float) -> None:
    whole = graph(loads(GAINS, variant=variant))
    net = build(whole)
    found = {k: set(v.tolist()) for k, v in net.named_parameters() if k.endswith(".gain")}
    assert found.pop("encoder.a.decoder_to_encoder.gain") == {feedback}  # a cell without a state
    assert found.pop("encoder.b.decoder_to_encoder.gain") == {feedback}
    assert found.pop("encoder.b.state.gain") == {1 / 8}
    assert found.pop("encoder.b.skip_encoder_input_1.gain") == {2}
    assert set(map(frozenset, found.values())) == {frozenset({1.0})}
    again = dict(build(graph_json.loads(graph_json.dumps(whole))).named_parameters())
    assert all(torch.equal(again[name], value) for name, value in net.named_parameters())
