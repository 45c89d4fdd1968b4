"""Learning curves: validation measures over updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ladderspec.ablation.collect import Measure, Results
from ladderspec.ablation.figures import STYLE, ink, literal, typeset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = dict[int, float]  # updates, and what was measured after them
STEEP = 4  # a measure that falls to less than this part of itself has a logarithmic axis


def curves(results: Results) -> Figure:
    """A panel for each measure and column, a line for each row, thin ones for its seeds.

    What no run has measured yet has no column, no panel and no place in the legend. Columns share
    the axis of a measure where their numbers can be compared: where they overlap.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    measures = results.measures
    trained = {column for _, column, _ in results.curves}
    columns = [column for column in results.columns if column in trained]
    places = [(column, measure) for column in columns for measure in measures]
    across = len(measures) if len(measures) != 1 else min(2, len(columns))
    lines = math.ceil(len(places) / across)
    with rc_context(STYLE):
        width = max(3.4, 2.6 * across, _inches(results))
        titles, high = _room(results, width)
        size = (width, 2.0 * lines + 0.2 + 0.17 * high)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(lines, across, squeeze=False)
        firsts: dict[Measure, Axes] = {}
        for axes in panels.flat:
            axes.set_axis_off()
        for (column, measure), axes in zip(places, panels.flat, strict=False):
            if not _curves(results, measure, column=column):
                continue
            axes.set_axis_on()
            alike = _overlap(results, measure, columns)
            if alike and firsts.setdefault(measure, axes) is not axes:
                axes.sharey(firsts[measure])
            _panel(axes, results, column, measure)
            _scale(axes, _curves(results, measure, column=None if alike else column))
            heading = results.cell(results.rows[0], column).place.heading
            axes.set_title(f"{literal(heading)}\n{typeset(measure)}".lstrip(), loc="left")
        for line in panels.T:  # the lowest may be switched off
            for axes in [axes for axes in line if axes.axison][-1:]:
                axes.set_xlabel("updates (validation data)")
        _legend(figure, results, titles)
    return figure


def _overlap(results: Results, measure: Measure, columns: Sequence[str]) -> bool:
    """Whether some value lies in the range of every column."""
    found = [_curves(results, measure, column=column) for column in columns]
    values = [[value for curve in each for value in curve.values()] for each in found if each]
    return bool(values) and max(map(min, values)) <= min(map(max, values))


def _panel(axes: Axes, results: Results, column: str, measure: Measure) -> None:
    """The curves of all rows."""
    for number, row in enumerate(results.rows):
        found = _curves(results, measure, row, column)
        if len(found) > 1:
            for curve in found:
                axes.plot(list(curve), list(curve.values()), lw=0.5, alpha=0.35, **ink(number))
        shared = [x for x in found[0] if all(x in curve for curve in found)] if found else []
        means = [math.fsum(curve[x] for curve in found) / len(found) for x in shared]
        axes.plot(
            shared, means, marker="o" if len(shared) == 1 else "", ms=3, lw=1.4, **ink(number)
        )


def _curves(
    results: Results, measure: Measure, row: str | None = None, column: str | None = None
) -> list[Curve]:
    """The curves of the seeds of a cell, of a column, or of all cells."""
    found = [
        _curve(rows, measure.name)
        for (own_row, own_column, _), rows in results.curves.items()
        if row in (None, own_row) and column in (None, own_column)
    ]
    return [curve for curve in found if curve]


def _curve(rows: Sequence[dict[str, Any]], name: str) -> Curve:
    return {row["update"]: row[name] for row in rows if row["split"] == "valid" and name in row}


def _scale(axes: Axes, shown: Sequence[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    values = [value for curve in shown for value in curve.values()]
    if min(values) <= 0 or max(values) < STEEP * min(values):
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _titles(results: Results) -> dict[int, str]:
    """Of the rows that have curves, by their number."""
    trained = {row for row, _, _ in results.curves}
    return {
        number: results.cell(row, results.columns[0]).place.title
        for number, row in enumerate(results.rows)
        if row in trained
    }


def _inches(results: Results) -> float:
    """What the longest title takes in the legend."""
    return (max(map(len, _titles(results).values()), default=1) + 6) / 16


def _room(results: Results, width: float) -> tuple[int, int]:
    """How many titles stand beside each other in the legend, and in how many lines."""
    count = len(_titles(results))
    across = max(1, min(count, int(width / _inches(results))))
    return across, math.ceil(count / across)


def _legend(figure: Figure, results: Results, across: int) -> None:
    """Rows by title, in their order."""
    from matplotlib.lines import Line2D

    titles = _titles(results)
    handles = [Line2D([], [], lw=1.4, **ink(number)) for number in titles]
    names = list(map(literal, titles.values()))
    figure.legend(handles, names, loc="outside upper left", ncols=across, handlelength=1.6)
