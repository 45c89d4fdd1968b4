"""Every number for programs, as CSV: over seeds, and run by run."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from ladderspec.ablation.collect import Cell, Measure, Results
from ladderspec.ablation.spread import difference, spread


def over_seeds(results: Results) -> str:
    """A line for each row, column and measure."""
    return _csv(
        [
            _line(results, cell, measure)
            for cell in results.cells
            for measure in results.all_measures
            if measure.name in cell.values or (measure in results.measures and cell.quoted(measure))
        ]
    )


def _line(results: Results, cell: Cell, measure: Measure) -> dict[str, Any]:
    own, first = cell.values.get(measure.name, {}), results.cell(results.base, cell.place.column)
    found = spread(list(own.values()))
    change = None if first is cell else difference(own, first.values.get(measure.name, {}))
    quoted = cell.quoted(measure) if measure in results.measures else None
    return {
        "row": cell.place.row,
        "column": cell.place.column,
        "title": cell.place.title,
        "parameters": cell.parameters,
        "measure": measure.name,
        "unit": measure.unit,
        "seeds": found.count if found else 0,
        "mean": found.mean if found else None,
        "deviation": found.deviation if found else None,
        "difference": change.mean if change else None,
        "difference_low": change.low if change else None,
        "difference_high": change.high if change else None,
        "paper": quoted.value if quoted else None,
        "paper_deviation": quoted.spread if quoted else None,
    }


def run_by_run(results: Results) -> str:
    """A line for each run and measure."""
    return _csv(
        [
            {
                "row": cell.place.row,
                "column": cell.place.column,
                "seed": seed,
                "measure": measure.name,
                "unit": measure.unit,
                "value": value,
            }
            for cell in results.cells
            for measure in results.all_measures
            for seed, value in cell.values.get(measure.name, {}).items()
        ]
    )


def _csv(lines: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    if lines:
        writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return out.getvalue()
