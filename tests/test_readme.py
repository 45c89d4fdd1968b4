"""Everything that the README, the tour and the tutorials show is run."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ladderspec.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "tour.md").read_text()
TUTORIALS = ["specs_instead_of_code", "figures_for_a_paper", "ablation_edges", "api", "drawing"]
TEXTS = {
    "readme": README,
    "tour": TOUR,
    **{name: (ROOT / "docs" / f"{name}.md").read_text() for name in TUTORIALS},
}
PAGES = pytest.mark.parametrize("page", list(TEXTS.values()), ids=list(TEXTS))


def steps(page: str) -> list[tuple[str, str]]:
    """Commands and the output shown under them."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


@PAGES
def test_the_commands(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    checker = doctest.OutputChecker()
    assert len(steps(page)) >= 7 or page not in (README, TOUR)
    for command, shown in steps(page):
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        got = done.stdout + done.stderr
        assert checker.check_output(shown, got, doctest.ELLIPSIS), f"$ {command}\n{got}"


@PAGES
def test_the_python(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("specs", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        scope: dict[str, object] = {}
        for line in block.splitlines():
            code, _, comment = line.partition("  # ")
            if re.fullmatch(r"\([\d, ]+\)", comment.strip()):  # a value shown beside its expression
                assert str(eval(code, scope)) == comment.strip()
            else:
                exec(line, scope)


def test_the_yaml_of_the_ablation_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    variants, experiment = re.findall(r"```yaml\n(.*?)```", TEXTS["ablation_edges"], re.DOTALL)
    assert main(["new", "mine.yaml"]) == 0
    spec = Path("mine.yaml").read_text().partition("variants:")[0] + variants
    Path("mine.yaml").write_text(spec)
    np.savez("mine.npz", frames=np.zeros((30, 5, 1, 24, 24)), label=np.arange(30) % 10)
    Path("experiment.yaml").write_text(experiment)
    code = main(["validate", "mine.yaml", "experiment.yaml"])
    assert code == 0, capsys.readouterr().err


def test_links_lead_somewhere() -> None:
    for page, folder in ((README, ROOT), (TOUR, ROOT / "docs")):
        targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page) + re.findall(r'src="([^"]+)"', page)
        for target in targets:
            assert target.startswith("https://") or (folder / target).exists(), target


def test_the_page_on_drawing_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["draw", "--help"])
    printed = capsys.readouterr().out
    looks = printed[printed.index("\nview:") : printed.index("\nchanges:")]
    options = re.findall(r"^  (?:-n N, )?(--[a-z-]+)", looks, re.MULTILINE)
    assert len(options) > 18
    page = TEXTS["drawing"].replace("`-n 3`", "--iterations")
    assert [option for option in options if option not in page] == []


def test_tests_that_pages_name_exist() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        for name in re.findall(r"\btests/[a-z_/]+\.py", page.read_text()):
            assert (ROOT / name).exists(), f"{page}: {name}"


def test_the_site_has_every_page() -> None:
    """`make docs-site` builds it, with warnings as errors."""
    nav = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    outside = {"index.md": "README.md"}
    for page in nav:
        at = outside.get(page, page)
        paths = (ROOT / at, ROOT / "docs" / at, (ROOT / at).with_suffix(".ipynb"))
        assert any(path.exists() for path in paths), page
    notebooks = {f"examples/{path.stem}.md" for path in (ROOT / "examples").glob("*.ipynb")}
    assert notebooks <= set(nav)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages if not page.endswith("_intro.md")} <= set(nav)


def test_the_readme_is_short_and_its_pictures_low() -> None:
    assert len(README.splitlines()) <= 110
    spec = importlib.util.spec_from_file_location("make_hero", ROOT / "docs" / "make_hero.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, made, limit in (
        (module.PAGE, module.page(), 420),
        (module.CODE_PAGE, module.code_page(), 300),
    ):
        shown = path.read_text()
        assert shown == made, f"{path.name}: run `make gallery`"
        assert int(re.search(r' height="(\d+)"', shown)[1]) <= limit
