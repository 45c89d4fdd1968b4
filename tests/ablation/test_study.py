"""Leave-one-out studies: a row for everything that can go, and what each was worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import ladderspec as ls
from ladderspec.ablation.report import worths
from ladderspec.ablation.results import collect
from ladderspec.ablation.study import Kind, Study, make_study
from ladderspec.cli import main
from ladderspec.errors import SpecError, UsageError
from ladderspec.experiments.reader import open_experiment
from ladderspec.names import Role
from tests.training import EXPERIMENT, SPEC, experiment

TEXT = EXPERIMENT + "seeds: 2\n"
Edges = set[tuple[str, str, str]]


def edges(graph: object) -> Edges:
    return set(graph.edges(keys=True))  # type: ignore[attr-defined]


def study_of(folder: Path, kind: Kind, text: str = TEXT, **words: object) -> Study:
    return make_study(experiment(folder, text), kind, folder / "out", **words)  # type: ignore[arg-type]


def finish(study: Study, columns: Sequence[str] = ()) -> dict[str, float]:
    """Made-up results: what is lacking costs a number of its own; by selector."""
    cost = {selector: 1.5 * (i + 1) for i, selector in enumerate(study.lacks.values())}
    for run in open_experiment(study.path).select(columns=columns):
        error = 10 + 3 * run.seed + cost.get(study.lacks.get(run.row, ""), 0)
        folder = study.path.parent / run.id
        folder.mkdir()
        result = {
            "digest": run.digest,
            "metrics": {"test": {"digit.error": error}},
            "updates": 1,
            "units": {"digit.error": "%"},
            "parameters": 1,
        }
        (folder / "result.json").write_text(json.dumps(result))
    return cost


def test_every_role_goes_alone(tmp_path: Path) -> None:
    study = study_of(tmp_path, "role")
    assert list(study.lacks.values()) == ["lateral@*", "decoder_to_encoder@*"]
    assert study.required == ("encoder@*", "state@*", "decoder@*")
    whole, *lacking = [run for run in open_experiment(study.path) if run.seed == 0]
    before = ls.graph(whole.spec)
    for run in lacking:
        gone = edges(before) - edges(ls.graph(run.spec))
        role = Role(study.lacks[run.row].removesuffix("@*"))
        assert gone == {e for e in edges(before) if before.edges[e]["role"] is role}
    assert [run.title for run in lacking] == ["w/o lateral", "w/o decoder to encoder"]
    assert {run.training.updates for run in lacking} == {12}


def test_every_arrow_goes_alone(tmp_path: Path) -> None:
    study = study_of(tmp_path, "edge")
    whole, *lacking = [run for run in open_experiment(study.path) if run.seed == 0]
    before = edges(ls.graph(whole.spec))
    assert len(study.lacks) + len(study.required) == len(before)
    assert len(lacking) == len(study.lacks)
    gone = [before - edges(ls.graph(run.spec)) for run in lacking]
    assert all(gone)
    assert len({frozenset(arrows) for arrows in gone}) == len(gone)
    row = next(n for n, s in study.lacks.items() if s == "decoder.lstm1(t-1) -> encoder.lstm1")
    assert row == "no_decoder_lstm1_t_1_encoder_lstm1"


@pytest.mark.parametrize("kind", ["role", "edge"])
@pytest.mark.parametrize(
    "change",
    [
        "edges: {decoder_to_encoder: all}",
        "edges: {add: ['decoder.input(t-1) -> encoder.conv2']}",
        "without: [lateral@conv2]",
    ],
)
def test_a_row_that_changes_arrows_itself(tmp_path: Path, kind: Kind, change: str) -> None:
    text = TEXT.replace("{name: ladder,", f"{{name: ladder, {change},")
    study = make_study(experiment(tmp_path, text), kind, tmp_path / "out")
    whole, *lacking = [run for run in open_experiment(study.path) if run.seed == 0]
    assert lacking
    for run in lacking:
        assert edges(ls.graph(run.spec)) < edges(ls.graph(whole.spec))


def test_what_a_column_lacks_already_stays(tmp_path: Path) -> None:
    text = TEXT + "columns: [{name: full}, {name: open, without: [lateral]}]\n"
    study = make_study(experiment(tmp_path, text.replace("paper: {digit: 0.74 ± 0.09}", "")),
                       "role", tmp_path / "out")  # fmt: skip
    assert list(study.lacks.values()) == ["decoder_to_encoder@*"]
    assert "lateral@*" in study.required


def test_where_a_row_starts(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    begun = TEXT.replace("{name: ladder,", "{name: ladder, start: before, freeze: [lateral],")
    study = make_study(experiment(tmp_path, begun), "edge", tmp_path / "out")
    starts = {run.start for run in open_experiment(study.path)}
    assert starts == {str(tmp_path / "before")}
    after = TEXT.replace("{name: open,", "{name: open, start: ladder,")
    with pytest.raises(UsageError, match="row `open` starts from row `ladder`, which the study"):
        make_study(experiment(tmp_path, after), "edge", tmp_path / "out", row="open")


def test_what_is_said_of_rows_that_the_study_lacks(tmp_path: Path) -> None:
    plain = TEXT.replace(", paper: {digit: 0.74 ± 0.09}", "")
    column = "columns: [{name: all, paper: {ladder: {digit: 1}, open: {digit: 2}}}]\n"
    assert study_of(tmp_path, "role", plain + column).lacks
    frozen = plain.replace("{name: ladder", "{name: ladder, start: null, freeze: [lateral]")
    study = study_of(tmp_path, "role", frozen)
    assert "lateral@*" in study.required, "nothing would be left to freeze"
    assert study.base.start is None
    long = SPEC.replace("lstm1", "a_first_layer_that_remembers").replace("conv2", "b" * 40)
    study = make_study(experiment(tmp_path, plain, long), "edge", tmp_path / "out")
    assert max(map(len, study.lacks)) < 60


@pytest.mark.parametrize("rows", ["[{title: a}]", "{a: {variant: open}}"])
def test_what_is_wrong_is_said_of_the_experiment(tmp_path: Path, rows: str) -> None:
    text = TEXT[: TEXT.index("rows:")] + f"rows: {rows}\n" + TEXT[TEXT.index("training:") :]
    with pytest.raises(SpecError) as error:
        study_of(tmp_path, "role", text)
    assert all(
        f.place and f.place.source.name.endswith("experiment.yaml") for f in error.value.findings
    )


def test_another_row(tmp_path: Path) -> None:
    study = study_of(tmp_path, "role", row="open")
    assert list(study.lacks.values()) == ["lateral@*", "decoder@*"]  # nothing loops through it
    with pytest.raises(UsageError, match="no row `opne`; did you mean `open`"):
        study_of(tmp_path, "role", row="opne")


def test_of_a_spec(tmp_path: Path) -> None:
    place = experiment(tmp_path, TEXT)
    with pytest.raises(UsageError, match=r"nano\.yaml is a spec: .* `--like EXPERIMENT`"):
        make_study(tmp_path / "nano.yaml", "role", tmp_path / "out")
    study = make_study(tmp_path / "nano.yaml", "role", tmp_path / "out", like=place)
    runs = open_experiment(study.path).runs
    assert [run.row for run in runs][::2] == ["whole", "no_lateral", "no_decoder_to_encoder"]
    assert runs[0].identity == open_experiment(place).runs[0].identity


def test_the_worth_of_an_arrow(tmp_path: Path) -> None:
    study = study_of(tmp_path, "edge")
    cost = finish(study)
    found = open_experiment(study.path)
    results = collect(found, found.runs, tmp_path / "out")
    assert worths(results, study, "", results.measures[0]) == pytest.approx(cost)


COLUMNS = """
columns:
  - {name: small}
  - {name: wide, title: Wide, set: {encoder.lstm1.channels: 3}}
  - {name: wider, set: {encoder.lstm1.channels: 5}}
"""


def test_the_worth_in_every_column_that_has_runs(tmp_path: Path) -> None:
    text = TEXT.replace(", paper: {digit: 0.74 ± 0.09}", "") + COLUMNS
    finish(study_of(tmp_path, "role", text), ["wide", "wider"])
    words = ["ablate", str(tmp_path / "experiment.yaml"), "-o", str(tmp_path / "out")]
    assert main([*words, "--each-role", "--table-only"]) == 0
    drawn = {place.name: place.read_text() for place in (tmp_path / "out").glob("*.svg")}
    assert set(drawn) == {"worth_digit_error_wide.svg", "worth_digit_error_wider.svg"}
    assert "ladder, Wide: what each kind of arrow is worth" in drawn["worth_digit_error_wide.svg"]
    assert all("rise of digit error (%) without it" in text for text in drawn.values())


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(study_of(tmp_path, "role"))
    words = ["ablate", str(tmp_path / "experiment.yaml"), "-o", str(tmp_path / "out")]
    assert main([*words, "--each-role", "--table-only"]) == 0
    said = capsys.readouterr()
    assert said.err == "cannot be left out: `encoder@*`, `state@*`, `decoder@*`\n"
    line = next(line for line in said.out.splitlines() if line.startswith("w/o lateral"))
    assert line.split() == ["w/o", "lateral", "1", "13.00", "±", "2.12", "+1.50", "[1.50,", "1.50]"]
    drawn = (tmp_path / "out" / "worth_digit_error.svg").read_text()
    assert "rise of digit error (%) without it" in drawn
