"""The language, sentence by sentence. Parameter counts are formulas written out by hand."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from ladderspec.api import graph, load, loads
from ladderspec.errors import SpecError
from ladderspec.language.read import Spec
from ladderspec.names import Role, show_arrow
from ladderspec.wiring.graph import Graph, parameters

HEAD = "input: {channels: 3, size: [8, 6]}\ntime: {frames: 4}\n"
LADDER = (
    HEAD
    + """
levels:
  - name: a
    encoder: {cell: ConvLSTM, channels: 4}
    decoder: {cell: convG3, filter: 3}
  - name: b
    encoder: {cell: Conv, channels: 5}
    decoder: {cell: convG3, filter: 3}
  - name: pool
    encoder: {cell: Pool}
    decoder: {cell: convG3, filter: 6}
  - name: top
    encoder: {cell: LSTM, channels: 7}
    decoder: G1
"""
)


def net(text: str, *variants: str, **changes: Any) -> Graph:
    return graph(loads(text, variants, **changes))


def rows(*rows: str, head: str = HEAD, rest: str = "") -> str:
    return head + "levels:\n" + "".join(f"  - {{{row}}}\n" for row in rows) + rest


def arrows(built: Graph, role: Role | None = None) -> set[str]:
    return {
        show_arrow(source, target, facts["delay"])
        for source, target, facts in built.edges(data=True)
        if role in (None, facts["role"])
    }


def at(built: Graph, node: str) -> int:
    """What a node owns together with its arrows."""
    own: int = built.nodes[node]["parameters"]
    return own + sum(count for _, _, count in built.in_edges(node, data="parameters"))


def codes(text: str, *variants: str, **changes: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        loads(text, variants, **changes)
    return [finding.code for finding in caught.value.findings]


# --- levels ---------------------------------------------------------------------------------------


def test_levels_nodes_and_names() -> None:
    built = net(
        rows(
            "name: lstm1, encoder: {cell: ConvLSTM, channels: 4}, decoder: {cell: convG3}",
            "name: conv, repeat: 3, encoder: {cell: Conv, channels: 4}",
            "encoder: {cell: Pool}",
            "name: once, repeat: 1, encoder: {cell: Conv, channels: 4}",
            "encoder: {cell: ConvGRU, channels: 2}",
        )
    )
    levels = ["input", "lstm1", "conv_1", "conv_2", "conv_3", "pool5", "once_1", "convgru7"]
    assert built.graph["levels"] == levels
    assert {f"encoder.{level}" for level in levels} | {"decoder.input"} == set(built)
    assert built.nodes["encoder.conv_2"]["level"] == "conv_2"


def test_a_row_makes_its_level_from_the_one_below() -> None:
    assert arrows(net(LADDER), Role.ENCODER) == {
        "encoder.input -> encoder.a",
        "encoder.a -> encoder.b",
        "encoder.b -> encoder.pool",
        "encoder.pool -> encoder.top",
    }


def test_labels_of_rows_nodes_and_arrows() -> None:
    text = rows(
        "name: a, label: first, encoder: {cell: Conv, channels: 4, label: C}",
        rest="edges: {add: [{from: encoder.input, to: encoder.a, delay: 2, label: old}]}\n",
    )
    built = net(text)
    assert built.graph["labels"] == {"a": "first"}
    assert built.nodes["encoder.a"]["cell"].label == "C"
    assert built.edges["encoder.input", "encoder.a", "skip_encoder_input_2"]["label"] == "old"


# --- a row's decoder cell inverts its row ---------------------------------------------------------


def test_decoders_stand_on_the_row_above_their_level() -> None:
    built = net(LADDER)
    assert arrows(built, Role.DECODER) == {
        "decoder.a -> decoder.input",
        "decoder.b -> decoder.a",
        "decoder.pool -> decoder.b",
        "encoder.top -> decoder.pool",  # the topmost level has no decoder: from its encoder
    }
    assert arrows(built, Role.LATERAL) == {
        f"encoder.{level} -> decoder.{level}" for level in ("input", "a", "b", "pool")
    }
    shapes = {level: built.nodes[f"decoder.{level}"]["shape"] for level in ("input", "a", "b")}
    assert shapes == {"input": (3, 8, 6), "a": (4, 8, 6), "b": (5, 8, 6)}
    assert built.nodes["decoder.pool"]["shape"] == (5, 4, 3)


def test_where_a_level_has_no_decoder_its_encoder_comes_down() -> None:
    built = net(
        rows(
            "name: a, encoder: {cell: Conv, channels: 4}, decoder: convG3",
            "name: b, encoder: {cell: Conv, channels: 4}",
        )
    )
    assert "encoder.a -> decoder.input" in arrows(built, Role.DECODER)


def test_channels_override_the_width_of_a_decoder() -> None:
    built = net(rows("encoder: {cell: Conv, channels: 4}, decoder: {cell: convG3, channels: 9}"))
    assert built.nodes["decoder.input"]["shape"] == (9, 8, 6)


def test_identity_keeps_the_shape_of_what_it_copies() -> None:
    built = net(rows("name: a, encoder: {cell: FC, channels: 9}, decoder: Identity"))
    assert built.nodes["decoder.input"]["shape"] == (9,)
    assert arrows(built, Role.LATERAL) == set()


def test_top_is_made_from_its_lateral_alone() -> None:
    built = net(LADDER + "top: {cell: FC}\n")
    assert [source for source, _ in built.in_edges("decoder.top")] == ["encoder.top"]
    assert "decoder.top -> decoder.pool" in arrows(built, Role.DECODER)
    copy = net(LADDER + "top: Identity\n")
    assert copy.nodes["decoder.top"]["shape"] == (7,)
    gate = net(LADDER + "top: {cell: G1, weights: none}\n")
    keys = [(source, key) for source, _, key in gate.in_edges("decoder.top", keys=True)]
    assert sorted(keys) == [("encoder.top", "decoder"), ("encoder.top", "lateral")]


# --- cells: shapes and parameters -----------------------------------------------------------------

ENCODERS = [
    # words, shape, parameters; the input is 3 x 8 x 6
    ("{cell: Conv, channels: 4}", (4, 8, 6), 9 * 3 * 4 + 4 + 4),
    ("{cell: Conv, channels: 4, filter: [1, 5]}", (4, 8, 6), 5 * 3 * 4 + 4 + 4),
    ("{cell: Conv, channels: 4, stride: 2}", (4, 4, 3), 9 * 3 * 4 + 4 + 4),
    ("{cell: Conv, channels: 4, stride: [3, 4]}", (4, 3, 2), 9 * 3 * 4 + 4 + 4),
    ("{cell: Conv, channels: 4, norm: none}", (4, 8, 6), 9 * 3 * 4 + 4),
    ("{cell: Conv, channels: 4, norm: layer}", (4, 8, 6), 9 * 3 * 4 + 4 + 4),
    ("{cell: Conv, channels: 4, norm: joint}", (4, 8, 6), 9 * 3 * 4 + 4 + 4),
    ("{cell: Conv, channels: 4, norm: {kind: none, terms: joint}}", (4, 8, 6), 9 * 3 * 4 + 4),
    ("{cell: ConvLSTM, channels: 4}", (4, 8, 6), (9 * 3 + 9 * 4) * 16 + 2 * 16 + 16),
    ("{cell: ConvLSTM, channels: 4, norm: joint}", (4, 8, 6), (9 * 3 + 9 * 4) * 16 + 16 + 16),
    ("{cell: ConvLSTM, channels: 4, filter: 1, norm: none}", (4, 8, 6), (3 + 4) * 16 + 16),
    ("{cell: ConvLSTM, channels: 4, filter: 2}", (4, 8, 6), (4 * 3 + 1 * 4) * 16 + 2 * 16 + 16),
    ("{cell: ConvLSTM, channels: 4, stride: 2}", (4, 4, 3), (9 * 3 + 9 * 4) * 16 + 2 * 16 + 16),
    ("{cell: ConvGRU, channels: 4}", (4, 8, 6), (9 * 3 + 9 * 4) * 12 + 2 * 12 + 12 + 4),
    ("{cell: LSTM, channels: 4}", (4,), (144 + 4) * 16 + 16),
    ("{cell: LSTM, channels: 4, norm: layer}", (4,), (144 + 4) * 16 + 2 * 16 + 16),
    ("{cell: GRU, channels: 4}", (4,), (144 + 4) * 12 + 12 + 4),
    ("{cell: FC, channels: 4}", (4,), 144 * 4 + 4 + 4),
    ("{cell: FC, channels: 4, norm: none}", (4,), 144 * 4 + 4),
    ("{cell: Pool}", (3, 4, 3), 0),
    ("{cell: Pool, mode: average, filter: 3, stride: 2}", (3, 4, 3), 0),
    ("{cell: Pool, filter: global}", (3,), 0),
    ("{cell: SoftMax, channels: 4}", (4,), 144 * 4 + 4 + 4),
    ("{cell: SoftMax, weights: none}", (3, 8, 6), 0),
]


@pytest.mark.parametrize(("words", "shape", "count"), ENCODERS)
def test_encoder_cells(words: str, shape: tuple[int, ...], count: int) -> None:
    built = net(rows(f"name: a, encoder: {words}"))
    assert built.nodes["encoder.a"]["shape"] == shape
    assert at(built, "encoder.a") == parameters(built) == count


# Between a map 4 x 8 x 6 below and 5 x 4 x 3 above.
DECODERS = [
    ("{cell: convG3}", (4, 8, 6), 9 * (5 + 4) * 5 + 2 * 5 + 5 + 3 * 5 * 4),
    ("{cell: convG3, filter: 6}", (4, 8, 6), 36 * (5 + 4) * 5 + 2 * 5 + 5 + 3 * 5 * 4),
    ("{cell: convG3, inner: 2}", (4, 8, 6), 9 * (5 + 4) * 2 + 2 * 2 + 2 + 3 * 2 * 4),
    ("{cell: convG3, inner_filter: 3}", (4, 8, 6), 9 * (5 + 4) * 5 + 2 * 5 + 5 + 9 * 3 * 5 * 4),
    ("{cell: convG3, channels: 2}", (2, 8, 6), 9 * (5 + 4) * 5 + 2 * 5 + 5 + 3 * 5 * 2),
    ("{cell: convG3, norm: joint}", (4, 8, 6), 9 * (5 + 4) * 5 + 5 + 5 + 3 * 5 * 4),
    ("{cell: convG3, norm: none}", (4, 8, 6), 9 * (5 + 4) * 5 + 5 + 3 * 5 * 4),
    ("{cell: convG2}", (4, 8, 6), 9 * (5 + 4) * 12 + 2 * 12 + 12 + 5 * 12),
    ("{cell: convG2, inner: 2}", (4, 8, 6), 9 * (5 + 4) * 6 + 2 * 6 + 6 + 5 * 6 + 4 * 2),
    ("{cell: convG1}", (4, 8, 6), 9 * 5 * 4 + 4 + 5 * 4 + 5 * 4),
    ("{cell: G1}", (4, 8, 6), 60 * 192 + 192 + 5 * 192 + 5 * 192),
    ("{cell: Conv}", (4, 8, 6), 9 * (5 + 4) * 4 + 2 * 4 + 4),
    ("{cell: Conv, filter: 1, norm: none}", (4, 8, 6), (5 + 4) * 4 + 4),
    ("{cell: FC}", (4, 8, 6), (60 + 192) * 192 + 2 * 192 + 192),
    ("{cell: Identity}", (5, 4, 3), 0),
]


@pytest.mark.parametrize(("words", "shape", "count"), DECODERS)
def test_decoder_cells(words: str, shape: tuple[int, ...], count: int) -> None:
    built = net(
        rows(
            "name: a, encoder: {cell: Conv, channels: 4}",
            f"name: b, encoder: {{cell: Conv, channels: 5, stride: 2}}, decoder: {words}",
        )
    )
    assert built.nodes["decoder.a"]["shape"] == shape
    assert at(built, "decoder.a") == count


def test_average_spreads_a_global_pool() -> None:
    built = net(rows("encoder: {cell: Pool, mode: average, filter: global}, decoder: Average"))
    assert built.nodes["decoder.input"]["shape"] == (3, 8, 6)
    assert parameters(built) == 0
    assert arrows(built, Role.LATERAL) == set()


def test_a_vector_is_an_input_without_size() -> None:
    built = net(
        rows(
            "name: a, encoder: {cell: LSTM, channels: 4}, decoder: G1",
            head="input: {channels: 9}\n",
        )
    )
    assert built.nodes["encoder.input"]["shape"] == (9,)
    # LSTM with its decoder-to-encoder arrow absent (the top has no decoder), G1 on 9 units
    assert parameters(built) == (9 + 4) * 16 + 16 + 4 * 9 + 9 + 10 * 9


def test_one_number_is_a_square_and_channels_default_to_one() -> None:
    built = net(rows("encoder: {cell: Conv, channels: 2, filter: 5}", head="input: {size: 8}\n"))
    assert built.nodes["encoder.input"]["shape"] == (1, 8, 8)
    assert parameters(built) == 25 * 2 + 4


def test_short_forms_mean_the_same() -> None:
    long = rows("name: a, encoder: {cell: FC, channels: 4}, decoder: {cell: G1}")
    short = rows("name: a, encoder: {cell: FC, channels: 4}, decoder: G1")
    assert parameters(net(long)) == parameters(net(short))


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("even", (1, 1, 0, 0, 0)),
        ("ladder", (0, 1, 0, 0, 0)),
        ("[1, 2, 3, 4, 0.5]", (1, 2, 3, 4, 0.5)),
    ],
)
def test_starts_of_the_function_f(words: str, start: tuple[float, ...]) -> None:
    built = net(
        rows(f"encoder: {{cell: FC, channels: 4}}, decoder: {{cell: G1, w: {words}, w_s: {words}}}")
    )
    cell = built.nodes["decoder.input"]["cell"]
    assert cell.w == cell.w_s == start


def test_statistics_and_noise_are_words_without_parameters() -> None:
    head = "input: {channels: 3, size: [8, 6], noise: {gaussian: 1e-1, flip: 0.2}}\n"
    row = "name: a, encoder: {cell: Conv, channels: 4, statistics: shared}"
    built = net(rows(row, head=head))
    assert built.nodes["encoder.a"]["cell"].statistics == "shared"
    assert built.nodes["encoder.input"]["cell"].noise.gaussian == 0.1
    assert parameters(built) == 9 * 3 * 4 + 8


# --- laterals and defaults ------------------------------------------------------------------------


def test_a_cell_on_a_lateral_arrow() -> None:
    plain, built = net(LADDER), net(LADDER + "laterals: {a: {cell: ConvLSTM, channels: 2}}\n")
    assert arrows(built) - arrows(plain) == {
        "encoder.a -> lateral.a",
        "lateral.a -> decoder.a",
        "lateral.a(t-1) -> lateral.a",
    }
    assert arrows(plain) - arrows(built) == {"encoder.a -> decoder.a"}
    assert at(built, "lateral.a") == (9 * 4 + 9 * 2) * 8 + 2 * 8 + 8
    # convG3 of level a: u has the 5 channels of its row; its lateral now brings 2 channels, not 4
    assert at(plain, "decoder.a") - at(built, "decoder.a") == 9 * (4 - 2) * 5


def test_defaults_hold_where_the_cell_is_silent() -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 2}, decoder: Conv",
        "name: b, repeat: 2, encoder: {cell: Conv, channels: 2, filter: 1}",
        rest="top: Conv\ndefaults: {Conv: {filter: 5, stride: 1, activation: elu}}\n",
    )
    built = net(text)
    filters = {node: facts["cell"].filter for node, facts in built.nodes(data=True) if "." in node
               and facts["cell"].cell == "Conv"}  # fmt: skip
    assert filters == {
        "encoder.a": (5, 5), "encoder.b_1": (1, 1), "encoder.b_2": (1, 1),
        "decoder.input": (5, 5), "decoder.b_2": (5, 5),
    }  # fmt: skip
    assert codes(text.replace("activation", "forget_bias")) == ["S101"]
    assert codes(text.replace("defaults: {Conv", "defaults: {LSTM")) == ["G202"]


# --- the table of roles ---------------------------------------------------------------------------


def test_state_and_feedback_stand_at_stateful_cells() -> None:
    built = net(LADDER + "top: Identity\n")
    assert arrows(built, Role.STATE) == {
        "encoder.a(t-1) -> encoder.a",
        "encoder.top(t-1) -> encoder.top",
    }
    assert arrows(built, Role.DECODER_TO_ENCODER) == {
        "decoder.a(t-1) -> encoder.a",
        "decoder.top(t-1) -> encoder.top",
    }
    for role in (Role.UPWARD_DIAGONAL, Role.DOWNWARD_DIAGONAL, Role.RECURRENT_DECODER, Role.SKIP):
        assert arrows(built, role) == set()


ROLES = [
    ("decoder_to_encoder: none", Role.DECODER_TO_ENCODER, []),
    ("decoder_to_encoder: all", Role.DECODER_TO_ENCODER, ["a", "b"]),  # not Pool, not the input
    ("decoder_to_encoder: [b]", Role.DECODER_TO_ENCODER, ["b"]),
    ("decoder_to_encoder: {levels: [b], delay: 3}", Role.DECODER_TO_ENCODER, ["b"]),
    ("upward_diagonal: all", Role.UPWARD_DIAGONAL, ["a", "b", "top"]),
    ("upward_diagonal: stateful", Role.UPWARD_DIAGONAL, ["a", "top"]),
    ("downward_diagonal: all", Role.DOWNWARD_DIAGONAL, ["input", "a", "b"]),
    ("recurrent_decoder: all", Role.RECURRENT_DECODER, ["input", "a", "b", "pool"]),
    ("recurrent_decoder: stateful", Role.RECURRENT_DECODER, ["a"]),
    ("lateral: [a, p*]", Role.LATERAL, ["a", "pool"]),
    ("lateral: {delay: 1}", Role.LATERAL, ["input", "a", "b", "pool"]),
    ("lateral: {levels: none}", Role.LATERAL, []),
    ("decoder: {delay: 2}", Role.DECODER, ["input", "a", "b", "pool"]),
    ("state: {delay: 2}", Role.STATE, ["a", "top"]),
    ("encoder: {delay: 1}", Role.ENCODER, ["a", "b", "pool", "top"]),
]


@pytest.mark.parametrize(("words", "role", "levels"), ROLES)
def test_roles_by_level_and_delay(words: str, role: Role, levels: list[str]) -> None:
    built = net(LADDER + f"edges: {{{words}}}\n")
    found = [(b, facts["delay"]) for _, b, facts in built.edges(data=True) if facts["role"] is role]
    assert {node.partition(".")[2] for node, _ in found} == set(levels)
    digits = [int(c) for c in words.partition("delay:")[2] if c.isdigit()]
    usual = {Role.LATERAL: 0, Role.DECODER: 0, Role.ENCODER: 0}
    assert {delay for _, delay in found} <= {digits[0] if digits else usual.get(role, 1)}


def test_diagonals_run_as_the_table_says() -> None:
    built = net(LADDER + "edges: {upward_diagonal: all, downward_diagonal: all}\n")
    assert "decoder.a(t-1) -> encoder.b" in arrows(built, Role.UPWARD_DIAGONAL)
    assert "decoder.b(t-1) -> decoder.a" in arrows(built, Role.DOWNWARD_DIAGONAL)


# --- single arrows --------------------------------------------------------------------------------

ADDED = [
    ("decoder.b(t-1) -> encoder.b", Role.DECODER_TO_ENCODER, ["decoder.b(t-1) -> encoder.b"]),
    ("decoder.b(t-2) -> encoder.b", Role.SKIP, ["decoder.b(t-2) -> encoder.b"]),
    ("decoder.a(t-1) -> encoder.b", Role.UPWARD_DIAGONAL, ["decoder.a(t-1) -> encoder.b"]),
    ("decoder.b(t-1) -> decoder.a", Role.DOWNWARD_DIAGONAL, ["decoder.b(t-1) -> decoder.a"]),
    ("decoder.a(t-1) -> decoder.a", Role.RECURRENT_DECODER, ["decoder.a(t-1) -> decoder.a"]),
    ("encoder.input -> encoder.b", Role.SKIP, ["encoder.input -> encoder.b"]),
    ("encoder.input(t) -> encoder.b", Role.SKIP, ["encoder.input -> encoder.b"]),
    ("encoder.b(t-1) -> decoder.b", Role.SKIP, ["encoder.b(t-1) -> decoder.b"]),
    (
        "encoder.b(t-1) -> encoder.a(t-3) -> decoder.input",
        Role.SKIP,
        ["encoder.b(t-1) -> encoder.a", "encoder.a(t-3) -> decoder.input"],
    ),
    (
        "{from: decoder.b, to: encoder.b, delay: 1}",
        Role.DECODER_TO_ENCODER,
        ["decoder.b(t-1) -> encoder.b"],
    ),
    ("{from: encoder.input, to: encoder.b}", Role.SKIP, ["encoder.input -> encoder.b"]),
    ("{from: encoder.input(t-3), to: encoder.b}", Role.SKIP, ["encoder.input(t-3) -> encoder.b"]),
    (
        "{arrow: encoder.input(t-3) -> encoder.b, filter: 1}",
        Role.SKIP,
        ["encoder.input(t-3) -> encoder.b"],
    ),
]


@pytest.mark.parametrize(("words", "role", "expected"), ADDED)
def test_an_added_arrow_takes_the_role_it_fits(words: str, role: Role, expected: list[str]) -> None:
    built = net(LADDER + f"edges: {{add: [{words}]}}\n")
    assert arrows(built) - arrows(net(LADDER)) == set(expected)
    assert set(expected) <= arrows(built, role)
    if not words.startswith("{"):
        assert arrows(net(LADDER, add=words)) == arrows(built)


def test_an_added_arrow_owns_its_projection() -> None:
    plain = net(LADDER)
    built = net(LADDER + "edges: {add: [encoder.input(t-2) -> encoder.b]}\n")
    key = "skip_encoder_input_2"
    assert built.edges["encoder.input", "encoder.b", key]["parameters"] == 9 * 3 * 5 + 5
    assert parameters(built) - parameters(plain) == 9 * 3 * 5 + 5
    words = "{from: encoder.input, to: encoder.b, delay: 2, filter: [1, 2], norm: none}"
    own = net(LADDER + f"edges: {{add: [{words}]}}\n")
    assert parameters(own) - parameters(plain) == 2 * 3 * 5
    into = net(LADDER + "edges: {add: [encoder.input(t-1) -> encoder.top]}\n")
    assert parameters(into) - parameters(plain) == 144 * 28
    down = net(LADDER + "edges: {add: [encoder.top(t-1) -> decoder.a]}\n")
    assert parameters(down) - parameters(plain) == 7 * (5 * 48) + 5


def test_an_even_filter_loses_one_where_nothing_is_resampled() -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 4, filter: 6}, decoder: {cell: convG3, filter: 6}"
    )
    plain = parameters(net(text))
    built = net(text, add="decoder.input(t-1) -> encoder.a")
    assert parameters(built) - plain == 25 * 3 * 4 + 4


# --- initial values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "count"),
    [
        ("name: a, encoder: {cell: ConvLSTM, channels: 4, initial: learned}", 4 + 4),  # h and c
        ("name: a, encoder: {cell: ConvGRU, channels: 4, initial: learned}", 4),
        (
            "name: a, encoder: {cell: Conv, channels: 4, initial: learned}",
            0,
        ),  # nothing reads it later
    ],
)
def test_learned_initial_values(row: str, count: int) -> None:
    plain = net(rows(row.replace("learned", "zeros")))
    assert parameters(net(rows(row))) - parameters(plain) == count


def test_an_initial_value_belongs_to_the_node_that_the_arrow_comes_from() -> None:
    text = LADDER + "edges: {add: [{from: decoder.b, to: encoder.b, delay: 1, initial: learned}]}\n"
    built = net(text)
    assert built.nodes["decoder.b"]["initial"] == "learned"
    assert parameters(built) - parameters(net(text.replace("learned", "zeros"))) == 5


# --- projections and joins ------------------------------------------------------------------------


def test_parameters_are_those_of_nodes_and_arrows() -> None:
    built = net(LADDER)
    nodes = sum(count for _, count in built.nodes(data="parameters"))
    assert parameters(built) == nodes + sum(n for _, _, n in built.edges(data="parameters"))


@pytest.mark.parametrize(
    "selector", ["decoder_to_encoder", "lateral@a", "lateral@pool", "decoder@b"]
)
def test_removing_an_arrow_changes_no_other_number(selector: str) -> None:
    plain, built = net(LADDER), net(LADDER, without=selector)
    assert built.number_of_edges() < plain.number_of_edges()
    for node, count in built.nodes(data="parameters"):
        assert plain.nodes[node]["parameters"] == count
    for a, b, key, count in built.edges(keys=True, data="parameters"):
        assert plain.edges[a, b, key]["parameters"] == count


def test_the_gate_of_g1_belongs_to_its_lateral_arrow() -> None:
    plain, built = net(LADDER), net(LADDER, without="lateral@pool")
    assert parameters(plain) - parameters(built) == 5 * (5 * 4 * 3)


def test_joint_norm_moves_the_gain_to_the_node() -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 4, norm: separate}, decoder: convG3",
        rest="edges: {decoder_to_encoder: all, add: [encoder.input(t-1) -> encoder.a]}\n",
    )
    apart, joint = net(text), net(text.replace("separate", "joint"))
    assert at(apart, "encoder.a") - at(joint, "encoder.a") == 4  # one gain instead of two
    assert joint.nodes["encoder.a"]["parameters"] == 8


# --- variants -------------------------------------------------------------------------------------

VARIANTS = (
    LADDER
    + """
tasks:
  next: {kind: prediction, at: decoder.input, weight: 10}
variants:
  no_feedback: {title: w/o feedback, without: [decoder_to_encoder]}
  small: {set: {encoder.a.channels: 2, decoder.*.norm: none, task.next.weight: 3}}
  both: {of: [no_feedback, small], expect: {shape: {encoder.a: [2, 8, 6]}}}
  swapped: {without: [decoder_to_encoder], edges: {recurrent_decoder: stateful}}
  other_task: {tasks: {next: null, again: {kind: denoising, at: decoder.input}}}
  heavier: {tasks: {next: {weight: 7}}}
  replaced: {without: [lateral], edges: {add: [encoder.b -> decoder.b]}}
"""
)


def test_a_variant_has_a_title_or_its_name() -> None:
    assert loads(VARIANTS, "no_feedback").title == "w/o feedback"
    assert loads(VARIANTS, "small").title == "small"


def test_set_changes_fields_of_nodes_and_tasks() -> None:
    spec = loads(VARIANTS, "small")
    built = graph(spec)
    assert built.nodes["encoder.a"]["shape"] == (2, 8, 6)
    norms = {
        node: facts["cell"].norm for node, facts in built.nodes(data=True) if "decoder" in node
    }
    assert norms["decoder.pool"] == "none"
    assert norms["decoder.a"].kind == "none"
    assert spec.config.tasks["next"].weight == 3
    assert graph(loads(VARIANTS)).nodes["encoder.a"]["shape"] == (4, 8, 6)


def test_variants_build_on_each_other_and_compose() -> None:
    both, composed = net(VARIANTS, "both"), net(VARIANTS, "no_feedback", "small")
    assert arrows(both) == arrows(composed)
    assert parameters(both) == parameters(composed)
    assert arrows(both, Role.DECODER_TO_ENCODER) == set()


def test_a_variant_swaps_arrows() -> None:
    built = net(VARIANTS, "swapped")
    assert arrows(built, Role.DECODER_TO_ENCODER) == set()
    assert arrows(built, Role.RECURRENT_DECODER) == {"decoder.a(t-1) -> decoder.a"}


def test_a_variant_adds_changes_and_removes_tasks() -> None:
    assert list(loads(VARIANTS, "other_task").config.tasks) == ["again"]
    spec = loads(VARIANTS, "heavier")
    assert spec.config.tasks["next"].weight == 7
    assert spec.config.tasks["next"].at == "decoder.input"


def test_a_patch_never_removes_what_it_adds() -> None:
    assert arrows(net(VARIANTS, "replaced"), Role.LATERAL) == {"encoder.b -> decoder.b"}


def test_tasks_go_before_others_come_patch_by_patch() -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG3}",
        rest="""
tasks: {x: {kind: prediction, at: decoder.input}}
variants:
  swapped: {without: [task.*], tasks: {y: {kind: probe, at: encoder.a, target: z, head: 1}}}
  bare: {without: [task.x]}
  again: {of: bare, tasks: {x: {kind: probe, at: encoder.a, target: z, head: 1}}}
  weighed: {of: bare, set: {task.x.weight: 2}}
""",
    )
    assert list(loads(text, "swapped").config.tasks) == ["y"]
    assert loads(text, "again").config.tasks["x"].kind == "probe"
    assert list(loads(text, "weighed").config.tasks) == []


def test_a_lateral_arrow_through_a_cell_waits_once() -> None:
    text = LADDER + "laterals: {b: {cell: Conv, channels: 2}}\nedges: {lateral: {delay: 1}}\n"
    found = arrows(net(text), Role.LATERAL)
    assert {"encoder.b(t-1) -> lateral.b", "lateral.b -> decoder.b"} <= found
    assert "encoder.a(t-1) -> decoder.a" in found


@pytest.mark.parametrize("levels", ["all", "stateful"])
def test_states_of_lateral_cells(levels: str) -> None:
    """What is the default can be said."""
    text = LADDER + "laterals: {b: {cell: ConvLSTM, channels: 2}}\n"
    said = net(text + f"edges: {{state: {levels}}}\n")
    assert arrows(said, Role.STATE) == arrows(net(text), Role.STATE)
    assert "lateral.b(t-1) -> lateral.b" in arrows(said, Role.STATE)


def test_defaults_of_a_cell_that_set_replaces_stand_idle() -> None:
    text = LADDER + "defaults: {LSTM: {norm: layer}}\n"
    assert net(text, set={"encoder.top.cell": "GRU"}).nodes["encoder.top"]["cell"].cell == "GRU"


def test_lists_of_levels_do_without_those_that_were_dropped() -> None:
    text = LADDER + "edges: {decoder_to_encoder: [a, b]}\n"
    assert arrows(net(text, without=["level.a"]), Role.DECODER_TO_ENCODER) == {
        "decoder.b(t-1) -> encoder.b"
    }


def test_arrows_have_no_words_that_say_nothing() -> None:
    arrow = "{arrow: encoder.b(t-1) -> decoder.pool, norm: layer}"
    with pytest.raises(SpecError, match="G1 gives this arrow no `norm` of its own"):
        net(LADDER + f"edges: {{add: [{arrow}]}}\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cell: Conv, channels: 5", "cell: Conv, Conv: 3, channels: 5"),
        ("levels:", "edges: {add: [{arrow: encoder.a -> encoder.pool, text: x}]}\nlevels:"),
    ],
)
def test_keys_spelt_like_the_word_that_chooses(before: str, after: str) -> None:
    with pytest.raises(SpecError, match=r"Conv has no field `Conv`|unknown key `text`"):
        net(LADDER.replace(before, after, 1))


def test_pruning_takes_no_longer_for_many_readers() -> None:
    """One walk, however many nodes are read."""
    read = "tasks: {x: {kind: probe, at: 'decoder.*', target: z, head: 1}}\n"
    built = net(LADDER.replace("  - name: b", "  - name: b\n    repeat: 30") + read)
    assert len(built) == 2 * 34 - 1, "the topmost has no decoder"


def test_the_same_words_work_as_changes() -> None:
    by_words = net(VARIANTS, set={"encoder.a.channels": 2}, without=["decoder_to_encoder"])
    assert by_words.nodes["encoder.a"]["shape"] == (2, 8, 6)
    assert arrows(by_words, Role.DECODER_TO_ENCODER) == set()
    assert arrows(net(VARIANTS, add=["decoder.b(t-1) -> encoder.b"])) > arrows(net(VARIANTS))


# --- selectors ------------------------------------------------------------------------------------

SELECTORS = [
    ("lateral", {f"encoder.{n} -> decoder.{n}" for n in ("input", "a", "b", "pool")}),
    ("lateral@a", {"encoder.a -> decoder.a"}),
    ("lateral@?", {"encoder.a -> decoder.a", "encoder.b -> decoder.b"}),
    ("decoder@input", {"decoder.a -> decoder.input"}),
    ("decoder.a(t-1) -> encoder.a", {"decoder.a(t-1) -> encoder.a"}),
    ("decoder.*(t-1) -> encoder.*", {"decoder.a(t-1) -> encoder.a"}),
]


@pytest.mark.parametrize(("selector", "gone"), SELECTORS)
def test_selectors_of_arrows(selector: str, gone: set[str]) -> None:
    plain = net(LADDER)
    assert arrows(plain) - arrows(net(LADDER, without=selector)) == gone


def test_selectors_of_nodes() -> None:
    assert set(net(LADDER, without="decoder.*")) == {
        f"encoder.{n}" for n in ("input", "a", "b", "pool", "top")
    }
    assert "decoder.input" not in net(LADDER, without="decoder.input")


def test_a_dropped_level_joins_its_neighbours() -> None:
    built = net(LADDER, without="level.b")
    assert built.graph["levels"] == ["input", "a", "pool", "top"]
    assert "encoder.a -> encoder.pool" in arrows(built, Role.ENCODER)
    assert "decoder.pool -> decoder.a" in arrows(built, Role.DECODER)
    assert net(LADDER, without=["level.b", "level.p*"]).graph["levels"] == ["input", "a", "top"]


def test_a_dropped_level_takes_its_lateral_cell_along() -> None:
    text = LADDER + "laterals: {b: {cell: Conv, channels: 4}}\n"
    assert "lateral.b" in net(text)
    assert set(net(text, without="level.b")) == set(net(LADDER, without="level.b"))


def test_a_dropped_task_takes_what_only_it_reads() -> None:
    text = LADDER + "tasks: {x: {kind: probe, target: y, at: encoder.top}}\n"
    both = text.replace("top}}", "top}, next: {kind: prediction, at: decoder.input}}")
    assert set(net(both, without="task.next")) == set(net(text))
    assert "decoder.input" not in net(text)


# --- extends --------------------------------------------------------------------------------------


@pytest.fixture
def family(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "base.yaml").write_text(
        LADDER.replace("channels: 4", "channels: $width").replace("frames: 4", "frames: $depth")
        + "params: {width: 4, depth: 2}\n"
        + "tasks: {next: {kind: prediction, at: decoder.input, weight: 10}}\n"
        + "variants: {plain: {without: [decoder_to_encoder], expect: {parameters: 1}}}\n"
        + "expect: {parameters: 1}\n"
    )
    (tmp_path / "inner" / "middle.yaml").write_text(
        "extends: ../base.yaml\nname: middle\nparams: {width: 2}\ntasks: {next: {weight: 5}}\n"
    )
    (tmp_path / "child.yaml").write_text("extends: inner/middle.yaml\nparams: {depth: 3}\n")
    return tmp_path


def test_extends_goes_several_levels_deep(family: Path) -> None:
    spec = load(family / "child.yaml")
    assert spec.name == "middle"
    assert graph(spec).nodes["encoder.a"]["shape"] == (2, 8, 6)
    assert dict(spec.config.params) == {"width": 2, "depth": 3}
    assert (spec.config.tasks["next"].weight, spec.config.tasks["next"].at) == (5, "decoder.input")


def test_expect_is_not_inherited(family: Path) -> None:
    assert load(family / "child.yaml").expect is None
    assert load(family / "child.yaml", "plain").expect is None
    with pytest.raises(SpecError, match="expected 1 parameters"):
        load(family / "base.yaml")


def test_null_deletes_and_lists_replace(family: Path) -> None:
    (family / "child.yaml").write_text(
        "extends: base.yaml\ntasks: null\nvariants: {plain: null}\nlevels:\n"
        "  - encoder: {cell: FC, channels: $width}\n"
    )
    spec = load(family / "child.yaml")
    assert spec.config.tasks == {}
    assert spec.config.variants == {}
    assert graph(spec).graph["levels"] == ["input", "fc1"]


def test_extends_stays_inside_the_folder_tree_unless_told(family: Path) -> None:
    with pytest.raises(SpecError, match="lies outside"):
        load(family / "inner" / "middle.yaml")
    assert isinstance(load(family / "inner" / "middle.yaml", root=family), Spec)


# --- params ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("$width", 6), ("$(width)", 6), ("$(width * 2)", 12), ("$(width / 2)", 3), ("$half", 3),
        ("$(width // 4)", 1), ("$(width % 4 + 1)", 3), ("$(2 ** 3)", 8), ("$(-width + 10)", 4),
        ("$((width + 1) * 2)", 14), ("$( width*1.5 )", 9), ("$(1e1)", 10),
    ],
)  # fmt: skip
def test_params_are_numbers_with_arithmetic(words: str, value: int) -> None:
    params = "params: {half: $(width / 2), width: 6}\n"
    used = "encoder: {cell: Conv, channels: $half}"
    built = net(params + rows(f"name: a, encoder: {{cell: Conv, channels: '{words}'}}", used))
    assert built.nodes["encoder.a"]["shape"][0] == value


def test_params_stand_anywhere_and_in_flow_style() -> None:
    text = rows(
        "name: a, repeat: $n, encoder: {cell: Conv, channels: $(n * 2), filter: [$n, 3]}",
        head="params: {n: 2}\ninput: {channels: $n, size: [$(n * 4), 6]}\ntime: {frames: $n}\n",
    )
    built = net(text)
    assert built.graph["levels"] == ["input", "a_1", "a_2"]
    assert built.nodes["encoder.a_2"]["shape"] == (4, 8, 6)
    assert built.graph["frames"] == 2


# --- order of application -------------------------------------------------------------------------

ORDER = (
    HEAD
    + """
params: {width: 4}
levels:
  - name: a
    repeat: 3
    encoder: {cell: Conv, channels: $width}
    decoder: convG3
defaults: {Conv: {filter: 5}}
variants:
  wide: {set: {params.width: 6}}
  wider: {of: wide, set: {params.width: $(2 * 4)}}
  first: {set: {encoder.a_1.filter: 1, encoder.a_2.channels: $width}}
expect: {parameters: 1}
"""
)


def test_set_comes_before_params_and_the_command_line_last() -> None:
    text = ORDER.replace("expect: {parameters: 1}", "")

    def width(*variants: str, **changes: Any) -> int:
        return int(net(text, *variants, **changes).nodes["encoder.a_1"]["shape"][0])

    assert (width(), width("wide"), width("wider")) == (4, 6, 8)
    assert width("wide", set={"params.width": 3}) == 3
    assert width("wide", set={"encoder.a_1.channels": 5}) == 5


def test_defaults_and_repeat_come_before_dropped_levels() -> None:
    text = ORDER.replace("expect: {parameters: 1}", "")
    built = net(text, "first", without="level.a_3")
    assert built.graph["levels"] == ["input", "a_1", "a_2"]
    filters = [built.nodes[f"encoder.a_{i}"]["cell"].filter for i in (1, 2)]
    assert filters == [(1, 1), (5, 5)]


def test_expect_holds_for_the_bare_spec_and_variants_carry_their_own() -> None:
    assert codes(ORDER) == ["E401"]
    assert net(ORDER, "wide")
    assert net(ORDER, set={"params.width": 5})
    wrong = ORDER.replace("wide: {set", "wide: {expect: {shape: {encoder.a_1: [7, 8, 6]}}, set", 1)
    assert codes(wrong, "wide") == ["E401"]
    assert net(wrong, "wider")


def test_the_spec_has_a_patch_of_its_own() -> None:
    text = LADDER + "without: [lateral@a]\nedges: {recurrent_decoder: stateful}\n"
    built = net(text)
    assert "encoder.a -> decoder.a" not in arrows(built)
    assert arrows(built, Role.RECURRENT_DECODER) == {"decoder.a(t-1) -> decoder.a"}
    again = net(text, without="recurrent_decoder", add="encoder.a -> decoder.a")
    assert arrows(again) == arrows(net(LADDER))


# --- pruning --------------------------------------------------------------------------------------


def test_what_no_task_reads_goes_and_is_said() -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 4}, decoder: convG3",
        "name: class, encoder: {cell: SoftMax, channels: 5}, decoder: G1",
        rest="tasks: {digit: {kind: classification, at: encoder.class}}\n",
    )
    built = net(text)
    assert set(built) == {"encoder.input", "encoder.a", "encoder.class"}
    assert len(built.graph["notes"]) == 2
    assert "decoder.a pruned: no task reads it, now or at a later t" in built.graph["notes"]
    assert len(net(text.partition("tasks")[0])) == 5


def test_what_is_read_at_a_later_t_stays() -> None:
    built = net(LADDER + "tasks: {x: {kind: probe, target: y, at: encoder.top}}\n")
    assert "decoder.a" in built  # through decoder.a(t-1) -> encoder.a
    assert "decoder.input" not in built


def test_a_decoder_knows_the_width_of_a_row_that_was_pruned() -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 7}, decoder: convG3",
        rest="tasks: {x: {kind: denoising, at: decoder.input}}\n",
    )
    built = net(text, without="decoder@input")
    assert "encoder.a" not in built
    assert at(built, "decoder.input") == 9 * 3 * 7 + 7 + 7 + 3 * 7 * 3


# --- time and tasks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "frames", "iterations"),
    [
        ("time: {frames: 5}", 5, None),
        ("time: {frames: any}", "any", None),
        ("time: {iterations: 3}", None, 3),
        ("", None, 1),
    ],
)
def test_time(words: str, frames: object, iterations: object) -> None:
    built = net(rows("encoder: {cell: FC, channels: 2}", head=f"input: {{channels: 2}}\n{words}\n"))
    assert (built.graph["frames"], built.graph["iterations"]) == (frames, iterations)


TASKS = [
    ("{kind: classification, at: encoder.class}", 0),
    ("{kind: classification, at: encoder.a, head: 6}", 4 * 6 + 6),  # 1 x 1 convolution
    ("{kind: classification, at: encoder.class, when: [0, 0, 0, 1], weight: 1e-3}", 0),
    ("{kind: prediction, at: decoder.input, cost: bce, ahead: 2}", 0),
    ("{kind: prediction, at: decoder.input, weight: {to: 1, updates: 10}}", 0),
    ("{kind: denoising, at: decoder.input, when: last}", 0),
    ("{kind: denoising, at: encoder.a, head: 3}", 4 * 3 + 3),
    ("{kind: consistency, at: encoder.class, decay: 0.99}", 0),
    ("{kind: probe, at: encoder.class, target: digit, head: 9}", 0),  # counted apart
    ("{kind: probe, at: decoder.*, target: digit}", 0),
]


@pytest.mark.parametrize(("words", "count"), TASKS)
def test_tasks_of_every_kind(words: str, count: int) -> None:
    text = rows(
        "name: a, encoder: {cell: Conv, channels: 4}, decoder: convG3",
        "name: class, encoder: {cell: SoftMax, channels: 5}, decoder: G1",
        rest=f"tasks: {{t: {words}}}\n",
    )
    built = net(text)
    bare = sum(n for _, n in built.nodes(data="parameters"))
    bare += sum(n for _, _, n in built.edges(data="parameters"))
    assert parameters(built) - bare == count
    assert built.graph["tasks"]["t"]["at"]


# --- YAML -----------------------------------------------------------------------------------------

FINE = {
    "byte order mark": "\ufeff" + LADDER,
    "CRLF": LADDER.replace("\n", "\r\n"),
    "comments and document markers": "# x\n---\n" + LADDER + "# y\n...\n",
    "JSON": '{"input": {"size": 8}, "levels": [{"encoder": {"cell": "FC", "channels": 2}}]}',
    "quoted keys": LADDER.replace("name:", '"name":').replace("levels:", "'levels':"),
    "other alphabets": "title: Лестница 梯子\n" + LADDER,
    "LaTeX in a title": "title: $\\alpha$-ladder\n" + LADDER,
    "aliases": rows("name: a, encoder: &c {cell: Conv, channels: 4}", "name: b, encoder: *c"),
    "merge keys": rows(
        "name: a, encoder: &c {cell: Conv, channels: 4}", "name: b, encoder: {<<: *c, filter: 1}"
    ),
    "merge of several": rows(
        "name: a, encoder: &c {cell: Conv, channels: 4}, decoder: &d {cell: convG3}",
        "name: b, encoder: {<<: [*c], filter: 1}, decoder: {<<: *d, filter: 9}",
    ),
    "words of YAML 1.1": LADDER + "title: no\ndescription: on\n",
    "numbers of YAML 1.2": rows("encoder: {cell: LSTM, channels: 0x10, forget_bias: 1e-3}"),
}


@pytest.mark.parametrize("name", FINE)
def test_odd_but_fine(name: str) -> None:
    assert parameters(net(FINE[name])) > 0


def test_yaml_surprises_do_not_reach_the_user() -> None:
    spec = loads(LADDER + "title: no\ndescription: on\n")
    assert (spec.config.title, spec.config.description) == ("no", "on")
    text = rows("name: a, encoder: {cell: LSTM, channels: 0o17, forget_bias: 1e-3}")
    cell = net(text).nodes["encoder.a"]["cell"]
    assert (cell.channels, cell.forget_bias) == (15, 0.001)
    merged = net(FINE["merge keys"]).nodes["encoder.b"]["cell"]
    assert (merged.channels, merged.filter) == (4, (1, 1))


def test_every_value_knows_its_place() -> None:
    spec = loads(LADDER)
    place = spec.at("levels", 1, "encoder", "channels").place
    assert (place.line, place.column) == (9, 37)
    assert spec.at("levels", 1, "encoder", "channels").path == "levels[1].encoder.channels"


@pytest.mark.parametrize("name", ["language", "experiments"])
def test_pages_of_words_are_up_to_date(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python docs/make_NAME.py` writes them."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    monkeypatch.syspath_prepend(str(docs))
    made = runpy.run_path(str(docs / f"make_{name}.py"))
    assert (docs / f"{name}.md").read_text(encoding="utf-8") == made["page"]()
