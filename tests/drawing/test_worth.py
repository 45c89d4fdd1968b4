"""Worth: line widths in proportion, explained by the legend, with room for thick arrows."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

import ladderspec as ls
from drawing.geometry import problems, struck_labels
from drawing.pictures import SPECS
from ladderspec.drawing import render, scene_of
from ladderspec.drawing.scene import Scene
from ladderspec.drawing.style import PAPER, THINNEST, WIDEST
from ladderspec.drawing.typesetting import text_of
from ladderspec.errors import UsageError
from ladderspec.names import Role

RLADDER = SPECS / "ommnist/rladder.yaml"
WORTH = {"lateral": 2.0, "decoder_to_encoder": 0.5, "decoder@*": -0.1, "lateral@conv_1": 1.0}


def legend(scene: Scene) -> set[str]:
    return {text_of(text.runs) for text in scene.texts}


def test_widths_follow_the_worth() -> None:
    scene = scene_of(ls.load(RLADDER), worth=WORTH)
    for wire in scene.wires:
        if wire.role is Role.LATERAL:
            share = 0.5 if wire.target == "decoder.conv_1" else 1.0
            assert wire.ink == PAPER.inks[Role.LATERAL]._replace(width=WIDEST * share)
        elif wire.role is Role.DECODER_TO_ENCODER:
            assert wire.ink.width == WIDEST / 4
        elif wire.role is Role.DECODER:
            assert wire.ink.width == THINNEST
        else:
            assert wire.ink.colour == PAPER.rule


def test_the_legend_shows_the_range_and_the_name() -> None:
    scene = scene_of(ls.load(RLADDER), worth=WORTH, worth_of="rise of the error, %")
    assert {
        "lateral: 1 to 2",
        "decoder to encoder: 0.5",
        "decoder: \u22120.1",
        "thickness: rise of the error, %",
        "not measured",
    } <= legend(scene)
    assert not {"encoder", "state", "lateral"} & legend(scene)
    everything = {wire.role.value: 1.0 for wire in scene.wires if wire.role}
    assert "not measured" not in legend(scene_of(ls.load(RLADDER), worth=everything))


def test_no_legend_entry_without_a_worth() -> None:
    scene = scene_of(ls.load(RLADDER))
    assert not any(text.startswith(("thickness", "not measured")) for text in legend(scene))
    assert scene == scene_of(ls.load(RLADDER), worth={})


@pytest.mark.parametrize("name", ["ommnist/rladder.yaml", "ommnist/appendix_c.yaml"])
@pytest.mark.parametrize("view", ["unrolled", "rolled", "mini"])
def test_thick_arrows_have_room(name: str, view: str) -> None:
    worth = {"lateral": 1.0, "state": 1.0, "decoder@*": 1.0, "encoder@*": 1.0}
    scene = scene_of(ls.load(SPECS / name), worth=worth, view=view)
    assert problems(scene) == []
    assert struck_labels(scene) == []


def test_rows_of_another_worth_are_not_folded() -> None:
    spec = ls.load(RLADDER)
    folded = {box.node for box in scene_of(spec, worth={"lateral": 1.0}, fold=True).boxes}
    assert "encoder.conv_2" not in folded
    apart = scene_of(spec, worth={"lateral": 1.0, "lateral@conv_2": 2.0}, fold=True)
    assert "encoder.conv_2" in {box.node for box in apart.boxes}


def test_every_format() -> None:
    spec = ls.load(RLADDER)
    for form, sign in (
        ("svg", 'stroke-width="5"'),
        ("gv", 'penwidth="5"'),
        ("tex", "width=5.02pt"),
    ):
        assert sign in str(render(spec, form, worth=WORTH))
        assert sign not in str(render(spec, form))


@pytest.mark.parametrize(
    ("worth", "message"),
    [
        ({"laterals": 1.0}, "did you mean `lateral`"),
        ({"lateral@conv_9": 1.0}, "worth of `lateral@conv_9`: it matches nothing"),
        ({"decoder.input(t-2) -> encoder.lstm1": 1.0}, ": it matches nothing"),
        ({"decoder.*": 1.0}, "select arrows, like"),
        ({"lateral": math.nan}, "nan is not a finite number"),
        ({"lateral": "much"}, "'much' is not a finite number"),
    ],
)
def test_invalid_worth(worth: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scene_of(ls.load(RLADDER), worth=worth)


def test_from_the_command_line(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ladderspec", "draw", str(RLADDER), *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    words = ["--worth", "lateral=2", "--worth", "decoder.lstm1(t-1) -> encoder.lstm1=-0.5"]
    assert run(*words, "--worth-of", "bits", "-o", "a.svg").returncode == 0
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "thickness: bits" in drawn
    wrong = run("--worth", "lateral", "-o", "b.svg")
    assert wrong.returncode == 2
    assert "SELECTOR=NUMBER" in wrong.stderr
    assert not (tmp_path / "b.svg").exists()
