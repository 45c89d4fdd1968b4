"""The recorded results are those of the experiment files, and the page shows them."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Any

import pytest

from ladderspec.ablation.report import write_report
from ladderspec.learn.run_folder import read_result
from tests.ablation.fake_table4 import KMEANS, finish, finish_all, store_baselines

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_results.py"))


def test_the_pages_are_up_to_date(maker: dict[str, Any]) -> None:
    """`python docs/make_results.py` writes them."""
    pages = maker["pages"]()
    assert DOCS / "results.md" in pages
    assert len(pages) == 1 + len(maker["SECTIONS"])
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_the_page_is_short(maker: dict[str, Any]) -> None:
    """A table with verdicts of three words, then a paragraph and commands for each section."""
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    table = [line.split("|") for line in page.splitlines() if line.startswith("| [")]
    assert len(table) >= 10
    assert all(1 <= len(line[-2].split()) <= 3 for line in table), table
    assert len(page.splitlines()) < 180


def test_every_recorded_run_is_one_of_its_file(maker: dict[str, Any]) -> None:
    """The command of the page would train just these runs: not others, and not in another way."""
    for study, results in maker["recorded"]().items():
        name = study.name
        shown = {
            (cell.row, cell.column, seed)
            for cell in results.cells
            if not cell.baseline
            for values in cell.values.values()
            for seed in values
        }
        folders = [path.parent for path in (DOCS / "results" / name).glob("*/result.json")]
        assert folders
        assert len(shown) == len(folders), (name, results.left_out)
        for folder in folders:
            metrics = json.loads((folder / "result.json").read_text())["metrics"]["test"]
            assert all(math.isfinite(value) for value in metrics.values())


def test_the_pictured_run_is_that_of_its_file(maker: dict[str, Any]) -> None:
    experiment = maker["experiment_of"](maker["Study"]("prediction"))
    (run,) = (run for run in experiment.runs if run.row == "probed")
    assert read_result(DOCS / "results" / "prediction" / run.id, run) is not None


def test_the_section_of_grouping_shows_iterations_baselines_and_orders(
    maker: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From made-up runs, recorded as real ones are."""
    finish_all(tmp_path / "runs")
    monkeypatch.setitem(maker["record"].__globals__, "RECORDS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    maker["record"]("table4_small", tmp_path / "runs")
    (study,) = (study for study in maker["STUDIES"] if study.name == "table4_small")
    (section,) = (section for section in maker["SECTIONS"] if study in section.studies)
    results = {study: maker["results_of"](study)}
    (tmp_path / "docs/prose").mkdir()
    (tmp_path / "docs/prose/grouping.md").write_text("In short.\n\nAt length.", encoding="utf-8")
    brief = "\n\n".join(maker["brief"](section, results))
    assert brief.startswith("## Perceptual grouping (Table 4)\n\nIn short.\n\n```sh\n")
    assert "At length." not in brief
    text = "\n\n".join(maker["details"](section, results))
    assert text.startswith("# Perceptual grouping (Table 4)\n\nIn short.\n\nAt length.")
    assert "ladderspec ablate specs/experiments/table4_small.yaml" in text
    assert "segment AMI by iteration" in text
    (ami,) = (part for part in text.split("**") if "| t = 1 |" in part and "0.55" in part)
    (line,) = (line for line in ami.splitlines() if line.startswith("| RTagger |"))
    assert [cell.strip() for cell in line.split("|")[4:-1:2]] == ["0.55", "0.75", "0.80 ± 0.01"]
    for paper in ("18.2", "8.0", "5.9 ± 0.2", "63.8", "28.2", "22.6 ± 6.2", "12.15 ± 0.1",
                  "0.73 ± 0.02", "14.3 ± 0.46", "88 ± 0.30", "0.56", "0.74"):  # fmt: skip
        assert f"| {paper} |" in text
    for title, value in KMEANS.items():
        assert f"| {title} | - | - |  |  | {value:.2f} ± 0.00 |" in text
    assert "Segment AMI: RTagger is better than Tagger," in text
    summary = maker["summary"](results).splitlines()
    (line,) = (line for line in summary if "RTagger, segment AMI |" in line)
    assert line.endswith("| width 16, 24x24, 3,000 updates | 3 | order holds |")
    assert not any("means" in line for line in summary)


def test_the_section_of_moving_digits_shows_frames(
    maker: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (study,) = (study for study in maker["STUDIES"] if study.name == "moving_small")
    runs = maker["experiment_of"](study).runs
    for run in runs:
        finish(run, tmp_path / "runs" / run.id, {"segment.ami": [0.1, 0.2, 0.3, 0.4]})
    store_baselines(tmp_path / "runs", runs, KMEANS)
    monkeypatch.setitem(maker["record"].__globals__, "RECORDS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    maker["record"]("moving_small", tmp_path / "runs")
    (section,) = (section for section in maker["SECTIONS"] if study in section.studies)
    results = maker["results_of"](study)
    write_report(results, tmp_path / "docs/moving_small")
    (tmp_path / "docs/prose").mkdir()
    for name in ("prose/moving.md", "moving.png"):
        (tmp_path / "docs" / name).write_text("Prose.", encoding="utf-8")
    text = "\n\n".join(maker["details"](section, {study: results}))
    assert "ablate specs/experiments/moving_small.yaml --threads 1 --by-time" in text
    assert "segment AMI by frame" in text
    assert "| RTagger | 248,418 | 0.10 | 0.20 | 0.30 | 0.40 |" in text
    for title in KMEANS:
        assert f"| {title} |" in text
    for file in ("moving_small/curves.png", "moving_small/by_time.png", "moving.png"):
        assert f"]({file})" in text
