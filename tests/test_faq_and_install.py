"""docs/faq.md and docs/install.md: every command and every spec that they name works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import ladderspec as ls
from ladderspec.cli import main
from ladderspec.experiments.reader import open_experiment
from tests.test_packaging import COMMAND, MESSAGE, python
from tests.training import EXPERIMENT, experiment

ROOT = Path(__file__).resolve().parent.parent
FAQ = (ROOT / "docs/faq.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs/install.md").read_text(encoding="utf-8")
SPEC = """
input: {channels: 1, size: [12, 12]}
time: {frames: 3}
levels:
  - {name: conv_1, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
  - {name: conv_2, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
  - {name: conv_3, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
tasks: {next_frame: {kind: prediction, at: decoder.input}}
"""


def quoted(page: str, start: str) -> list[str]:
    """What a page says in backquotes that begins like this, with line breaks as spaces."""
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    found = [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", page)]
    return [text for text in found if text.startswith(start)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPEC)
    return tmp_path


# --- faq ------------------------------------------------------------------------------------------


def test_commands_of_the_faq(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment(here)
    commands = quoted(FAQ, "ladderspec ")
    assert len(commands) == 3, "a new command of the page needs a test"
    for text in commands:
        words = text.split()[1:]
        words += ["--table-only"] if words[0] == "ablate" else []  # trains nothing
        assert main(words) == 0, text
    assert (here / "mine.svg").exists()
    assert "classifier" in capsys.readouterr().out
    assert main(["draw", "mine.yaml", *quoted(FAQ, "-o mine.tex")[0].split()]) == 0
    assert "tikzpicture" in (here / "mine.tex").read_text()


def test_selectors_of_the_faq(here: Path) -> None:
    changes = quoted(FAQ, "--without ")
    assert len(changes) == 3
    for change in changes:
        words = change.split()
        assert main(["show", "mine.yaml", *words]) == 0
        changed = ls.graph(ls.load("mine.yaml", without=words[1:]))
        assert len(changed.edges) < len(ls.graph("mine.yaml").edges)


def test_settings_of_the_faq(here: Path) -> None:
    (setting,) = quoted(FAQ, "machine: ")
    path = experiment(here, re.sub(r"machine:.*", setting, EXPERIMENT))
    assert open_experiment(path).runs[0].machine.device == "cuda"


def test_architectures_of_the_faq_are_shipped() -> None:
    question = next(line for line in FAQ.splitlines() if "Can I use it for" in line)
    shipped = " ".join(p.read_text(encoding="utf-8") for p in (ROOT / "specs/related").iterdir())
    for name in ("U-Net", "PredNet", "ConvLSTM", "BLT"):
        assert name in question
        assert name.lower() in shipped.lower()


# --- install --------------------------------------------------------------------------------------


def test_extras_and_dependencies_of_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = INSTALL.partition("## Extras")[2].partition("\n\npng")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert named == set(project["optional-dependencies"])
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert f"installs {words[len(project['dependencies'])]} small packages" in INSTALL
    assert project["requires-python"] == ">=3.11"
    assert "needs Python 3.11 or later" in INSTALL
    extras = {name for line in re.findall(r"\.\[([\w,]+)\]", INSTALL) for name in line.split(",")}
    assert extras <= named
    assert "torch==" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert f"ladderspec: {MESSAGE}\n" in INSTALL


def test_commands_that_the_page_names_work_without_torch(here: Path) -> None:
    sentence = " ".join(
        INSTALL.partition("installs six small packages.")[2].split(" work")[0].split()
    )
    commands = re.findall(r"`(\w+)`", sentence)
    assert len(commands) == 9
    (here / "same.yaml").write_text(SPEC)
    for command in commands:
        words = {
            "data": "list",
            "schema": "",
            "draw": "mine.yaml -o -",
            "diff": "mine.yaml same.yaml",
        }
        code, out, err = without_torch(here, command, *words.get(command, "mine.yaml").split())
        assert (code, err) == (0, ""), command
        assert out or command == "diff"


def without_torch(folder: Path, *words: str) -> tuple[int, str, str]:
    return python(COMMAND, *words, cwd=folder, path=str(ROOT))


def test_editors(here: Path) -> None:
    own = (ROOT / "docs/own_cells.md").read_text(encoding="utf-8")
    (here / "my_cells.py").write_text(re.findall(r"```python\n(.*?)```", own, re.DOTALL)[0])
    (here / "mine.yaml").unlink()
    new, schema = (text.split()[1:] for text in quoted(INSTALL, "ladderspec "))
    assert without_torch(here, *new)[0] == 0
    before = (here / "ladderspec.schema.json").read_text()
    assert without_torch(here, *schema)[0] == 0
    assert len((here / "ladderspec.schema.json").read_text()) > len(before)


def test_the_hook_exists() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", INSTALL, re.DOTALL)
    wanted = yaml.safe_load(example)["repos"][0]["hooks"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in wanted] == [hook["id"] for hook in hooks]
