"""From declarations to modules: names, initial values, arguments of `compute`."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from ladderspec.api import build, graph, load, loads
from ladderspec.cells import (
    EncoderCell,
    Inlet,
    Parameters,
    Projection,
    ShapeProblem,
    Site,
    ones,
    weight,
    zeros,
)
from ladderspec.errors import SpecError, UsageError
from ladderspec.names import Role, Shape, Side
from ladderspec.nn import CellModule, Conv, Edge, initialise
from ladderspec.nn.modules import nest, seed_of
from ladderspec.wiring import graph_json
from tests.cell_examples import Row
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
    assert seed_of(0, "encoder.top.bias") == 13511107750903659139
    assert len({seed_of(seed, name) for seed in (0, 1) for name in "abc"}) == 6


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
def test_what_an_edge_brings_is_about_as_large_as_what_arrives(kind):
    small, big = (16, 8, 8), (16, 16, 16)
    source, target = {
        "dense": ((256,), (256,)),
        "conv": (big, small),
        "transposed": (small, big),
    }[kind]
    edge = Edge(Projection(kind, source, target, (6, 6), (2, 2)))
    initialise(edge, 0)
    term = edge(torch.randn(8, *source))[..., 2:-2]
    assert 0.8 < term.std() < 1.2


def test_weights_under_relu_start_larger_if_no_norm_follows():
    plain = Conv.of((64, 4, 4), channels=64, norm="none")
    normed = Conv.of((64, 4, 4), channels=64)
    linear = Conv.of((64, 4, 4), channels=64, norm="none", activation="none")
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
    row = Row("Conv", Side.ENCODER, {"encoder": (1, 4, 4)}, PER_ITERATION)
    assert row.build(iterations=3).encoder.norm.running_mean.shape == (3, 2)
    cell = "{cell: Conv, channels: 2, statistics: per_iteration}"
    text = f"""
    input: {{channels: 1, size: 4}}
    time: {{frames: 5}}
    levels: [{{name: a, encoder: {cell}}}]
    """
    read_back = graph_json.dumps(graph(loads(text))).replace('"frames": 5', '"frames": "any"')
    for read in (lambda: loads(text.replace("5", "any")), lambda: graph_json.loads(read_back)):
        with pytest.raises(SpecError, match=r"G209.*keeps statistics per iteration"):
            build(read())


PER_ITERATION = {"channels": 2, "statistics": "per_iteration"}


# --- a user's own cell ----------------------------------------------------------------------------


class Scale(EncoderCell):
    """e = W e_below + b + d, with raw values by edge; not registered, only built."""

    cell: Literal["Scale"] = "Scale"
    factor: float = 1.0

    def out_shape(self, site: Site) -> Shape:
        return site.main().shape

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return {"weight": weight(out[0], out[0]), "bias": ones(*out)}

    @staticmethod
    def compute(
        encoder: Tensor,
        decoder_to_encoder: Tensor,
        *,
        factor: float,
        weight: Tensor,
        bias: Tensor,
        out: Shape,
    ) -> Tensor:
        assert out == (3,)
        return factor * encoder @ weight.T + bias + decoder_to_encoder


BOTH = {"encoder": (3,), "decoder_to_encoder": (3,)}


def _module(
    kind: type[EncoderCell], inputs: dict[str, Shape], own: Parameters | None = None, **fields: Any
) -> CellModule:
    cell = kind(**fields)
    site = Site(Side.ENCODER, tuple(Inlet(k, Role(k), 0, s) for k, s in inputs.items()))
    out = cell.out_shape(site)
    projections = {inlet.key: cell.project(site, inlet, out) for inlet in site.inlets}
    parameters = {**cell.parameters(site, out), **(own or {})}
    return CellModule(cell, site, out, projections, parameters, name="encoder.a")


def test_a_users_cell_gets_raw_values_parameters_and_fields():
    module = _module(Scale, BOTH, {"initial": zeros(3)}, factor=2)
    x, d = torch.randn(2, 3), torch.randn(2, 3)
    output, further = module({"encoder": x, "decoder_to_encoder": d})
    torch.testing.assert_close(output, 2 * x @ module.weight.T + 1 + d)
    assert further == {}
    assert module.initial.shape == (3,)


def test_a_users_cell_starts_from_seed_and_name():
    def drawn(name: str, seed: int) -> dict[str, Tensor]:
        root = nn.Module()
        nest(root, {name: _module(Scale, BOTH)})
        initialise(root, seed)
        return root.get_submodule(name).state_dict()

    before = torch.get_rng_state()
    one, other = drawn("encoder.a", 3), drawn("encoder.a", 3)
    torch.testing.assert_close(one, other)
    for another in (drawn("encoder.a", 4), drawn("encoder.b", 3)):
        assert not torch.equal(one["weight"], another["weight"])
        assert another["bias"].eq(1).all()

    torch.set_rng_state(before)  # networks leave the global generator alone
    Interpreter(graph(load(TINY)))
    assert torch.equal(torch.get_rng_state(), before)


def _compute(function: Any, **members: Any) -> type[EncoderCell]:
    """A cell like Scale with another `compute`, and without parameters."""
    own = {"compute": staticmethod(function), "parameters": lambda self, site, out: {}}
    return type("Other", (Scale,), own | members)


def _states(self: Any, out: Shape) -> dict[str, Shape]:
    return {"m": out}


def _layer(self: Any) -> tuple[str, str, int]:
    return "joint", "layer", 1


def _unlike(self: Any, site: Site, inlet: Inlet, out: Shape) -> Projection:
    return Projection("dense", inlet.shape, (3,) if inlet.role is Role.ENCODER else (4,))


SIGNATURES: dict[str, tuple[type[EncoderCell], str]] = {
    "argument": (
        _compute(lambda a, below: a),
        "`compute` reads `below`, which is no role, no state and not `a`",
    ),
    "positional field": (_compute(lambda a, factor: a), "are keyword-only, after a `*`"),
    "keyword": (
        _compute(lambda a, *, strength: a),
        "`compute` reads `strength`, which is no parameter, field or property of the cell",
    ),
    "edge": (
        _compute(lambda a, upward_diagonal: a),
        "reads `upward_diagonal`, but what arrives there is encoder, decoder_to_encoder; a cell"
        " that cannot do without an edge lists it in `needs`, one that can has"
        " `upward_diagonal=None`",
    ),
    "unread": (
        _compute(lambda encoder: encoder),
        "does not read `decoder_to_encoder`, which arrives there; name it, or read `a`, or leave it"
        " out of `takes`",
    ),
    "h": (_compute(lambda a, h: a), "reads `h`, which does not exist before the first iteration;"),
    "state": (_compute(lambda a, m: a, state_shapes=_states, returns=("m",)), "write `m=None`"),
    "returns": (
        _compute(lambda a, m=None: a, state_shapes=_states),
        "`state_shapes` names `m`, `returns` does not",
    ),
    "norm": (
        _compute(lambda a, *, norm: norm(a)),
        "`node_norm` has no norm; write `norm=None`",
    ),
    "norm without a sum": (
        _compute(lambda encoder, decoder_to_encoder: encoder, node_norm=_layer),
        "`node_norm` needs edges that enter the sum `a`",
    ),
    "sum": (
        _compute(lambda a: a, project=_unlike),
        "`a` sums edges, but `decoder_to_encoder` leads to 4 and `encoder` to 3",
    ),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_of_compute_are_resolved_when_a_network_is_built(name: str) -> None:
    kind, message = SIGNATURES[name]
    with pytest.raises(UsageError) as refused:
        _module(kind, BOTH)
    assert str(refused.value).startswith("encoder.a (Scale): ")
    assert message in str(refused.value)


def test_optional_arguments_are_none_if_absent() -> None:
    seen = {}

    def compute(a, upward_diagonal=None, h=None, m=None, *, more=None, factor):
        seen.update(upward_diagonal=upward_diagonal, h=h, m=m, more=more, factor=factor)
        return a, a

    kind = _compute(compute, state_shapes=_states, returns=("m",))
    _module(kind, {"encoder": (3,)})({"encoder": torch.ones(1, 3)})
    assert seen == {"upward_diagonal": None, "h": None, "m": None, "more": None, "factor": 1.0}


def test_edges_reads_all_of_them_by_key() -> None:
    module = _module(_compute(lambda edges: edges["encoder"] - edges["decoder_to_encoder"]), BOTH)
    x, d = torch.randn(2, 3), torch.randn(2, 3)
    assert torch.equal(module({"encoder": x, "decoder_to_encoder": d})[0], x - d)


def test_noise_of_a_cell_without_arrows_is_no_second_mistake() -> None:
    text = """
    input: {channels: 2}
    time: {frames: 3}
    levels: [{name: a, encoder: {cell: FC, channels: 3, norm: joint, noise: {gaussian: 0.3}}}]
    without: [encoder@a]
    """
    with pytest.raises(SpecError) as caught:
        loads(text)
    assert [finding.code for finding in caught.value.findings] == ["G205"]


def test_noise_is_refused_if_no_edge_enters_the_sum() -> None:
    def project(self: Any, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, out, norm="layer")

    kind = _compute(lambda edges: edges["encoder"], project=project)
    with pytest.raises(ShapeProblem, match="has no norm"):
        _module(kind, {"encoder": (3,)}, noise={"gaussian": 0.3})


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
