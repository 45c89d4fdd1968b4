"""Every mistake has its message: tests/bad_specs/NAME.yaml with NAME.err.txt beside it.

A first line `# ladderspec validate ...` is the command; without it, the file alone is validated.
`pytest --update-golden` rewrites the messages; read the difference as a user would.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from ladderspec.cli import main
from ladderspec.errors import CODES

FOLDER = Path(__file__).parents[1] / "bad_specs"
CASES = sorted(FOLDER.glob("*.yaml"))


def command(case: Path) -> list[str]:
    first = case.read_bytes().split(b"\n", 1)[0]
    if first.startswith(b"# ladderspec "):
        return shlex.split(first.decode().removeprefix("# ladderspec "))
    return ["validate", case.name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_message(
    case: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(FOLDER)
    code = main(command(case))
    out, err = capsys.readouterr()
    assert (code, out) == (2 if "F001" in err else 1, "")
    golden = case.with_suffix(".err.txt")
    if request.config.getoption("--update-golden"):
        golden.write_text(err, encoding="utf-8")
    assert err == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_findings_point_into_the_text(
    case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER)
    main([*command(case), "--output-format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert found
    for finding in found:
        assert finding["code"] in CODES
        assert finding["message"].isprintable()
        if finding["file"] is None or finding["file"].startswith("--"):
            continue
        text = (FOLDER / finding["file"]).read_bytes().decode("utf-8", "replace")
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        assert 1 <= finding["line"] <= len(lines)
        assert 1 <= finding["column"] < finding["end_column"]
        assert finding["end_column"] <= max(2, len(lines[finding["line"] - 1]) + 1)
    places = [(f["file"], f["line"], f["column"], f["code"], f["message"]) for f in found]
    assert len(set(places)) == len(places), "a mistake is said once"


@pytest.mark.parametrize("form", ["concise", "github"])
def test_every_mistake_fits_on_a_line(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER)
    names = [case.name for case in CASES if command(case) == ["validate", case.name]]
    main(["validate", *names, "--output-format", form])
    out, err = capsys.readouterr()
    pattern = (
        r"::error |::error::" if form == "github" else r"\S+:\d+:\d+: [FYSGHE]\d{3} |[FY]\d{3} "
    )
    assert all(re.match(pattern, line) for line in (out + err).splitlines())


def test_every_code_has_a_case() -> None:
    text = "".join(golden.read_text(encoding="utf-8") for golden in FOLDER.glob("*.err.txt"))
    said = re.findall(r"^error\[(\w+)\]", text, re.MULTILINE) + re.findall(
        r"^S100", text, re.MULTILINE
    )
    assert set(said) == set(CODES)


def test_every_message_has_its_spec() -> None:
    assert {path.name.removesuffix(".err.txt") for path in FOLDER.glob("*.err.txt")} == {
        case.stem for case in CASES
    }


def test_the_page_of_errors_is_up_to_date() -> None:
    """`python docs/make_errors.py` writes it."""
    docs = FOLDER.parent.parent / "docs"
    page = runpy.run_path(str(docs / "make_errors.py"))["page"]()
    assert (docs / "errors.md").read_text(encoding="utf-8") == page
