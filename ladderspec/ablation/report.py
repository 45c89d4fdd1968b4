"""The report of an ablation: tables, figures and drawings, from the results of its runs."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladderspec.ablation import figures, writers
from ladderspec.ablation.ablate import Outcome
from ladderspec.ablation.baselines import measure_baselines
from ladderspec.ablation.results import Measure, Results, collect
from ladderspec.ablation.study import Study
from ladderspec.ablation.table import Table, group, label, tables, tables_by_time
from ladderspec.data import DataError
from ladderspec.drawing import draw
from ladderspec.errors import UsageError
from ladderspec.escaping import escape_xml
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.files import make_folder, sweep, write_atomic
from ladderspec.learn.progress import Display
from ladderspec.learn.run_folder import ABANDONED
from ladderspec.wording import first_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PICTURES = 8
HUGE = 1e100  # no axis can show larger numbers


@dataclass(frozen=True)
class AblationReport:
    """The outcome of an ablation; it prints as its tables, and notebooks show them.

    Attributes:
        results: The numbers of all finished runs.
        written: The files: tables, numbers, figures.
        messages: What is missing, and why.
        failed: The runs that failed, with their errors.
    """

    results: Results
    written: tuple[Path, ...]
    messages: tuple[str, ...] = ()
    failed: tuple[Outcome, ...] = ()

    @property
    def tables(self) -> list[Table]:
        """The tables, those by iteration last."""
        return [*tables(self.results), *tables_by_time(self.results)]

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping for each row, column and metric, for `pandas.DataFrame`."""
        return writers.records(self.results)

    def text(self, width: int | None = None) -> str:
        """The tables in lines of at most `width` characters."""
        return "\n\n".join(writers.to_text(table, width) for table in self.tables)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<AblationReport of {len(self.results.cells)} rows>"

    def _repr_html_(self) -> str:
        failed = [f"{outcome.job.id}: {outcome.error}" for outcome in self.failed]
        lines = "".join(f"<p>{escape_xml(line)}</p>" for line in [*self.messages, *failed])
        return "\n".join(map(writers.to_html, self.tables)) + lines


def report(
    experiment: Experiment,
    runs: Sequence[Run],
    folder: Path,
    data: Path | None = None,
    by_time: bool = False,
    study: Study | None = None,
    display: Display | None = None,
) -> AblationReport:
    """Measure baselines, and write tables and figures of all finished runs.

    Args:
        experiment: the experiment.
        runs: all its runs, finished or not.
        folder: the folder of the runs, and of what is written.
        data: the data folder.
        by_time: metrics at every t, also over frames.
        study: what is left out, if the rows leave out one arrow after the other.
        display: where to show progress.
    """
    written, unmeasured, display = list[Path](), "", display or Display()
    try:
        with display.working("baselines", "measuring"):
            written += measure_baselines(experiment, runs, folder, data)
    except (DataError, UsageError) as error:
        unmeasured = f"no baselines: {error}"
    with display.working("tables and figures", "writing"):
        results = collect(experiment, runs, folder, by_time, data)
        try:
            tables_and_figures, missing = write_report(results, folder)
            written += tables_and_figures
            written += draw_worths(results, study, runs, folder) if study else []
        except UsageError as error:  # the tables can be shown without files
            missing = str(error)
    messages = [*(f"left out: {line}" for line in results.left_out), missing, unmeasured]
    messages += [
        f"trained with other {what} than those that are there now: {first_of(names)}"
        for what, names in results.changed.items()
    ]
    return AblationReport(results, tuple(written), tuple(filter(None, messages)))


def write_report(results: Results, folder: Path) -> tuple[list[Path], str]:
    """Write tables, numbers and figures.

    Returns:
        The files, and a message if figures are missing because matplotlib is.
    """
    found = [*tables(results), *tables_by_time(results)]
    texts = {
        "table.md": "\n".join(map(writers.to_markdown, found)),
        "table.tex": "\n".join(map(writers.to_latex, found)),
        "table.csv": writers.summary_csv(results),
        "runs.csv": writers.runs_csv(results),
    }
    if results.times:
        texts["by_time.csv"] = writers.by_time_csv(results)
    sweep(make_folder(folder), ABANDONED)
    written = [write_atomic(folder / name, text) for name, text in texts.items()]
    written += _predictions(results, folder)
    shown = drawable(results)
    if not any(any(cell.values.values()) for cell in shown.cells):
        return written, ""
    try:
        require_matplotlib()
    except UsageError as error:
        return written, str(error)
    plots = {"curves": figures.curves, "bars": figures.bars}
    if shown.times:
        plots["by_time"] = figures.by_time
    for name, plot in plots.items():
        figure = plot(shown)
        for suffix in ("png", "pdf"):
            written.append(write_atomic(folder / f"{name}.{suffix}", rendered(figure, suffix)))
    return written, ""


def _predictions(results: Results, folder: Path) -> list[Path]:
    """The last picture from the training of each row, of its first seed."""
    written = []
    cells = [cell for cell in results.cells if not cell.baseline]
    for cell in cells if len(cells) <= MOST_PICTURES else ():
        names = cell.row, cell.column
        seeds = [seed for *of, seed in results.curves if tuple(of) == names]
        name = ".".join(filter(None, names))
        drawn = sorted((folder / f"{name}.seed{min(seeds, default=0)}").glob("pictures/*.png"))
        if drawn:
            written.append(write_atomic(folder / f"predictions.{name}.png", drawn[-1].read_bytes()))
    return written


def list_files(written: Sequence[Path]) -> Iterator[str]:
    """The written files, one line for each stem.

    >>> list(list_files([Path("out/bars.png"), Path("out/bars.pdf"), Path("out/runs.csv")]))
    ['out/bars.png .pdf', 'out/runs.csv']
    """
    for stem in dict.fromkeys(path.with_suffix("") for path in written):
        suffixes = [path.suffix for path in written if path.with_suffix("") == stem]
        yield f"{stem}{' '.join(suffixes)}"


# --- figures --------------------------------------------------------------------------------------


def require_matplotlib() -> None:
    """Import matplotlib, or raise UsageError if it is missing.

    Its first import on a machine reports that it builds a font cache, which would break live lines.
    """
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        import matplotlib.figure
        import matplotlib.font_manager  # noqa: F401
    except ImportError:
        hint = "`pip install 'ladderspec[plot]'` brings it"
        raise UsageError(f"no figures: matplotlib is not installed; {hint}") from None
    finally:
        log.setLevel(level)


def rendered(figure: Figure, suffix: str) -> bytes:
    """The bytes of a figure, reproducible."""
    from matplotlib import rc_context

    out = io.BytesIO()
    dates: dict[str, Any] = {"pdf": {"CreationDate": None}}
    with rc_context(figures.STYLE):
        figure.savefig(out, format=suffix, dpi=200, metadata=dates.get(suffix))
    return out.getvalue()


def drawable(results: Results) -> Results:
    """The results without numbers that no axis can show: NaN, infinite and huge ones."""
    cells = [
        replace(
            cell,
            values={
                name: {seed: value for seed, value in seeds.items() if abs(value) < HUGE}
                for name, seeds in cell.values.items()
            },
            by_time={
                name: {s: found for s, found in seeds.items() if all(abs(v) < HUGE for v in found)}
                for name, seeds in cell.by_time.items()
            },
        )
        for cell in results.cells
    ]
    curves = {
        key: [{k: v for k, v in row.items() if k == "split" or abs(v) < HUGE} for row in rows]
        for key, rows in results.curves.items()
    }
    return replace(results, cells=tuple(cells), curves=curves)


# --- the worth of arrows --------------------------------------------------------------------------


def worths(results: Results, study: Study, column: str, measure: Measure) -> dict[str, float]:
    """How much worse a metric is by selector: the paired difference from the whole network."""
    found, sign = {}, -1 if measure.higher else 1
    for entry in group(results, column, measure, "").entries:
        if entry.change is not None:
            found[study.lacks[entry.cell.row]] = sign * entry.change.mean
    return found


def draw_worths(results: Results, study: Study, runs: Sequence[Run], folder: Path) -> list[Path]:
    """A drawing for each column and metric, with arrows as thick as their worth."""
    whole = {run.column: run.spec for run in runs if run.row == study.base.row}
    written = []
    for column in results.columns:
        cell = results.cell(study.base.row, column)
        several = len(results.columns) > 1
        title = f"{cell.title}, {cell.heading}" if several else cell.title
        for measure in results.measures:
            found = worths(results, study, column, measure)
            if found:
                change = "fall" if measure.higher else "rise"
                name = f"worth_{measure.name.replace('.', '_')}" + (f"_{column}" if several else "")
                written += draw(
                    whole[column],
                    folder / f"{name}.svg",
                    worth=found,
                    worth_of=f"{change} of {label(measure)} without it",
                    title=f"{title}: what each {study.what} is worth",
                )
    return written
