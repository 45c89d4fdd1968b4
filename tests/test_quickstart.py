"""The quickstart and the grouping experiment, cut short: everything that they promise is there."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import mean, stdev

import pytest

from ladderspec.cli import main
from ladderspec.experiments.reader import open_experiment

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "specs/experiments"
SHORT = ["training.updates=2", "evaluation.every=2", "evaluation.statistics=1"]
SHORT += ["evaluation.items=30", "evaluation.batch=300"]


def ablate(name: str, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """The output of `ablate` for a shortened experiment, and the names of the files it writes."""
    words = [word for change in SHORT for word in ("--set", change)]
    assert main(["ablate", str(EXPERIMENTS / name), "-o", str(out), "--threads", "1", *words]) == 0
    printed = capsys.readouterr().out
    places = [word for word in printed[printed.index("wrote ") :].split()[1:] if word[0] != "."]
    assert all(Path(place).stat().st_size for place in places)
    return printed, [Path(place).with_suffix("").name for place in places]


def test_quickstart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed, files = ablate("quickstart.yaml", tmp_path, capsys)
    parameters = {
        "no memory": "9,272",
        "feedback only": "9,856",
        "state only": "11,872",
        "state and feedback": "14,208",
        "w/o lateral": "11,800",
        "copy of the last frame": "-",
    }
    for title, count in parameters.items():
        assert re.search(rf"^{title} +{count} +\d+\.\d", printed, re.MULTILINE)
    names = ["memoryless", "feedback", "state", "both", "no_lateral"]
    predictions = [f"predictions.{name}" for name in names]
    assert files == ["baselines", "table", "runs", *predictions, "curves", "bars"]
    assert "so validation and test errors differ" in printed


def test_grouping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed, files = ablate("grouping.yaml", tmp_path, capsys)
    number = r"-?0\.\d+"
    assert re.search(rf"^RTagger +62,175 +{number}$", printed, re.MULTILINE)
    assert re.search(
        rf"^w/o decoder-to-encoder +47,663 +{number} +[+-]0\.\d+$", printed, re.MULTILINE
    )
    assert re.search(rf"^Tagger +21,463( +{number}){{3}}$", printed, re.MULTILINE)  # by iteration
    predictions = [f"predictions.{name}" for name in ("rtagger", "no_decoder_to_encoder", "tagger")]
    assert files == ["baselines", "table", "runs", "by_time", *predictions, "curves", "bars"]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_pages_show_the_recorded_runs(page: str) -> None:
    """Every line of the table has the mean and the deviation of the recorded runs."""
    with (ROOT / "docs/results/quickstart/runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    numbers = {
        name: [float(row["value"]) for row in rows if row["row"] == name]
        for name in dict.fromkeys(row["row"] for row in rows)
    }
    titles = {run.row: run.title for run in open_experiment(EXPERIMENTS / "quickstart.yaml")}
    text = (ROOT / page).read_text()
    shown = re.findall(r"^(\w.*?) {2,}[\d,-]+ +([\d.]+) ± ([\d.]+)(?= |$)", text, re.MULTILINE)
    assert len(shown) >= len(titles)
    found = {title: (float(first), float(second)) for title, first, second in shown}
    for name, values in numbers.items():
        title = titles.get(name, name)
        if title in found or name in titles:
            assert len(values) == 3
            assert found[title] == (round(mean(values), 1), round(stdev(values), 1))


def test_what_the_makefile_runs() -> None:
    """`make quickstart` checks and draws the spec that the experiment trains."""
    makefile = (ROOT / "Makefile").read_text()
    (spec,) = re.findall(r"^SPEC +:= (.+)$", makefile, re.MULTILINE)
    experiment = EXPERIMENTS / "quickstart.yaml"
    (said,) = re.findall(r"^spec: (.+)$", experiment.read_text(), re.MULTILINE)
    assert (ROOT / spec).samefile(experiment.parent / said)
    words = [line.split("ladderspec ")[1].split() for line in makefile.splitlines()
             if line.startswith("\t$(BIN)/ladderspec") and "schema" not in line]  # fmt: skip
    assert [line[0] for line in words] == ["validate", "show", "draw", "ablate"]
    assert words[-1][1] == "specs/experiments/quickstart.yaml"
