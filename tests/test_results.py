"""The recorded results are those of the experiment files, and the page shows them."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Any

import pytest

from ladderspec.learn.run_folder import read_result

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_results.py"))


def test_the_page_is_up_to_date(maker: dict[str, Any]) -> None:
    """`python docs/make_results.py` writes it."""
    assert (DOCS / "results.md").read_text(encoding="utf-8") == maker["page"]()


def test_every_recorded_run_is_one_of_its_file(maker: dict[str, Any]) -> None:
    """The command of the page would train just these runs: not others, and not in another way."""
    studies = {study.name: results for study, results in maker["recorded"]().items()}
    for name, results in (studies | {maker["ARROWS"]: maker["arrows"]()}).items():
        shown = {
            (cell.place.row, cell.place.column, seed)
            for cell in results.cells
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
    (run,) = (run for run in maker["experiment_of"]("prediction").runs if run.row == "probed")
    assert read_result(DOCS / "results" / "prediction" / run.id, run) is not None
