"""The shipped specs say what the paper's tables say; the counts were worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ladderspec.api import compile_graph, graph, load, loads
from ladderspec.errors import Findings
from ladderspec.wiring.compare import compare
from ladderspec.wiring.graph import parameters
from ladderspec.wiring.table import lines, node_parameters

SPECS = sorted(p for p in Path("specs").rglob("*.yaml") if "experiments" not in p.parts)


def cases() -> list[tuple[str, str | None]]:
    return [(str(path), name) for path in SPECS for name in [None, *load(path).config.variants]]


@pytest.mark.parametrize(("path", "variant"), cases())
def test_every_spec_and_variant_is_a_network(path: str, variant: str | None) -> None:
    spec = load(path, variant)
    built = graph(spec)
    assert parameters(built) > 0
    assert all(facts["shape"] for _, facts in built.nodes(data=True))


@pytest.mark.parametrize("path", [str(path) for path in SPECS])
def test_every_spec_states_its_size(path: str) -> None:
    spec = load(path)
    assert spec.expect is not None
    assert spec.expect.parameters == parameters(graph(spec))


def test_a_wrong_expectation_is_found() -> None:
    spec = load("specs/ommnist/rladder.yaml")
    assert spec.expect is not None
    wrong = spec.expect.model_copy(update={"parameters": 1})
    object.__setattr__(spec, "expect", wrong)
    findings = Findings()
    compile_graph(spec, findings)
    assert [finding.code for finding in findings.sorted()] == ["E401"]


OMMNIST = "specs/ommnist/rladder.yaml"


@pytest.mark.parametrize(
    ("path", "variant", "count"),
    [
        (OMMNIST, None, 2_861_140),
        (OMMNIST, "no_decoder_to_encoder", 2_786_516),
        (OMMNIST, "no_prediction", 2_775_412),
        (OMMNIST, "no_classification", 2_861_140),
        (OMMNIST, "hierarchical_rnn", 351_348),
        (OMMNIST, "temporal_baseline", 229_908),
        ("specs/ommnist/temporal_baseline.yaml", None, 229_908),
        ("specs/ommnist/static_classifier.yaml", None, 201_012),
        ("specs/music/rladder.yaml", None, 3_220_871),
    ],
)
def test_totals(path: str, variant: str | None, count: int) -> None:
    assert parameters(graph(load(path, variant))) == count


def test_table_size_inner_filters() -> None:
    """convG3's inner maps with the table's filter: 4,414,036 parameters."""
    filters = {"input": 9, "pool5": 9, "conv_3": 6, "wide_3": 6}
    threes = [
        "lstm1",
        "conv_1",
        "conv_2",
        "lstm6",
        "wide_1",
        "wide_2",
        "pool10",
        "conv11",
        "conv12",
    ]
    sizes = {**filters, **dict.fromkeys(threes, 3)}
    changes = {f"decoder.{level}.inner_filter": size for level, size in sizes.items()}
    assert parameters(graph(load(OMMNIST, set=changes))) == 4_414_036


def test_rows_of_the_ommnist_table() -> None:
    """Encoder and decoder parameters row by row, [t:arch-ommnist]."""
    rows = lines(graph(load(OMMNIST)))
    encoder = [75392, 9280, 9280, 9280, 0, 111104, 18560, 36992, 36992, 0]
    encoder += [73984, 8320, 2112, 0, 34496, 180]
    decoder = [85728, 21600, 21600, 21600, 76896, 169056, 61632, 86208, 86208, 307392]
    decoder += [246144, 135360, 33888, 1071104, 10752, 0]
    assert [row.encoder for row in rows] == [0, *encoder]
    assert [row.decoder_parameters for row in rows] == [None, *decoder]


def test_rows_of_the_music_table() -> None:
    built = graph(load("specs/music/rladder.yaml"))
    encoder = [25472, 123904, 296448, 542720, 862720, 0, 228864, 1862]
    decoder = [321, 28416, 93696, 195840, 334848, 471360, 14400, 0]
    rows = lines(built)[1:]
    assert [row.encoder for row in rows] == encoder
    assert [row.decoder_parameters for row in rows] == decoder
    widths = [88, 88, 44, 22, 11, 6, 3]
    shapes = [facts["shape"] for _, facts in built.nodes(data=True) if facts["side"] == "encoder"]
    assert [shape[2] for shape in shapes if len(shape) == 3] == widths


def test_shapes_of_feedback() -> None:
    """The three decoder-to-encoder arrows carry 32x32x32, 32x16x16 and the class probabilities."""
    built = graph(load(OMMNIST))
    arrows = [
        (source, built.nodes[source]["shape"])
        for source, _, role in built.edges(data="role")
        if role == "decoder_to_encoder"
    ]
    assert sorted(arrows) == [
        ("decoder.lstm1", (32, 32, 32)),
        ("decoder.lstm6", (32, 16, 16)),
        ("decoder.top", (10,)),
    ]


def test_differences_of_arrows_say_what_follows_from_their_cells() -> None:
    first, second = (
        graph(load("specs/related/residual_convgru.yaml", set=changes))
        for changes in ({}, {"encoder.gru2.dilation": 1})
    )
    found = [str(each) for each in compare(first, second)]
    assert "~ arrow encoder.sum1 -> encoder.gru2  encoder, dilation 2x2 -> 1x1" in found


def test_an_arrow_that_carries_another_value_is_a_difference() -> None:
    text = """
name: x
input: {channels: 4}
time: {frames: 1}
levels: [{name: a, encoder: {cell: FC, channels: 6}, decoder: {cell: FC}}]
tasks: {k: {kind: denoising, at: decoder.input}}
"""
    tapped = f"{text}edges: {{decoder: {{tap: normalised}}}}"
    (found,) = compare(graph(loads(text)), graph(loads(tapped)))
    assert str(found).endswith("decoder, tap unset -> normalised")


@pytest.mark.parametrize("size", ["", "_small", "_tiny"])
def test_temporal_baseline_is_the_ladder_without_decoder_and_two_levels(size: str) -> None:
    baseline = graph(load(f"specs/ommnist/temporal_baseline{size}.yaml"))
    variant = graph(load(f"specs/ommnist/rladder{size}.yaml", "temporal_baseline"))
    assert compare(baseline, variant) == []
    assert set(baseline.edges(keys=True)) == set(variant.edges(keys=True))


def test_what_no_task_reads_is_pruned_and_said() -> None:
    built = graph(load(OMMNIST, "no_prediction"))
    assert "decoder.input" not in built
    assert built.graph["notes"] == ["decoder.input pruned: no task reads it, now or at a later t"]


def test_removing_an_arrow_changes_no_other_number() -> None:
    whole, cut = graph(load(OMMNIST)), graph(load(OMMNIST, "no_decoder_to_encoder"))
    for node in whole:
        assert whole.nodes[node]["parameters"] == cut.nodes[node]["parameters"]
    removed = 36_992 + 36_992 + 640
    assert parameters(whole) - parameters(cut) == removed
    assert node_parameters(whole, "encoder.top") - node_parameters(cut, "encoder.top") == 640
