"""Learning curves: validation measures over updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ladderspec.ablation.collect import Measure, Results
from ladderspec.ablation.figures import STYLE, ink, typeset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = dict[int, float]  # updates, and what was measured after them
STEEP = 4  # a measure that falls to less than this part of itself has a logarithmic axis


def curves(results: Results) -> Figure:
    """A panel for each measure and column, a line for each row, thin ones for its seeds."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    measures, columns = results.measures, results.columns
    with rc_context(STYLE):
        width = max(3.4, 2.6 * len(measures))
        across, lines = _room(results, width)
        size = (width, 2.0 * len(columns) + 0.2 + 0.17 * lines)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(
            len(columns), len(measures), squeeze=False, sharex=True, sharey="col"
        )
        for column, line in zip(columns, panels, strict=True):
            for measure, axes in zip(measures, line, strict=True):
                heading = results.cell(results.rows[0], column).place.heading
                _panel(axes, results, column, measure)
                axes.set_title(f"{heading}\n{typeset(measure)}".lstrip(), loc="left")
        for axes in panels[-1]:
            axes.set_xlabel("updates (validation data)")
        for axes, measure in zip(panels[0], measures, strict=True):
            _scale(axes, results, measure)
        _legend(figure, results, across)
    return figure


def _panel(axes: Axes, results: Results, column: str, measure: Measure) -> None:
    for number, row in enumerate(results.rows):
        found = _curves(results, measure, row, column)
        if len(found) > 1:
            for curve in found:
                axes.plot(list(curve), list(curve.values()), lw=0.5, alpha=0.35, **ink(number))
        shared = [x for x in found[0] if all(x in curve for curve in found)] if found else []
        means = [math.fsum(curve[x] for curve in found) / len(found) for x in shared]
        axes.plot(shared, means, lw=1.4, **ink(number))


def _curves(
    results: Results, measure: Measure, row: str | None = None, column: str | None = None
) -> list[Curve]:
    """The curves of the seeds of a cell, or of all cells."""
    found = [
        _curve(rows, measure.name)
        for (own_row, own_column, _), rows in results.curves.items()
        if row is None or (own_row, own_column) == (row, column)
    ]
    return [curve for curve in found if curve]


def _curve(rows: Sequence[dict[str, Any]], name: str) -> Curve:
    return {row["update"]: row[name] for row in rows if row["split"] == "valid" and name in row}


def _scale(axes: Axes, results: Results, measure: Measure) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    values = [value for curve in _curves(results, measure) for value in curve.values()]
    if not values or min(values) <= 0 or max(values) < STEEP * min(values):
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _titles(results: Results) -> list[str]:
    return [results.cell(row, results.columns[0]).place.title for row in results.rows]


def _room(results: Results, width: float) -> tuple[int, int]:
    """How many titles stand beside each other in the legend, and in how many lines."""
    titles = _titles(results)
    longest = max(len(title) for title in titles)
    across = max(1, min(len(titles), int(width * 16 / (longest + 6))))
    return across, math.ceil(len(titles) / across)


def _legend(figure: Figure, results: Results, across: int) -> None:
    """Rows by title, in their order."""
    from matplotlib.lines import Line2D

    titles = _titles(results)
    handles = [Line2D([], [], lw=1.4, **ink(number)) for number in range(len(titles))]
    figure.legend(handles, titles, loc="outside upper left", ncols=across, handlelength=1.6)
