"""What a run was begun with may not change under it: its own data, and the plug-ins it uses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from ladderspec.data import data_config, sources
from ladderspec.errors import UsageError
from ladderspec.experiments.identity import digest
from ladderspec.experiments.runs import Run
from ladderspec.learn.run_folder import check, read_result
from ladderspec.learn.train import train
from ladderspec.plugins import load_plugin
from tests.learn.test_resume import PowerCut, cut
from tests.training import EXPERIMENT, SPEC, one_run

PLUGIN = '''
from typing import Literal
from ladderspec.cells import EncoderCell, between, register

@register
class Doubled(EncoderCell):
    """y = 2 a"""
    cell: Literal["Doubled"] = "Doubled"
    channels: int = 4

    def out_shape(self, site):
        return (self.channels,)

    def project(self, site, inlet, out):
        return between(inlet.shape, out, (1, 1))

    @staticmethod
    def compute(a):
        return FACTOR * a
'''


def write_data(path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 10, 300)
    np.savez(path, frames=draw.random((300, 3, 1, 12, 12), np.float32), label=labels)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_data(tmp_path / "own.npz", 0)
    data = f"data: {{set: arrays, path: {tmp_path / 'own.npz'}}}"
    lines = [data if line.startswith("data:") else line for line in EXPERIMENT.split("\n")]
    return one_run(tmp_path, "\n".join(lines))


def interrupt(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        cut(patched, "ladderspec.learn.train.update", 7)
        with pytest.raises(PowerCut):
            train(run, folder, quiet=True)


def test_changed_data_are_not_resumed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(run, tmp_path / "run", monkeypatch)
    write_data(tmp_path / "own.npz", 1)
    with pytest.raises(UsageError, match="have changed since it was begun"):
        train(run, tmp_path / "run", resume=True, quiet=True)
    write_data(tmp_path / "own.npz", 0)  # another time, but the same content
    train(run, tmp_path / "run", resume=True, quiet=True)


def test_a_finished_run_says_that_its_data_have_changed(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = train(run, tmp_path / "run", quiet=True)
    write_data(tmp_path / "own.npz", 1)
    assert train(run, tmp_path / "run") == json.loads(json.dumps(result))
    assert "finished with other data" in capsys.readouterr().err
    (tmp_path / "own.npz").unlink()
    train(run, tmp_path / "run")
    assert capsys.readouterr().err == ""


def test_runs_that_recorded_no_digest_are_resumed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(run, tmp_path / "run", monkeypatch)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    del record["content"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    train(run, tmp_path / "run", resume=True, quiet=True)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["content"]


def test_content_is_hashed_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run.data.content()
    hashed = list[Path]()
    real = sources.sha256_of
    monkeypatch.setattr(sources, "sha256_of", lambda path: hashed.append(path) or real(path))
    assert run.data.content() == first
    assert not hashed
    os.utime(tmp_path / "own.npz", (1, 1))
    assert run.data.content() == first
    assert hashed == [tmp_path / "own.npz"]


def test_the_content_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array of every split counts, and so do their names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "own"
    for split in ("train", "test"):
        (place / split).mkdir(parents=True)
        np.save(place / split / "frames.npy", np.zeros((9, 3, 4), np.float32))
    config = data_config("arrays", path=str(place))
    found = [config.content()]
    np.save(place / "test" / "frames.npy", np.ones((9, 3, 4), np.float32))
    found.append(config.content())
    (place / "test" / "frames.npy").rename(place / "test" / "other.npy")
    found.append(config.content())
    assert len(set(found)) == 3
    assert data_config("digits").content() is None


# --- plug-ins -------------------------------------------------------------------------------------


@pytest.fixture
def with_plugin(tmp_path: Path) -> Path:
    place = tmp_path / "doubled.py"
    place.write_text(PLUGIN.replace("FACTOR", "2"))
    return place


def plugin_run(tmp_path: Path, place: Path) -> Run:
    load_plugin(place)
    spec = SPEC.replace("cell: LSTM, channels: 8", "cell: Doubled")
    return one_run(tmp_path, spec=spec)


@pytest.mark.usefixtures("cells_of_the_module")
def test_a_changed_plugin_is_another_run(
    tmp_path: Path, with_plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plugin_run(tmp_path, with_plugin)
    assert list(run.identity["plugins"]) == ["doubled"]
    interrupt(run, tmp_path / "run", monkeypatch)
    check(tmp_path / "run", run, resume=True)
    with_plugin.write_text(PLUGIN.replace("FACTOR", "3"))
    changed = plugin_run(tmp_path, with_plugin)
    assert changed.digest != run.digest
    with pytest.raises(UsageError, match=r"holds another run: plugins\.doubled is"):
        train(changed, tmp_path / "run", resume=True, quiet=True)
    train(run, tmp_path / "run", resume=True, quiet=True)
    assert read_result(tmp_path / "run", run) is not None
    assert read_result(tmp_path / "run", changed) is None


@pytest.mark.usefixtures("cells_of_the_module")
def test_runs_recorded_without_plugins_are_recognised(tmp_path: Path, with_plugin: Path) -> None:
    run = plugin_run(tmp_path, with_plugin)
    earlier = {key: value for key, value in run.identity.items() if key != "plugins"}
    assert run.is_recorded_as(digest(earlier))
    folder = tmp_path / "old"
    folder.mkdir()
    record = {key: value for key, value in run.dump().items() if key != "plugins"}
    (folder / "run.json").write_text(json.dumps(record))
    check(folder, run, resume=True)


@pytest.mark.usefixtures("cells_of_the_module")
def test_a_plugin_that_is_not_used_does_not_count(tmp_path: Path, with_plugin: Path) -> None:
    before = one_run(tmp_path).digest
    load_plugin(with_plugin)
    run = one_run(tmp_path)
    assert run.digest == before
    assert "plugins" not in run.identity
