"""Experiment files: rows by columns by seeds, and what is said of mistakes in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ladderspec.api import graph, load
from ladderspec.cli import main
from ladderspec.errors import SpecError, UsageError
from ladderspec.experiments.config import Quoted
from ladderspec.experiments.identity import digest
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.experiments.schedules import Halve
from tests.training import EXPERIMENT, SPEC, experiment

ROOT = Path(__file__).resolve().parents[2]

TEXT = """
name: table
data: {set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}
spec: nano.yaml
rows:
  - name: ladder
    title: The whole
    paper: {all: {digit: 0.74 ± 0.09}, few: {digit: 10.5}}
  - {name: open, variant: open, start: ladder, freeze: [encoder.conv2, lateral]}
columns:
  - {name: all}
  - name: few
    data: {labelled: 100}
    tasks: {agree: {kind: consistency, at: encoder.class}}
    set: {task.next_frame.weight: 3}
    training: {batch: 20, optimiser: {schedule: {kind: halve, floor: 0.001}}}
training: {updates: 12, optimiser: {lr: 0.01}}
seeds: [1, 5]
"""


def test_rows_by_columns_by_seeds(tmp_path: Path) -> None:
    table = open_experiment(experiment(tmp_path, TEXT))
    assert [run.id for run in table] == [
        f"{row}.{column}.seed{seed}"
        for row in ("ladder", "open")
        for column in ("all", "few")
        for seed in (1, 5)
    ]
    first, few, last = table.runs[0], table.runs[2], table.runs[-1]
    assert (first.title, last.title) == ("The whole", "open")
    assert first.paper == {"digit": Quoted(value=0.74, spread=0.09, text="0.74 ± 0.09")}
    assert few.paper == {"digit": Quoted(value=10.5, text="10.5")}
    assert (first.data.labelled, few.data.labelled) == (None, 100)
    assert (first.training.batch, few.training.batch) == (50, 20)
    assert few.training.optimiser.lr == 0.01
    assert few.training.optimiser.schedule == Halve(kind="halve", floor=0.001)
    assert list(few.spec.config.tasks) == ["digit", "next_frame", "agree"]
    assert few.spec.config.tasks["next_frame"].weight == 3
    assert last.origin is not None
    assert last.origin.id == "ladder.few.seed5"
    assert last.freeze == ("encoder.conv2", "lateral")


def test_choosing_runs(tmp_path: Path) -> None:
    table = open_experiment(experiment(tmp_path, TEXT))
    assert [run.id for run in table.select(["open"], ["few"])] == [
        "open.few.seed1",
        "open.few.seed5",
    ]
    other = table.select(["open"], ["few"], [9])
    assert [run.id for run in other] == ["open.few.seed9"]
    assert [run.origin.id for run in other if run.origin] == ["ladder.few.seed9"]
    with pytest.raises(UsageError, match=r"no row `opne`; did you mean `open`\?"):
        table.select(["opne"])


def test_a_run_is_known_by_what_its_numbers_depend_on(tmp_path: Path) -> None:
    """Not by titles, comments, places of files, or how it runs."""
    facts = [run.identity for run in open_experiment(experiment(tmp_path, TEXT))]
    assert len({digest(fact) for fact in facts}) == len(facts)
    assert json.loads(json.dumps(facts[0])) == facts[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    text = "# moved\n\n" + TEXT.replace("The whole", "RLadder") + "machine: {workers: 2}\n"
    moved = [run.identity for run in open_experiment(experiment(elsewhere, text))]
    assert [digest(fact) for fact in moved] == [digest(fact) for fact in facts]


def test_added_fields_of_the_data_count_only_if_they_are_set(tmp_path: Path) -> None:
    """A run recorded before the fields existed keeps its digest."""
    facts = open_experiment(experiment(tmp_path, TEXT)).runs[0].identity
    assert facts["data"] == {
        "set": "occluded_mnist",
        "input": "frames",
        "seed": None,
        "labelled_per_batch": None,
        "digits": "embedded",
        "canvas": 12,
        "digit": None,
        "visible": None,
        "bar": None,
        "velocity": [1, 2],
        "frames": 3,
        "extra": 0,
        "bounce": "reflect",
        "flights": "redrawn",
        "valid": None,
        "labelled": None,
        "keep": "all",
    }

    def changed(words: str) -> dict[str, Any]:
        text = TEXT.replace("frames: 3}", f"frames: 3, {words}}}")
        return open_experiment(experiment(tmp_path, text)).runs[0].identity

    defaults = changed("noise: 0, test_flights: 1, velocities: pairs")
    assert digest(defaults) == digest(facts)
    others = ["noise: 0.1", "noise: 0.2", "test_flights: 4", "velocities: grid"]
    found = [changed(words) for words in others]
    assert len({digest(fact) for fact in (facts, *found)}) == 5
    assert found[0]["data"] == {**facts["data"], "noise": 0.1}


BAD = """
name: table
data: {set: occluded_mnist, digits: embeded, canvas: 12, frmes: 3}
rows:
  - {name: ladder, spec: nano.yaml, papr: {digit: 1}, set: {task.nextframe.weight: 3}}
  - {name: ladder, spec: nana.yaml}
  - {name: open, spec: nano.yaml, variant: opne, freeze: [encoder.conv9]}
columns:
  - {name: few, tasks: {agree: {kind: consistncy, at: encoder.class}}, training: {batch: 0}}
training: {updates: 12, epochs: 2, optimiser: {schedule: halv}}
seeds: 1
"""


def test_all_mistakes_at_once_and_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, BAD))
    found = {(f.place.line if f.place else 0, f.message, f.hint) for f in error.value.findings}
    assert found == {
        (3, "`digits` cannot be `embeded`", "did you mean `embedded`?"),
        (3, "unknown key `frmes`", "did you mean `frames`?"),
        (5, "unknown key `papr`", "did you mean `paper`?"),
        (5, "no `task.nextframe` to set", "did you mean `task.next_frame`?"),
        (6, "two rows are called `ladder`", ""),
        (6, "no file `nana.yaml` beside this one", "did you mean `nano.yaml`?"),
        (7, "no variant `opne`", "did you mean `open`?"),
        (7, "`encoder.conv9` selects nothing to freeze", ""),
        (
            9,
            "unknown kind of task `consistncy`",
            "did you mean `consistency`? (a task of your own needs `--plugin FILE`)",
        ),
        (9, "`batch` is `0`, out of range", "at least 1"),
        (10, "no schedule `halv`", "did you mean `halve`?"),
    }


@pytest.mark.parametrize("section", ["data", "training"])
def test_a_missing_section_hides_no_other_mistakes(tmp_path: Path, section: str) -> None:
    (line,) = [number for number, text in enumerate(BAD.splitlines(), 1) if section in text[:8]]
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, BAD))
    others = [f.message for f in error.value.findings if f.place and f.place.line != line]
    text = "\n".join(part for part in BAD.splitlines() if section not in part[:8])
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, text))
    found = [finding.message for finding in error.value.findings]
    assert sorted(found) == sorted([*others, f"`{section}` is missing"])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("updates: 12, ", "", "neither `updates` nor `epochs`"),
        ("updates: 12,", "updates: 12, epochs: 2,", "both `updates` and `epochs`"),
        ("set: occluded_mnist", "set: ocluded_mnist", "no data set `ocluded_mnist`"),
        ("set: occluded_mnist, ", "", "`set` is missing"),
        ("spec: nano.yaml\n", "", "`spec` is missing"),
        ("0.74 ± 0.09", "good", "`good` is not a number"),
        ("start: ladder", "start: laddr", "no row or folder `laddr` to start from"),
        ("start: ladder", "start: open", "`open` starts from itself"),
        (
            "title: The whole",
            "start: open",
            "`ladder` starts from itself: ladder <- open <- ladder",
        ),
        ("floor: 0.001", "floor: 0.001, watch: digit.eror", "no measure `digit.eror`"),
        ("lr: 0.01", "lr: 0.01, clip: {tasks: {digits: 1}}", "no task `digits` to clip"),
        (
            "labelled: 100",
            "labelled: 100, labelled_per_batch: 21",
            "a batch of 20 cannot hold 21 labelled items",
        ),
        ("seeds: [1, 5]", "seeds: 0", "`seeds` is 0: at least one is needed"),
        ("seeds: [1, 5]", "seeds: []", "`seeds` needs at least one item"),
        ("labelled: 100", "labelled: 15", "`labelled` cannot be `15`"),
        ("canvas: 12", "canvas: 8", "a digit of 8 has 0 pixels to fly in a canvas of 8"),
    ],
)
def test_mistakes(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in TEXT
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, TEXT.replace(before, after)))
    assert message in [finding.message for finding in error.value.findings]


def test_data_sets_give_hints(tmp_path: Path) -> None:
    text = TEXT.replace("frames: 3}", "frames: 3, keep: labelled}")
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, text))
    assert {finding.hint for finding in error.value.findings} == {"like `labelled: 1000`"}


def test_mistakes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = experiment(tmp_path, TEXT.replace("batch: 20", "btach: 20"))
    assert main(["train", str(place), "--list"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error[S101]: unknown key `btach`",
        f"  --> {place}:16:16  (columns[1].training.btach)",
        "16 |     training: {btach: 20, optimiser: {schedule: {kind: halve, floor: 0.001}}}",
        "   |                ^^^^^ did you mean `batch`?",
    ]
    assert main(["train", str(tmp_path / "none.yaml")]) == 2
    capsys.readouterr()


def test_shipped_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    for place in sorted((ROOT / "specs" / "experiments").glob("*.yaml")):
        assert main(["train", str(place), "--list"]) == 0
        assert capsys.readouterr().out.strip()


def test_advice_that_no_experiment_can_take_is_not_given(tmp_path: Path) -> None:
    """`--root` is for specs alone."""
    experiment(tmp_path)
    (tmp_path / "sub").mkdir()
    for name, text in [
        ("child", "extends: ../experiment.yaml\nname: child\n"),
        ("of_spec", EXPERIMENT.replace("nano.yaml", "spec.yaml")),
        ("spec", "extends: ../nano.yaml\n"),
    ]:
        (tmp_path / "sub" / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name in ("child", "of_spec"):
        with pytest.raises(SpecError, match="those of its own folder tree") as caught:
            open_experiment(tmp_path / "sub" / f"{name}.yaml")
        assert "--root" not in str(caught.value)
    with pytest.raises(SpecError, match="folder tree; `--root FOLDER` widens it"):
        load(tmp_path / "sub" / "spec.yaml")


def test_an_experiment_extends_another_and_changes_parameters(tmp_path: Path) -> None:
    base = experiment(tmp_path, TEXT)
    spec = tmp_path / "nano.yaml"
    wide = spec.read_text(encoding="utf-8").replace("Conv, channels: 4", "Conv, channels: $width")
    spec.write_text(f"params: {{width: 4}}\nexpect: {{parameters: 1}}\n{wide}", encoding="utf-8")
    small = f"extends: {base.name}\nname: small\nparams: {{width: 2}}\nseeds: [7]\n"
    (tmp_path / "small.yaml").write_text(small, encoding="utf-8")
    table = open_experiment(tmp_path / "small.yaml")
    assert table.config.name == "small"
    assert [run.seed for run in table] == [7] * 4
    assert graph(table.runs[0].spec).nodes["encoder.conv2"]["shape"][0] == 2
    with pytest.raises(SpecError, match="expected 1 parameters"):
        open_experiment(base)  # the spec's own expectation holds where nothing is changed


def test_nothing_is_missed_that_the_base_may_have(tmp_path: Path) -> None:
    place = tmp_path / "small.yaml"
    place.write_text("extends: nowhere.yaml\nname: small\n", encoding="utf-8")
    with pytest.raises(SpecError) as error:
        open_experiment(place)
    assert [finding.code for finding in error.value.findings] == ["S110"]


ALL_OF_THE_ROW = "{all: {digit: 0.74 ± 0.09}, few: {digit: 10.5}}"


@pytest.mark.parametrize(
    ("paper", "message"),
    [
        ("{digit: 0.74}", "`digit` would apply to all 2 columns"),
        ("{digit: 0.74}", "say of which column: `paper: {all: {digit: 0.74}}`"),
        ("{few: {digt: 0.74}}", "no measure `digt`; did you mean `digit`?"),
        ("{few: {digit.eror: 0.74}}", "no measure `digit.eror`; did you mean `digit.error`?"),
        ("{fwe: {digit: 0.74}}", "no column `fwe`; did you mean `few`?"),
    ],
)
def test_numbers_of_the_paper_have_a_place(paper: str, message: str, tmp_path: Path) -> None:
    assert ALL_OF_THE_ROW in TEXT
    with pytest.raises(SpecError) as caught:
        open_experiment(experiment(tmp_path, TEXT.replace(ALL_OF_THE_ROW, paper)))
    (finding,) = caught.value.findings
    assert message in f"{finding.message}; {finding.hint}"
    assert finding.place is not None
    assert finding.place.line == 8


def test_numbers_of_a_column_have_a_row(tmp_path: Path) -> None:
    said = "name: few\n    paper: {%s: {teacher.digit: 3}}"
    table = open_experiment(experiment(tmp_path, TEXT.replace("name: few", said % "open")))
    assert table.runs[-1].paper == {"teacher.digit": Quoted(value=3, text="3")}
    with pytest.raises(SpecError, match="no row `opn`"):
        open_experiment(experiment(tmp_path, TEXT.replace("name: few", said % "opn")))


# --- rows that build on rows ----------------------------------------------------------------------

ROWS = """
name: rows
data: {set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}
spec: nano.yaml
rows:
  - {name: whole, edges: {decoder_to_encoder: all}, training: {batch: 7}, freeze: [encoder.conv2]}
  - {name: closed, of: whole, without: [decoder_to_encoder]}
  - {name: again, of: closed, training: {batch: 9}}
training: {updates: 12}
"""


def test_a_row_builds_on_another(tmp_path: Path) -> None:
    """What it removes goes after what the other one has added."""
    whole, closed, again = open_experiment(experiment(tmp_path, ROWS))
    roles = [{str(r) for *_, r in graph(run.spec).edges(data="role")} for run in (whole, closed)]
    assert roles[0] - roles[1] == {"decoder_to_encoder"}
    assert [run.training.batch for run in (whole, closed, again)] == [7, 7, 9]
    assert closed.freeze == ("encoder.conv2",)
    assert digest(graph_facts(again)) == digest(graph_facts(closed))
    assert [run.title for run in (whole, closed, again)] == ["whole", "closed", "again"]


def graph_facts(run: Run) -> dict[str, object]:
    return {"graph": run.identity["graph"]}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("of: whole", "of: whoel", "no row `whoel`"),
        ("of: whole", "of: again", "a row builds on itself: closed <- again <- closed"),
        ("seeds: [1, 5]", "seeds: [1, 5, 1]", "seed 1 is listed twice"),
        ("[encoder.conv2]", "[level.conv9]", "`level.conv9` selects nothing to freeze"),
        ("[encoder.conv2]", "[task.digti]", "`task.digti` selects nothing to freeze"),
    ],
)
def test_rows_that_build_on_nothing(tmp_path: Path, before: str, after: str, message: str) -> None:
    text = ROWS + "seeds: [1, 5]\n"
    assert before in text
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, text.replace(before, after)))
    assert message in [finding.message for finding in error.value.findings]


def test_parameters_of_a_row_hold_over_those_of_its_variant(tmp_path: Path) -> None:
    text = ROWS.replace("edges: {decoder_to_encoder: all}", "variant: wide, params: {width: 3}")
    place = experiment(tmp_path, text)
    spec = tmp_path / "nano.yaml"
    wide = spec.read_text(encoding="utf-8").replace("channels: 4", "channels: $width")
    wide = wide.replace("variants:\n", "variants:\n  wide: {set: {params.width: 6}}\n")
    spec.write_text(f"params: {{width: 4}}\n{wide}", encoding="utf-8")
    assert graph(open_experiment(place).runs[0].spec).nodes["encoder.conv2"]["shape"][0] == 3
    place.write_text(text.replace("width: 3", "widht: 3"), encoding="utf-8")
    with pytest.raises(SpecError, match="no parameter `widht` to set"):
        open_experiment(place)


def test_epochs_take_the_place_of_updates(tmp_path: Path) -> None:
    text = ROWS.replace("training: {batch: 9}", "training: {epochs: 2}")
    runs = open_experiment(experiment(tmp_path, text)).runs
    assert [(run.training.updates, run.training.epochs) for run in runs] == [
        (12, None),
        (12, None),
        (None, 2.0),
    ]


def test_a_folder_to_start_from_is_the_same_for_all_seeds(tmp_path: Path) -> None:
    (tmp_path / "out" / "a.seed0").mkdir(parents=True)
    text = ROWS.replace("of: whole", "start: out/a.seed0") + "seeds: 2\n"
    table = open_experiment(experiment(tmp_path, text))
    for run in (*table.select(["closed"]), *table.select(["closed"], seeds=[7])):
        assert run.start == str(tmp_path / "out" / "a.seed0")


def test_a_run_depends_on_the_one_that_it_starts_from(tmp_path: Path) -> None:
    text = ROWS.replace("of: whole", "start: whole")
    before = open_experiment(experiment(tmp_path, text)).runs
    after = open_experiment(experiment(tmp_path, text.replace("batch: 7", "batch: 8"))).runs
    same = [digest(a.identity) == digest(b.identity) for a, b in zip(before, after, strict=True)]
    assert same == [False, False, False]
    assert before[2].origin is not None  # which `again` has from `closed`


def test_specs_are_told_apart_by_where_they_are(tmp_path: Path) -> None:
    """Two files may call different specs by the same name."""
    (tmp_path / "sub").mkdir()
    experiment(tmp_path / "sub", TEXT)
    (tmp_path / "nano.yaml").write_text(SPEC.replace("channels: 8", "channels: 6"))
    own = tmp_path / "own.yaml"
    rows = "[{name: theirs}, {name: ours, spec: nano.yaml}]"
    own.write_text(f"extends: sub/experiment.yaml\nrows: {rows}\nbase: null\n")
    theirs, ours = (
        graph(run.spec) for run in open_experiment(own).select(seeds=[1], columns=["all"])
    )
    assert theirs.nodes["encoder.top"]["shape"] == (8,)
    assert ours.nodes["encoder.top"]["shape"] == (6,)


def test_broken_specs_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("levels: [")
    rows = """[{name: a, spec: broken.yaml}, {name: b, spec: none.yaml}, {name: c, spec: null},
  {name: d, of: dd}, {name: e, start: d}]"""
    text = f"data: occluded_mnist\nspec: nano.yaml\nrows: {rows}\ntraining: {{updates: 0}}\n"
    with pytest.raises(SpecError) as error:
        open_experiment(experiment(tmp_path, text))
    said = [finding.message for finding in error.value.findings]
    assert "no file `none.yaml` beside this one" in said
    assert "`spec` is missing" in said
    assert "`updates` is `0`, out of range" in said
    assert [message for message in said if "row" in message] == ["no row `dd`"]
    assert len(said) == 5, said


@pytest.mark.parametrize(
    "text", ["", "just words", "- a\n- b", "null", "variants: 3", "variants: [a]"]
)
def test_a_spec_that_is_none(tmp_path: Path, text: str) -> None:
    """A row that changes its spec reads it first."""
    place = experiment(tmp_path, EXPERIMENT.replace("variant: open", "without: [lateral]"))
    (tmp_path / "nano.yaml").write_text(text)
    with pytest.raises(SpecError):
        open_experiment(place)
