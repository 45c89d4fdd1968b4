"""Write docs/results.md and its tables and figures from the recorded runs; nothing is trained.

    python docs/make_results.py [--record STUDY FOLDER]

`--record` first takes over the small JSON of the finished runs in FOLDER, where `ladderspec ablate`
has left them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ladderspec.ablation import writers
from ladderspec.ablation.baselines import FILE as BASELINES
from ladderspec.ablation.report import draw_worths, worths, write_report
from ladderspec.ablation.results import Measure, Results, TableCell, collect
from ladderspec.ablation.statistics import difference, spread
from ladderspec.ablation.study import Study as LeaveOut
from ladderspec.ablation.study import make_study
from ladderspec.ablation.table import label, tables, tables_by_time
from ladderspec.api import graph
from ladderspec.data.sets.occluded_mnist import OccludedMnist
from ladderspec.data.sets.textured_mnist import TexturedMnist
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.training import TEACHER
from ladderspec.learn.run_folder import read_result
from ladderspec.wiring.shapes import parameters

DOCS = Path(__file__).parent
RECORDS = DOCS / "results"
KEPT = ("*.jsonl", "retrain/*.jsonl", "result.json")  # the last says that all are there
LARGE = "table1"
EARLIER = "earlier"
ARROWS = "arrows_small"
SMALL = "table1_small"
RATES = {"table1_small_slower": "0.003", SMALL: "0.006", "table1_small_faster": "0.012"}
TRAINING_DIGITS, ALL_DIGITS = 50_000, 60_000
TRAININGS = 3 * (1 + ALL_DIGITS / TRAINING_DIGITS)  # of a row: three seeds, each anew on all digits


@dataclass(frozen=True)
class Study:
    """An experiment file whose runs are recorded."""

    name: str
    heading: str
    orders: tuple[tuple[str, str, str], ...] = ()  # measure, better row, worse row, as in the paper
    apart: tuple[str, ...] = ()  # measures that mean something else than the paper's at this scale
    unquoted: tuple[tuple[str, str], ...] = ()  # rows and columns without a number of the paper
    choices: tuple[str, ...] = ("",)  # of the runs that are recorded, a command for each

    @property
    def commands(self) -> str:
        start = f"ladderspec ablate specs/experiments/{self.name}.yaml --workers 2 --threads 1"
        return "\n".join(f"{start} {choice}".rstrip() for choice in self.choices)

    @property
    def link(self) -> str:
        """To the heading, as web pages call it."""
        return (
            f"[{self.name}](#{re.sub(r'[^a-z0-9 -]', '', self.heading.lower()).replace(' ', '-')})"
        )


OTHER_CANVAS = ("next_frame.error",)  # the mean over its pixels
STUDIES = (
    Study(
        SMALL,
        "Occluded Moving MNIST, small",
        (
            ("digit.error", "optimal_reconstruction", "rladder"),
            ("digit.error", "rladder", "no_decoder_to_encoder"),
            ("digit.error", "no_decoder_to_encoder", "no_prediction"),
            ("digit.error", "no_prediction", "hierarchical_rnn"),
            ("digit.error", "no_decoder_to_encoder", "hierarchical_rnn"),
            ("digit.error", "hierarchical_rnn", "temporal_baseline"),
            ("digit.error", "rladder", "no_prediction"),
            ("digit.error", "rladder", "hierarchical_rnn"),
            ("digit.error", "rladder", "temporal_baseline"),
            ("digit.error", "optimal_reconstruction", "temporal_baseline"),
            ("next_frame.error", "rladder", "no_classification"),
            ("next_frame.error", "rladder", "no_decoder_to_encoder"),
            ("next_frame.error", "no_classification", "no_decoder_to_encoder"),
        ),
        apart=OTHER_CANVAS,
    ),
    Study("table1_small_slower", "The same, at half the learning rate", apart=OTHER_CANVAS),
    Study("table1_small_faster", "The same, at twice the learning rate", apart=OTHER_CANVAS),
    Study("table1_small_rising", "The same, with a weight that rises", apart=OTHER_CANVAS),
    Study("table1_small_clipped", "The same, clipped task by task", apart=OTHER_CANVAS),
    Study("table1_small_reading", "The same, in another reading of the table", apart=OTHER_CANVAS),
    Study("table1_small_longer", "The same, longer", apart=OTHER_CANVAS),
    Study("table1_small_wider", "The same, wider", apart=OTHER_CANVAS),
    Study(
        "table1_small_canvas",
        "The same, on the paper's canvas",
        (
            ("digit.error", "optimal_reconstruction", "rladder"),
            ("digit.error", "hierarchical_rnn", "temporal_baseline"),
            ("digit.error", "rladder", "hierarchical_rnn"),
            ("digit.error", "rladder", "temporal_baseline"),
        ),
    ),
    Study("table2_small", "Semi-supervised, small"),
    Study(
        "table3_music",
        "Polyphonic music",
        unquoted=(("rladder", "jsb"),),
        choices=(
            "--column jsb --only rladder",
            "--column jsb --only no_decoder_to_encoder encoder_only --seeds 1",
            "--column nottingham piano muse --only rladder --seeds 1",
        ),
    ),
    Study("table3_music_longer", "Chorales, longer", unquoted=(("wide_read_out", "jsb"),)),
    Study(
        "table3_music_chorales",
        "Chorales, at half the width",
        unquoted=tuple((row, "jsb") for row in ("all_keys", "both", "near_keys", "dropout")),
    ),
    Study("table3_music_nottingham", "Nottingham, longer"),
    Study(
        "table4_small",
        "Perceptual grouping, small",
        (
            ("segment.ami", "rtagger", "tagger"),
            ("digit.error", "rtagger", "tagger"),
            ("digit.error", "rtagger", "convnet"),
            ("digit.error", "tagger", "convnet"),
            ("digit.error", "rtagger_1000", "convnet_1000"),
        ),
    ),
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
        study, experiment = left_out()
        draw_worths(arrows(), study, experiment.runs, RECORDS / ARROWS)
    (DOCS / "results.md").write_text(page(), encoding="utf-8")


def record(study: str, folder: Path) -> None:
    """Take over what runs have measured; a finished run that is recorded is never replaced."""
    if study == LARGE:
        for times in sorted(folder.glob("*/times.jsonl")):
            target = RECORDS / LARGE / times.parent.name
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(times, target / times.name)
        return
    experiment = left_out()[1] if study == ARROWS else experiment_of(study)
    if (folder / BASELINES).exists():
        (RECORDS / study).mkdir(exist_ok=True)
        shutil.copyfile(folder / BASELINES, RECORDS / study / BASELINES)
    for run in experiment.runs:
        target = RECORDS / study / run.id
        finished = read_result(folder / run.id, run) is not None
        if finished and not (target / "result.json").exists():
            for place in (place for name in KEPT for place in (folder / run.id).glob(name)):
                kept = target / place.relative_to(folder / run.id)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(place, kept)


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
        if study.name == "table2_small":
            parts += large()
        parts += section(study, results)
    if (RECORDS / ARROWS).is_dir():
        parts += worth_of_arrows()
    parts.append((RECORDS / "pictures.md").read_text(encoding="utf-8").rstrip())
    parts += earlier()
    return "\n\n".join(parts) + "\n"


def overview(found: dict[Study, Results]) -> str:
    """Paper, ours, difference, scale, and where the command is."""
    lines = [
        "| | measure | paper | ours | seeds | difference | scale | command |",
        "|---" * 8 + "|",
    ]
    for study, results in found.items():
        scales = {(run.row, run.column): scale(run) for run in experiment_of(study.name)}
        for cell in networks(results):
            small = scales[cell.place.row, cell.place.column]
            for measure in results.measures:
                shown = (
                    cell.quoted(measure) or (cell.place.row, cell.place.column) in study.unquoted
                )
                if shown and measure.name in cell.values:
                    lines.append(_compared(study, cell, measure, small))
    return "\n".join(lines)


def scale(run: Run) -> str:
    """In what a run may be smaller than the paper's: width 32, 32x32, up to 10 epochs of music."""
    params = run.spec.config.params
    words = [f"width {params['width']}"] if "width" in params else []
    if isinstance(run.data, OccludedMnist | TexturedMnist):
        words.append(f"{run.data.canvas}x{run.data.canvas}")
    epochs, updates = run.training.epochs, run.training.updates
    if epochs:
        words.append("1 epoch" if epochs == 1 else f"{epochs:g} epochs")
    else:
        words.append(f"{updates:,} updates of {run.training.batch}")
    return ", ".join(words)


def _compared(study: Study, cell: TableCell, measure: Measure, small: str) -> str:
    paper, ours = cell.quoted(measure), spread(list(cell.values[measure.name].values()))
    assert ours is not None
    digits = 1 if ours.mean >= 100 else 2
    shown = f"{ours.mean:.{digits}f}"
    shown += "" if ours.deviation is None else f" ± {ours.deviation:.{digits}f}"
    title = ", ".join(filter(None, [cell.place.title, cell.place.heading]))
    gap = "-"
    if paper is not None and measure.name not in study.apart:
        gap = f"{ours.mean - paper.value:+.{digits}f}"
    words = (title, label(measure), paper or "-", shown, ours.count, gap, small, study.link)
    return f"| {' | '.join(map(str, words))} |"


def section(study: Study, results: Results) -> Iterator[str]:
    yield f"## {study.heading}"
    prose = RECORDS / f"{study.name}.md"
    if prose.exists():
        yield prose.read_text(encoding="utf-8").rstrip()
    yield f"```sh\n{study.commands}\n```"
    found = [*tables(results), *tables_by_time(results)]
    yield "\n".join(map(writers.to_markdown, found)).rstrip()
    if results.times:
        yield f"![metrics over iterations](results/{study.name}/by_time.png)"
    if study.orders:
        yield f"![bars and paired differences](results/{study.name}/bars.png)"
        yield "\n".join(orders(study, results))
    if study.name == list(RATES)[-1]:
        yield "\n".join(rates(results))
    yield "\n".join(run_by_run(study.name, results))
    yield f"![learning curves](results/{study.name}/curves.png)"


def orders(study: Study, results: Results) -> Iterator[str]:
    """The paper's orderings, each with the interval of its difference over paired seeds."""
    yield "| the paper's order | measure | right minus left in the paper | here, 95 % interval | |"
    yield "|---|---|---|---|---|"
    measures = {measure.name: measure for measure in results.all_measures}
    for name, better, worse in study.orders:
        if name not in measures:
            continue
        one, other = results.cell(better, ""), results.cell(worse, "")
        gap = difference(other.values.get(name, {}), one.values.get(name, {}))
        if gap is None:
            continue
        interval = "" if gap.low is None else f" [{gap.low:.2f}, {gap.high:.2f}]"
        higher = measures[name].higher
        verdict = "the paper's way" if (gap.mean > 0) != higher else "the other way"
        verdict += "" if gap.clear else ", not resolved"
        before, own = _of_paper(one, other, measures[name])
        verdict += " (about equal in the paper)" if abs(before) < own else ""
        order = f"{one.place.title} {'>' if higher else '<'} {other.place.title}"
        yield (
            f"| {order} | {label(measures[name])}"
            f" | {before:+.2f} ± {own:.2f} | {gap.mean:+.2f}{interval} ({_seeds(gap.count)})"
            f" | {verdict} |"
        )


def _of_paper(one: TableCell, other: TableCell, measure: Measure) -> tuple[float, float]:
    """The difference, and its standard deviation from those of both."""
    left, right = one.quoted(measure), other.quoted(measure)
    assert left is not None
    assert right is not None
    return right.value - left.value, math.hypot(left.spread or 0, right.spread or 0)


def rates(results: Results) -> Iterator[str]:
    """Validation data, by which a learning rate may be chosen."""
    yield f"| validation data, seed 0 | measure | {' | '.join(RATES.values())} |"
    yield "|---" * (2 + len(RATES)) + "|"
    for cell in results.cells:
        for measure in results.measures:
            if measure.name in cell.values:
                places = [
                    RECORDS / study / f"{cell.place.row}.seed0/result.json" for study in RATES
                ]
                found = [json.loads(place.read_text())["metrics"]["valid"] for place in places]
                shown = " | ".join(f"{values[measure.name]:.2f}" for values in found)
                yield f"| {cell.place.title} | {label(measure)} | {shown} |"


def networks(results: Results) -> list[TableCell]:
    """What was trained: all but the reference methods."""
    return [cell for cell in results.cells if not cell.baseline]


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def large() -> Iterator[str]:
    """The table at the paper's size, as far as it was begun."""
    yield "## Occluded Moving MNIST at the paper's size"
    yield (RECORDS / f"{LARGE}.md").read_text(encoding="utf-8").rstrip()
    yield "```sh\nladderspec train specs/experiments/table1.yaml --seed 0 --threads 1\n```"
    heads = "updates done | seconds for one | updates in all | days | days for 3 seeds, twice"
    lines = [f"| run | parameters | {heads} |", "|---" * 7 + "|"]
    total = 0.0
    for run in experiment_of(LARGE).runs:
        times = RECORDS / LARGE / run.id / "times.jsonl"
        if times.exists():
            last = json.loads(times.read_text().splitlines()[-1])
            seconds = 1 / last["updates per second"]
            assert run.training.epochs is not None
            updates = int(run.training.epochs * TRAINING_DIGITS / run.training.batch)
            days = updates * seconds / 86400
            total += days
            lines.append(
                f"| {run.id} | {parameters(graph(run.spec)):,} | {last['update']} | {seconds:.2f}"
                f" | {updates:,} | {days:.1f} | {TRAININGS * days:.0f} |"
            )
    lines.append(f"| all rows | | | | | {total:.1f} | {TRAININGS * total:.0f} |")
    yield "\n".join(lines)


def worth_of_arrows() -> Iterator[str]:
    """Leave one out."""
    yield "## What each kind of arrow is worth"
    yield (RECORDS / f"{ARROWS}.md").read_text(encoding="utf-8").rstrip()
    yield f"```sh\nladderspec ablate specs/experiments/{ARROWS}.yaml --each-role --threads 1\n```"
    results = arrows()
    yield "\n".join(map(writers.to_markdown, tables(results))).rstrip()
    yield "\n".join(run_by_run(ARROWS, results))
    for measure in results.measures:
        if max(worths(results, left_out()[0], "", measure).values()) <= 0:
            continue  # nothing to see: all arrows would be thin
        name = f"worth_{measure.name.replace('.', '_')}.svg"
        yield f"![what each is worth in {label(measure)}](results/{ARROWS}/{name})"


def earlier() -> Iterator[str]:
    """Runs that today's code does not repeat."""
    yield "## Earlier runs"
    yield (RECORDS / f"{EARLIER}.md").read_text(encoding="utf-8").rstrip()
    heads = "experiment | run | updates | minutes | on validation data | on test data"
    lines = [f"| {heads} |", "|---" * 6 + "|"]
    for place in sorted((RECORDS / EARLIER).glob("*/*/result.json")):
        result = json.loads(place.read_text())
        valid, test = (_first(result, split) for split in ("valid", "test"))
        lines.append(
            f"| {place.parts[-3]} | {place.parts[-2]} | {result['updates']:,}"
            f" | {minutes(place.parent):.0f} | {valid} | {test} |"
        )
    yield "\n".join(lines)


def _first(result: dict[str, Any], split: str) -> str:
    """The most telling measure of each task; what a teacher says is in the JSON."""
    first = dict[str, str]()
    for name, value in result["metrics"].get(split, {}).items():
        measure = Measure(name, result["units"].get(name, ""))
        if not name.startswith(TEACHER):
            first.setdefault(measure.task, f"{label(measure)} {value:.2f}")
    return ", ".join(first.values())


def run_by_run(study: str, results: Results) -> Iterator[str]:
    """Every run."""
    names = [measure.name for measure in results.measures]
    heads = " | ".join(label(measure) for measure in results.measures)
    yield f"| run | parameters | updates | minutes | {heads} |"
    yield "|---" * (4 + len(names)) + "|"
    for cell in networks(results):
        for seed in sorted({seed for by_seed in cell.values.values() for seed in by_seed}):
            run = ".".join(filter(None, [cell.place.row, cell.place.column, f"seed{seed}"]))
            result = json.loads((RECORDS / study / run / "result.json").read_text())
            values = [cell.values.get(name, {}).get(seed) for name in names]
            shown = " | ".join("-" if value is None else f"{value:.2f}" for value in values)
            updates = [r["updates"] for r in (result.get("first"), result) if r is not None]
            yield (
                f"| {run} | {cell.parameters:,} | {' + '.join(f'{n:,}' for n in updates)}"
                f" | {minutes(RECORDS / study / run):.0f} | {shown} |"
            )


def minutes(folder: Path) -> float:
    """How long a run took on one core, evaluations and whatever ran beside it included."""
    lasts = [
        json.loads(times.read_text().splitlines()[-1]) for times in folder.rglob("times.jsonl")
    ]
    return sum(last["update"] / last["updates per second"] / 60 for last in lasts)


if __name__ == "__main__":
    main()
