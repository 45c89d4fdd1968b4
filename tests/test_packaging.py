"""The package as users get it: without PyTorch, from the wheel, on the page of an index."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from ladderspec.version import __version__

ROOT = Path(__file__).resolve().parent.parent
TINY = "specs/ommnist/rladder_tiny.yaml"
QUICK = "specs/experiments/quickstart.yaml"
MESSAGE = (
    "networks need PyTorch, which is not installed: pip install 'ladderspec[torch]';"
    " checking, printing and drawing specs work without it"
)
NO_TORCH = """
import sys
from importlib.machinery import PathFinder

def find(cls, name, path=None, target=None, original=PathFinder.find_spec):
    return None if name in ("torch", "safetensors") else original(name, path, target)

PathFinder.find_spec = classmethod(find)
"""
COMMAND = f"{NO_TORCH}from ladderspec.cli import main; sys.exit(main(sys.argv[1:]))"


def python(code: str, *words: str, cwd: Path = ROOT, path: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=cwd, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


# --- without PyTorch ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        f"validate {TINY} {QUICK}",
        f"show {TINY}",
        f"show {TINY} --ladder",
        f"graph {TINY} --json",
        f"plan {TINY}",
        f"draw {TINY} -o -",
        f"draw {TINY} -o - --format tex --without lateral --changes",
        f"export {TINY}",
        f"train {QUICK} --list",
        "data list",
        "schema",
        "new -",
    ],
)
def test_commands_that_need_no_torch(words: str) -> None:
    code, out, err = python(COMMAND, *words.split())
    assert (code, err) == (0, "")
    assert out


def test_diff_needs_no_torch() -> None:
    code, out, err = python(COMMAND, "diff", TINY, "--without", "lateral")
    assert (code, err) == (1, "")
    assert out.startswith("- arrow")


@pytest.mark.parametrize(
    "words",
    [
        f"train {QUICK} -o OUT",
        f"ablate {QUICK} -o OUT",
        "evaluate OUT",
        "evaluate OUT --threads 2",
        "generate OUT",
        f"export {TINY} -o OUT/model.onnx",
    ],
)
def test_commands_that_need_torch_say_so(words: str, tmp_path: Path) -> None:
    code, out, err = python(COMMAND, *words.replace("OUT", str(tmp_path / "out")).split())
    assert (code, out, err) == (2, "", f"ladderspec: {MESSAGE}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "code",
    [
        f"ls.build('{TINY}')",
        "ls.save",
        "ls.train",
        "ls.ablate",
        "ls.evaluate",
        "ls.open_net",
        "ls.Unrolled",
        "import ladderspec.nn",
        "import ladderspec.network.net",
        "import ladderspec.learn.train",
        "import ladderspec.trained.run",
    ],
)
def test_calls_that_need_torch_say_so(code: str) -> None:
    code, _, err = python(f"{NO_TORCH}import ladderspec as ls\n{code}\n")
    assert code == 1
    assert err.splitlines()[-1] == f"ladderspec.errors.TorchMissing: {MESSAGE}"


# --- the wheel ------------------------------------------------------------------------------------


def built(kind: str, folder: Path, origin: str, root: Path = ROOT) -> Path:
    """A wheel or a source distribution of a clone whose remote is `origin`."""
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    remote = {"COUNT": "1", "KEY_0": "remote.origin.url", "VALUE_0": origin}
    settings = {f"GIT_CONFIG_{name}": value for name, value in remote.items()}
    env = {**os.environ, **settings}
    subprocess.run(build, cwd=root, env=env, check=True, capture_output=True)
    (file,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"), "/srv/git/ladderspec.git")


def metadata(wheel: Path) -> tuple[str, str]:
    """The fields of a wheel's metadata, and the page for an index."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"ladderspec-{__version__}.dist-info/METADATA").decode()
    fields, _, page = text.partition("\n\n")
    return fields, page


def test_the_wheel_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    work = tmp_path / "work"
    work.mkdir()

    def run(*words: str) -> str:
        code, out, err = python(COMMAND, *words, cwd=work, path=str(installed))
        assert (code, err) == (0, ""), words
        return out

    _, where, _ = python("import ladderspec as l; print(l.__file__)", cwd=work, path=str(installed))
    assert Path(where.strip()).is_relative_to(installed)
    assert "wrote mine.yaml" in run("new", "mine.yaml")
    assert (work / "ladderspec.schema.json").exists()
    assert "mine.yaml: fine" in run("validate", "mine.yaml")
    assert "ConvLSTM" in run("show", "mine.yaml")
    for suffix in ("svg", "html", "tex", "gv"):
        run("draw", "mine.yaml", "--view", "rolled", "-o", f"mine.{suffix}")
        assert (work / f"mine.{suffix}").stat().st_size > 1000
    assert "2,861,140 parameters" in run("show", "ladderspec:ommnist/rladder")
    packed = installed / "ladderspec" / "specs"
    assert run("validate", str(packed)).count("fine") == len(list(packed.rglob("*.yaml")))


def test_the_page_on_a_package_index(wheel: Path) -> None:
    """Without an address of the repository, nothing leads to a file that the index lacks."""
    fields, page = metadata(wheel)
    assert re.findall("Project-URL: .*", fields) == [
        "Project-URL: Paper, https://arxiv.org/abs/1707.09219"
    ]
    assert not re.search(r"!\[|<img|\b(docs|specs)/|make (quickstart|test|docs)|clone", page)
    assert {target[:8] for target in re.findall(r"\]\(([^)]+)\)", page)} == {"https://"}
    assert f"`hero.yaml`:\n\n```yaml\n{(ROOT / 'docs/hero.yaml').read_text()}```\n\n" in page
    assert "pip install 'ladderspec[torch,data,plot]'" in page
    titles = re.findall(r"^#+ .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert re.findall(r"^#+ .*", page, re.MULTILINE) == titles


def test_the_page_as_an_index_renders_it(wheel: Path) -> None:
    markdown = pytest.importorskip("readme_renderer.markdown")
    html = markdown.render(metadata(wheel)[1])
    assert html
    assert "<img" not in html
    links = re.findall(r'href="([^"]+)"', html)
    assert {link for link in links if link[0] != "#"} == {"https://arxiv.org/abs/1707.09219"}


def hook() -> ModuleType:
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_a_public_repository(tmp_path: Path) -> None:
    """Links lead to the clone's origin, also in a wheel that a source distribution makes."""
    if not (ROOT / ".git").exists():
        pytest.skip("no clone, so no address")
    archive = built("sdist", tmp_path / "sdist", "git@github.com:x/y.git")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    (root,) = tmp_path.glob("ladderspec-*")
    wheel = built("wheel", tmp_path / "wheel", "", root)
    fields, page = metadata(wheel)
    assert "Project-URL: Source, https://github.com/x/y" in fields.splitlines()
    hero = (ROOT / "docs/hero.yaml").read_text()
    assert f"y/raw/HEAD/docs/hero.svg)\n\n`hero.yaml`:\n\n```yaml\n{hero}```\n\n" in page
    assert 'src="https://github.com/x/y/raw/HEAD/docs/' in page
    assert "(https://github.com/x/y/blob/HEAD/docs/tour.md)" in page
    assert "](docs/" not in page
    assert "pip install 'ladderspec[torch,data,plot]'" in page
    linked = re.findall(r"https://github.com/x/y/(?:raw|blob)/HEAD/([^\s)\"]+)", page)
    assert linked
    assert all((ROOT / path).exists() for path in linked)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@github.com:someone/ladderspec.git", "https://github.com/someone/ladderspec"),
        ("github.com:someone/ladderspec", "https://github.com/someone/ladderspec"),
        ("ssh://git@git.example.org:2222/~a/b.git", "https://git.example.org/~a/b"),
        ("https://someone:secret@example.org:8443/a/b/", "https://example.org:8443/a/b"),
        ("", ""),
        ("/srv/git/ladderspec.git", ""),
        ("../ladderspec", ""),
        ("C:\\git\\ladderspec", ""),
        ("file:///srv/git/ladderspec", ""),
        ("http://example.org/a", ""),
        ("git@server:a/b.git", ""),
        ("git@build.local:a/b.git", ""),
        ("ssh://git@10.0.0.1/a/b", ""),
        ("https://[::1]/a/b", ""),
        ("https://example.org/", ""),
        ("https://example.org/a b", ""),
    ],
)
def test_web_addresses_of_remotes(remote: str, address: str) -> None:
    assert hook().web_address(remote) == address


def test_links_into_gitlab() -> None:
    page = hook().for_index("[a](docs/a.md) ![b](b.svg)", "", "https://gitlab.com/x/y")
    assert page.startswith(
        "[a](https://gitlab.com/x/y/-/blob/HEAD/docs/a.md)"
        " ![b](https://gitlab.com/x/y/-/raw/HEAD/b.svg)"
    )


def test_citation_and_hooks() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split() == ["ladderspec", "validate"]
