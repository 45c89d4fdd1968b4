"""docs/architecture.md: links and names exist, its examples run, its picture shows all packages."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w.]+)`\s+\(\[[^\]]*\]\(([^)#]+)\)\)")


def packages() -> set[str]:
    return {path.parent.name for path in (ROOT / "ladderspec").glob("*/__init__.py")}


@pytest.mark.parametrize(("folder", "page"), [(DOCS, PAGE), (ROOT, CONTRIBUTING)])
def test_links_lead_somewhere(folder: Path, page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page)
    assert targets
    for target in targets:
        assert (folder / target).exists(), target


def test_paths_of_the_recipes_exist() -> None:
    paths = re.findall(r"`((?:ladderspec|docs|tests|specs|benchmarks)/[\w./]*)`", CONTRIBUTING)
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).exists(), path


def test_names_are_defined_in_the_linked_files() -> None:
    found = NAMED.findall(PAGE)
    assert len(found) > 50
    for name, target in found:
        last = name.rpartition(".")[2]
        text = (DOCS / target).read_text(encoding="utf-8")
        defined = rf"^\s*(?:def|class) {last}\b|^{last}\b.*="
        assert re.search(defined, text, re.MULTILINE), f"{name} in {target}"


@pytest.mark.usefixtures("one_thread")
def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, "architecture.md", None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(test)
    assert result.attempted > 30
    assert not result.failed


def test_the_picture_shows_the_packages_of_the_code() -> None:
    source = (DOCS / "architecture.gv").read_text(encoding="utf-8")
    drawn = (DOCS / "architecture.svg").read_text(encoding="utf-8")
    edges = re.findall(r"(\w+) -> (\w+)", source)
    assert {end for edge in edges for end in edge} == packages()
    titles = re.findall(r'class="node">\s*<title>(\w+)</title>', drawn)
    assert sorted(titles) == sorted(packages())
    arrows = re.findall(r'class="edge">\s*<title>(\w+)&#45;&gt;(\w+)</title>', drawn)
    assert sorted(arrows) == sorted(edges)


def test_every_package_has_a_paragraph() -> None:
    assert set(re.findall(r"\*\*(\w+)\*\*", PAGE)) == packages()
