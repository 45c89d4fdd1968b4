"""What an ablation leaves in its folder: tables and figures, made from the JSON of its runs."""

from __future__ import annotations

from pathlib import Path

from ladderspec.ablation import figures, numbers, writers
from ladderspec.ablation.bars import bars
from ladderspec.ablation.collect import Results
from ladderspec.ablation.curves import curves
from ladderspec.ablation.table import tables
from ladderspec.errors import UsageError
from ladderspec.files import write_atomic


def write_report(results: Results, folder: Path) -> tuple[list[Path], str]:
    """The files written, and what could not be: figures need matplotlib."""
    found = tables(results)
    texts = {
        "table.md": "\n".join(map(writers.to_markdown, found)),
        "table.tex": "\n".join(map(writers.to_latex, found)),
        "table.csv": numbers.over_seeds(results),
        "runs.csv": numbers.run_by_run(results),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = [write_atomic(folder / name, text) for name, text in texts.items()]
    if not results.all_measures:
        return written, ""
    try:
        figures.needs_matplotlib()
    except UsageError as error:
        return written, str(error)
    for name, draw in (("curves", curves), ("bars", bars)):
        figure = draw(results)
        for suffix in ("png", "pdf"):
            written.append(
                write_atomic(folder / f"{name}.{suffix}", figures.rendered(figure, suffix))
            )
    return written, ""
