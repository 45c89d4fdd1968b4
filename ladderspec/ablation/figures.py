"""Figures of an experiment: learning curves, metrics over t, bars beside the paper's numbers.

A network has one colour in all of them. Axes are named by the metric, its unit and its scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ladderspec.ablation.results import Measure, Results, TableCell
from ladderspec.ablation.statistics import spread
from ladderspec.ablation.table import ColumnGroup, TableEntry, groups_of, label, unit_of_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Curve = dict[int, float]  # update -> validation metric
STEEP = 4  # a metric that falls by more than this factor has a logarithmic axis
Panel = tuple[Measure, ColumnGroup]
ACROSS = 4  # panels side by side
MOST_TICKS = 10  # t that are labelled one by one

# Colours for colour-blind readers (Okabe and Ito); the row that others are compared with is black.
COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":", "-.")
GREY = "#777777"
TESTED: dict[str, Any] = {"ls": "", "marker": "s", "ms": 3.5, "mfc": "white"}
QUOTED: dict[str, Any] = {"ls": "", "marker": "D", "ms": 3.2, "mfc": "white"}
SEED: dict[str, Any] = {"ls": "", "marker": "o", "ms": 2.6, "mfc": "white", "mec": "black",
                        "mew": 0.6}  # fmt: skip
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8,
    "legend.frameon": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # text stays text
}


def line_style(results: Results, row: str) -> dict[str, Any]:
    """Colour and line style of a network; reference methods are grey."""
    if row not in results.networks:
        return {"color": GREY, "linestyle": "-"}
    others = [each for each in results.networks if each != results.base]
    number = 0 if row == results.base else 1 + others.index(row)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
    }


def literal(text: str) -> str:
    """Text of a user, in which `$` is no formula."""
    return text.replace("$", r"\$")


def typeset(measure: Measure) -> str:
    """
    >>> from ladderspec.ablation.results import Measure
    >>> print(typeset(Measure("next_frame.error", "x 1e-5")))
    next frame error ($\\times 10^{-5}$)
    """
    return re.sub(r"\bx 1e(-?\d+)", r"$\\times 10^{\1}$", label(measure))


# --- learning curves ------------------------------------------------------------------------------


def curves(results: Results) -> Figure:
    """Learning curves: a panel for each metric and column, a line for each row and its seeds.

    Lines are validation data; squares at the right are test data. Rows and columns without a
    finished run are left out. Columns share the axis of a metric if their values overlap.
    """
    from matplotlib import rc_context

    measures = results.measures
    trained = {column for _, column, _ in results.curves}
    columns = [column for column in results.columns if column in trained]
    places = [(column, measure) for column in columns for measure in measures]
    across = len(measures) if len(measures) != 1 else min(2, len(columns))
    lines = math.ceil(len(places) / across)
    with rc_context(STYLE):
        figure, panels = _panels(results, lines, across, height=2.0 * lines + 0.2)
        firsts: dict[Measure, Axes] = {}
        for axes in panels.flat:
            axes.set_axis_off()
        for (column, measure), axes in zip(places, panels.flat, strict=False):
            if not _curves(results, measure, column=column):
                continue
            axes.set_axis_on()
            shared = _overlap(results, measure, columns)
            if shared and firsts.setdefault(measure, axes) is not axes:
                axes.sharey(firsts[measure])
            _panel(axes, results, column, measure)
            _name(axes, results, column, measure)
            _scale(axes, measure, _values(results, measure, columns if shared else [column]))
        for line in panels.T:  # the lowest may be switched off
            for axes in [axes for axes in line if axes.axison][-1:]:
                axes.set_xlabel("updates")
        tested = any(_tests(cell) for cell in results.cells)
        _explain(figure, (TESTED, "test data, after training (lines: validation data)", tested))
    return figure


def _name(axes: Axes, results: Results, column: str, measure: Measure) -> None:
    """The column above a panel, and the metric with its unit beside it."""
    axes.set_title(literal(results.cell(results.rows[0], column).heading), loc="left")
    axes.set_ylabel(typeset(measure).replace(" (", "\n("))


def _overlap(results: Results, measure: Measure, columns: Sequence[str]) -> bool:
    """Whether some value is in the range of every column."""
    found = [_curves(results, measure, column=column) for column in columns]
    values = [[value for curve in each for value in curve.values()] for each in found if each]
    return bool(values) and max(map(min, values)) <= min(map(max, values))


def _tests(cell: TableCell) -> bool:
    """Whether it has numbers of other data than those of the curves."""
    return not cell.baseline and cell.split not in ("", "valid")


def _values(results: Results, measure: Measure, columns: Sequence[str]) -> list[float]:
    """All that the panels of some columns show."""
    curves = [curve for column in columns for curve in _curves(results, measure, column=column)]
    cells = [cell for cell in results.cells if cell.column in columns and _tests(cell)]
    tested = [value for cell in cells for value in cell.values.get(measure.name, {}).values()]
    return [*(value for curve in curves for value in curve.values()), *tested]


def _panel(axes: Axes, results: Results, column: str, measure: Measure) -> None:
    """The curves of all rows, and their numbers on test data, side by side at the right."""
    for row in results.networks:
        style = line_style(results, row)
        _seeds_and_mean(axes, _curves(results, measure, row, column), style, dots=False)
        cell = results.cell(row, column)
        mean = spread(cell.by_seed(measure).values()) if _tests(cell) else None
        if mean is not None:
            x, across = 1.03 + 0.04 * list(_titles(results)).index(row), axes.get_yaxis_transform()
            axes.plot([x], [mean.mean], **TESTED, color=style["color"], clip_on=False,
                      transform=across)  # fmt: skip


def _seeds_and_mean(axes: Axes, seeds: Sequence[Curve], style: dict[str, Any], dots: bool) -> None:
    """A thin line for each seed, if there are several, and a thick one for their mean."""
    for seed in seeds if len(seeds) > 1 else ():
        axes.plot(list(seed), list(seed.values()), lw=0.5, alpha=0.35, **style)
    shared = [x for x in seeds[0] if all(x in seed for seed in seeds)] if seeds else []
    means = [math.fsum(seed[x] for seed in seeds) / len(seeds) for x in shared]
    marker = "o" if dots or len(shared) == 1 else ""
    axes.plot(shared, means, marker=marker, ms=3, lw=1.4, **style)


def _curves(
    results: Results, measure: Measure, row: str | None = None, column: str | None = None
) -> list[Curve]:
    """The curves of the seeds of a cell, of a column, or of all cells."""
    name = measure.name
    found = [
        {r["update"]: r[name] for r in rows if r["split"] == "valid" and name in r}
        for (its_row, its_column, _), rows in results.curves.items()
        if row in (None, its_row) and column in (None, its_column)
    ]
    return [curve for curve in found if curve]


def _scale(axes: Axes, measure: Measure, values: Sequence[float]) -> None:
    """A logarithmic axis for errors that fall steeply."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if measure.higher or min(values) <= 0 or max(values) < STEEP * min(values):
        return
    axes.set_yscale("log")
    name, _, unit = axes.get_ylabel().partition("\n")
    axes.set_ylabel(f"{name}\n({unit[1:-1]}, log scale)" if unit else f"{name}\n(log scale)")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _titles(results: Results) -> dict[str, str]:
    """The titles of the rows that have curves."""
    trained = {row for row, _, _ in results.curves}
    return {
        row: results.cell(row, results.columns[0]).title for row in results.rows if row in trained
    }


def _panels(
    results: Results, lines: int, across: int, height: float, **shared: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure of lines x across panels, with the titles of the rows above them in their order."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    titles = _titles(results)
    longest = (max(map(len, titles.values()), default=1) + 6) / 16  # inches
    width = max(3.4, 2.6 * across, longest)
    beside = max(1, min(len(titles), int(width / longest)))
    size = (width, height + 0.17 * math.ceil(len(titles) / beside))
    figure = Figure(figsize=size, layout="constrained")
    handles = [Line2D([], [], lw=1.4, **line_style(results, row)) for row in titles]
    names = list(map(literal, titles.values()))
    figure.legend(handles, names, loc="outside upper left", ncols=beside, handlelength=1.6)
    return figure, figure.subplots(lines, across, squeeze=False, **shared)


def _explain(figure: Figure, *markers: tuple[dict[str, Any], str, bool]) -> None:
    """What markers mean, below the panels: each with its meaning, and whether there is one."""
    from matplotlib.lines import Line2D

    used = [(Line2D([], [], **{"color": GREY, **m}), text) for m, text, there in markers if there]
    if used:
        figure.legend(*zip(*used, strict=True), loc="outside lower right", ncols=len(used))


# --- metrics over t -------------------------------------------------------------------------------


def by_time(results: Results) -> Figure:
    """Metrics over t: a panel for each metric and column, a line for each row and its seeds.

    Diamonds are the paper's numbers for the same rows; horizontal lines are reference methods.
    """
    from matplotlib import rc_context

    shown = {name for cell in results.cells for name, found in cell.by_time.items() if found}
    measures = [measure for measure in results.measures if measure.name in shown]
    across, lines = len(measures), len(results.columns)
    quoted = False
    with rc_context(STYLE):
        height = 2.1 * lines + 0.4
        figure, panels = _panels(results, lines, across, height, sharex=True)
        for column, line in zip(results.columns, panels, strict=True):
            for measure, axes in zip(measures, line, strict=True):
                _name(axes, results, column, measure)
                quoted |= _over_time(axes, results, column, measure)
        for axes in panels[-1]:
            if len(results.times) <= MOST_TICKS:
                axes.set_xticks(results.times)
            axes.set_xlabel(f"{unit_of_time(results.cells)} t")
        _explain(figure, (QUOTED, "the paper", quoted))
    return figure


def _over_time(axes: Axes, results: Results, column: str, measure: Measure) -> bool:
    """The lines of all rows; returns whether there are numbers of the paper."""
    quoted = False
    for row in _titles(results):
        cell, style = results.cell(row, column), line_style(results, row)
        seeds = [dict(enumerate(v, 1)) for v in cell.by_time.get(measure.name, {}).values()]
        _seeds_and_mean(axes, seeds, style, dots=True)
        for t in results.times:
            paper = cell.quoted(measure, t)
            if paper is not None:
                quoted = True
                axes.errorbar(t, paper.value, yerr=paper.spread, lw=0.8, color=style["color"],
                              **QUOTED)  # fmt: skip
    _levels(axes, [c for c in results.cells if c.baseline and c.column == column], measure)
    return quoted


def _levels(axes: Axes, cells: Sequence[TableCell], measure: Measure) -> None:
    """Reference methods, as horizontal lines with their names."""
    means = {c.title: spread(c.by_seed(measure).values()) for c in cells}
    found = sorted((mean.mean, title) for title, mean in means.items() if mean is not None)
    for height, _ in found:
        axes.axhline(height, color=GREY, lw=0.8, ls="--", zorder=0)
    low, high = axes.get_ylim()
    near = 0.07 * (high - low)  # two labels would overlap
    for i, (height, title) in enumerate(found):
        above = i + 1 < len(found) and found[i + 1][0] - height < near
        below = i > 0 and height - found[i - 1][0] < near
        align = {(True, False): "top", (False, True): "bottom"}.get((above, below), "center")
        axes.annotate(literal(title), (1, height), (3, 0), va=align, fontsize=6, color=GREY,
                      xycoords=axes.get_yaxis_transform(), textcoords="offset points",
                      annotation_clip=False)  # fmt: skip


# --- bars -----------------------------------------------------------------------------------------


def bars(results: Results) -> Figure:
    """Bars: one for each row, in a panel for each metric and column, above paired differences.

    With several columns, each metric has its own lines of panels, with one scale.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    base = literal(results.cell(results.base, results.columns[0]).title)
    lines = _lines(results)
    across = max(len(panels) for panels, _ in lines)
    rows = [_rows(panels) for panels, _ in lines]
    titles = [results.cell(row, results.columns[0]).title for row in results.rows]
    heights = [0.6 + 0.26 * len(shown) for shown in rows]
    size = (0.065 * max(map(len, titles)) + 2.1 * across, 0.55 + sum(heights))
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        places = figure.subplots(
            len(lines),
            across,
            squeeze=False,
            sharex="row" if len(results.columns) > 1 else "none",
            sharey="row",
            height_ratios=heights,
        )
        for axes, (panels, differences), shown in zip(places, lines, rows, strict=True):
            for number in range(across):
                panel = panels[number] if number < len(panels) else None
                _fill(axes[number], panel, shown, results, base if differences else "")
            axes[0].set_yticks(range(len(shown)), [literal(titles[row]) for row in shown])
            axes[0].set_ylim(len(shown) - 0.5, -0.5)
        entries = [e for panels, _ in lines for _, group in panels for e in group.entries]
        interval = {"lw": 1.2, "marker": "o", "ms": 4, "color": "black"}
        sure = any(entry.change is not None and entry.change.low is not None for entry in entries)
        _explain(
            figure,
            (SEED, "a seed", any(e.ours is not None and e.ours.count > 1 for e in entries)),
            (QUOTED, "the paper", any(entry.paper for entry in entries)),
            (interval, "paired over seeds, 95 % interval", sure),
        )
    return figure


def _lines(results: Results) -> list[tuple[list[Panel], bool]]:
    """Lines of panels, and whether a line shows the differences of the line above it."""
    blocks = [
        [(m, group) for group in groups_of(results, m) if any(e.ours for e in group.entries)]
        for m in results.measures
    ]
    if len(results.columns) == 1:
        blocks = [list(chain.from_iterable(blocks))]
    found = []
    for block in blocks:
        for start in range(0, len(block), ACROSS):
            panels = block[start : start + ACROSS]
            found.append((panels, False))
            if any(_compared(group) for _, group in panels):
                found.append((panels, True))
    return found


def _rows(panels: list[Panel]) -> list[int]:
    """The rows that have a number."""
    entries = [group.entries for _, group in panels]
    return [i for i, row in enumerate(zip(*entries, strict=True)) if any(e.due for e in row)]


def _compared(group: ColumnGroup) -> bool:
    return any(entry.change for entry in group.entries)


def _fill(axes: Axes, panel: Panel | None, rows: list[int], results: Results, base: str) -> None:
    """One panel, or an empty place; with `base`, differences from that row."""
    if panel is None or (base and not _compared(panel[1])):
        axes.set_visible(False)
        return
    measure, group = panel
    shown = [group.entries[row] for row in rows]
    colours = [line_style(results, entry.cell.row)["color"] for entry in shown]
    if base:
        _differences(axes, shown, colours)
        axes.set_title(f"difference from {base}", loc="left")
    else:
        _bars(axes, shown, colours)
        axes.set_title(literal(group.heading), loc="left")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(typeset(measure))


def _bars(axes: Axes, entries: Sequence[TableEntry], colours: Sequence[str]) -> None:
    """Means as bars, their seeds as circles, and the paper's numbers as diamonds below them."""
    for y, (entry, colour) in enumerate(zip(entries, colours, strict=True)):
        if (quoted := entry.quoted) is not None:
            axes.errorbar(quoted.value, y + 0.33, xerr=quoted.spread, lw=0.8, color=GREY, **QUOTED)
        if entry.ours is None:
            continue
        mean, middle = entry.ours.mean, y - 0.08
        seeds = list(entry.cell.values[entry.measure.name].values())
        axes.barh(middle, mean, height=0.5, color=colour, alpha=0.7)
        axes.annotate(f"{mean:.{entry.decimals}f}", (max(0.0, mean, *seeds), middle), (4, 0),
                      va="center", fontsize=6, textcoords="offset points",
                      annotation_clip=False)  # fmt: skip
        if len(seeds) > 1:
            axes.plot(seeds, [middle] * len(seeds), **SEED)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0), high)


def _differences(axes: Axes, entries: Sequence[TableEntry], colours: Sequence[str]) -> None:
    """Paired differences with their intervals."""
    axes.axvline(0, color="black", lw=0.6)
    for y, (entry, colour) in enumerate(zip(entries, colours, strict=True)):
        if entry.change is None:
            continue
        if entry.change.low is not None and entry.change.high is not None:
            axes.plot([entry.change.low, entry.change.high], [y, y], lw=1.2, color=colour)
        axes.plot([entry.change.mean], [y], "o", ms=4, color=colour)
    axes.locator_params(axis="x", nbins=4)  # labels with signs and decimals are long
