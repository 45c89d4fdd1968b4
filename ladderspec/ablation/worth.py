"""What each arrow was worth: how much worse a measure is without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ladderspec.ablation.collect import Measure, Results
from ladderspec.ablation.study import Study
from ladderspec.ablation.table import group, label
from ladderspec.drawing import draw
from ladderspec.experiments.runs import Run


def worths(results: Results, study: Study, column: str, measure: Measure) -> dict[str, float]:
    """By selector: the paired difference to the whole network; every measure is better small."""
    found = {}
    for entry in group(results, column, measure, "").entries:
        if entry.change is not None:
            found[study.lacks[entry.cell.place.row]] = entry.change.mean
    return found


def draw_worths(results: Results, study: Study, runs: Sequence[Run], folder: Path) -> list[Path]:
    """A drawing for each column and measure, its arrows as thick as their worth."""
    whole = {run.column: run.spec for run in runs if run.row == study.base.row}
    written = []
    for column in results.columns:
        place = results.cell(study.base.row, column).place
        several = len(results.columns) > 1
        title = f"{place.title}, {place.heading}" if several else place.title
        for measure in results.measures:
            found = worths(results, study, column, measure)
            if found:
                name = f"worth_{measure.name.replace('.', '_')}" + (f"_{column}" if several else "")
                written += draw(
                    whole[column],
                    folder / f"{name}.svg",
                    worth=found,
                    worth_of=f"rise of {label(measure)} without it",
                    title=f"{title}: what each {study.what} is worth",
                )
    return written
