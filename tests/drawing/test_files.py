"""Files: the suffix selects the format, writes are atomic, and a gv replaces failed images."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from drawing.pictures import SPECS
from ladderspec.api import graph, load
from ladderspec.cli import fill
from ladderspec.drawing import draw, render
from ladderspec.errors import UsageError

UNET = SPECS / "related/unet.yaml"


def cli(*words: str) -> int:
    parser = argparse.ArgumentParser()
    args = fill(parser, "draw").parse_args([str(UNET), *words])
    code: int = args.run(args)
    return code


def test_formats_by_suffix(tmp_path: Path) -> None:
    paths = [tmp_path / f"a.{form}" for form in ("svg", "gv", "dot", "tex", "SVG")]
    assert draw(load(UNET), paths) == paths
    starts = [path.read_text().split(maxsplit=1)[0] for path in paths]
    assert starts == ["<?xml", "digraph", "digraph", "%", "<?xml"]


def test_a_graph_can_be_drawn(tmp_path: Path) -> None:
    (path,) = draw(graph(load(UNET)), tmp_path / "a.svg")
    assert path.read_text() == render(load(UNET), "svg")


@pytest.mark.parametrize("name", ["a.jpeg", "a", "a.svgz", "a.yaml"])
def test_unknown_suffix(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no format|which format"):
        draw(load(UNET), [tmp_path / "good.svg", tmp_path / name])
    assert list(tmp_path.iterdir()) == []


def test_unwritable_paths(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        draw(load(UNET), [tmp_path / "good.svg", tmp_path / "missing" / "a.svg"])
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*folder\.svg: is a directory"):
        draw(load(UNET), [tmp_path / "good.svg", tmp_path / "folder.svg"])
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text("old")
    with pytest.raises(UsageError):
        draw(load(UNET), path, iterations=0)
    assert path.read_text() == "old"


# --- without Graphviz -----------------------------------------------------------------------------


@pytest.fixture
def no_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


@pytest.mark.usefixtures("no_dot")
@pytest.mark.parametrize("form", ["png", "pdf"])
def test_images_without_graphviz_become_gv(form: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        draw(load(UNET), [tmp_path / f"a.{form}", tmp_path / "b.svg"])
    message = str(caught.value)
    assert "install graphviz" in message
    assert "pip install 'ladderspec[draw]'" in message
    assert str(tmp_path / "a.gv") in message
    assert (tmp_path / "a.gv").read_text() == render(load(UNET), "gv")
    assert f"no {tmp_path / f'a.{form}'}, but wrote" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gv", "b.svg"]
    assert (tmp_path / "b.svg").read_text() == render(load(UNET), "svg")


@pytest.mark.usefixtures("no_dot")
@pytest.mark.parametrize("form", ["svg", "gv", "tex"])
def test_texts_need_no_graphviz(form: str) -> None:
    assert render(load(UNET), form)


@pytest.mark.usefixtures("no_dot")
def test_pygraphviz_is_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    class AGraph:
        def __init__(self, string: str) -> None:
            asked["text"] = string
            self.graph_attr = {"layout": "nop2"}

        def draw(self, format: str, prog: str) -> bytes:
            asked["prog"] = prog
            return b"image as " + format.encode()

    monkeypatch.setitem(sys.modules, "pygraphviz", SimpleNamespace(AGraph=AGraph))
    assert render(load(UNET), "png") == b"image as png"
    assert asked["prog"] == "nop2"
    assert asked["text"] == render(load(UNET), "gv")


def test_a_failing_dot_leaves_a_gv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: "/bin/false")
    message = r"/bin/false made no png: it printed no error message; no .*a.png, but wrote .*a.gv"
    with pytest.raises(UsageError, match=message):
        draw(load(UNET), tmp_path / "a.png")
    assert (tmp_path / "a.gv").exists()


def test_layout_dot_has_no_tex(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written as tex"):
        draw(load(UNET), tmp_path / "a.tex", layout="dot")


# --- command line ---------------------------------------------------------------------------------


def test_command_writes_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a.svg", tmp_path / "a.tex"]
    words = [word for file in files for word in ("-o", str(file))]
    assert cli(*words, "--view", "rolled", "--fold", "--theme", "mono", "--plate", "K=lstm*") == 0
    assert capsys.readouterr().out == "".join(f"wrote {file}\n" for file in files)
    assert all(file.exists() for file in files)


def test_command_has_a_default_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli() == 0
    assert (tmp_path / "unet.svg").exists()


def test_command_prints(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli("-o", "-", "--format", "gv") == 0
    assert capfdbinary.readouterr().out.decode() == render(load(UNET), "gv")
    with pytest.raises(UsageError, match="takes one drawing"):
        cli("-o", "-", "-o", "a.svg")


def test_command_shows_changes(tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    assert cli("--variant", "feedback", "--changes", "-o", str(file)) == 0
    assert "with decoder-to-encoder connections" in file.read_text()
    assert cli("--against", str(SPECS / "related/video_ladder.yaml"), "-o", str(file)) == 0
    assert "Video Ladder" in file.read_text()
    with pytest.raises(UsageError, match="needs a change"):
        cli("--changes", "-o", str(file))
    with pytest.raises(UsageError, match="choose one"):
        cli("--changes", "--against", str(UNET), "-o", str(file))


def test_command_opens_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    cli("-o", str(tmp_path / "a.svg"), "--open")
    assert opened == [(tmp_path / "a.svg").resolve().as_uri()]


@pytest.mark.parametrize("plate", ["K", "K=", "lstm1"])
def test_command_refuses_plates_without_levels(plate: str) -> None:
    with pytest.raises(UsageError, match="names no plate"):
        cli("--plate", plate)
