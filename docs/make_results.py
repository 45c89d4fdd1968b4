"""Write docs/results.md and its tables and figures from the recorded runs; nothing is trained.

    python docs/make_results.py [--record STUDY FOLDER]

`--record` first takes over the small JSON of the finished runs in FOLDER, where `ladderspec ablate`
has left them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ladderspec.ablation import writers
from ladderspec.ablation.collect import Cell, Measure, Results, collect
from ladderspec.ablation.report import write_report
from ladderspec.ablation.spread import difference, spread
from ladderspec.ablation.study import Study as LeaveOut
from ladderspec.ablation.study import make_study
from ladderspec.ablation.table import label, tables
from ladderspec.ablation.worth import draw_worths
from ladderspec.corridor import graph
from ladderspec.experiments.open import open_experiment
from ladderspec.experiments.runs import Experiment
from ladderspec.wiring.shapes import parameters

DOCS = Path(__file__).parent
RECORDS = DOCS / "results"
KEPT = ("metrics.jsonl", "times.jsonl", "result.json")  # the last says that all are there
LARGE = "table1"
ARROWS = "arrows_small"
TRAINING_DIGITS = 50_000


@dataclass(frozen=True)
class Study:
    """An experiment file whose runs are recorded."""

    name: str
    heading: str
    scale: str  # in what it is smaller than the paper's
    orders: tuple[tuple[str, str, str], ...] = ()  # measure, better row, worse row, as in the paper
    apart: tuple[str, ...] = ()  # measures that mean something else than the paper's at this scale

    @property
    def command(self) -> str:
        return f"ladderspec ablate specs/experiments/{self.name}.yaml --workers 2 --threads 1"


STUDIES = (
    Study(
        "table1_small",
        "Occluded Moving MNIST, small",
        "width 8 of 32, 16x16 of 32x32, 2,000 updates of 64 sequences",
        (
            ("digit.error", "rladder", "no_decoder_to_encoder"),
            ("digit.error", "no_decoder_to_encoder", "hierarchical_rnn"),
            ("digit.error", "hierarchical_rnn", "temporal_baseline"),
            ("digit.error", "rladder", "temporal_baseline"),
            ("digit.error", "rladder", "no_prediction"),
            ("digit.error", "optimal_reconstruction", "rladder"),
            ("next_frame.error", "rladder", "no_decoder_to_encoder"),
            ("next_frame.error", "rladder", "no_classification"),
        ),
        apart=("next_frame.error",),  # the mean over the pixels of another canvas
    ),
    Study(
        "table2_small",
        "Semi-supervised, small",
        "width 8 of 32, 16x16 of 32x32, 600 updates of 64 sequences",
    ),
    Study("table3_music", "Polyphonic music", "the paper's size; fewer epochs"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", nargs=2, metavar=("STUDY", "FOLDER"))
    args = parser.parse_args()
    if args.record:
        record(args.record[0], Path(args.record[1]))
    for study, results in recorded().items():
        write_report(results, RECORDS / study.name)
    if (RECORDS / ARROWS).is_dir():
        write_report(arrows(), RECORDS / ARROWS)
        draw_worths(arrows(), left_out()[0], RECORDS / ARROWS)
    (DOCS / "results.md").write_text(page(), encoding="utf-8")


def record(study: str, folder: Path) -> None:
    """Take over what runs have measured; a run that is recorded is never replaced."""
    if study == LARGE:
        for times in sorted(folder.glob("*/times.jsonl")):
            target = RECORDS / LARGE / times.parent.name
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(times, target / times.name)
        return
    experiment = left_out()[1] if study == ARROWS else experiment_of(study)
    known = {run.id for run in experiment.runs}
    for result in sorted(folder.glob("*/result.json")):
        target = RECORDS / study / result.parent.name
        if target.name in known and not (target / "result.json").exists():
            target.mkdir(parents=True, exist_ok=True)
            for name in KEPT:
                shutil.copyfile(result.parent / name, target / name)


def experiment_of(study: str) -> Experiment:
    return open_experiment(DOCS.parent / f"specs/experiments/{study}.yaml")


@cache
def left_out() -> tuple[LeaveOut, Experiment]:
    """The study of arrows and its runs; its file is of no use here."""
    with tempfile.TemporaryDirectory() as folder:
        file = DOCS.parent / f"specs/experiments/{ARROWS}.yaml"
        study = make_study(file, "role", Path(folder))
        return study, open_experiment(study.path)


def arrows() -> Results:
    experiment = left_out()[1]
    return collect(experiment, experiment.runs, RECORDS / ARROWS)


def results_of(study: Study) -> Results:
    experiment = experiment_of(study.name)
    return collect(experiment, experiment.runs, RECORDS / study.name)


def recorded() -> dict[Study, Results]:
    return {study: results_of(study) for study in STUDIES if (RECORDS / study.name).is_dir()}


def page() -> str:
    found = recorded()
    parts = [(RECORDS / "intro.md").read_text(encoding="utf-8").rstrip(), overview(found)]
    for study, results in found.items():
        parts += section(study, results)
        if study.name == "table1_small":
            parts += large()
    if (RECORDS / ARROWS).is_dir():
        parts += worth_of_arrows()
    parts.append((RECORDS / "pictures.md").read_text(encoding="utf-8").rstrip())
    return "\n\n".join(parts) + "\n"


def overview(found: dict[Study, Results]) -> str:
    """Paper, ours, difference, scale."""
    lines = [
        "| | measure | paper | ours | seeds | difference | scale |",
        "|---|---|---|---|---|---|---|",
    ]
    for study, results in found.items():
        for cell in results.cells:
            for measure in results.measures:
                if cell.quoted(measure) and measure.name in cell.values:
                    lines.append(_compared(study, cell, measure))
    return "\n".join(lines)


def _compared(study: Study, cell: Cell, measure: Measure) -> str:
    paper, ours = cell.quoted(measure), spread(list(cell.values[measure.name].values()))
    assert paper is not None
    assert ours is not None
    digits = 1 if paper.value >= 100 else 2
    shown = f"{ours.mean:.{digits}f}"
    shown += "" if ours.deviation is None else f" ± {ours.deviation:.{digits}f}"
    title = ", ".join(filter(None, [cell.place.title, cell.place.heading]))
    gap = "-" if measure.name in study.apart else f"{ours.mean - paper.value:+.{digits}f}"
    return (
        f"| {title} | {label(measure)} | {paper} | {shown} | {ours.count} | {gap} | {study.scale} |"
    )


def section(study: Study, results: Results) -> Iterator[str]:
    yield f"## {study.heading}"
    prose = RECORDS / f"{study.name}.md"
    if prose.exists():
        yield prose.read_text(encoding="utf-8").rstrip()
    yield f"```sh\n{study.command}\n```"
    yield "\n".join(map(writers.to_markdown, tables(results))).rstrip()
    if study.orders:
        yield "\n".join(orders(study, results))
    yield "\n".join(run_by_run(study, results))
    yield f"![learning curves](results/{study.name}/curves.png)"


def orders(study: Study, results: Results) -> Iterator[str]:
    """The paper's orderings, each with the interval of its difference over paired seeds."""
    yield "| the paper's order | measure | difference, paired over seeds | |"
    yield "|---|---|---|---|"
    measures = {measure.name: measure for measure in results.all_measures}
    for name, better, worse in study.orders:
        if name not in measures:
            continue
        one, other = results.cell(better, ""), results.cell(worse, "")
        gap = difference(other.values.get(name, {}), one.values.get(name, {}))
        if gap is None:
            continue
        interval = "" if gap.low is None else f" [{gap.low:.2f}, {gap.high:.2f}]"
        verdict = "the paper's way" if gap.mean > 0 else "the other way"
        verdict += "" if gap.clear else ", not resolved"
        yield (
            f"| {one.place.title} < {other.place.title} | {label(measures[name])}"
            f" | {gap.mean:+.2f}{interval} ({_seeds(gap.count)}) | {verdict} |"
        )


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def large() -> Iterator[str]:
    """The table at the paper's size, as far as it was begun."""
    yield "## Occluded Moving MNIST at the paper's size"
    yield (RECORDS / f"{LARGE}.md").read_text(encoding="utf-8").rstrip()
    yield "```sh\nladderspec train specs/experiments/table1.yaml --seed 0 --threads 1\n```"
    lines = ["| run | parameters | updates done | seconds for one | all updates | days |"]
    lines.append("|---" * 6 + "|")
    for run in experiment_of(LARGE).runs:
        times = RECORDS / LARGE / run.id / "times.jsonl"
        if times.exists():
            last = json.loads(times.read_text().splitlines()[-1])
            seconds = 1 / last["updates per second"]
            assert run.training.epochs is not None
            updates = int(run.training.epochs * TRAINING_DIGITS / run.training.batch)
            lines.append(
                f"| {run.id} | {parameters(graph(run.spec)):,} | {last['update']} | {seconds:.2f}"
                f" | {updates:,} | {updates * seconds / 86400:.1f} |"
            )
    yield "\n".join(lines)


def worth_of_arrows() -> Iterator[str]:
    """Leave one out."""
    yield "## What each kind of arrow is worth"
    yield (RECORDS / f"{ARROWS}.md").read_text(encoding="utf-8").rstrip()
    yield f"```sh\nladderspec ablate specs/experiments/{ARROWS}.yaml --each-role --threads 1\n```"
    results = arrows()
    yield "\n".join(map(writers.to_markdown, tables(results))).rstrip()
    for measure in results.measures:
        name = f"worth_{measure.name.replace('.', '_')}.svg"
        yield f"![what each is worth in {label(measure)}](results/{ARROWS}/{name})"


def run_by_run(study: Study, results: Results) -> Iterator[str]:
    """Every run."""
    names = [measure.name for measure in results.measures]
    heads = " | ".join(label(measure) for measure in results.measures)
    yield f"| run | parameters | updates | minutes | {heads} |"
    yield "|---" * (4 + len(names)) + "|"
    for cell in results.cells:
        for seed in sorted({seed for by_seed in cell.values.values() for seed in by_seed}):
            run = ".".join(filter(None, [cell.place.row, cell.place.column, f"seed{seed}"]))
            result = json.loads((RECORDS / study.name / run / "result.json").read_text())
            values = [cell.values.get(name, {}).get(seed) for name in names]
            shown = " | ".join("-" if value is None else f"{value:.2f}" for value in values)
            yield (
                f"| {run} | {cell.parameters:,} | {result['updates']:,}"
                f" | {minutes(RECORDS / study.name / run):.0f} | {shown} |"
            )


def minutes(folder: Path) -> float:
    """How long a run took on one core, its evaluations on the way included."""
    last = json.loads((folder / "times.jsonl").read_text().splitlines()[-1])
    return float(last["update"] / last["updates per second"] / 60)


if __name__ == "__main__":
    main()
