"""Notes: what is valid, but probably a mistake, is reported; shipped specs are silent."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import ladderspec as ls
from ladderspec.cli import main
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import notes_on

SPECS = Path("specs")
SHIPPED = sorted(p for p in SPECS.glob("*/*.yaml") if p.parent.name != "experiments")


def notes(text: str, variant: str | None = None) -> list[str]:
    return list(ls.graph(ls.loads(text, variant=variant)).graph["notes"])


def ladder(**changes: object) -> str:
    """A small ladder with nothing to note, and what changes it."""
    words = {
        "input": {"channels": 1, "size": [8, 8]},
        "time": {"frames": 4},
        "levels": [
            {"name": "a", "encoder": {"cell": "Conv", "channels": 4, "stride": 2},
             "decoder": "convG3"},
            {"name": "b", "encoder": {"cell": "ConvLSTM", "channels": 4}, "decoder": "convG3"},
            {"name": "class", "encoder": {"cell": "SoftMax", "channels": 3}},
        ],
        "tasks": {
            "next": {"kind": "prediction", "at": "decoder.input"},
            "digit": {"kind": "classification", "at": "encoder.class"},
        },
    }  # fmt: skip
    return yaml.safe_dump({**words, **changes}, sort_keys=False)


def rows(**changes: object) -> list[dict[str, object]]:
    """The rows of the ladder; `a_decoder=...` changes the decoder of row a."""
    found = yaml.safe_load(ladder())["levels"]
    for key, value in changes.items():
        name, side = key.split("_")
        next(row for row in found if row["name"] == name)[side] = value
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shipped_specs_have_none(path: Path) -> None:
    for variant in (None, *ls.load(path).config.variants):
        found = ls.graph(ls.load(path, variant=variant)).graph["notes"]
        assert [note for note in found if "pruned" not in note] == []


def test_a_plain_ladder_has_none() -> None:
    assert notes(ladder()) == []


CONV = {"cell": "Conv", "filter": 3}
CLASSES = {"kind": "classification", "at": "encoder.class"}
LISTED = (
    "`edges.lateral` lists all levels with such an arrow, which removes those at `input`; `without`"
    " removes arrows by name, `add` adds single ones, `lateral: [{levels: [...], delay: 1}]`"
    " changes some"
)
CASES = {
    "square or vector": (
        {"input": {"size": 8}},
        "`input.size: 8` is a square, [8, 8]; a vector of 8 numbers is `channels: 8` without a"
        " size",
    ),
    "square or row": (
        {"input": {"channels": 1, "size": 8}},
        "`input.size: 8` is a square, [8, 8]; a row of 8 places is [1, 8]",
    ),
    "square of a further input": (
        {
            "inputs": {"goal": {"channels": 1, "size": 8}},
            "edges": {"add": ["input.goal -> encoder.b"]},
        },
        "`inputs.goal.size: 8` is a square, [8, 8]; a row of 8 places is [1, 8]",
    ),
    "list of levels": ({"edges": {"lateral": ["a"]}}, LISTED),
    "list of levels with a delay": ({"edges": {"lateral": {"levels": ["a"], "delay": 1}}}, LISTED),
    "list of levels in a variant": (
        {"edges": {"lateral": "all"}, "variants": {"v": {"edges": {"lateral": ["a"]}}}},
        LISTED,
    ),
    "target is a node": (
        {"tasks": {"x": {"kind": "denoising", "at": "decoder.input", "target": "encoder.input"}}},
        "task `x`: `target: encoder.input` is a field of the data, not the node",
    ),
    "clean without noise": (
        {"tasks": {"x": {"kind": "denoising", "at": "decoder.*", "target": "clean"}}},
        "task `x`: `target: clean` compares two equal passes: there is no noise; give the input or"
        " a cell `noise: {gaussian: 0.3}`",
    ),
    "mse of a rectified node": (
        {"levels": rows(a_decoder=CONV)},
        "task `next`: mse compares values, but decoder.input is rectified by `activation: relu`;"
        " change that, or give the task a `head`",
    ),
    "bce of a squashed node": (
        {
            "levels": rows(a_decoder={**CONV, "activation": "sigmoid"}),
            "tasks": {"x": {"kind": "denoising", "at": "decoder.input", "cost": "bce"}},
        },
        "task `x`: bce compares logits, but decoder.input is squashed by `activation: sigmoid`;"
        " change that, or give the task a `head`",
    ),
    "mse of a recurrent node": (
        {"levels": rows(a_decoder="ConvLSTM")},
        "task `next`: mse compares values, but decoder.input is squashed by the tanh of its"
        " ConvLSTM; change that, or give the task a `head`",
    ),
    "bce of a copy of a rectified node": (
        {
            "levels": [{"name": "p", "encoder": {"cell": "Pool"}, "decoder": "Average"},
                       *rows(a_decoder=CONV)],
            "tasks": {"x": {"kind": "denoising", "at": "decoder.input", "cost": "bce"}},
        },
        "task `x`: bce compares logits, but decoder.input is rectified by `activation: relu` at"
        " decoder.p; change that, or give the task a `head`",
    ),
    "a threshold without its cost": (
        {"tasks": {"x": {"kind": "prediction", "at": "decoder.input", "delta": 0.5}}},
        "task `x`: `delta` changes nothing without `cost: huber`",
    ),
    "an initial value that nothing reads": (
        {"levels": rows(a_encoder={**CONV, "channels": 4, "stride": 2, "initial": "learned"})},
        "`initial` of encoder.a changes nothing: no delayed arrow reads it",
    ),
    "an initial value of an input that nothing reads": (
        {
            "inputs": {"cue": {"channels": 2, "initial": "learned"}},
            "edges": {"add": ["input.cue -> encoder.class"]},
        },
        "`initial` of input.cue changes nothing: no delayed arrow reads it",
    ),
    "no SoftMax": (
        {"levels": rows(class_encoder={"cell": "FC", "channels": 3})},
        "task `digit`: encoder.class is not a SoftMax: the output of its FC, rectified by"
        " `activation: relu`, is taken as logits; give it `cell: SoftMax`, or the task a `head`",
    ),
    "input too late": (
        {"edges": {"encoder": {"delay": 2}}},
        "task `digit`: the input reaches encoder.class 6 frames later, but the last t that counts"
        " is 4",
    ),
    "an input that is shown too early": (
        {
            "input": {"channels": 1, "size": [8, 8], "until": 1},
            "levels": rows(b_encoder={**CONV, "channels": 4})[:2],
            "tasks": {"x": {"kind": "denoising", "at": "decoder.input", "when": "last"}},
        },
        "task `x`: the input is shown too early: none of it is left at decoder.input when the cost"
        " counts",
    ),
    "an arrow from an input that is shown too early": (
        {
            "inputs": {"cue": {"channels": 2, "until": 2}},
            "edges": {"add": ["input.cue -> encoder.class"]},
        },
        "`input.cue -> encoder.class` gets no gradient: no cost within 4 frames depends on it",
    ),
    "a learned initial value before all that counts": (
        {
            "time": {"frames": "any"},
            "inputs": {"cue": {"channels": 2, "until": 2, "initial": "learned"}},
            "edges": {"add": ["input.cue(t-1) -> encoder.class"], "lateral": {"gain": 2}},
            "tasks": {"digit": CLASSES, "next": {"kind": "prediction", "at": "decoder.input"}},
        },
        "`initial: learned` of input.cue gets no gradient: no cost depends on it",
    ),
    "a gain after the tap": (
        {
            "levels": rows(b_encoder={**CONV, "channels": 4})[:2],
            "edges": {"lateral": [{"levels": ["b"], "tap": "normalised"}]},
            "top": CONV,
            "tasks": {"next": {"kind": "prediction", "at": "decoder.input"}},
        },
        "the gain and the offset of encoder.b get no gradient: all that reads it has `tap:"
        " normalised`",
    ),
    "no gradient": (
        {
            "edges": {"add": [{"from": "encoder.class", "to": "encoder.a", "delay": 3}]},
            "tasks": {"x": {"kind": "prediction", "at": "decoder.input"}},
        },
        "`encoder.class(t-3) -> encoder.a` gets no gradient: no cost within 4 frames depends on it",
    ),
    "only probes": (
        {
            "tasks": {
                "next": {"kind": "prediction", "at": "decoder.input"},
                "where": {"kind": "probe", "at": "encoder.class", "target": "place", "head": 2},
            }
        },
        "encoder.class: no cost trains what only probes and tasks of weight 0 read",
    ),
    "an initial value before a batch norm": (
        {
            "levels": rows(class_encoder={"cell": "SoftMax", "channels": 3, "initial": "learned"}),
            "edges": {"add": ["encoder.class(t-1) -> encoder.class"]},
        },
        "`initial: learned` of encoder.class gets no gradient: batch norms remove what is the same"
        " in all samples",
    ),
    "weight 0": (
        {
            "time": {"iterations": 1},
            "tasks": {
                "clean": {"kind": "denoising", "at": "decoder.input"},
                "digit": {**CLASSES, "weight": 0},
            },
        },
        "encoder.class: no cost trains what only probes and tasks of weight 0 read",
    ),
    "weights of 0 for all t": (
        {"tasks": {"digit": {**CLASSES, "when": [0, 0, 0, 0]}}},
        "task `digit`: no t counts, because `when` is 0 at every t with a target",
    ),
    "filter smaller than stride": (
        {"levels": rows(a_decoder={"cell": "convG3", "filter": 1})},
        "`decoder.a -> decoder.input`: a filter of 1x1 with stride 2x2 leaves 75 % of the places"
        " without a value; one of 2x2 reaches all",
    ),
    "the last places are not reached": (
        {
            "levels": [{"name": "a", "encoder": {**CONV, "channels": 4, "stride": 4},
                        "decoder": {"cell": "convG3", "filter": 5}}],
            "tasks": {"next": {"kind": "prediction", "at": "decoder.input"}},
        },
        "`encoder.a -> decoder.input`: a filter of 5x5 with stride 4x4 leaves 23 % of the places"
        " without a value; one of 6x6 reaches all",
    ),
    "a gain without arrows": (
        {"edges": {"downward_diagonal": {"gain": 0.5}}},
        "`edges.downward_diagonal` changes nothing: this spec has no downward_diagonal arrows",
    ),
    "a delay without arrows": (
        {"edges": {"upward_diagonal": {"delay": 2}}},
        "`edges.upward_diagonal` changes nothing: this spec has no upward_diagonal arrows",
    ),
    "a filter without weights": (
        {
            "input": {"channels": 4, "size": [8, 8]},
            "levels": rows(a_encoder={"cell": "Conv", "channels": 4, "filter": 5}),
            "edges": {"encoder": [{"levels": ["a"], "map": "identity"}]},
        },
        "`filter` of encoder.a changes nothing: no arrow into it has weights",
    ),
    "a norm without weights, in a variant": (
        {
            "input": {"channels": 4, "size": [8, 8]},
            "levels": rows(a_encoder={"cell": "Conv", "channels": 4}),
            "edges": {"encoder": [{"levels": ["a"], "map": "identity"}]},
            "variants": {"v": {"set": {"encoder.a.norm": "layer"}}},
        },
        "`norm` of encoder.a changes nothing: no arrow into it has weights",
    ),
    "a default that no cell follows": (
        {"defaults": {"ConvLSTM": {"statistics": "shared"}}},
        "`statistics` of encoder.b changes nothing: it has no batch norm",
    ),
    "a window larger than the map": (
        {"levels": rows(b_encoder={"cell": "Pool", "filter": 5, "stride": 1})},
        "encoder.b: a window of 5x5 is larger than the maps of 4x4; `filter: global` reads whole"
        " maps",
    ),
    "only padding": (
        {"levels": rows(b_encoder={"cell": "ConvLSTM", "channels": 4, "filter": 9})},
        "`encoder.a -> encoder.b`: a filter of 9x9 has taps that reach only padding on maps of 4x4;"
        " one of 8x8 has none",
    ),
    "a row without a decoder": (
        {"levels": [*rows(b_decoder=None)[:2], *rows(class_decoder="convG3")[2:]]},
        "`encoder.a -> decoder.input`: decoder.input reads the encoder, because there is no"
        " decoder.a; decoders above it do not reach decoder.input this way, unless row `b` gets a"
        " decoder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_probably_a_mistake_is_noted(name: str) -> None:
    changes, note = CASES[name]
    variant = next(iter(changes.get("variants", ())), None)
    assert note in notes(ladder(**changes), variant)


def test_lists_that_remove_nothing_have_no_note() -> None:
    assert notes(ladder(edges={"lateral": ["a", "input"]})) == []
    assert notes(ladder(without=["lateral@input"])) == []


def test_a_gain_of_arrows_that_a_spec_or_its_variant_removes_has_no_note() -> None:
    gain = {"edges": {"lateral": {"gain": 0.5}}}
    no_lateral = {"variants": {"no_lateral": {"without": ["lateral"]}}}
    assert notes(ladder(**gain, without=["lateral"])) == []
    assert notes(ladder(**gain, **no_lateral), "no_lateral") == []


def test_fields_that_some_cell_follows_have_no_note() -> None:
    conv = {"cell": "Conv", "channels": 4}
    words = {
        "input": {"channels": 4, "size": [8, 8]},
        "defaults": {"Conv": {"filter": 5, "norm": "batch"}},
        "levels": [*rows(a_encoder=conv)[:1], {"name": "c", "encoder": conv, "decoder": "convG3"},
                   *rows()[1:]],
        "edges": {"encoder": [{"levels": ["a"], "map": "identity"}]},
    }  # fmt: skip
    assert notes(ladder(**words)) == []


def test_experiments_note_what_changes_none_of_their_networks(tmp_path: Path) -> None:
    up = {"levels": rows(a_decoder=None, b_decoder=None), "tasks": {"digit": CLASSES}}
    (tmp_path / "spec.yaml").write_text(ladder())
    (tmp_path / "up.yaml").write_text(ladder(**up))
    path = tmp_path / "experiment.yaml"
    found = {}
    for role in ("lateral", "downward_diagonal"):
        table = {
            "spec": "spec.yaml",
            "data": {"set": "occluded_mnist"},
            "training": {"updates": 1},
            "edges": {role: {"gain": 0.5}},
            "rows": [
                {"name": "ladder", "set": {"encoder.b.channels": 5}},
                {"name": "up", "spec": "up.yaml", "set": {"encoder.b.channels": 5}},
            ],
        }
        path.write_text(yaml.safe_dump(table))
        found[role] = notes_on(open_experiment(path).runs)
    assert found["lateral"] == []
    assert found["downward_diagonal"] == [
        "rows `ladder` and `up`: `edges.downward_diagonal` changes nothing: this spec has no"
        " downward_diagonal arrows"
    ]


def test_validate_prints_the_notes_of_variants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {"variants": {"late": {"edges": {"encoder": {"delay": 2}}}}}
    path = tmp_path / "mine.yaml"
    path.write_text(ladder(**late))
    assert main(["validate", str(path)]) == 0
    said = "  note: variant `late`: task `digit`: the input reaches encoder.class 6 frames later"
    assert said in capsys.readouterr().out


def test_validate_and_show_print_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "square.yaml"
    path.write_text(ladder(input={"size": 8}))
    for command in ("validate", "show"):
        assert main([command, str(path)]) == 0
        assert "note: `input.size: 8` is a square" in capsys.readouterr().out
