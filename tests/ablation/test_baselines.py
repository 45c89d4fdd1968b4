"""Reference methods in tables: measured once with the data's seed, stored, refused with advice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ladderspec.ablation.baselines import FILE, measure_baselines
from ladderspec.ablation.figures import by_time as figure_by_time
from ladderspec.ablation.results import collect
from ladderspec.ablation.study import make_study
from ladderspec.ablation.table import tables, tables_by_time
from ladderspec.ablation.writers import to_text
from ladderspec.cli import main
from ladderspec.data import Baseline, dataset
from ladderspec.data.baselines import kmeans_baselines
from ladderspec.data.sets.textured_mnist import TexturedMnist
from ladderspec.errors import SpecError
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.plugins import load_plugin
from tests.ablation.fake_table4 import EXPERIMENT as TABLE4
from tests.ablation.fake_table4 import KMEANS, finish_all
from tests.learn.test_changed_inputs import write_pictures
from tests.training import EXPERIMENT as OCCLUDED
from tests.training import MUSIC, experiment

SPEC = """
name: nano-groups
input: {channels: 1, size: [16, 16]}
time: {iterations: 2}
groups: {count: 2, variance: 0.01}
levels:
  - name: lstm1
    encoder: {cell: ConvLSTM, channels: 3, filter: 4, stride: 2}
    decoder: {cell: Readout, filter: 4}
  - {name: pool, encoder: {cell: Pool, mode: average, filter: global}, decoder: Average}
  - {name: fc, encoder: {cell: FC, channels: 4}, decoder: G1}
tasks:
  segment: {kind: grouping, truth: groups}
"""
TEXT = """
name: groups
data: {set: textured_mnist, textures: builtin, digits: embedded, canvas: 16, brightness: apart}
spec: nano.yaml
rows: [{name: rtagger}, {name: open, without: [decoder_to_encoder]}]
baselines: [kmeans]
training: {updates: 10}
seeds: 3
"""
ITEMS = 20
OWN_DATA = """
from typing import Literal
from ladderspec.data import register
from ladderspec.data.sets.textured_mnist import TexturedMnist

@register
class Own(TexturedMnist):
    set: Literal["own_textures"] = "own_textures"
    factor: float = FACTOR
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """K-means on a few items; the seeds of the data that were measured."""
    seeds = []

    def scores(data: Any, split: str, items: int) -> dict[str, float]:
        seeds.append(data.seed)
        return kmeans_baselines(data, split, items)

    offered = {"kmeans": Baseline("ami", scores, ITEMS)}
    monkeypatch.setattr(TexturedMnist, "baselines", lambda self: offered)
    return seeds


def finish(run: Run, folder: Path) -> None:
    (folder / run.id).mkdir(parents=True)
    ami = [0.3, 0.4 + run.seed / 100]
    result = {
        "digest": run.digest,
        "metrics": {"test": {"segment.ami": ami[-1]}},
        "by_time": {"test": {"segment.ami": ami}},
        "updates": 1,
        "units": {"segment.ami": ""},
        "higher_is_better": ["segment.ami"],
        "parameters": 100,
    }
    (folder / run.id / "result.json").write_text(json.dumps(result))


def test_they_are_measured_once_for_every_seed_with_a_finished_run(
    tmp_path: Path, few: list[int]
) -> None:
    opened, out = open_experiment(experiment(tmp_path, TEXT, SPEC)), tmp_path / "out"
    assert measure_baselines(opened, opened.runs, out) == []
    assert not few, "nothing is finished"
    first, second, _ = opened.runs[:3]
    finish(first, out)
    finish(second, out)
    assert measure_baselines(opened, opened.runs, out) == [out / FILE]
    before = (out / FILE).read_text()
    measure_baselines(opened, opened.runs, out)
    assert (few, (out / FILE).read_text()) == ([0, 1], before)
    results = collect(opened, opened.runs, out)
    for seed in (0, 1):
        for title, value in kmeans_baselines(first.data.open(seed), "test", ITEMS).items():
            found = results.cell(title, "")
            assert found.values["segment.ami"][seed] == value
            assert (found.baseline, found.split, found.parameters) == (ITEMS, "test", None)
    finish(opened.runs[2], out)
    measure_baselines(opened, opened.runs, out)
    assert few == [0, 1, 2]


def test_data_with_a_seed_of_their_own_are_measured_once(tmp_path: Path, few: list[int]) -> None:
    place = experiment(tmp_path, TEXT.replace("canvas: 16,", "canvas: 16, seed: 7,"), SPEC)
    opened = open_experiment(place)
    for run in opened.runs:
        finish(run, tmp_path)
    measure_baselines(opened, opened.runs, tmp_path)
    assert few == [7]
    values = collect(opened, opened.runs, tmp_path).cell("2-means of brightness", "").values
    assert len(set(values["segment.ami"].values())) == 1
    assert list(values["segment.ami"]) == [0, 1, 2]


def test_a_file_that_was_changed_is_not_used(tmp_path: Path, few: list[int]) -> None:
    """The scores are measured again; files of earlier versions are lists without a checksum."""
    opened, place = open_experiment(experiment(tmp_path, TEXT, SPEC)), tmp_path / FILE
    finish(opened.runs[0], tmp_path)
    measure_baselines(opened, opened.runs, tmp_path)
    before = place.read_text()
    place.write_text(before.replace('"0": 0.', '"0": 1.'))
    assert place.read_text() != before
    assert "2-means of brightness" not in collect(opened, opened.runs, tmp_path).rows
    measure_baselines(opened, opened.runs, tmp_path)
    assert (few, place.read_text()) == ([0, 0], before)
    place.write_text(json.dumps(json.loads(before)["scores"]))
    assert "2-means of brightness" in collect(opened, opened.runs, tmp_path).rows


def test_scores_of_a_changed_plugin_are_measured_again(
    tmp_path: Path, few: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "_SETS", dataset.registered())
    for factor in ("2", "2", "3"):
        (tmp_path / "own.py").write_text(OWN_DATA.replace("FACTOR", factor))
        load_plugin(tmp_path / "own.py")
        text = TEXT.replace("textured_mnist", "own_textures")
        opened = open_experiment(experiment(tmp_path, text, SPEC))
        shutil.rmtree(tmp_path / opened.runs[0].id, ignore_errors=True)
        finish(opened.runs[0], tmp_path)
        measure_baselines(opened, opened.runs, tmp_path)
    assert few == [0, 0]


def test_scores_of_pictures_that_were_changed_are_measured_again(
    tmp_path: Path, few: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "own"
    write_pictures(own, 0)
    text = TEXT.replace("textures: builtin", f"textures: {own}, shrink: 1, views: 0")
    opened = open_experiment(experiment(tmp_path, text, SPEC))
    finish(opened.runs[0], tmp_path)
    for seed in (0, 0, 1, 1):
        write_pictures(own, seed)
        measure_baselines(opened, opened.runs, tmp_path)
    assert few == [0, 0]
    assert "2-means of brightness" in collect(opened, opened.runs, tmp_path).rows
    write_pictures(own, 2)
    assert "2-means of brightness" not in collect(opened, opened.runs, tmp_path).rows
    shutil.rmtree(own)
    assert "2-means of brightness" in collect(opened, opened.runs, tmp_path).rows


@pytest.mark.parametrize("damage", ["[", "{}", '[{"title": 3}]', ""])
def test_scores_of_other_data_and_damaged_files_are_measured_again(
    tmp_path: Path, few: list[int], damage: str
) -> None:
    opened = open_experiment(experiment(tmp_path, TEXT, SPEC))
    finish(opened.runs[0], tmp_path)
    measure_baselines(opened, opened.runs, tmp_path)
    whole = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(damage)
    assert len(collect(opened, opened.runs, tmp_path).rows) == 2
    measure_baselines(opened, opened.runs, tmp_path)
    assert (tmp_path / FILE).read_text() == whole
    other = open_experiment(
        experiment(tmp_path, TEXT.replace("brightness: apart", "brightness: equal"), SPEC)
    )
    assert len(collect(other, other.runs, tmp_path).rows) == 2


def test_they_are_lines_of_the_table_and_of_the_picture(tmp_path: Path) -> None:
    runs = finish_all(tmp_path)
    results = collect(open_experiment(TABLE4), runs, tmp_path)
    (table,) = tables(results)
    assert table.rows[-2:] == tuple(KMEANS)
    assert (
        "The last 2 lines are reference methods without training, measured on the first"
        in table.note
    )
    text = to_text(table)
    (line,) = (line for line in text.splitlines() if line.startswith("2-means"))
    own = [KMEANS["2-means of brightness"] + seed / 1000 for seed in range(3)]
    base = list(results.cell("rtagger", "").values["segment.ami"].values())
    assert f"{np.mean(own):.2f} ± {np.std(own, ddof=1):.2f}" in line
    assert f"{np.mean(own) - np.mean(base):+.2f} [" in line
    assert all("means" not in row for each in tables_by_time(results) for row in each.rows)
    _, ami = figure_by_time(results).axes
    assert [text.get_text() for text in ami.texts] == list(reversed(KMEANS))


def test_a_study_has_none(tmp_path: Path) -> None:
    study = make_study(experiment(tmp_path, TEXT, SPEC), "role", tmp_path / "study")
    assert open_experiment(study.path).config.baselines == ()


def test_missing_data_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LADDERSPEC_DATA", str(tmp_path / "nothing"))
    finish_all(tmp_path / "out")
    (tmp_path / "out" / FILE).unlink()
    words = ["ablate", str(TABLE4), "-o", str(tmp_path / "out"), "--table-only"]
    assert main([*words, "--data", str(tmp_path / "nothing")]) == 0
    found = capsys.readouterr()
    assert "RTagger" in found.out
    assert found.err.startswith("ladderspec: no baselines: ")


def test_what_the_data_do_not_offer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, TEXT.replace("[kmeans]", "[k_means]"), SPEC))
    assert "textured_mnist has no baseline `k_means`" in str(error.value)
    assert "did you mean `kmeans`" in str(error.value)
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, OCCLUDED + "baselines: kmeans\n"))
    assert "occluded_mnist has no baseline `kmeans`" in str(error.value)
    assert "it offers `prediction`" in str(error.value)
    digits = "data: {set: digits}\nspec: nano.yaml\nrows: [{name: whole}]\n"
    with pytest.raises(SpecError) as error:
        open_experiment(
            experiment(tmp_path, f"{digits}training: {{updates: 1}}\nbaselines: kmeans\n", MUSIC)
        )
    assert "leave out `baselines`: this data set offers none" in str(error.value)


def test_they_belong_to_the_metric_of_their_unit(tmp_path: Path) -> None:
    """Both tasks have an `error`: the digit in %, the next frame x 1e-5."""
    opened = open_experiment(experiment(tmp_path, f"{OCCLUDED}baselines: prediction\n"))
    out, run = tmp_path / "out", opened.runs[0]
    units = {"digit.error": "%", "next_frame.error": "x 1e-5"}
    (out / run.id).mkdir(parents=True)
    result = {
        "digest": run.digest,
        "metrics": {"test": dict.fromkeys(units, 50.0)},
        "by_time": {"test": {name: [50.0] * 3 for name in units}},
        "updates": 1,
        "units": units,
        "parameters": 100,
    }
    (out / run.id / "result.json").write_text(json.dumps(result))
    measure_baselines(opened, opened.runs, out)
    found = collect(opened, opened.runs, out).cell("copy of the last frame", "")
    frames = run.data.open(0).batch("test", 0, np.arange(300), ["frames"])["frames"]
    error = np.square(np.diff(frames, axis=1), dtype=np.float64).mean()
    assert found.values == {"next_frame.error": {0: pytest.approx(1e5 * error)}}


def test_they_are_no_part_of_a_run(tmp_path: Path) -> None:
    digests = [
        [run.digest for run in open_experiment(experiment(tmp_path, text, SPEC))]
        for text in (TEXT, TEXT.replace("baselines: [kmeans]\n", ""))
    ]
    assert digests[0] == digests[1]
