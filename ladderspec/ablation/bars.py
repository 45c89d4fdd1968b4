"""Bars: what was measured beside the paper's numbers; under them the paired differences."""

from __future__ import annotations

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
    """A bar for each row, a panel for each measure and column; under it the differences, if any."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    measured = [(m, group) for m in results.measures for group in groups_of(results, m)]
    groups = [(m, group) for m, group in measured if any(e.ours for e in group.entries)]
    titles = [results.cell(row, results.columns[0]).place.title for row in results.rows]
    base = literal(results.cell(results.base, results.columns[0]).place.title)
    lines = _lines(groups)
    across = min(ACROSS, len(groups))
    left = 0.065 * max(len(title) for title in titles)
    size = (left + 2.1 * across, 0.55 + len(lines) * (0.45 + 0.26 * len(titles)))
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(lines), across, squeeze=False, sharey=True)
        for axes, (panel, differences) in zip(panels, lines, strict=True):
            for number in range(across):
                shown = panel[number] if number < len(panel) else None
                _fill(axes[number], shown, f"difference to {base}" if differences else "")
        panels[0, 0].set_yticks(range(len(titles)), list(map(literal, titles)))
        panels[0, 0].set_ylim(len(titles) - 0.5, -0.5)
        _legend(figure, [entry for _, group in groups for entry in group.entries])
    return figure


def _lines(groups: list[Panel]) -> list[tuple[list[Panel], bool]]:
    """Panels line by line, and whether a line has the differences of the one above it."""
    found = []
    for start in range(0, len(groups), ACROSS):
        block = groups[start : start + ACROSS]
        found.append((block, False))
        if any(_compared(group) for _, group in block):
            found.append((block, True))
    return found


def _compared(group: Group) -> bool:
    return any(entry.change for entry in group.entries)


def _fill(axes: Axes, panel: Panel | None, difference: str) -> None:
    """One panel; where there is nothing to show, its place stays free."""
    if panel is None or (difference and not _compared(panel[1])):
        axes.set_visible(False)
        return
    measure, group = panel
    if difference:
        _differences(axes, group)
    else:
        _bars(axes, group)
    axes.set_title(
        difference or f"{literal(group.heading)}\n{typeset(measure)}".lstrip(), loc="left"
    )


def _bars(axes: Axes, group: Group) -> None:
    for y, entry in enumerate(group.entries):
        _bar(axes, y, entry)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0), high)
    axes.tick_params(axis="y", length=0)


def _bar(axes: Axes, y: int, entry: Entry) -> None:
    """The mean as a bar, seeds as circles on it, the paper's number as a diamond below."""
    quoted = entry.cell.quoted(entry.measure)
    if quoted is not None:
        axes.errorbar(quoted.value, y + 0.33, xerr=quoted.spread, fmt="D", ms=3.2, lw=0.8,
                      color=GREY, mfc="white")  # fmt: skip
    if entry.ours is None:
        return
    axes.barh(y - 0.08, entry.ours.mean, height=0.5, color=COLOURS[y % len(COLOURS)], alpha=0.7)
    seeds = list(entry.cell.values[entry.measure.name].values())
    if len(seeds) > 1:
        axes.plot(seeds, [y - 0.08] * len(seeds), "o", ms=2.6, mfc="white", mec="black", mew=0.6)


def _differences(axes: Axes, group: Group) -> None:
    """Each paired difference with its interval."""
    axes.axvline(0, color="black", lw=0.6)
    for y, entry in enumerate(group.entries):
        if entry.change is None:
            continue
        colour = COLOURS[y % len(COLOURS)]
        if entry.change.low is not None and entry.change.high is not None:
            axes.plot([entry.change.low, entry.change.high], [y, y], lw=1.2, color=colour)
        axes.plot([entry.change.mean], [y], "o", ms=4, color=colour)
    axes.tick_params(axis="y", length=0)


def _legend(figure: Figure, entries: list[Entry]) -> None:
    """What circles, diamonds and lines are, where there are any."""
    from matplotlib.lines import Line2D

    seeds = Line2D([], [], ls="", marker="o", ms=2.6, mfc="white", mec="black", mew=0.6)
    paper = Line2D([], [], ls="", marker="D", ms=3.2, mfc="white", mec=GREY)
    interval = Line2D([], [], lw=1.2, marker="o", ms=4, color="black")
    several = any(entry.ours is not None and entry.ours.count > 1 for entry in entries)
    shown = [
        (seeds, "a seed", several),
        (paper, "the paper", any(entry.paper for entry in entries)),
        (interval, "paired over seeds, 95 % interval", several),
    ]
    kept = [(handle, text) for handle, text, there in shown if there]
    if kept:
        figure.legend(*zip(*kept, strict=True), loc="outside lower right", ncols=len(kept))
