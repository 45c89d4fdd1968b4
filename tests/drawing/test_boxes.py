"""Drawings of networks with a user's cells: the message-passing examples with their messages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from drawing.geometry import problems, struck_labels
from ladderspec.api import graph, load, loads
from ladderspec.cells.fields import NormChoice, NormField
from ladderspec.cells.pool import Identity
from ladderspec.drawing import ladder, render, scene_of
from ladderspec.drawing.boxes import cell_text
from ladderspec.drawing.typesetting import text_of
from ladderspec.plugins import load_plugin
from ladderspec.wiring.table import options_of, to_text

FOLDER = Path(__file__).parents[2] / "examples/message_passing"
CHAINS = ["static_chain", "temporal_chain"]
VIEWS = [
    {},
    {"view": "rolled"},
    {"view": "mini"},
    {"iterations": 8},
    {"start": True},
    {"fold": True},
    {"labels": "none"},
    {"width": "8.5cm"},
]


@pytest.fixture(autouse=True, scope="module")
def gaussian_cells(cells_of_the_module: None) -> None:
    load_plugin(FOLDER / "gaussian_cells.py")


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("options", VIEWS, ids=str)
def test_nothing_crosses_or_overlaps(name: str, options: dict[str, object]) -> None:
    scene = scene_of(load(FOLDER / f"{name}.yaml"), **options)  # type: ignore[arg-type]
    assert problems(scene) == []
    assert struck_labels(scene) == []


@pytest.mark.parametrize("name", CHAINS)
def test_every_format_and_the_terminal(name: str) -> None:
    spec = load(FOLDER / f"{name}.yaml")
    for form in ("svg", "gv", "tex", "html"):
        assert render(spec, form)
    assert "encoder" in ladder(spec)


def test_shared_weights_are_named_in_every_drawing() -> None:
    spec = load(FOLDER.parents[1] / "specs/related/siamese.yaml")
    drawings = [str(render(spec, form)) for form in ("svg", "gv", "html")]
    drawings += [str(render(spec, "gv", layout="dot")), ladder(spec)]
    for text in drawings:
        assert "weights of encoder.conv_1" in text
        assert "weights of encoder.conv_2" in text


def test_boxes_show_the_messages() -> None:
    scene = scene_of(load(FOLDER / "static_chain.yaml"))
    inside = {text_of(text.runs) for box in scene.boxes for text in box.texts}
    assert {"mx", "my", "wx my", "wyz mz"} <= inside


def test_users_cells_may_redefine_filter_and_stride() -> None:
    cell = SimpleNamespace(cell="Mine", filter=3, stride=2, noise=0.5, mode="soft")
    assert cell_text(cell) == "Mine"
    cell.filter, cell.stride = ("wide", "high"), (1, 2, 3)
    assert cell_text(cell) == "Mine"


OPTIONS = """
input: {channels: 4, size: [8, 8], noise: {gaussian: 0.2}}
levels:
  - {name: a, encoder: {cell: Conv, channels: 4, dilation: 2, channel_groups: 2, norm: layer},
     decoder: {cell: Conv, norm: none, activation: none}}
  - {name: b, encoder: {cell: ConvGRU, channels: 6, dilation: [1, 2],
     norm: {kind: group, groups: 3}}, decoder: {cell: convG1, norm: layer}}
  - {name: c, repeat: 2, encoder: {cell: Conv, channels: 4, norm: joint, noise: {gaussian: 0.1},
     activation: tanh}, decoder: {cell: convG3, norm: layer}}
"""  # fmt: skip


def test_boxes_and_tables_show_what_differs_from_the_defaults() -> None:
    spec = loads(OPTIONS)
    said = {
        "encoder.input": "noise 0.2",
        "encoder.a": "layer norm · dilation 2 · 2 channel groups",
        "decoder.input": "no norm · linear",
        "encoder.b": "group norm (3) · dilation 1x2",
        "decoder.a": "layer norm",
        "encoder.c_1": "joint batch norm · tanh · noise 0.1",
        "decoder.b": "",  # layer norm is its default
    }
    for options in ({}, {"group": True}):
        boxes = {
            box.node: [text_of(t.runs) for t in box.texts]
            for box in scene_of(spec, **options).boxes
        }
        for node, text in said.items():
            assert boxes[node][2:] == [text] * bool(text)
    assert "layer norm · dilation 2 · 2 channel groups" in ladder(spec)
    table = to_text(graph(spec))
    assert "Conv, layer norm, dilation 2, 2 channel groups" in table
    assert "input: noise 0.2" in table


class Own(Identity):
    """A user's cell with a norm, but without `default_norm`."""

    norm: NormField = NormChoice()


@pytest.mark.parametrize(
    ("norm", "text"),
    [
        ("joint", "joint norm"),
        ({"kind": "layer", "terms": "joint"}, "joint layer norm"),
        ({"kind": "group", "groups": 3}, "group norm (3)"),
        ("batch", "batch norm"),
    ],
)
def test_norms_of_cells_without_a_default(norm: object, text: str) -> None:
    assert options_of(Own.model_validate({"norm": norm})) == [text]


SHARED = """
input: {channels: 4, size: [8, 8]}
levels:
  - {name: c, repeat: 2, encoder: {cell: Conv, channels: 4}}
edges:
  add:
    - encoder.c_2(t-1) -> encoder.c_1
    - {arrow: encoder.c_1(t-1) -> encoder.c_2, share: encoder.c_2(t-1) -> encoder.c_1}
time: {frames: 3}
"""


def test_shared_arrows_name_their_owner_as_text() -> None:
    (label,) = [wire.label for wire in scene_of(loads(SHARED)).wires if wire.label]
    assert [(run.text, run.shift) for run in label.runs] == [("= c_1", 0)]
