"""Metrics at every iteration: tables, csv and figure, from made-up runs of table4_small."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ladderspec.ablation.figures import by_time as figure_by_time
from ladderspec.ablation.results import collect
from ladderspec.ablation.table import tables, tables_by_time
from ladderspec.cli import main
from ladderspec.errors import SpecError
from ladderspec.experiments.reader import open_experiment
from tests.ablation.fake_table4 import EXPERIMENT, by_time, finish_all
from tests.training import EXPERIMENT as OVER_FRAMES
from tests.training import experiment


def test_every_iteration_has_its_mean_and_the_papers_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = finish_all(tmp_path)
    assert main(["ablate", str(EXPERIMENT), "-o", str(tmp_path), "--table-only"]) == 0
    out = capsys.readouterr().out
    own = np.array([by_time(run)["segment.ami"] for run in runs if run.row == "rtagger"])
    shown = zip(own.mean(0), own.std(0, ddof=1), ["0.55", "0.75", "0.80 ± 0.01"], strict=True)
    expected = " ".join(f"{mean:.2f} ± {std:.2f} {paper}" for mean, std, paper in shown)
    table = out.split("segment AMI by iteration")[1]
    (line,) = (line for line in table.splitlines() if line.startswith("RTagger  "))
    assert " ".join(line.split()) == f"RTagger 248,418 {expected}"
    assert "ConvNet" not in table, "it has no groups"
    with (tmp_path / "by_time.csv").open(encoding="utf-8") as file:
        lines = {(r["row"], r["measure"], r["t"]): r for r in csv.DictReader(file)}
    for t in (1, 2, 3):
        found = lines["rtagger", "segment.ami", str(t)]
        assert float(found["mean"]) == pytest.approx(own.mean(0)[t - 1])
        assert float(found["deviation"]) == pytest.approx(own.std(0, ddof=1)[t - 1])
    assert lines["tagger", "digit.error", "3"]["paper"] == "12.15", "a number without t: the last"
    assert lines["tagger", "digit.error", "2"]["paper"] == ""
    assert lines["convnet", "digit.error", "1"]["paper"] == "14.3"
    assert ("convnet", "digit.error", "2") not in lines
    for name in ("table.md", "table.tex"):
        assert "segment AMI by iteration" in (tmp_path / name).read_text(encoding="utf-8")


def test_the_number_of_a_grouping_is_that_of_the_last_iteration(tmp_path: Path) -> None:
    """Also of runs that recorded the mean over all iterations."""
    runs = finish_all(tmp_path)
    experiment = open_experiment(EXPERIMENT)
    results = collect(experiment, runs, tmp_path)
    for run in runs:
        recorded = json.loads((tmp_path / run.id / "result.json").read_text())["metrics"]["test"]
        values = results.cell(run.row, "").values
        for name, times in by_time(run).items():
            assert values[name][run.seed] == times[-1]
            assert (recorded[name] != times[-1]) == (name == "segment.ami")


def test_a_picture_of_metrics_over_t(tmp_path: Path) -> None:
    runs = finish_all(tmp_path)
    figure = figure_by_time(collect(open_experiment(EXPERIMENT), runs, tmp_path))
    error, ami = figure.axes
    assert (error.get_ylabel(), ami.get_ylabel()) == ("digit error\n(%)", "segment AMI")
    assert ami.get_xlabel() == "iteration t"
    thick = [line for line in ami.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert len(thick) == 4, "two rows have no groups"
    assert list(thick[0].get_xdata()) == [1, 2, 3]
    means = [np.mean([by_time(r)["segment.ami"][t] for r in runs[:3]]) for t in range(3)]
    assert list(thick[0].get_ydata()) == pytest.approx(means)
    diamonds = [line for line in error.lines if line.get_marker() == "D"]
    assert sorted(float(line.get_ydata()[0]) for line in diamonds) == [
        5.9, 8.0, 12.15, 14.3, 18.2, 22.6, 28.2, 63.8, 88.0
    ]  # fmt: skip


def test_frames_are_shown_on_demand(tmp_path: Path) -> None:
    place = experiment(tmp_path, OVER_FRAMES.replace("{digit: 0.74 ± 0.09}", "{next_frame: 7}"))
    opened = open_experiment(place)
    for run in opened:
        folder = tmp_path / run.id
        folder.mkdir()
        times = {"digit.error": [50.0, 40.0, 30.0], "next_frame.error": [9.0, 7.0]}
        result = {
            "digest": run.digest,
            "metrics": {"test": {"digit.error": 30.0, "next_frame.error": 8.0}},
            "by_time": {"test": times},
            "updates": 1,
            "units": {},
            "parameters": 1,
        }
        (folder / "result.json").write_text(json.dumps(result))
    assert tables_by_time(collect(opened, opened.runs, tmp_path)) == []
    results = collect(opened, opened.runs, tmp_path, show_times=True)
    digit, frame = tables_by_time(results)
    assert digit.title == "nano: digit error by frame"
    assert [group.entries[0].shown() for group in digit.groups] == ["50.00", "40.00", "30.00"]
    assert [group.entries[0].shown() for group in frame.groups] == ["9.00", "7.00"]
    assert not any(group.entries[0].paper for group in frame.groups), "a mean over all frames"
    assert tables(results)[0].groups[1].entries[0].paper == "7"
    assert main(["ablate", str(place), "-o", str(tmp_path), "--table-only", "--by-time"]) == 0
    assert (tmp_path / "by_time.png").exists()


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ("[1, 2]", "2 numbers, but the network has 3 iterations"),
        ("[1, 2, x]", "`x` is not a number"),
        ("[]", "a number of the paper is needed"),
        ("[[1], 2, 3]", "a number of the paper is needed"),
        ("[1, 2, null]", "a number of the paper is needed"),
    ],
)
def test_wrong_numbers_by_iteration_are_refused(tmp_path: Path, numbers: str, message: str) -> None:
    text = OVER_FRAMES.replace("0.74 ± 0.09", numbers)
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, text))
    assert message in str(error.value)
    assert "experiment.yaml:6" in str(error.value)


def test_a_sentence_says_which_differences_are_resolved(tmp_path: Path) -> None:
    """Higher is better for AMI, lower for the error; the intervals are those of scipy."""
    runs = finish_all(tmp_path)
    (table,) = tables(collect(open_experiment(EXPERIMENT), runs, tmp_path))
    for group, name in zip(table.groups, ("digit.error", "segment.ami"), strict=True):
        last = {
            row: [by_time(run)[name][-1] for run in runs if run.row == row]
            for row in ("rtagger", "tagger")
        }
        low, high = stats.ttest_rel(last["tagger"], last["rtagger"]).confidence_interval(0.95)
        change = group.entries[1].change
        assert change is not None
        assert (change.low, change.high) == (pytest.approx(low), pytest.approx(high))
        assert low * high > 0
        assert (low > 0) == (name == "digit.error")
        assert f"{group.heading[1:]}: RTagger is better than Tagger, " in table.verdicts
    assert table.verdicts.endswith(
        'worse than "2-means of brightness", and not clearly different from'
        ' "RTagger (1000 labels)" (its interval contains 0).'
    )
