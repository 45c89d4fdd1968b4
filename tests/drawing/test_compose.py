"""The content of each view: every arrow once per iteration, with the ink of its role."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from drawing.geometry import problems, struck_labels
from drawing.pictures import SPECS, ladder, picture, shipped
from ladderspec.api import graph, load, loads, plan
from ladderspec.drawing import draw, render, scene_of
from ladderspec.drawing.compose import compose
from ladderspec.drawing.options import View
from ladderspec.drawing.scene import Mark, Scene, Wire
from ladderspec.drawing.style import PAPER, ROLES, THEMES
from ladderspec.drawing.transforms import fold, group
from ladderspec.drawing.typesetting import text_of
from ladderspec.errors import UsageError
from ladderspec.names import Role

RLADDER = SPECS / "ommnist/rladder.yaml"
SMALL = """
name: small
title: A small ladder
input: {channels: 1, size: [8, 8], noise: {gaussian: 0.15}, label: '\\tilde{x}'}
time: {frames: 5}
levels:
  - name: lstm
    encoder: {cell: ConvLSTM, channels: 4, initial: learned}
    decoder: {cell: convG3, filter: 9, label: 'x\u0302(t+1)'}
  - name: conv
    repeat: 4
    encoder: {cell: Conv, channels: 4}
    decoder: {cell: convG3}
  - name: class
    encoder: {cell: SoftMax, channels: 10}
    decoder: G1
edges:
  add: [{arrow: decoder.input(t-2) -> encoder.conv_2, label: error}]
tasks:
  digit: {kind: classification, at: encoder.class}
  frame: {kind: prediction, at: decoder.input, cost: mse, weight: 100}
variants:
  quiet:
    title: w/o feedback
    without: [decoder_to_encoder, skip]
    edges: {recurrent_decoder: [lstm]}
  wide: {set: {encoder.conv_2.channels: 8}}
  blind: {without: [task.digit]}
"""


def all_texts(scene: Scene) -> list[str]:
    found = [text_of(text.runs) for text in scene.labels()]
    for box in scene.boxes:
        found += [text_of(text.runs) for text in box.all_texts]
    return found


def key(wire: Wire) -> tuple[str, str, str, int]:
    return (wire.source, wire.target, wire.key, wire.iteration)


# --- every arrow ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_each_arrow_once_per_iteration(name: str, iterations: int) -> None:
    shown = picture(name)
    scene = compose(shown, View(iterations=iterations))
    expected = Counter(
        (arrow.source, arrow.target, arrow.key, at)
        for arrow in shown.arrows
        for at in range(iterations)
        if at >= arrow.delay or (arrow.delay >= iterations and at == iterations - 1)
    )
    assert Counter(map(key, scene.wires)) == expected
    for wire in scene.wires:
        assert wire.ink == PAPER.inks[wire.role]
        assert wire.from_outside == (wire.iteration < wire.delay)


@pytest.mark.parametrize("name", shipped())
def test_rolled_each_arrow_once_and_a_square_if_delayed(name: str) -> None:
    shown = picture(name)
    scene = compose(shown, View(kind="rolled"))
    assert Counter(map(key, scene.wires)) == Counter(
        (a.source, a.target, a.key, 0) for a in shown.arrows
    )
    assert all((wire.mark is not None) == (wire.delay > 0) for wire in scene.wires)


@pytest.mark.parametrize("theme", THEMES)
def test_roles_differ_in_their_inks(theme: str) -> None:
    inks = THEMES[theme].inks
    assert set(inks) == set(ROLES) == set(Role)
    by_look = Counter(inks.values())
    same = {ink for ink, count in by_look.items() if count > 1}
    assert not same


@pytest.mark.parametrize("theme", THEMES)
def test_phases_differ_from_everything_else_that_is_shaded(theme: str) -> None:
    look = THEMES[theme]
    loop = look.phases["loop"]
    for other in (look.phases["once"], look.changed, look.task.fill, look.background):
        assert distance(loop, other) > 40, other


def distance(one: str, other: str) -> float:
    """Between two colours, `#rrggbb`."""
    return math.dist(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]))


def test_decoders_are_at_the_level_they_estimate() -> None:
    scene = scene_of(load(RLADDER))
    y = {box.node: box.rect.y for box in scene.boxes}
    assert y["decoder.input"] == y["encoder.input"]
    assert y["decoder.top"] == y["encoder.top"] > y["encoder.class"]
    assert "decoder.class" not in y


def test_one_iteration_if_nothing_is_delayed() -> None:
    assert {box.iteration for box in scene_of(load(SPECS / "related/ladder.yaml")).boxes} == {0}


# --- boxes ----------------------------------------------------------------------------------------


def test_boxes_show_cell_shape_and_parameters() -> None:
    found = all_texts(scene_of(load(RLADDER), view="rolled"))
    for text in ("ConvLSTM 3\u00d73", "32\u00d732\u00d732 \u00b7 75.4k", "MaxPool 2\u00d72 /2"):
        assert text in found
    assert "1\u00d732\u00d732 \u00b7 85.7k" in found  # decoder.input, with its arrows


def test_labels_can_be_switched() -> None:
    spec = loads(SMALL)
    assert not any(box.texts for box in scene_of(spec, labels="none").boxes)
    assert "encoder.conv_2" in all_texts(scene_of(spec, labels="name"))
    only_shapes = all_texts(scene_of(spec, labels=["shape"], legend=False))
    assert "4\u00d78\u00d78" in only_shapes
    assert not any("Conv" in text for text in only_shapes)
    with pytest.raises(UsageError, match="no label `shapes`: did you mean `shape`"):
        scene_of(spec, labels="cell,shapes")


def test_labels_of_the_spec_win_and_are_italic() -> None:
    scene = scene_of(loads(SMALL), view="rolled")
    box = next(box for box in scene.boxes if box.node == "decoder.input")
    assert text_of(box.texts[0].runs) == "x\u0302(t+1)"
    assert box.texts[0].runs[0].face == "italic"
    assert any("noise 0.15" in text for text in all_texts(scene))


def test_tasks_are_in_the_boxes_they_read() -> None:
    scene = scene_of(loads(SMALL), iterations=3)
    pills = {
        (box.node, box.iteration): [text_of(pill.texts[0].runs) for pill in box.pills]
        for box in scene.boxes
        if box.pills
    }
    assert pills == {
        **{("decoder.input", t): ["frame: MSE \u00d7 100"] for t in range(3)},
        ("encoder.class", 2): ["digit: CE"],
    }


def test_levels_by_name_by_number_or_not() -> None:
    spec = loads(SMALL)
    names = [text_of(text.runs) for text in scene_of(spec).texts]
    assert "conv_2" in names
    numbers = [text_of(text.runs) for text in scene_of(spec, levels="numbers").texts]
    assert "3" in numbers
    assert "conv_2" not in numbers
    neither = [text_of(text.runs) for text in scene_of(spec, levels="none").texts]
    assert not {"3", "conv_2"} & set(neither)


# --- time -----------------------------------------------------------------------------------------


def test_a_long_delay_comes_from_its_iteration_or_from_the_edge() -> None:
    spec = loads(SMALL)
    (two,) = [wire for wire in scene_of(spec, iterations=2).wires if wire.delay == 2]
    assert two.from_outside
    assert two.iteration == 1
    assert "error: dinput(t\u22122)" in all_texts(scene_of(spec, iterations=2))
    three = scene_of(spec, iterations=3)
    (inside,) = [wire for wire in three.wires if wire.delay == 2]
    assert not inside.from_outside
    assert inside.iteration == 2
    assert not any("dinput(t\u22122)" in text for text in all_texts(three))


def test_a_long_delay_is_written_when_rolled() -> None:
    (wire,) = [wire for wire in scene_of(loads(SMALL), view="rolled").wires if wire.delay == 2]
    assert wire.label is not None
    assert text_of(wire.label.runs) == "error"
    assert wire.mark is not None
    assert wire.mark.label is not None
    assert text_of(wire.mark.label.runs) == "2"


def test_initial_values() -> None:
    scene = scene_of(loads(SMALL), start=True)
    assert {"t = 1", "t = 2", "0", "learned", "error = 0"} <= set(all_texts(scene))
    delayed = [wire for wire in scene.wires if wire.delay and wire.iteration == 0]
    assert all(wire.from_outside for wire in delayed)
    with pytest.raises(UsageError, match="no arrow is delayed"):
        scene_of(load(SPECS / "related/ladder.yaml"), start=True)


def test_mini_views_use_the_papers_letters() -> None:
    found = all_texts(scene_of(loads(SMALL), view="mini"))
    assert {"e0", "d1", "s1", "t\u22121", "t"} <= set(found)
    assert not any("Conv" in text for text in found)


def test_the_papers_first_figure_has_its_size() -> None:
    """Letters of 10 points in 4 cm, a general index, and stubs that say that the ladder goes on."""
    options = {"view": "mini", "show": "conv_3,pool5,lstm6", "levels": "index"}
    scene = scene_of(load(RLADDER), width="4cm", **options)  # type: ignore[arg-type]
    assert scene.paper[0] <= 4 / 2.54 * 72
    assert {round(text.size * scene.scale, 1) for text in scene.labels()} == {10.0}
    found = set(all_texts(scene))
    assert {"l", "l+1", "l\u22121", "el", "dl+2", "sl+1", "el\u22122", "t"} <= found
    assert {"xt", "x\u0302t+1", "xt\u22121", "x\u0302t", "\u22ee"} <= found
    assert problems(scene) == []
    assert struck_labels(scene) == []
    with pytest.raises(UsageError, match="levels shown are not neighbours"):
        scene_of(load(RLADDER), view="mini", show="lstm1,lstm6", levels="index")


@pytest.mark.parametrize(
    ("name", "show"),
    [
        ("ommnist/appendix_c.yaml:as_drawn", "pool5 lstm6 wide_1"),  # with both diagonals
        ("textured/rtagger.yaml", "lstm1 low_1 low_2"),  # the lowest row in the plate
        ("ommnist/rladder.yaml:no_prediction", "conv_1 conv_2 conv_3"),  # rows without a decoder
    ],
)
def test_three_rows_of_any_ladder_fit_the_papers_first_figure(name: str, show: str) -> None:
    view = View(kind="mini", show=tuple(show.split()), levels="index")
    scene = compose(picture(name), view)
    assert problems(scene) == []
    assert struck_labels(scene) == []
    assert scene.paper[1] / 72 * 2.54 < 9


def test_letters_below_narrow_boxes_are_on_the_sheet() -> None:
    scene = scene_of(load(RLADDER), view="mini", levels="none")
    assert problems(scene) == []


def test_an_estimate_of_the_same_frame_has_its_time() -> None:
    found = all_texts(scene_of(load(SPECS / "related/ladder.yaml"), view="mini"))
    assert {"x", "x\u0302"} <= set(found)


def test_variants_side_by_side() -> None:
    names = ["hierarchical_rnn", "temporal_baseline"]
    spec, others = load(RLADDER), [load(RLADDER, name) for name in names]
    for options in ({"view": "mini"}, {"view": "rolled", "width": "17cm"}, {"theme": "mono"}):
        scene = scene_of(spec, beside=others, group=True, **options)  # type: ignore[arg-type]
        alone = [scene_of(each, group=True, **options) for each in (spec, *others)]  # type: ignore[arg-type]
        assert len(scene.boxes) == sum(len(each.boxes) for each in alone)
        assert len(scene.wires) == sum(len(each.wires) for each in alone)
        assert {box.node[:2] for box in scene.boxes} == {"a:", "b:", "c:"}
        assert "(a) RLadder" in all_texts(scene)
        assert problems(scene) == []
        assert struck_labels(scene) == []
    titled = scene_of(spec, beside=others, view="mini", title="Variants")
    (title,) = [text for text in titled.texts if text_of(text.runs) == "Variants"]
    assert title.size * titled.scale == pytest.approx(10)  # like all letters
    assert problems(titled) == []
    for form in ("svg", "gv", "tex"):
        assert render(spec, form, beside=others, view="mini")
    with pytest.raises(UsageError, match="a page shows one network at a time"):
        render(spec, "html", beside=others)


# --- folding --------------------------------------------------------------------------------------


def test_only_identical_rows_fold_and_counts_add_up() -> None:
    shown = picture("ommnist/rladder.yaml")
    folded = fold(shown)
    assert [level.shown for level in folded.levels][:5] == [
        "input", "lstm1", "conv_1\u20132", "conv_3", "pool5",
    ]  # fmt: skip
    assert len(folded.parts["encoder.conv_1"].members) == 2
    assert folded.parts["encoder.conv_1"].parameters == 2 * 9280
    total = sum(part.parameters for part in shown.parts.values())
    assert sum(part.parameters for part in folded.parts.values()) == total
    assert "2 \u00d7 Conv 3\u00d73" in all_texts(compose(shown, View(fold=True)))


def test_a_declared_arrow_keeps_its_row_unfolded() -> None:
    spec = loads(SMALL)
    levels = [level.name for level in fold_of(spec)]
    assert "conv_2" in levels
    plain = loads(SMALL, without="skip")
    assert "conv_2" not in [level.name for level in fold_of(plain)]


def fold_of(spec: object) -> tuple[object, ...]:
    from ladderspec.drawing.picture import picture_of

    return fold(picture_of(graph(spec))).levels  # type: ignore[arg-type]


# --- grouping -------------------------------------------------------------------------------------


def test_rows_without_delayed_arrows_are_grouped() -> None:
    shown = picture("ommnist/rladder.yaml")
    grouped = group(shown)
    assert [level.shown for level in grouped.levels] == [
        "input", "lstm1", "conv_1\u2013pool5", "lstm6", "wide_1\u2013pool14", "top", "class",
    ]  # fmt: skip
    total = sum(part.parameters for part in shown.parts.values())
    assert sum(part.parameters for part in grouped.parts.values()) == total
    delayed = [arrow for arrow in shown.arrows if arrow.delay]
    assert [arrow for arrow in grouped.arrows if arrow.delay] == delayed
    conv = grouped.parts["encoder.conv_1"]
    assert conv.shape == shown.parts["encoder.pool5"].shape
    scene = compose(shown, View(kind="rolled", group=True))
    assert {"3 \u00d7 Conv 3\u00d73, Pool", "32\u00d716\u00d716 \u00b7 27.8k"} <= set(
        all_texts(scene)
    )


def test_headings_of_groups_are_one_text_of_known_width() -> None:
    scene = compose(picture("ommnist/rladder.yaml"), View(kind="rolled", group=True))
    assert all(len(text.runs) == 1 for box in scene.boxes for text in box.texts)


def test_decoders_of_a_group_are_in_the_order_in_which_they_run() -> None:
    grouped = group(picture("ommnist/rladder.yaml"), ["top"])
    decoder = grouped.parts["decoder.lstm1"]
    assert [part.level for part in decoder.members][:2] == ["pool14", "conv13"]
    assert decoder.shape == (32, 32, 32)
    assert grouped.parts["encoder.lstm1"].members[0].level == "lstm1"


def test_levels_to_show_are_chosen_by_name() -> None:
    spec = load(RLADDER)
    boxes = {box.node for box in scene_of(spec, show="lstm1,lstm6,top").boxes}
    assert boxes == {box.node for box in scene_of(spec, group=True).boxes}
    assert "encoder.conv_2" in {box.node for box in scene_of(spec, show=["conv_*"]).boxes}
    with pytest.raises(UsageError, match="show: no level `lstm7`: did you mean `lstm6`"):
        scene_of(spec, show="lstm7")


def test_a_group_does_not_cross_the_edge_of_a_plate() -> None:
    scene = scene_of(load(RLADDER), group=True, plates={"K": ["conv_*"]})
    assert {"encoder.conv_1", "encoder.pool5"} <= {box.node for box in scene.boxes}
    assert problems(scene) == []


# --- sizes on paper -------------------------------------------------------------------------------


def test_the_headline_ladder_fits_a_column() -> None:
    scene = scene_of(load(RLADDER), view="rolled", group=True, width="8.5cm", height="12cm")
    width, height = (length / 72 * 2.54 for length in scene.paper)
    assert width <= 8.5
    assert height <= 12
    assert scene.smallest >= 7
    assert problems(scene) == []


@pytest.mark.parametrize("options", [{"width": "8.5cm"}, {"height": "9cm"}], ids=str)
def test_drawings_keep_to_their_size(options: dict[str, str]) -> None:
    for kind in ("unrolled", "rolled", "mini"):
        scene = scene_of(
            load(RLADDER, "no_decoder_to_encoder"), base=load(RLADDER), view=kind, **options
        )  # type: ignore[arg-type]
        width, height = (length / 72 * 2.54 for length in scene.paper)
        assert width <= 8.501 if "width" in options else height <= 9.001
        assert problems(scene) == []


def test_loops_have_one_shape() -> None:
    for options in ({}, {"group": True}, {"width": "8.5cm"}, {"labels": "none"}):
        scene = scene_of(load(SPECS / "ommnist/appendix_c.yaml"), view="rolled", **options)  # type: ignore[arg-type]
        loops = [wire for wire in scene.wires if wire.source == wire.target]
        assert len(loops) == 5
        assert {round(abs(wire.start[1] - wire.tip[1]), 3) for wire in loops} == {16.0}


# --- comparisons ----------------------------------------------------------------------------------


def test_comparisons_grey_out_removals_and_emphasise_additions() -> None:
    spec, variant = loads(SMALL), loads(SMALL, "quiet")
    scene = scene_of(variant, base=spec)
    by_role = {wire.role: wire.ink for wire in scene.wires}
    assert by_role[Role.DECODER_TO_ENCODER] == by_role[Role.SKIP] == PAPER.removed
    usual = PAPER.inks[Role.RECURRENT_DECODER]
    assert by_role[Role.RECURRENT_DECODER].colour == usual.colour
    assert by_role[Role.RECURRENT_DECODER].width > 1.5 * usual.width
    assert by_role[Role.ENCODER] == PAPER.inks[Role.ENCODER]
    assert scene.title == "w/o feedback, compared with A small ladder"
    assert {scene.title, "removed", "added"} <= set(all_texts(scene))
    assert "decoder to encoder" not in all_texts(scene)


def test_removed_parts_stay_in_place() -> None:
    scene = scene_of(load(RLADDER, "temporal_baseline"), base=load(RLADDER))
    before = scene_of(load(RLADDER))
    assert {box.node for box in scene.boxes} == {box.node for box in before.boxes}
    gone = {box.node for box in scene.boxes if box.ink == PAPER.removed}
    assert {"encoder.lstm1", "decoder.input"} <= gone
    assert "encoder.top" not in gone


def test_changed_cells_show_their_old_shape() -> None:
    scene = scene_of(loads(SMALL, "wide"), base=loads(SMALL))
    assert any(text.startswith("was 4\u00d78\u00d78 \u00b7 ") for text in all_texts(scene))


def test_a_removed_task_is_struck_out() -> None:
    scene = scene_of(loads(SMALL, "blind"), base=loads(SMALL))
    (pill,) = [
        pill for box in scene.boxes for pill in box.pills if "digit" in text_of(pill.texts[0].runs)
    ]
    assert pill.texts[0].struck
    assert pill.ink == PAPER.removed


def test_labels_of_removed_arrows_are_grey() -> None:
    scene = scene_of(loads(SMALL, without="skip"), base=loads(SMALL), view="rolled")
    (label,) = [wire.label for wire in scene.wires if wire.role is Role.SKIP]
    assert label is not None
    assert label.colour == PAPER.removed.colour
    both = scene_of(loads(SMALL, without="skip"), base=loads(SMALL))  # from a t that is not shown
    (outside,) = [text for text in both.texts if "error" in text_of(text.runs)]
    assert outside.colour == PAPER.removed.colour


def test_the_title_names_what_was_removed() -> None:
    scene = scene_of(loads(SMALL, without="skip"), base=loads(SMALL))
    assert scene.title == "A small ladder without skip, compared with A small ladder"
    assert scene.title in all_texts(scene)
    changed = loads(SMALL, add="decoder.input(t-2) -> encoder.lstm")
    assert scene_of(changed, base=loads(SMALL)).title == "A small ladder with changes"


def test_a_thick_outline_means_a_state_and_nothing_else() -> None:
    """Also in comparisons, where changed boxes stand in front of a tint; the legend says both."""
    base, scene = scene_of(loads(SMALL)), scene_of(loads(SMALL, "wide"), base=loads(SMALL))
    for each in (base, scene):
        thick = {box.node for box in each.boxes if box.ink.width > 2}
        assert thick == {"encoder.lstm"}
        assert "cell with a state" in all_texts(each)
    tinted = [panel.rect for panel in scene.panels if panel.fill == PAPER.changed]
    changed = {box.node for box in scene.boxes if any(r.contains(box.rect) for r in tinted)}
    assert {"encoder.conv_2", "encoder.conv_3"} <= changed
    assert "encoder.lstm" not in changed
    assert "changed or new" in all_texts(scene)
    assert not base.panels


def test_boxes_that_lost_an_arrow_show_their_old_number() -> None:
    variant = load(RLADDER, "no_decoder_to_encoder")
    found = all_texts(scene_of(variant, base=load(RLADDER), view="rolled"))
    assert "32\u00d732\u00d732 \u00b7 38.4k" in found
    assert "was 75.4k" in found


def test_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        scene_of(loads(SMALL), base=loads(SMALL))


def test_two_specs_have_both_titles() -> None:
    scene = scene_of(
        load(SPECS / "related/unet.yaml"), base=load(SPECS / "related/video_ladder.yaml")
    )
    assert scene.title == "ConvLSTM U-net, compared with Video Ladder"


# --- legend, plates, phases -----------------------------------------------------------------------

NAMES = {role: role.value.replace("_", " ") for role in Role}


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("kind", ["unrolled", "rolled"])
def test_the_legend_names_exactly_what_is_drawn(name: str, kind: str) -> None:
    scene = compose(picture(name), View(kind=kind, levels="none"))
    texts = {text_of(text.runs) for text in scene.texts}
    drawn = {NAMES[wire.role] for wire in scene.wires if wire.role}
    assert texts & set(NAMES.values()) == drawn
    assert ("delay of one iteration" in texts) == any(wire.mark for wire in scene.wires)
    assert ("task and its cost" in texts) == any(box.pills for box in scene.boxes)


def test_the_legend_has_a_square_if_all_arrows_of_a_role_are_delayed() -> None:
    text = SMALL.replace("label: error}]", "label: error}, encoder.input -> encoder.conv_2]")
    colour = PAPER.inks[Role.SKIP].colour
    for spec, squares in ((SMALL, 1), (text, 0)):
        samples = scene_of(loads(spec), view="rolled").samples
        found = [each for each in samples if isinstance(each, Mark) and each.colour == colour]
        assert len(found) == squares


@pytest.mark.parametrize("name", ["ommnist/rladder.yaml", "related/prednet.yaml"])
@pytest.mark.parametrize("width", [None, "8.5cm"])
def test_the_legend_has_aligned_columns_below_the_ladder(name: str, width: str | None) -> None:
    scene = scene_of(load(SPECS / name), view="rolled", width=width)
    lowest = max(box.rect.bottom for box in scene.boxes)
    legend = [text for text in scene.texts if text.anchor == "start" and text.y > lowest]
    rows = [[t.x for t in legend if t.y == y] for y in sorted({t.y for t in legend})]
    assert sum(map(len, rows)) == len(legend) > 5
    assert all(len(row) == len(rows[0]) for row in rows[:-1])
    assert all(row == rows[0][: len(row)] for row in rows)


def test_changed_fields_are_said_briefly() -> None:
    base, plain = (load(SPECS / "related/ladder_tiny.yaml", name) for name in (None, "plain"))
    texts = {text for text in all_texts(scene_of(plain, base=base)) if text.startswith("was")}
    assert texts == {"was noise 0.3", "was another w \u00b7 another w_s"}


def test_loops_are_clear_of_the_arrows_between_rows() -> None:
    """Also if further inputs stand left of the encoders."""
    scene = scene_of(load(SPECS / "related/action_video.yaml"), view="rolled")
    at = {box.node: box.rect for box in scene.boxes}
    states = [wire for wire in scene.wires if wire.role is Role.STATE]
    assert len(states) == 3
    for wire in states:
        assert wire.mark is not None
        assert wire.mark.rect.right < at[wire.source].x
    back = scene_of(load(SPECS / "related/action_video.yaml")).wires
    straight = [wire for wire in back if wire.role is Role.DECODER_TO_ENCODER]
    assert [len(wire.segments) for wire in straight] == [1, 1]


def test_labels_of_one_column_need_no_tower() -> None:
    scene = scene_of(load(SPECS / "related/densenet_block.yaml"), view="mini")
    assert scene.paper[1] / 72 * 2.54 < 16
    assert problems(scene) == []
    assert struck_labels(scene) == []


def test_no_legend() -> None:
    scene = scene_of(loads(SMALL), legend=False)
    assert not scene.samples
    assert scene.height < scene_of(loads(SMALL)).height


def test_plates_frame_their_levels() -> None:
    scene = scene_of(loads(SMALL), plates={"K": ["lstm", "conv_*"]})
    (panel,) = scene.panels
    inside = {
        box.node
        for box in scene.boxes
        if panel.rect.y < box.rect.y and box.rect.bottom < panel.rect.bottom
    }
    assert {"encoder.lstm", "decoder.conv_4"} <= inside
    assert not {"encoder.input", "encoder.class"} & inside
    assert panel.label is not None


def test_invalid_plates() -> None:
    spec = loads(SMALL)
    with pytest.raises(UsageError, match="no level `lstn`: did you mean `lstm`"):
        scene_of(spec, plates={"K": ["lstn"]})
    with pytest.raises(UsageError, match="`conv_1` is between its levels"):
        scene_of(spec, plates={"K": ["lstm", "conv_2"]})
    with pytest.raises(UsageError, match="at least one level"):
        scene_of(spec, plates={"K": []})


def test_phases_of_the_plan() -> None:
    scene = scene_of(load(RLADDER), plan=True)
    assert {"all t at once", "loop over t"} <= set(all_texts(scene))
    fills = {panel.fill for panel in scene.panels}
    assert fills == {PAPER.phases["once"], PAPER.phases["loop"]}
    variant = scene_of(load(RLADDER, "no_decoder_to_encoder"), plan=True)
    assert {"all t at once", "loop over t"} <= set(all_texts(variant))


def test_phases_given_by_the_caller() -> None:
    scene = scene_of(loads(SMALL), plan={"encoder.lstm": "loop"}, iterations=1)
    assert len(scene.panels) == 1
    with pytest.raises(UsageError, match=r"no node `encoder\.lstn`"):
        scene_of(loads(SMALL), plan={"encoder.lstn": "loop"})
    with pytest.raises(UsageError, match=r"`encoder\.lstm`: no phase `twice`: there are `once`"):
        scene_of(loads(SMALL), plan={"encoder.lstm": "twice"})


# --- invalid options ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "unroled"}, "no view `unroled`: did you mean `unrolled`"),
        ({"iterations": 0}, "cannot draw 0 iterations"),
        ({"iterations": 1000}, "cannot draw 1000 iterations"),
        ({"view": "rolled", "iterations": 3}, "a rolled view shows one iteration"),
        ({"view": "rolled", "start": True}, "a rolled view has no first iteration: omit `start`"),
        ({"view": "mini", "labels": "cell"}, "a mini view has letters in its boxes"),
        ({"view": "mini", "levels": "numbers"}, "a mini view has no numbers of levels"),
        ({"theme": "papers"}, "no theme `papers`: did you mean `paper`"),
        ({"levels": "no"}, "no levels `no`"),
        ({"layout": "neato"}, "no layout `neato`"),
        ({"labels": "none,cell"}, "`none` cannot be combined with other labels"),
        ({"iterations": 6}, "cannot draw 6 iterations: this spec has 5 iterations"),
        ({"start": True, "iterations": 8}, "this spec has 5 iterations"),
        ({"themes": "dark"}, "no option `themes`: did you mean `theme`"),
        ({"bogus": 1}, "no option `bogus`: there are `view`"),
        ({"iterations": 2.5}, "iterations: 2.5 is not a whole number"),
        ({"iterations": "2"}, "iterations: '2' is not a whole number"),
        ({"iterations": True}, "iterations: True is not a whole number"),
        ({"labels": 3}, "labels: 3 is not a text or a list of texts"),
        ({"theme": None}, "theme: None is not a text"),
        ({"plates": {"K": 3}}, "plate `K`: 3 is not a list of levels"),
    ],
)
def test_invalid_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scene_of(loads(SMALL), **options)  # type: ignore[arg-type]


def test_no_iterations_without_delays() -> None:
    with pytest.raises(UsageError, match="cannot draw 3 iterations: this spec has one iteration"):
        scene_of(load(SPECS / "related/ladder.yaml"), iterations=3)


def test_inputs() -> None:
    """A spec, its file or its graph; nothing else."""
    path = SPECS / "related/unet.yaml"
    assert render(path, "svg") == render(str(path), "svg") == render(graph(load(path)), "svg")
    with pytest.raises(UsageError, match=r"a spec is needed, .* of type int"):
        render(5, "svg")
    with pytest.raises(UsageError, match=r"a spec is needed, .* of type list"):
        plan([])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="5 is not a path"):
        draw(path, 5)  # type: ignore[arg-type]


def test_straight_arrows_are_straight() -> None:
    """Arrows of a plain ladder go straight; a state goes over the boxes."""
    scene = compose(ladder(5, stateful=[1, 2]).done(), View())
    for wire in scene.wires:
        bent = len(wire.segments) > 1
        elbow = wire.role is Role.DECODER and wire.source.startswith("encoder")
        assert bent == (wire.role is Role.STATE or elbow)


# --- on paper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["ommnist/rladder", "music/rladder", "related/unet"])
@pytest.mark.parametrize("view", ["rolled", "mini"])
def test_text_stays_readable_in_a_column(spec: str, view: str) -> None:
    scene = scene_of(load(SPECS / f"{spec}.yaml"), view=view, width="8.5cm")
    column = 8.5 / 2.54 * 72
    if view == "mini":
        assert scene.paper[0] <= column
        assert scene.smallest == pytest.approx(10)
    else:
        assert scene.paper[0] == pytest.approx(column)
        assert scene.smallest > 5.4


def test_a_width_is_that_of_the_paper_in_every_format() -> None:
    spec = load(RLADDER)
    paper = scene_of(spec, width=240.0)
    high = paper.height * paper.scale
    assert paper.scale < 0.5
    assert f'width="240pt" height="{high:.2f}'.rstrip("0") in str(render(spec, "svg", width=240))
    assert 'size="3.3333,' in str(render(spec, "gv", width=240))
    assert "\\pdfpagewidth=240.9pt" in str(render(spec, "tex", width=240))  # 240 bp
    assert scene_of(spec, view="rolled", width="40cm").scale == 1.0, "nothing is enlarged"


@pytest.mark.parametrize("width", ["8.5", "wide", "0cm", "-3cm", "1km", 0, float("nan"), "900in"])
def test_invalid_widths(width: str | float) -> None:
    with pytest.raises(UsageError, match="no width"):
        scene_of(loads(SMALL), width=width)
