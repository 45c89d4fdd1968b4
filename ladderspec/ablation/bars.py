"""Bars: what was measured beside the paper's numbers; under them the paired differences."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ladderspec.ablation.collect import Measure, Results
from ladderspec.ablation.figures import COLOURS, GREY, STYLE, literal, typeset
from ladderspec.ablation.table import Entry, Group, groups_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = tuple[Measure, Group]
ACROSS = 4  # panels side by side


def bars(results: Results) -> Figure:
    """A bar for each row, a panel for each measure and column; under it the differences, if any.

    Where there are several columns, each measure has lines of its own, with one scale.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    base = literal(results.cell(results.base, results.columns[0]).place.title)
    lines = _lines(results)
    across = max(len(panels) for panels, _ in lines)
    rows = [_rows(panels) for panels, _ in lines]
    titles = [results.cell(row, results.columns[0]).place.title for row in results.rows]
    heights = [0.45 + 0.26 * len(shown) for shown in rows]
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
                _fill(axes[number], panel, shown, f"difference to {base}" if differences else "")
            axes[0].set_yticks(range(len(shown)), [literal(titles[row]) for row in shown])
            axes[0].set_ylim(len(shown) - 0.5, -0.5)
        _legend(figure, [e for panels, _ in lines for _, group in panels for e in group.entries])
    return figure


def _lines(results: Results) -> list[tuple[list[Panel], bool]]:
    """Panels line by line, and whether a line has the differences of the one above it."""
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
    """The rows that have something to show."""
    entries = [group.entries for _, group in panels]
    return [i for i, row in enumerate(zip(*entries, strict=True)) if any(e.due for e in row)]


def _compared(group: Group) -> bool:
    return any(entry.change for entry in group.entries)


def _fill(axes: Axes, panel: Panel | None, rows: list[int], difference: str) -> None:
    """One panel; where there is nothing to show, its place stays free."""
    if panel is None or (difference and not _compared(panel[1])):
        axes.set_visible(False)
        return
    measure, group = panel
    if difference:
        _differences(axes, group, rows)
    else:
        _bars(axes, group, rows)
    axes.set_title(
        difference or f"{literal(group.heading)}\n{typeset(measure)}".lstrip(), loc="left"
    )


def _bars(axes: Axes, group: Group, rows: list[int]) -> None:
    for y, row in enumerate(rows):
        _bar(axes, y, group.entries[row], COLOURS[row % len(COLOURS)])
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0), high)
    axes.tick_params(axis="y", length=0)


def _bar(axes: Axes, y: int, entry: Entry, colour: str) -> None:
    """The mean as a bar, seeds as circles on it, the paper's number as a diamond below."""
    quoted = entry.cell.quoted(entry.measure)
    if quoted is not None:
        axes.errorbar(quoted.value, y + 0.33, xerr=quoted.spread, fmt="D", ms=3.2, lw=0.8,
                      color=GREY, mfc="white")  # fmt: skip
    if entry.ours is None:
        return
    axes.barh(y - 0.08, entry.ours.mean, height=0.5, color=colour, alpha=0.7)
    seeds = list(entry.cell.values[entry.measure.name].values())
    if len(seeds) > 1:
        axes.plot(seeds, [y - 0.08] * len(seeds), "o", ms=2.6, mfc="white", mec="black", mew=0.6)


def _differences(axes: Axes, group: Group, rows: list[int]) -> None:
    """Each paired difference with its interval."""
    axes.axvline(0, color="black", lw=0.6)
    for y, row in enumerate(rows):
        entry, colour = group.entries[row], COLOURS[row % len(COLOURS)]
        if entry.change is None:
            continue
        if entry.change.low is not None and entry.change.high is not None:
            axes.plot([entry.change.low, entry.change.high], [y, y], lw=1.2, color=colour)
        axes.plot([entry.change.mean], [y], "o", ms=4, color=colour)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)  # with their signs and decimals they are long


def _legend(figure: Figure, entries: list[Entry]) -> None:
    """What circles, diamonds and lines are, where there are any."""
    from matplotlib.lines import Line2D

    seeds = Line2D([], [], ls="", marker="o", ms=2.6, mfc="white", mec="black", mew=0.6)
    paper = Line2D([], [], ls="", marker="D", ms=3.2, mfc="white", mec=GREY)
    interval = Line2D([], [], lw=1.2, marker="o", ms=4, color="black")
    several = any(entry.ours is not None and entry.ours.count > 1 for entry in entries)
    sure = any(entry.change is not None and entry.change.low is not None for entry in entries)
    shown = [
        (seeds, "a seed", several),
        (paper, "the paper", any(entry.paper for entry in entries)),
        (interval, "paired over seeds, 95 % interval", sure),
    ]
    kept = [(handle, text) for handle, text, there in shown if there]
    if kept:
        figure.legend(*zip(*kept, strict=True), loc="outside lower right", ncols=len(kept))
