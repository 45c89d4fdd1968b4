"""Commands on a terminal: nothing is wider than it is, and colours can be switched off."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from unicodedata import combining

import pytest

from ladderspec.api import load, loads
from ladderspec.cli import main
from ladderspec.drawing import ladder
from ladderspec.errors import SpecError

SPECS = [
    "specs/ommnist/rladder.yaml",
    "specs/textured/rtagger_tiny.yaml",
    "specs/related/unet.yaml",
]
SHIPPED = [
    path
    for path in sorted(Path("specs").rglob("*.yaml"))
    if "experiments" not in path.parts and not path.stem.endswith(("_small", "_tiny"))
]
COMMANDS = {
    "show": ["show"],
    "ladder": ["show", "--ladder"],
    "graph": ["graph"],
    "plan": ["plan"],
    "diff": ["diff", "--without", "lateral"],
}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, words: list[str], columns: int) -> str:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(columns))
    main(words)
    monkeypatch.undo()
    return out.getvalue()


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("command", list(COMMANDS))
def test_output_fits(
    command: str, spec: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *options = COMMANDS[command]
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(monkeypatch, [name, spec, *options], columns)
    assert "\033" not in text
    widths = [sum(not combining(character) for character in line) for line in text.splitlines()]
    assert max(widths) <= columns


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_no_row_of_a_ladder_is_broken(path: Path) -> None:
    spec = load(path)
    rows = [ladder(spec, width=width).partition("\n\n")[0].splitlines() for width in (None, 80)]
    assert len(rows[0]) == len(rows[1])


@pytest.mark.parametrize("command", list(COMMANDS))
def test_colours_change_nothing_else(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *options = COMMANDS[command]
    words = [name, SPECS[0], *options]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    coloured = printed(monkeypatch, words, 80)
    assert "\033[" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert re.sub(r"\033\[\d+m", "", coloured) == printed(monkeypatch, words, 80)


def test_the_list_of_specs_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, ["specs", "related"], 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "ladderspec:related/unet" in text
    assert "\n    Recurrent encoder, plain decoders" in text  # titles in lines of their own


def test_the_list_of_templates_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, ["new", "--list"], 80)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_mistakes_fit(columns: int) -> None:
    """The mark stays below what is wrong, also in a line that is longer than the terminal."""
    text = Path("ladderspec/templates/ladder.yaml").read_text()
    for right, wrong in (("convG3", "convg3"), ("decoder.input", "decoder.inptu")):
        text = text.replace(right, wrong)
    with pytest.raises(SpecError) as caught:
        loads(text.replace("ConvLSTM", "convlstm"))
    assert len(caught.value.findings) > 4
    for finding in caught.value.findings:
        lines = finding.full(columns).splitlines()
        assert all(
            len(line) <= columns for line in lines if "-->" not in line
        )  # a path stays whole
        (mark,) = (i for i, line in enumerate(lines) if re.fullmatch(r" +\| +\^+( .*)?", line))
        start, end = re.search(r"\^+", lines[mark]).span()
        place = finding.place
        assert place.source.text[place.start : place.end].startswith(lines[mark - 1][start:end])


@pytest.mark.parametrize("words", ["show", "draw a.yaml --frmat svg", "show a.yaml b.yaml"])
def test_complaints_fit(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("COLUMNS", "50")
    with pytest.raises(SystemExit):
        main(words.split())
    monkeypatch.undo()
    lines = err.getvalue().splitlines()
    assert lines[0].startswith("ladderspec ")
    assert max(map(len, lines)) <= 50
