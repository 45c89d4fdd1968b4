"""What each arrow was worth: how much worse a measure is without it."""

from __future__ import annotations

from pathlib import Path

from ladderspec.ablation.collect import Measure, Results
from ladderspec.ablation.study import Study
from ladderspec.ablation.table import group, label
from ladderspec.drawing import draw


def worths(results: Results, study: Study, measure: Measure) -> dict[str, float]:
    """By selector: the paired difference to the whole network; every measure is better small."""
    found = {}
    for entry in group(results, results.columns[0], measure, "").entries:
        if entry.change is not None:
            found[study.lacks[entry.cell.place.row]] = entry.change.mean
    return found


def draw_worths(results: Results, study: Study, folder: Path) -> list[Path]:
    """A drawing for each measure, its arrows as thick as their worth."""
    written = []
    for measure in results.measures:
        found = worths(results, study, measure)
        if found:
            place = folder / f"worth_{measure.name.replace('.', '_')}.svg"
            title = f"{study.base.title}: what each {study.what} is worth"
            written += draw(
                study.base.spec,
                place,
                worth=found,
                worth_of=f"rise of {label(measure)} without it",
                title=title,
            )
    return written
