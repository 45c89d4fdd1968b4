"""Runs on Ray and SLURM: the same code path, the same numbers, dead workers replaced."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from ladderspec.ablation import engines
from ladderspec.ablation.ablate import AblationOptions, ablate
from ladderspec.ablation.clusters import OnRay, OnSlurm
from ladderspec.ablation.jobs import Engine
from ladderspec.cli import main
from ladderspec.experiments.reader import open_experiment
from ladderspec.learn.progress import Display
from ladderspec.learn.train import train
from tests.ablation.test_ablate import DEADLY
from tests.learn.test_resume import written
from tests.training import experiment

RUN = "ladder.seed0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run = open_experiment(experiment(folder)).runs[0]
    train(run, folder / "run", quiet=True)
    return folder / "run"


def check_killed_worker(folder: Path, engine: Engine, whole: Path) -> None:
    """A worker kills itself in its 9th update; another goes on, and the numbers are the same."""
    plugin = folder / "deadly.py"
    plugin.write_text(DEADLY)
    place = open_experiment(experiment(folder))
    order = AblationOptions(folder / "out", plugins=(plugin,), display=Display(quiet=True))
    assert ablate(place, place.select(["ladder"]), order, engine) == []
    assert plugin.with_suffix(".killed").exists()
    assert written(folder / "out" / RUN) == written(whole)


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: not checked that a dead worker of Ray is replaced",
)
@pytest.mark.filterwarnings("default")  # of Ray's own
def test_ray_replaces_a_killed_worker(tmp_path: Path, whole: Path) -> None:
    check_killed_worker(tmp_path, OnRay(), whole)


@pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None,
    reason="submitit is not installed: not checked that a dead job of SLURM is submitted again",
)
@pytest.mark.filterwarnings("default")  # of submitit's own
def test_submitit_replaces_a_killed_worker(tmp_path: Path, whole: Path) -> None:
    """On submitit's local executor; a real SLURM queue is not checked."""
    engine = OnSlurm(tmp_path / "slurm", cluster="local", pause=0.2)
    check_killed_worker(tmp_path, engine, whole)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "ray", "--workers", "2"], "--workers: ray itself decides"),
        (["--slurm", "timeout_min=3"], "--slurm needs --engine slurm"),
        (["--engine", "slurm", "--slurm", "timeout"], "--slurm timeout: OPTION=VALUE"),
    ],
)
def test_mistakes(
    tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(experiment(tmp_path))
    assert main(["ablate", place, "-o", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ray", "slurm"])
def test_without_the_extra(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, {"slurm": "submitit"}.get(name, name), None)
    place = str(experiment(tmp_path))
    assert main(["ablate", place, "-o", str(tmp_path / "out"), "--engine", name]) == 2
    assert f"`pip install 'ladderspec[{name}]'` brings it" in capsys.readouterr().err


def test_processes_by_name() -> None:
    engine = engines.choose(engines.Asked("processes"), Path("out"))
    assert isinstance(engine, engines.Processes)
    assert engine.workers == engines.cores()
