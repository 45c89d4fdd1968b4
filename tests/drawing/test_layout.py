"""Nothing crosses or overlaps: in every shipped spec, variant and view, and in random ladders."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawing.geometry import problems, struck_labels
from drawing.pictures import ladder, picture, pictures, shipped, views
from ladderspec.drawing.compose import compose
from ladderspec.drawing.options import View
from ladderspec.drawing.picture import Picture
from ladderspec.drawing.transforms import compare
from ladderspec.names import Role

SHIPPED = shipped()


def check(shown: Picture, view: View) -> None:
    scene = compose(shown, view)
    assert problems(scene) == []
    assert struck_labels(scene) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped(name: str) -> None:
    for words in views():
        scene = compose(picture(name), View(**words))
        assert problems(scene) == [], words
        assert struck_labels(scene) == [], words


@pytest.mark.parametrize("name", [name for name in SHIPPED if ":" in name])
def test_variants_against_their_spec(name: str) -> None:
    shown = compare(picture(name.partition(":")[0]), picture(name))
    for kind in ("unrolled", "rolled", "mini"):
        check(shown, View(kind=kind))
    check(shown, View(fold=True))
    check(shown, View(kind="rolled", group=True))


@pytest.mark.parametrize("name", [name for name in SHIPPED if ":" not in name])
def test_specs_against_each_other(name: str) -> None:
    check(compare(picture("ommnist/rladder.yaml"), picture(name)), View())


@pytest.mark.parametrize("height", [3, 7, 25, 60])
@pytest.mark.parametrize("iterations", range(1, 9))
def test_plain_ladders_of_every_size(height: int, iterations: int) -> None:
    shown = ladder(height, stateful=range(1, height, 3)).done()
    check(shown, View(iterations=iterations))
    check(shown, View(iterations=iterations, start=True))


def test_arrows_from_before_the_first_iteration() -> None:
    """Their texts are apart, also if some arrive beside a box and others above it."""
    above = ladder(3, stateful=[0])
    above.arrow("encoder.level_2", "decoder.input", Role.SKIP, 1)
    top = ladder(4, stateful=[1, 3], decoders=False)
    top.arrow("encoder.level_1", "encoder.level_3", Role.SKIP, 2)
    beside = ladder(3, stateful=[0], laterals=[1])
    beside.arrow("encoder.level_1", "lateral.level_1", Role.SKIP, 2, "feedback")
    for build in (above, top, beside):
        for kind in ("mini", "unrolled"):
            check(build.done(), View(kind=kind, iterations=1))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pictures(), st.integers(1, 8), st.booleans())
def test_declared_arrows_unrolled(shown: Picture, iterations: int, mini: bool) -> None:
    check(shown, View(kind="mini" if mini else "unrolled", iterations=iterations))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pictures(), st.booleans())
def test_declared_arrows_rolled(shown: Picture, fold: bool) -> None:
    check(shown, View(kind="rolled", fold=fold, group=not fold))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pictures(), pictures())
def test_any_two_compared(one: Picture, two: Picture) -> None:
    check(compare(one, two), View())


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pictures(), st.integers(0, 50), st.integers(1, 9))
def test_plates_anywhere(shown: Picture, bottom: int, height: int) -> None:
    names = [level.name for level in shown.levels]
    chosen = names[bottom % len(names) :][:height]
    check(shown, View(plates={"K": chosen, "in all": names}))


def test_the_checker_sees_a_wire_through_a_box() -> None:
    scene = compose(ladder(4).done(), View())
    wire = next(wire for wire in scene.wires if wire.source == "encoder.input")
    over = scene.boxes[3].rect.centre
    bad = wire._replace(segments=((over[0], over[1]), *wire.segments))
    assert any("crosses" in problem for problem in problems(scene._replace(wires=(bad,))))


def test_the_checker_sees_shared_lines_and_loose_heads() -> None:
    scene = compose(ladder(4).done(), View())
    twice = (*scene.wires, scene.wires[0]._replace(target="encoder.level_2"))
    found = problems(scene._replace(wires=twice))
    assert any("share a line" in problem for problem in found)
    assert any("does not meet" in problem for problem in found)


def test_the_checker_sees_lines_through_labels() -> None:
    scene = compose(ladder(4, stateful=[1]).done(), View())
    for line in (scene.wires[0].start, scene.rules[0].start):
        words = scene.texts[0]._replace(x=line[0], y=line[1] + 2, anchor="middle")
        assert struck_labels(scene._replace(texts=(words,)))


def test_the_checker_sees_texts_on_boxes_and_on_each_other() -> None:
    scene = compose(ladder(4).done(), View())
    x, y = scene.boxes[0].rect.centre
    moved = scene.texts[0]._replace(x=x, y=y)
    found = problems(scene._replace(texts=(*scene.texts, moved, moved)))
    assert any("lies on" in problem for problem in found)
    assert any("overlap" in problem for problem in found)


def test_four_times_the_levels_take_four_times_as_long() -> None:
    def seconds(height: int) -> float:
        shown = ladder(height, stateful=range(1, height, 3)).done()
        times = []
        for _ in range(3):
            start = process_time()
            compose(shown, View(kind="mini", iterations=4))
            times.append(process_time() - start)
        return min(times)

    assert seconds(200) / seconds(50) < 8, "4 is linear, 16 is quadratic"
