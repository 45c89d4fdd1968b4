"""What an ablation leaves in its folder: tables and figures, made from the JSON of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ladderspec.ablation import figures, numbers, writers
from ladderspec.ablation.bars import bars
from ladderspec.ablation.collect import Results
from ladderspec.ablation.curves import curves
from ladderspec.ablation.table import tables
from ladderspec.errors import UsageError
from ladderspec.files import make_folder, write_atomic

MOST_PICTURES = 8


def write_report(results: Results, folder: Path) -> tuple[list[Path], str]:
    """The files written, and what could not be: figures need matplotlib."""
    found = tables(results)
    texts = {
        "table.md": "\n".join(map(writers.to_markdown, found)),
        "table.tex": "\n".join(map(writers.to_latex, found)),
        "table.csv": numbers.over_seeds(results),
        "runs.csv": numbers.run_by_run(results),
    }
    make_folder(folder)
    written = [write_atomic(folder / name, text) for name, text in texts.items()]
    written += _predictions(results, folder)
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


def _predictions(results: Results, folder: Path) -> list[Path]:
    """The last picture that each row has drawn while it was trained, of its first seed."""
    written = []
    for cell in results.cells if len(results.cells) <= MOST_PICTURES else ():
        place = cell.place
        seeds = [
            s for row, column, s in results.curves if (row, column) == (place.row, place.column)
        ]
        name = ".".join(filter(None, [place.row, place.column]))
        drawn = sorted((folder / f"{name}.seed{min(seeds, default=0)}").glob("pictures/*.png"))
        if drawn:
            written.append(write_atomic(folder / f"predictions.{name}.png", drawn[-1].read_bytes()))
    return written


def where(written: Sequence[Path]) -> Iterator[str]:
    """Lines that say where things are.

    >>> list(where([Path("out/bars.png"), Path("out/bars.pdf"), Path("out/runs.csv")]))
    ['out/bars.png .pdf', 'out/runs.csv']
    """
    for stem in dict.fromkeys(path.with_suffix("") for path in written):
        suffixes = [path.suffix for path in written if path.with_suffix("") == stem]
        yield f"{stem}{' '.join(suffixes)}"
