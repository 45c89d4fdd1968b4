"""Networks with groups: a plate around all levels above the input, in every view and format."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from drawing.geometry import problems, struck_labels
from drawing.pictures import GROUPED, SPECS, picture
from ladderspec.api import graph, load, loads
from ladderspec.drawing import ladder, render, scene_of
from ladderspec.drawing.formats.graphviz import run_graphviz
from ladderspec.drawing.picture import picture_of
from ladderspec.drawing.scene import Backdrop, Box, Rect, Scene
from ladderspec.drawing.transforms import compare
from ladderspec.drawing.typesetting import text_of
from ladderspec.errors import UsageError
from ladderspec.names import Role
from ladderspec.wiring.graph import copies_of

VARIANTS = ["tagger", "no_decoder_to_encoder", "no_lateral"]
VIEWS: list[dict[str, Any]] = [
    {}, {"view": "rolled"}, {"view": "mini"}, {"fold": True}, {"iterations": 1}, {"iterations": 3},
    {"start": True}, {"levels": "numbers"}, {"labels": "none"}, {"labels": "name"},
    {"width": "8.5cm", "theme": "mono"}, {"view": "rolled", "plan": True},
]  # fmt: skip
ONE_ROW = """
input: {channels: 1, size: [8, 8]}
time: {iterations: 3}
groups: {count: 12}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 4}, decoder: Readout}
tasks: {segment: {kind: grouping}}
"""


def plate_of(scene: Scene) -> Backdrop:
    (plate,) = [panel for panel in scene.panels if panel.fill is None]
    return plate


def inner_items(box: Box) -> list[Rect]:
    return [each.rect for each in (box, *box.pills, *box.texts)]


def check(scene: Scene, count: int) -> None:
    """The plate contains every box above the input level; x, pi and mu are below it [f:tagger]."""
    plate = plate_of(scene)
    bottom = {box.rect.y for box in scene.boxes if box.node.endswith(".input")}
    assert len(bottom) == 1, "side by side"
    for box in scene.boxes:
        if box.node.endswith(".input"):
            assert plate.rect.bottom < box.rect.y
        else:
            assert all(plate.rect.contains(item) for item in inner_items(box)), box.node
    assert plate.label is not None
    assert text_of(plate.label.runs) == f"K = {count}"
    assert plate.rect.contains(plate.label.rect)
    assert problems(scene) == []
    assert struck_labels(scene) == []


@pytest.mark.parametrize("options", VIEWS, ids=str)
def test_the_plate_contains_exactly_the_nodes_of_the_groups(options: dict[str, Any]) -> None:
    """Except the lowest decoder, which the paper draws beside the input: its shape says K times."""
    spec = loads(GROUPED)
    scene = scene_of(spec, **options)
    check(scene, 3)
    plate = plate_of(scene).rect
    inside = {box.node for box in scene.boxes if plate.contains(box.rect)}
    wiring = graph(spec)
    copied = {node for node in wiring if copies_of(wiring, node) == 3}
    assert inside == copied - {"decoder.input"}
    (box, *_) = [box for box in scene.boxes if box.node == "decoder.input"]
    texts = " ".join(text_of(text.runs) for text in box.texts)
    shown = options.get("view") != "mini" and "labels" not in options
    assert ("K \u00d7 2\u00d724\u00d724" in texts) == shown


@pytest.mark.parametrize("kind", ["unrolled", "rolled", "mini"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_and_what_they_change(variant: str, kind: str) -> None:
    spec = loads(GROUPED, variant)
    check(scene_of(spec, view=kind), 3)
    check(scene_of(spec, view=kind, base=loads(GROUPED)), 3)


def test_one_row_and_other_numbers_of_groups() -> None:
    for kind in ("unrolled", "rolled", "mini"):
        check(scene_of(loads(ONE_ROW), view=kind), 12)
    four = loads(GROUPED.replace("count: 3", "count: 4"))
    scene = scene_of(four, base=loads(GROUPED))
    check(scene, 4)
    assert "was count 3" in {text_of(t.runs) for box in scene.boxes for t in box.texts}


def test_networks_without_groups_have_no_plate() -> None:
    base, other = loads(GROUPED), load(SPECS / "ommnist/rladder_tiny.yaml")
    assert scene_of(other).panels == ()
    check(scene_of(base, base=other), 3)
    assert not any(panel.label for panel in scene_of(other, base=base).panels)


def test_comparisons_have_no_empty_rows() -> None:
    one, two = picture_of(graph(loads(GROUPED))), picture("ommnist/rladder_tiny.yaml")
    for shown in (compare(one, two), compare(two, one)):
        used = {part.level for part in shown.parts.values()}
        assert [level.name for level in shown.levels if level.name not in used] == []


@pytest.mark.parametrize("kind", ["unrolled", "rolled", "mini"])
def test_the_upward_diagonal(kind: str) -> None:
    """From the lowest decoder to the level above the input, in a straight line into the plate."""
    scene = scene_of(loads(GROUPED), view=kind)
    wires = [wire for wire in scene.wires if wire.role is Role.UPWARD_DIAGONAL]
    (wire,) = [wire for wire in wires if not wire.from_outside]
    assert (wire.source, wire.target, wire.delay) == ("decoder.input", "encoder.groups", 1)
    assert len(wire.segments) == 1
    (x, y), (tip_x, tip_y) = wire.start, wire.tip
    assert tip_y < y
    assert (tip_x < x) == (kind == "rolled")
    plate = plate_of(scene).rect
    assert tip_y < plate.bottom < y
    assert plate.x < min(x, tip_x) < max(x, tip_x) < plate.right
    columns = {(box.node.partition(".")[0], box.rect.x) for box in scene.boxes}
    assert len(columns) == (2 if kind == "rolled" else 4)
    decoders = [box.rect for box in scene.boxes if box.node.startswith("decoder.")]
    lowest = max(decoders, key=lambda rect: rect.y)
    assert lowest.y in {box.rect.y for box in scene.boxes if box.node == "decoder.input"}


def headings(text: str, **options: Any) -> dict[str, str]:
    scene = scene_of(loads(text), **options)
    return {box.node: text_of(box.texts[0].runs) for box in scene.boxes if box.texts}


def test_letters_of_the_paper() -> None:
    tilde = "x\u0303"
    found = headings(GROUPED)
    assert found["encoder.input"] == tilde
    assert found["decoder.input"] == "\u03c0, \u03bc: Readout 4\u00d74"
    mini = headings(GROUPED, view="mini")
    assert mini == {"encoder.input": tilde, "decoder.input": "\u03c0, \u03bc"}
    assert headings(GROUPED, view="mini", labels="none") == {}
    clean = GROUPED.replace(", noise: {gaussian: 0.2}", "")
    assert headings(clean)["encoder.input"] == "x"
    labelled = GROUPED.replace("filter: 4}\n  - {name: conv", "label: mine}\n  - {name: conv")
    assert headings(labelled)["decoder.input"] == "mine"
    assert headings(GROUPED, labels="name")["decoder.input"] == "decoder.input"


def test_before_the_first_iteration() -> None:
    texts = [text_of(text.runs) for text in scene_of(loads(GROUPED), start=True).texts]
    assert texts.count("random") == 1
    one = [text_of(text.runs) for text in scene_of(loads(GROUPED), iterations=1).texts]
    assert "\u03c0, \u03bc(t\u22121)" in one


def test_plates_by_hand_stay_possible() -> None:
    scene = scene_of(loads(GROUPED), plates={"N": ["input", "groups"]})
    labels = [text_of(panel.label.runs) for panel in scene.panels if panel.label]
    assert sorted(labels) == ["K = 3", "N"]
    (panel,) = [p for p in scene.panels if p.label and text_of(p.label.runs) == "N"]
    inside = {box.node for box in scene.boxes if panel.rect.contains(box.rect)}
    assert inside == {"encoder.input", "decoder.input", "encoder.groups"}
    with pytest.raises(UsageError, match="no level `inputs`: did you mean `input`"):
        scene_of(loads(GROUPED), plates={"N": ["inputs"]})


# --- formats --------------------------------------------------------------------------------------


LABELS = {
    "svg": r">K</tspan>.*= 3<",
    "html": r">K</tspan>.*= 3<",
    "tex": r"\$K\\ \{=\}\\ 3\$",
    "gv": r">K</font></i><font face=\"Times,serif\"> = 3</font>",
}


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("kind", ["unrolled", "rolled"])
def test_every_format_has_the_plate(form: str, kind: str) -> None:
    assert re.search(LABELS[form], str(render(loads(GROUPED), form, view=kind)))
    other = load(SPECS / "ommnist/rladder_tiny.yaml")
    assert not re.search(LABELS[form], str(render(other, form, view=kind)))


@pytest.mark.skipif(not shutil.which("dot"), reason="not checked: no `dot` here")
@pytest.mark.parametrize("text", [GROUPED, ONE_ROW], ids=["grouped", "one row"])
def test_layout_by_graphviz(text: str) -> None:
    source = str(render(loads(text), "gv", layout="dot"))
    found = json.loads(run_graphviz(source, "json"))
    clusters = {each["name"]: each for each in found["objects"] if "bb" in each}
    left, low, right, high = map(float, clusters["cluster_groups"]["bb"].split(","))
    inside = set()
    for each in found["objects"]:
        if "pos" in each:
            x, y = map(float, each["pos"].split(","))
            if left < x < right and low < y < high:
                inside.add(each["name"])
    assert inside == set(graph(loads(text))) - {"encoder.input", "decoder.input"}


def test_terminal(golden: Any) -> None:
    text = ladder(loads(GROUPED))
    golden("draw_groups.ladder.txt", text)
    lines = text.splitlines()
    bottom = next(i for i, line in enumerate(lines) if line.startswith("\u2514"))
    assert " K = 3 " in lines[bottom]
    assert "\u2191" in lines[bottom]  # from the input
    assert "\u2193" in lines[bottom]  # to pi and mu
    assert "x\u0303" in lines[bottom + 1]
    assert "\u03c0, \u03bc" in lines[bottom + 1]
    assert all(line[0] == line[-1] == "\u2502" for line in lines[1:bottom])
    assert len({len(line) for line in lines[: bottom + 1]}) == 1
    assert not any("->" in line for line in lines)  # every arrow has its symbol
    ascii_text = ladder(loads(GROUPED), ascii_only=True)
    assert "?" not in ascii_text
    assert {"x~", "pi, mu: Readout 4x4"} <= {
        word.strip() for word in re.split(r"\||  +", ascii_text)
    }
    elbow = ladder(loads(ONE_ROW)).splitlines()
    assert "\u256e" in elbow[1]
    assert not any("->" in line for line in elbow)
