"""Write docs/results.md and the pages behind it from the recorded runs; nothing is trained.

    python docs/make_results.py [--record STUDY FOLDER]

`--record` first takes over the small JSON of the finished runs in FOLDER, where `ladderspec ablate`
has left them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ladderspec.ablation import writers
from ladderspec.ablation.baselines import FILE as BASELINES
from ladderspec.ablation.report import draw_worths, write_report
from ladderspec.ablation.results import Measure, Results, TableCell, collect
from ladderspec.ablation.statistics import difference, spread
from ladderspec.ablation.study import Study as LeaveOut
from ladderspec.ablation.study import make_study
from ladderspec.ablation.table import label, tables, tables_by_time
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.learn.run_folder import read_result

DOCS = Path(__file__).parent
RECORDS = DOCS / "results"
KEPT = ("*.jsonl", "retrain/*.jsonl", "result.json")  # the last says that all are there
COMMAND = "ladderspec ablate specs/experiments/{}.yaml --threads 1"


@dataclass(frozen=True)
class Quote:
    """A line of the summary: one number, compared with another row or with the paper's number."""

    row: str
    measure: str
    column: str = ""
    against: tuple[str, ...] = ()  # rows of the same column


@dataclass(frozen=True)
class Study:
    """An experiment file whose runs are recorded."""

    name: str
    quotes: tuple[Quote, ...] = ()
    choices: tuple[str, ...] = ("",)  # options of the runs that are recorded, a command for each
    each_role: bool = False  # one kind of arrow left out
    by_time: bool = False  # metrics at every t, also over frames

    @property
    def commands(self) -> str:
        always = "--each-role " * self.each_role + "--by-time " * self.by_time
        options = (f"{always}{each}" for each in self.choices)
        return "\n".join(f"{COMMAND.format(self.name)} {each}".rstrip() for each in options)


@dataclass(frozen=True)
class Section:
    """A table of the paper: a paragraph on the page, and a page of its own with all the rest."""

    title: str
    prose: str  # a file in `results/prose`; its first paragraph is that of the page
    studies: tuple[Study, ...]
    pictures: tuple[tuple[str, str], ...] = ()  # description and file in `results`
    commands: str = ""  # that made the pictures


SECTIONS = (
    Section(
        "Occluded moving digits (Table 1)",
        "occluded",
        (
            Study(
                "table1_small_canvas",
                (
                    Quote(
                        "rladder",
                        "digit.error",
                        against=("optimal_reconstruction", "temporal_baseline", "hierarchical_rnn"),
                    ),
                    Quote("rladder", "next_frame.error"),
                ),
            ),
            Study(
                "table1_compact",
                (
                    Quote(
                        "rladder",
                        "digit.error",
                        against=(
                            "optimal_reconstruction",
                            "temporal_baseline",
                            "hierarchical_rnn",
                            "no_decoder_to_encoder",
                        ),
                    ),
                    Quote("rladder", "next_frame.error", against=("no_decoder_to_encoder",)),
                ),
            ),
        ),
        (("Frames, predictions and probe", "prediction.png"),),
        "ladderspec ablate specs/experiments/prediction.yaml -o out/prediction --threads 1\n"
        "ladderspec evaluate out/prediction/probed.seed0 --split valid --count 3",
    ),
    Section(
        "Semi-supervised digits (Table 2)",
        "semi_supervised",
        (Study("table2_small", (Quote("rladder", "digit.error", "mean_teacher"),)),),
    ),
    Section(
        "Polyphonic music (Table 3)",
        "music",
        (
            Study(
                "table3_music",
                (
                    Quote("rladder", "next_notes.nll", "piano"),
                    Quote("rladder", "next_notes.nll", "muse"),
                ),
                (
                    "--column jsb --row rladder",
                    "--column jsb --row no_decoder_to_encoder,encoder_only --seeds 1",
                    "--column nottingham,piano,muse --row rladder --seeds 1",
                ),
            ),
            Study("table3_music_chorales", (Quote("dropout", "next_notes.nll", "jsb"),)),
            Study(
                "table3_music_nottingham", (Quote("wide_read_out", "next_notes.nll", "nottingham"),)
            ),
        ),
        (("A chorale, continued", "chorale.png"),),
        "ladderspec generate out/table3_music/rladder.jsb.seed0 --split test --first 3 \\\n"
        "    --count 1 --given 32 --frames 32 --sample --seed 1 --step 1 -o chorale.png",
    ),
    Section(
        "Perceptual grouping (Table 4)",
        "grouping",
        (
            Study(
                "table4_small",
                (
                    Quote("rtagger", "segment.ami", against=("tagger",)),
                    Quote("rtagger", "digit.error", against=("tagger", "convnet")),
                    Quote("rtagger_1000", "digit.error", against=("tagger_1000", "convnet_1000")),
                ),
            ),
        ),
        (
            ("AMI and digit error over iterations", "table4_small/by_time.png"),
            ("Images, groups at every iteration, and mu of each group", "grouping.png"),
        ),
        "ladderspec evaluate out/arrows_rtagger/rtagger.seed2 --split valid --count 3",
    ),
    Section(
        "Grouping by texture",
        "textures",
        (
            Study(
                "table4_textures",
                (
                    Quote("raw", "segment.ami", against=("raw_wide", "raw_curriculum")),
                    Quote("equal_wide", "segment.ami", against=("equal_curriculum",)),
                ),
            ),
        ),
        (
            ("AMI and digit error over updates", "table4_textures/curves.png"),
            ("AMI and digit error over iterations", "table4_textures/by_time.png"),
            ("Images, groups at every iteration, and mu of each group", "textures.png"),
        ),
        "ladderspec evaluate out/table4_textures/raw_curriculum.seed0 --split valid --count 3",
    ),
    Section(
        "Grouping of moving digits",
        "moving",
        (
            Study(
                "moving_small",
                (Quote("rtagger", "segment.ami", against=("start_apart",)),),
                by_time=True,
            ),
        ),
        (
            ("AMI over updates", "moving_small/curves.png"),
            ("AMI by frame", "moving_small/by_time.png"),
            ("Ten frames seen, six imagined, and what each group predicts", "moving.png"),
        ),
        "ladderspec generate out/moving_small/rtagger.seed0 --split valid --given 10 \\\n"
        "    --frames 6 --count 2 -o moving.png",
    ),
    Section(
        "The original Ladder",
        "ladder",
        (
            Study(
                "ladder_1000",
                (Quote("ladder", "digit.error", against=("bottom", "supervised", "no_lateral")),),
            ),
        ),
    ),
    Section(
        "What each kind of arrow is worth",
        "arrows",
        (
            Study(
                "arrows_small",
                (
                    Quote(
                        "rladder",
                        "next_frame.error",
                        against=("no_lateral", "no_decoder_to_encoder"),
                    ),
                ),
                each_role=True,
            ),
            Study(
                "arrows_rtagger",
                (
                    Quote(
                        "rtagger",
                        "segment.ami",
                        against=("no_lateral", "no_decoder_to_encoder"),
                    ),
                    Quote(
                        "rtagger",
                        "digit.error",
                        against=("no_lateral", "no_decoder_to_encoder"),
                    ),
                ),
                each_role=True,
            ),
        ),
        (
            ("Worth of each arrow in the next frame", "arrows_small/worth_next_frame_error.svg"),
            ("Worth of each arrow in the groups", "arrows_rtagger/worth_segment_ami.svg"),
        ),
    ),
)
PICTURES = (  # one for each kind of experiment, on the first screen
    '<img src="results/prediction.png" height="360" alt="Frames, predictions and a probe">\n'
    '<img src="results/grouping.png" height="360" alt="Images, and their groups by iteration">\n'
    '<img src="results/chorale.png" width="310" alt="A chorale, continued">',
)
STUDIES = tuple(study for section in SECTIONS for study in section.studies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", nargs=2, metavar=("STUDY", "FOLDER"))
    args = parser.parse_args()
    if args.record:
        record(args.record[0], Path(args.record[1]))
    for study, results in recorded().items():
        write_report(results, RECORDS / study.name)
        if study.each_role:
            left_out, experiment = left_out_of(study.name)
            draw_worths(results, left_out, experiment.runs, RECORDS / study.name)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def record(name: str, folder: Path) -> None:
    """Take over what runs have measured; a finished run that is recorded is never replaced."""
    (study,) = (study for study in STUDIES if study.name == name)
    if (folder / BASELINES).exists():
        (RECORDS / name).mkdir(exist_ok=True)
        shutil.copyfile(folder / BASELINES, RECORDS / name / BASELINES)
    for run in experiment_of(study).runs:
        target = RECORDS / name / run.id
        finished = read_result(folder / run.id, run) is not None
        if finished and not (target / "result.json").exists():
            for place in (place for kept in KEPT for place in (folder / run.id).glob(kept)):
                copy = target / place.relative_to(folder / run.id)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(place, copy)


def experiment_of(study: Study) -> Experiment:
    if study.each_role:
        return left_out_of(study.name)[1]
    return open_experiment(DOCS.parent / f"specs/experiments/{study.name}.yaml")


@cache
def left_out_of(name: str) -> tuple[LeaveOut, Experiment]:
    """A study of arrows and its runs; its file is of no use here."""
    with tempfile.TemporaryDirectory() as folder:
        file = DOCS.parent / f"specs/experiments/{name}.yaml"
        study = make_study(file, "role", Path(folder))
        return study, open_experiment(study.path)


def results_of(study: Study) -> Results:
    experiment = experiment_of(study)
    return collect(experiment, experiment.runs, RECORDS / study.name, study.by_time)


def recorded() -> dict[Study, Results]:
    """The studies of which runs are recorded."""
    return {study: results_of(study) for study in STUDIES if (RECORDS / study.name).is_dir()}


def pages() -> dict[Path, str]:
    """The page, and those behind it, by their files."""
    found = recorded()
    there = [section for section in SECTIONS if any(study in found for study in section.studies)]
    parts = [_prose("intro"), summary(found), *PICTURES]
    parts += (part for section in there for part in brief(section, found))
    texts = {DOCS / "results.md": [*parts, _prose("earlier")]}
    for section in there:
        texts[RECORDS / f"{section.prose}.md"] = [*details(section, found)]
    return {path: "\n\n".join(found) + "\n" for path, found in texts.items()}


def summary(found: dict[Study, Results]) -> str:
    """The table of the first screen."""
    lines = ["| experiment | paper | ours | scale | seeds | verdict |", "|---" * 6 + "|"]
    for section in SECTIONS:
        for study in (study for study in section.studies if study in found):
            lines += (_quoted(section, study, found[study], quote) for quote in study.quotes)
    return "\n".join(filter(None, lines))


def _anchor(title: str) -> str:
    """The name of a heading in links."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _quoted(section: Section, study: Study, results: Results, quote: Quote) -> str:
    """A line of the summary; empty if its runs are not recorded."""
    cells = {(cell.row, cell.column): cell for cell in results.cells}
    measures = {measure.name: measure for measure in results.all_measures}
    cell, measure = cells.get((quote.row, quote.column)), measures.get(quote.measure)
    if cell is None or measure is None or measure.name not in cell.values:
        return ""
    ours = spread(list(cell.values[measure.name].values()))
    assert ours is not None
    digits = 1 if ours.mean >= 100 else 2
    shown = f"{ours.mean:.{digits}f}"
    shown += "" if ours.deviation is None else f" ± {ours.deviation:.{digits}f}"
    others = [cells[row, quote.column] for row in quote.against if (row, quote.column) in cells]
    verdict = _order(cell, others, measure) if quote.against else _beside_paper(cell, measure)
    runs = [r for r in experiment_of(study) if (r.row, r.column) == (quote.row, quote.column)]
    name = re.search(r"\((.*)\)", section.title)  # Table 1
    link = f"[{name[1] if name else section.title}](#{_anchor(section.title)})"
    network = ", ".join(filter(None, [cell.title, cell.heading, label(measure)]))
    paper = str(cell.quoted(measure) or "-")
    parts = (f"{link}: {network}", paper, shown, scale(runs[0]), ours.count, verdict)
    return f"| {' | '.join(map(str, parts))} |"


def _order(cell: TableCell, others: list[TableCell], measure: Measure) -> str:
    """Whether its order with other rows is resolved, and is that of the paper where it has one."""
    found, quoted = [], cell.quoted(measure)  # 1: better, -1: worse, 0: not resolved
    for other in others:
        gap = difference(cell.values[measure.name], other.values.get(measure.name, {}))
        if gap is None or gap.low is None:
            return "one seed only"
        side = (1 if (gap.mean > 0) == measure.higher else -1) * gap.clear
        theirs = other.quoted(measure)
        if quoted and theirs:
            side *= 1 if (quoted.value > theirs.value) == measure.higher else -1
            found.append(("order reversed", "order not resolved", "order holds")[side + 1])
        else:
            found.append(("worse", "not resolved", "better")[side + 1])
    if len(set(found)) == 1:
        return found[0]
    if "order reversed" in found:
        return "order partly reversed"
    return "order partly resolved" if "order holds" in found else "partly resolved"


def _beside_paper(cell: TableCell, measure: Measure) -> str:
    paper, ours = cell.quoted(measure), spread(list(cell.values[measure.name].values()))
    assert ours is not None
    if paper is None:
        return "not comparable"
    share = ours.mean / paper.value - 1
    if share > 1:
        return f"{ours.mean / paper.value:.0f} times larger"
    return f"{abs(share):.0%} {'above' if share > 0 else 'below'}"


def scale(run: Run) -> str:
    """In what a run is smaller than the paper's."""
    params, training = run.spec.config.params, run.training
    words = [f"{name} {params[name]}" for name in ("width", "units") if name in params]
    if canvas := getattr(run.data, "canvas", None):
        words.append(f"{canvas}x{canvas}")
    if training.epochs:
        words.append("1 epoch" if training.epochs == 1 else f"{training.epochs:g} epochs")
    else:
        words.append(f"{training.updates:,} updates")
    return ", ".join(words)


def brief(section: Section, found: dict[Study, Results]) -> Iterator[str]:
    """The section of a table: a paragraph, the commands, and links to the rest."""
    yield f"## {section.title}"
    yield _prose(section.prose).partition("\n\n")[0]
    yield _commands(section, found)
    yield f"[Tables, curves and settings](results/{section.prose}.md)"


def details(section: Section, found: dict[Study, Results]) -> Iterator[str]:
    """The page of a table: prose, commands, tables, pictures."""
    yield f"# {section.title}"
    yield _prose(section.prose)
    yield _commands(section, found)
    for study in section.studies:
        if study not in found:
            continue
        shown = [*tables(found[study]), *tables_by_time(found[study])]
        yield "\n".join(map(writers.to_markdown, shown)).rstrip()
        files = {"every run": "runs.csv", "learning curves": "curves.png"}
        yield ", ".join(f"[{text}]({study.name}/{file})" for text, file in files.items())
    for text, file in section.pictures:
        if (RECORDS / file).exists():
            yield f"![{text}]({file})"
    yield "[All results](../results.md)"


def _commands(section: Section, found: dict[Study, Results]) -> str:
    trained = [study.commands for study in section.studies if study in found]
    return "```sh\n" + "\n".join(filter(None, [*trained, section.commands])) + "\n```"


def _prose(name: str) -> str:
    return (RECORDS / f"prose/{name}.md").read_text(encoding="utf-8").rstrip()


if __name__ == "__main__":
    main()
