"""Shipped specs by name: wherever a file is taken, from the repository and from a wheel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ladderspec as ls
from ladderspec.cli import main
from ladderspec.errors import SpecError
from ladderspec.experiments.reader import open_experiment
from ladderspec.shipped import PREFIX, shipped
from ladderspec.wiring.graph import parameters

ROOT = Path(__file__).parents[1]
SPECS = [name for name in shipped() if not name.startswith("experiments/")]
EXPERIMENTS = [name for name in shipped() if name.startswith("experiments/")]


def test_a_name_is_the_file() -> None:
    by_name, by_path = (
        ls.load(path) for path in ("ladderspec:ommnist/rladder", "specs/ommnist/rladder.yaml")
    )
    assert by_name.config == by_path.config
    assert ls.load("ladderspec:ommnist/rladder.yaml").config == by_path.config
    assert parameters(ls.graph("ladderspec:music/rladder")) == 3_220_871


def test_a_text_extends_a_shipped_spec() -> None:
    spec = ls.loads("extends: ladderspec:ommnist/rladder_tiny\nparams: {width: 5}")
    assert parameters(ls.graph(spec)) == 49_723


def test_an_experiment_names_shipped_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "extends: ladderspec:experiments/grouping\nspec: ladderspec:textured/rtagger_small\n"
        "rows: [{name: a}, {name: b, spec: ladderspec:textured/rtagger_tiny}]\nbase: a\n"
        "data: {canvas: 24}"
    )
    first, second = (parameters(run.graph) for run in open_experiment(path))
    assert (first, second) == (248_569, 62_175)
    assert open_experiment("ladderspec:experiments/quickstart").name == "quickstart"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ommnist/rlader", "did you mean `ladderspec:ommnist/rladder`?"),
        ("static_classifier", "did you mean `ladderspec:ommnist/static_classifier`?"),
        ("../pyproject", "`ladderspec specs` lists them"),
        ("", "`ladderspec specs` lists them"),
    ],
)
def test_misspelt_names(name: str, hint: str) -> None:
    with pytest.raises(SpecError) as error:
        ls.load(PREFIX + name)
    (finding,) = error.value.findings
    assert (finding.code, finding.hint) == ("F001", hint)


def test_a_missing_file_may_be_a_shipped_one(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["show", str(tmp_path / "specs/ommnist/rladder_quick.yaml")]) == 2
    assert "did you mean `ladderspec:ommnist/rladder_quick`?" in capsys.readouterr().err


@pytest.mark.parametrize("name", SPECS)
def test_a_copy_is_the_same_network(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    copy = tmp_path / "mine.yaml"
    assert main(["new", str(copy), "--from", name]) == 0
    assert parameters(ls.graph(copy)) == parameters(ls.graph(PREFIX + name))


@pytest.mark.parametrize("name", EXPERIMENTS[::4])
def test_a_copy_is_the_same_experiment(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    copy = tmp_path / "mine.yaml"
    assert main(["new", str(copy), "--from", PREFIX + name]) == 0
    copied, source = open_experiment(copy), open_experiment(PREFIX + name)
    assert [run.digest for run in copied] == [run.digest for run in source]


def test_the_list(capsys: pytest.CaptureFixture) -> None:
    assert main(["specs", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(found) == [PREFIX + name for name in shipped()]
    assert found["ladderspec:ommnist/rladder"]["parameters"] == 2_861_140
    assert main(["specs", "music"]) == 0
    assert capsys.readouterr().out.startswith("ladderspec:music/rladder         3,220,871  ")
    assert main(["specs", "musik"]) == 2


def test_inside_a_package(tmp_path: Path) -> None:
    """A wheel has the specs inside the package, and no repository around it."""
    package = tmp_path / "copy" / "ladderspec"
    package.mkdir(parents=True)
    for path in (ROOT / "ladderspec").iterdir():
        (package / path.name).symlink_to(path)
    (package / "shipped.py").unlink()
    (package / "shipped.py").write_text((ROOT / "ladderspec/shipped.py").read_text())
    (package / "specs").symlink_to(ROOT / "specs")
    code = "from ladderspec.shipped import folder; print(folder())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=package.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(package / "specs")
