"""Tables and figures of results: numbers against scipy, every format, nothing trained."""

from __future__ import annotations

import csv
import json
import math
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy import stats

from ladderspec.ablation.figures import COLOURS, bars, curves, line_style
from ladderspec.ablation.report import rendered
from ladderspec.ablation.results import collect
from ladderspec.ablation.statistics import difference, spread, student
from ladderspec.ablation.table import Table, quoted, tables
from ladderspec.ablation.writers import to_latex, to_markdown, to_text
from ladderspec.api import graph
from ladderspec.cli import main
from ladderspec.errors import SpecError
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.learn.log import read_rows
from ladderspec.wiring.table import to_latex as layers_latex
from tests.training import experiment

TEXT = """
name: table
title: Digits & bars, 100 %
data: {set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}
spec: nano.yaml
rows:
  - {name: ladder, title: RLadder, paper: {digit: 0.74 ± 0.09, next_frame.error: 150.1}}
  - {name: open, title: w/o decoder_to_encoder, variant: open, paper: {digit: 1.24 ± 0.05}}
  - {name: untold, title: w/o prediction, without: [task.next_frame]}
training: {updates: 100}
seeds: 4
"""
COLUMNS = "columns: [{name: all}, {name: few, title: Few labels, data: {labelled: 100}}]\n"
WIDE = re.sub(r"paper: ({.*?})", r"paper: {all: \1}", TEXT) + COLUMNS
UNITS = {"digit.error": "%", "digit.nll": "nats", "next_frame.error": "x 1e-5"}


def measured(run: Run) -> dict[str, float]:
    """Made-up numbers: what seeds have in common is larger than what they have not."""
    common, own = random.Random(run.seed), random.Random(run.id)
    worse = {"ladder": 0.0, "open": 0.5, "untold": 0.9}[run.row]
    found = {
        "digit.error": 1.1 + worse + common.gauss(0, 0.3) + own.gauss(0, 0.05),
        "digit.nll": 0.05 + worse / 10,
        "next_frame.error": 152 + 12 * worse + common.gauss(0, 2),
    }
    return {k: v for k, v in found.items() if run.row != "untold" or k.startswith("digit")}


def finish(run: Run, folder: Path) -> None:
    """Leave in a folder what a finished run leaves there."""
    numbers = measured(run)
    folder.mkdir(parents=True)
    result = {
        "digest": run.digest,
        "metrics": {"valid": {"digit.error": 99.0}, "test": numbers},
        "units": {name: UNITS[name] for name in numbers},
        "parameters": 12345,
        "updates": 100,
    }
    (folder / "result.json").write_text(json.dumps(result))
    rows = [
        {"update": update, "split": split}
        | {name: value + 60 * math.exp(-update / 20) for name, value in numbers.items()}
        for update in range(10, 101, 10)
        for split in ("train", "valid")
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def finished(folder: Path, text: str = TEXT) -> tuple[Path, list[Run]]:
    """An experiment whose runs are all finished but the last seed of the second row."""
    place = experiment(folder, text)
    runs = [run for run in open_experiment(place) if (run.row, run.seed) != ("open", 3)]
    for run in runs:
        finish(run, folder / "out" / run.id)
    return place, runs


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, -1e200])
def test_numbers_that_no_axis_can_show(
    value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stand in the table; the figures are drawn without them."""
    place, runs = finished(tmp_path)
    for run in runs[:2]:
        file = tmp_path / "out" / run.id / "result.json"
        result = json.loads(file.read_text())
        result["metrics"]["test"] = dict.fromkeys(result["metrics"]["test"], value)
        result["by_time"] = {"test": {"digit.error": [value, 1.0]}}
        file.write_text(json.dumps(result))
    out, err = report(place, capsys)
    assert ("inf" if math.isinf(value) else "nan") in out
    assert err == ""
    assert (tmp_path / "out" / "bars.pdf").exists()


def test_no_number_that_an_axis_can_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, runs = finished(tmp_path)
    for run in runs:
        file = tmp_path / "out" / run.id / "result.json"
        result = json.loads(file.read_text())
        result["metrics"]["test"] = {"digit.error": math.nan}
        file.write_text(json.dumps(result))
    assert "nan" in report(place, capsys)[0]
    assert not (tmp_path / "out" / "bars.pdf").exists()


ROWS = [
    '{"update": 1}',
    '{"split": "valid", "digit.error": 1}',
    '{"update": [1], "split": "valid"}',
    '{"update": 1, "split": "valid", "digit.error": "x"}',
    '{"update": 1, "split": "valid", "digit.error": null}',
    '{"update": 1%s, "split": "valid", "digit.error": 1}' % ("0" * 20),
    "[" * 100_000,
]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_rows_of_metrics_that_are_none(
    row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, runs = finished(tmp_path)
    file = tmp_path / "out" / runs[0].id / "metrics.jsonl"
    good = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*good[:4], row, "\n", *good[4:]]))
    assert len(read_rows(file.parent)) == 4
    report(place, capsys)


def test_the_font_cache_of_matplotlib_is_built_in_silence() -> None:
    """Its note would break live lines."""
    code = (
        "import logging, sys; logging.basicConfig(level=logging.INFO)\n"
        "from ladderspec.ablation.report import require_matplotlib; require_matplotlib()\n"
        "assert logging.getLogger('matplotlib.font_manager').level == logging.NOTSET"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "font" not in found.stderr


def test_a_table_of_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, _ = finished(tmp_path)
    (tmp_path / "out" / "table.md").mkdir()
    assert main(["ablate", str(place), "-o", str(tmp_path / "out"), "--table-only"]) == 1
    said = capsys.readouterr()
    assert "digit error" in said.out
    assert said.err.endswith("table.md: is a directory\n")


def report(place: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    words = ["ablate", str(place), "-o", str(place.parent / "out"), "--table-only"]
    assert main(words) == 0
    found = capsys.readouterr()
    return found.out, found.err


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 8, 29, 100])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_students_distribution(freedom: int, confidence: float) -> None:
    expected = stats.t.ppf((1 + confidence) / 2, freedom)
    assert student(confidence, freedom) == pytest.approx(expected, rel=1e-9)


def test_mean_deviation_and_paired_interval() -> None:
    draw = np.random.default_rng(0)
    base = {seed: float(draw.normal(5, 3)) for seed in range(6)}
    ours = {seed: base[seed] + float(draw.normal(1, 0.2)) for seed in (5, 1, 2, 4)}
    found = spread(list(ours.values()))
    assert found is not None
    assert found.mean == pytest.approx(np.mean(list(ours.values())))
    assert found.deviation == pytest.approx(np.std(list(ours.values()), ddof=1))
    change = difference(ours, base)
    assert change is not None
    pairs = stats.ttest_rel(list(ours.values()), [base[seed] for seed in ours])
    low, high = pairs.confidence_interval(0.95)
    assert (change.low, change.high) == (pytest.approx(low), pytest.approx(high))
    assert change.clear == (pairs.pvalue < 0.05)
    assert difference(ours, {9: 1.0}) is None
    assert spread([]) is None


# --- tables ---------------------------------------------------------------------------------------


def test_every_number_stands_in_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, runs = finished(tmp_path)
    out, _ = report(place, capsys)
    numbers = {(run.row, run.seed): measured(run) for run in runs}
    ladder = [numbers["ladder", seed]["digit.error"] for seed in range(4)]
    opened = [numbers["open", seed]["digit.error"] for seed in range(3)]
    shown = f"{np.mean(opened):.2f} ± {np.std(opened, ddof=1):.2f}"
    low, high = stats.ttest_rel(opened, ladder[:3]).confidence_interval(0.95)
    change = f"{np.mean(opened) - np.mean(ladder[:3]):+.2f} [{low:.2f}, {high:.2f}]"
    line = next(line for line in out.splitlines() if line.startswith("w/o decoder_to_encoder"))
    assert line.split("  12,345  ")[1].split("   ")[0].strip().startswith(f"{shown}  {change}")
    assert "1.24 ± 0.05" in line
    assert "over 3 to 4 seeds" in out
    with (tmp_path / "out" / "table.csv").open(encoding="utf-8") as file:
        table = {(row["row"], row["measure"]): row for row in csv.DictReader(file)}
    found = table["open", "digit.error"]
    assert float(found["mean"]) == np.mean(opened)
    assert float(found["difference_high"]) == pytest.approx(high)
    assert (found["seeds"], found["paper"], found["paper_deviation"]) == ("3", "1.24", "0.05")
    assert table["ladder", "next_frame.error"]["paper"] == "150.1"
    assert ("untold", "next_frame.error") not in table
    with (tmp_path / "out" / "runs.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert float(row["value"]) == numbers[row["row"], int(row["seed"])][row["measure"]]


def whole_table(tmp_path: Path, text: str = TEXT) -> list[Table]:
    place, _ = finished(tmp_path, text)
    found = open_experiment(place)
    return tables(collect(found, found.runs, tmp_path / "out"))


def test_a_narrow_terminal(tmp_path: Path) -> None:
    (table,) = whole_table(tmp_path)
    wide, narrow = to_text(table), to_text(table, width=90)
    assert max(map(len, narrow.splitlines())) <= 90 < max(map(len, wide.splitlines()))
    words = [{word for word in text.split() if word.strip("-")} for text in (wide, narrow)]
    assert words[0] == words[1]


def test_markdown_has_as_many_cells_in_every_line(tmp_path: Path) -> None:
    (table,) = whole_table(tmp_path)
    text = to_markdown(table)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 2 + 3
    assert r"w/o decoder\_to\_encoder" in text


def test_differences_to_another_row(tmp_path: Path) -> None:
    (first,) = whole_table(tmp_path)
    place = experiment(tmp_path, TEXT + "base: open\n")
    found = open_experiment(place)
    (table,) = tables(collect(found, found.runs, tmp_path / "out"))
    changes = [[e.change for e in t.groups[0].entries] for t in (first, table)]
    assert changes[0][0] is None
    assert changes[1][1] is None
    assert changes[1][0].mean == -changes[0][1].mean  # type: ignore[union-attr]
    assert 'Differences are from "w/o decoder_to_encoder", paired by seed' in table.note
    with pytest.raises(SpecError, match="no row `opne`"):
        open_experiment(experiment(tmp_path, TEXT + "base: opne\n"))


def test_one_seed_says_which_network_is_best(tmp_path: Path) -> None:
    place, runs = finished(tmp_path, TEXT)
    first = [run for run in runs if run.seed == 0]
    (table,) = tables(collect(open_experiment(place), first, tmp_path / "out"))
    numbers = dict(zip(table.rows, (e.ours.mean for e in table.groups[0].entries), strict=True))  # type: ignore[union-attr]
    best = min(numbers, key=lambda title: numbers[title])
    assert f"Digit error (%): {quoted(best)} is best ({numbers[best]:.2f})" in table.verdicts
    assert table.verdicts.endswith("--seeds 3 adds intervals.")
    assert table.verdicts in to_text(table).replace("\n", " ")


def test_tables_say_which_data_they_are_of(tmp_path: Path) -> None:
    """Validation, where there are no test data."""
    (table,) = whole_table(tmp_path)
    assert table.note.startswith("Test data, mean ± standard deviation over 3 to 4 seeds.")
    assert table.note.endswith("from different writers, so validation and test errors differ.")
    notes = []
    for result in sorted((tmp_path / "out").glob("*/result.json")):
        facts = json.loads(result.read_text())
        result.write_text(json.dumps(facts | {"metrics": {"valid": facts["metrics"]["test"]}}))
        found = open_experiment(tmp_path / "experiment.yaml")
        (table,) = tables(collect(found, found.runs, tmp_path / "out"))
        notes.append(table.note)
    assert notes[4].startswith("Test data (validation data if there are none), mean")
    assert notes[-1].startswith("Validation data, mean")


def test_columns_have_a_table_for_each_measure(tmp_path: Path) -> None:
    digit, frame = whole_table(tmp_path, WIDE)
    assert digit.title == "Digits & bars, 100 %: digit error (%)"
    assert frame.title == "Digits & bars, 100 %: next frame error (x 1e-5)"
    assert [group.heading for group in digit.groups] == ["all", "Few labels"]
    assert digit.rows == ("RLadder", "w/o decoder_to_encoder", "w/o prediction")
    assert frame.rows == digit.rows[:2], "the third predicts no frames"
    assert len(frame.parameters) == len(frame.groups[0].entries) == 2
    papers = [[entry.paper for entry in group.entries] for group in digit.groups]
    assert papers == [["0.74 ± 0.09", "1.24 ± 0.05", ""], ["", "", ""]]


def test_a_row_without_a_number_yet_keeps_its_place(tmp_path: Path) -> None:
    place, runs = finished(tmp_path, WIDE)
    for run in runs:
        if run.row == "untold":
            shutil.rmtree(tmp_path / "out" / run.id)
    _, frame = tables(collect(open_experiment(place), runs, tmp_path / "out"))
    assert frame.rows[2] == "w/o prediction"
    assert [group.entries[2].shown() for group in frame.groups] == ["-", "-"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_fits_the_page(tmp_path: Path) -> None:
    layers = map(layers_latex, map(graph, ("specs/ommnist/rladder.yaml", "specs/related/blt.yaml")))
    written = "".join([*map(to_latex, whole_table(tmp_path, WIDE)), *layers])
    preamble = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
    (tmp_path / "t.tex").write_text(preamble + written + r"\end{document}", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


# --- files ----------------------------------------------------------------------------------------

FILES = ["bars.pdf", "bars.png", "curves.pdf", "curves.png"]
TEXTS = ["runs.csv", "table.csv", "table.md", "table.tex"]


@pytest.mark.parametrize("text", [TEXT, WIDE])
def test_files_are_the_same_every_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    place, _ = finished(tmp_path, text)
    out, err = report(place, capsys)
    assert err == ""
    assert out.splitlines()[-1] == f"      {tmp_path / 'out' / 'bars'}.png .pdf"
    written = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.is_file()}
    assert sorted(written) == sorted(FILES + TEXTS)
    assert all(written.values())
    report(place, capsys)
    assert written == {name: (tmp_path / "out" / name).read_bytes() for name in written}


def test_many_bars_stand_in_several_lines(tmp_path: Path) -> None:
    many = "columns: [" + ", ".join(f"{{name: c{i}}}" for i in range(3)) + "]\n"
    place, runs = finished(tmp_path, re.sub(r", paper: {.*?}", "", TEXT) + many)
    figure = bars(collect(open_experiment(place), runs, tmp_path / "out"))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 2 * 3 * 2, "two measures in three columns, each with its differences"
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == (4, 3)
    assert all(axes.patches or axes.lines for axes in shown)
    lines = [figure.axes[start : start + 3] for start in range(0, 12, 3)]
    assert all(len({axes.get_xlim() for axes in line}) == 1 for line in lines), "one scale"
    assert [len(line[0].get_yticks()) for line in lines] == [3, 3, 2, 2], "one predicts nothing"


def test_the_lowest_panel_of_a_measure_counts_the_updates(tmp_path: Path) -> None:
    """Also where the panels below it are switched off, as nothing was measured there."""
    columns = "columns: [{name: both}, {name: digit, without: [task.next_frame]}]\n"
    text = re.sub(r", paper: {.*?}", "", TEXT).replace(", without: [task.next_frame]", "")
    place, runs = finished(tmp_path, text + columns)
    for rows in (tmp_path / "out").glob("*.digit.seed*/metrics.jsonl"):
        rows.write_text(re.sub(r', "next_frame.error": [0-9.]+', "", rows.read_text()))
    figure = curves(collect(open_experiment(place), runs, tmp_path / "out"))
    *shown, off = figure.axes
    assert not off.axison
    assert [axes.get_xlabel() != "" for axes in shown] == [False, True, True]


def test_the_longest_title_has_room_in_the_legend(tmp_path: Path) -> None:
    title = "RLadder in all keys, " + 4 * "then once more near its own, "
    place, runs = finished(tmp_path, TEXT.replace("title: RLadder,", f"title: '{title}',"))
    figure = curves(collect(open_experiment(place), runs, tmp_path / "out"))
    figure.canvas.draw()
    legend, _ = figure.legends
    assert title.strip() in [text.get_text().strip() for text in legend.get_texts()]
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_validation_and_test_in_one_picture(tmp_path: Path) -> None:
    """Curves of the validation data, squares of the test data: at other heights of one axis."""
    place, runs = finished(tmp_path)
    results = collect(open_experiment(place), runs, tmp_path / "out")
    figure = curves(results)
    error, frame = figure.axes
    assert error.get_ylabel() == "digit error\n(%, log scale)"
    assert error.get_yscale() == "log"
    assert frame.get_ylabel() == "next frame error\n($\\times 10^{-5}$)"
    assert [axes.get_xlabel() for axes in figure.axes] == ["updates"] * 2
    squares = [line for line in error.lines if line.get_marker() == "s"]
    means = [np.mean([measured(r)["digit.error"] for r in runs if r.row == row])
             for row in results.rows]  # fmt: skip
    assert [float(line.get_ydata()[0]) for line in squares] == pytest.approx(means)
    assert len({float(line.get_xdata()[0]) for line in squares}) == 3, "side by side"
    low, high = error.get_ylim()
    assert all(low < mean < high for mean in means)
    (text,) = figure.legends[1].get_texts()
    assert text.get_text() == "test data, after training (lines: validation data)"


def test_one_colour_per_network_in_every_figure(tmp_path: Path) -> None:
    """The row that others are compared with is black, wherever it is in the table."""
    place, runs = finished(tmp_path)
    results = collect(open_experiment(place), runs, tmp_path / "out")
    lines, bar = curves(results).axes[0], bars(results).axes[0]
    ends = [to_hex(line.get_color()) for line in lines.lines if line.get_marker() == "s"]
    assert ends == [to_hex(patch.get_facecolor()) for patch in bar.patches]
    assert [colour.upper() for colour in ends] == list(COLOURS[:3])
    last = replace(results, cells=results.cells[1:] + results.cells[:1])
    for row in results.rows:
        expected = line_style(results, row)["color"]
        assert line_style(last, row)["color"] == expected
    assert line_style(last, results.base)["color"] == COLOURS[0]
    assert bar.get_xlabel() == "digit error (%)"
    assert [text.get_text() for text in bar.texts] == [
        f"{np.mean(list(results.cell(row, '').values['digit.error'].values())):.2f}"
        for row in results.rows
    ]


@pytest.mark.parametrize(("far", "shared"), [(0, True), (500, False)])
def test_columns_share_an_axis_where_they_can_be_compared(
    tmp_path: Path, far: float, shared: bool
) -> None:
    text = re.sub(r", paper: {.*?}", "", TEXT) + "columns: [{name: here}, {name: there}]\n"
    place, runs = finished(tmp_path, text)
    for file in (tmp_path / "out").glob("*.there.seed*/metrics.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        moved = [row | {"digit.error": row["digit.error"] + far} for row in rows]
        file.write_text("".join(json.dumps(row) + "\n" for row in moved))
    figure = curves(collect(open_experiment(place), runs, tmp_path / "out"))
    here, _, there, _ = figure.axes
    assert (here.get_ylim() == there.get_ylim()) is shared


def test_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = finished(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _, err = report(place, capsys)
    said = "no figures: matplotlib is not installed; `pip install 'ladderspec[plot]'` brings it"
    assert err == f"ladderspec: {said}\n"
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_file()) == TEXTS


def test_results_of_another_experiment_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, runs = finished(tmp_path)
    folder = tmp_path / "out" / "ladder.seed0"
    (folder / "run.json").write_text(json.dumps(runs[0].dump()))
    place = experiment(tmp_path, TEXT.replace("updates: 100", "updates: 200"))
    out, err = report(place, capsys)
    assert err == (
        f"ladderspec: left out: {folder} holds another run: training.updates is 100, not 200\n"
    )
    assert "No run is finished yet." in out


def test_tables_need_no_torch(tmp_path: Path) -> None:
    place, _ = finished(tmp_path)
    code = (
        "import sys; from ladderspec.cli import main; main(sys.argv[1:]);"
        "sys.exit('torch' in sys.modules)"
    )
    words = ["ablate", str(place), "-o", str(tmp_path / "out"), "--table-only"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_titles_hold_what_users_write(tmp_path: Path) -> None:
    """No formula begins with their `$`, and arrows look like arrows in LaTeX."""
    text = TEXT.replace("title: RLadder,", r"title: 'w/o $\lateral$, a -> b',")
    place, runs = finished(tmp_path, text)
    results = collect(open_experiment(place), runs, tmp_path / "out")
    assert rendered(bars(results), "png")
    assert rendered(curves(results), "png")
    latex = to_latex(tables(results)[0])
    assert r"a -\textgreater{} b" in latex
