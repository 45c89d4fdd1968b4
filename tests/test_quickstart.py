"""The quickstart experiment, cut short: everything that it promises is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ladderspec.cli import main

ROOT = Path(__file__).resolve().parent.parent
SHORT = {
    "updates: 400": "updates: 2",
    "every: 100, items: 100, batch: 100": "every: 2, statistics: 1, items: 30, batch: 300",
}


def short(folder: Path) -> Path:
    text = (ROOT / "specs/experiments/quickstart.yaml").read_text(encoding="utf-8")
    text = text.replace("../textured", str(ROOT / "specs/textured"))
    for before, after in SHORT.items():
        assert before in text
        text = text.replace(before, after)
    place = folder / "quickstart.yaml"
    place.write_text(text, encoding="utf-8")
    return place


def test_quickstart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["ablate", str(short(tmp_path)), "-o", str(out), "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^RTagger +62,175 +-?0\.\d+$", said, re.MULTILINE)
    assert re.search(r"^w/o decoder-to-encoder +47,663 +-?0\.\d+ +[+-]0\.\d+$", said, re.MULTILINE)
    assert re.search(r"^Tagger +21,463( +-?0\.\d+){3}$", said, re.MULTILINE)  # by iteration
    places = said[said.index("wrote ") :].split()[1:]
    stems = [Path(place).with_suffix("").name for place in places if not place.startswith(".")]
    assert stems == [
        "baselines", "table", "runs", "by_time", "predictions.rtagger",
        "predictions.no_decoder_to_encoder", "predictions.tagger", "curves", "bars",
    ]  # fmt: skip
    assert all(Path(place).stat().st_size for place in places if not place.startswith("."))


def test_what_the_makefile_runs() -> None:
    """`make quickstart` checks and draws the spec that the experiment trains."""
    makefile = (ROOT / "Makefile").read_text()
    (spec,) = re.findall(r"^SPEC +:= (.+)$", makefile, re.MULTILINE)
    experiment = ROOT / "specs/experiments/quickstart.yaml"
    (said,) = re.findall(r"^spec: (.+)$", experiment.read_text(), re.MULTILINE)
    assert (ROOT / spec).samefile(experiment.parent / said)
    words = [line.split("ladderspec ")[1].split() for line in makefile.splitlines()
             if line.startswith("\t$(BIN)/ladderspec") and "schema" not in line]  # fmt: skip
    assert [line[0] for line in words] == ["validate", "show", "draw", "ablate"]
    assert words[-1][1] == "specs/experiments/quickstart.yaml"
