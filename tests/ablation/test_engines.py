"""Runs on Ray and SLURM: the same code path, the same numbers, dead workers replaced."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ladderspec.ablation import engines
from ladderspec.ablation.ablate import AblationOptions, Engine, Job, Resources, ablate
from ladderspec.ablation.engines import OnSlurm, ray_options, run_on_ray, slurm_options
from ladderspec.cli import main
from ladderspec.experiments.reader import open_experiment
from ladderspec.learn.progress import Display
from ladderspec.learn.train import train
from tests.ablation.test_ablate import DEADLY
from tests.learn.test_resume import written
from tests.training import EXPERIMENT, experiment

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
    check_killed_worker(tmp_path, run_on_ray, whole)


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
        (["--engine", "ray", "--processes", "2"], "--processes: ray decides"),
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


# --- what a run asks for --------------------------------------------------------------------------

ASKING = EXPERIMENT.replace(
    "machine: {",
    "machine: {device: cuda, workers: 2, cluster: {hours: 36.5, gpus: 2, memory: 40}, ",
)


def job_of(folder: Path, text: str, **machine: Any) -> Job:
    run = open_experiment(experiment(folder, text)).runs[0]
    return Job(folder / "e.yaml", run.row, "", 0, folder / "out" / run.id, machine=machine, run=run)


@pytest.mark.parametrize(
    ("text", "machine", "expected"),
    [
        (EXPERIMENT, {}, Resources(threads=1, cpus=1, gpus=0, memory=None, hours=24)),
        (EXPERIMENT, {"threads": 4, "device": "cuda"}, Resources(4, 4, 1, None, 24)),
        (ASKING, {}, Resources(1, 3, 2, 40, 36.5)),
        (ASKING, {"device": "cpu"}, Resources(1, 3, 2, 40, 36.5)),
    ],
)
def test_what_a_run_asks_of_a_cluster(
    tmp_path: Path, text: str, machine: dict[str, Any], expected: Resources
) -> None:
    assert Resources.of(job_of(tmp_path, text, **machine)) == expected


def test_ray_reserves_what_the_experiment_says(tmp_path: Path) -> None:
    assert ray_options(Resources.of(job_of(tmp_path, ASKING))) == {
        "num_cpus": 3, "num_gpus": 2, "max_retries": 3, "memory": 40 * 2**30
    }  # fmt: skip
    plain = ray_options(Resources.of(job_of(tmp_path, EXPERIMENT)))
    assert plain == {"num_cpus": 1, "num_gpus": 0, "max_retries": 3}


def test_slurm_is_asked_for_what_the_experiment_says(tmp_path: Path) -> None:
    """submitit's own time limit would be 5 minutes."""
    assert slurm_options(Resources.of(job_of(tmp_path, ASKING))) == {
        "timeout_min": 2190, "cpus_per_task": 3, "mem_gb": 40, "gpus_per_node": 2
    }  # fmt: skip
    plain = slurm_options(Resources.of(job_of(tmp_path, EXPERIMENT)))
    assert plain == {"timeout_min": 1440, "cpus_per_task": 1, "mem_gb": 16}


@pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None,
    reason="submitit is not installed: the text for sbatch is not checked",
)
@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (ASKING, {}, ["--time=2190", "--gpus-per-node=2", "--cpus-per-task=3", "--mem=40GB"]),
        (EXPERIMENT, {}, ["--time=1440", "--cpus-per-task=1", "--mem=16GB"]),
        (EXPERIMENT, {"timeout_min": 7, "slurm_partition": "gpu"}, ["--time=7", "--partition=gpu"]),
    ],
)
@pytest.mark.filterwarnings("default")  # of submitit's own
def test_text_for_sbatch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: dict[str, Any],
    expected: list[str],
) -> None:
    """An `sbatch` that keeps the file it is given."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun", "sacct", "scancel"):
        keep = f'cp "$1" {tmp_path}/text.sh; echo Submitted batch job 12\n'
        (programs / name).write_text("#!/bin/sh\n" + (keep if name == "sbatch" else "exit 0\n"))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    engine = OnSlurm(tmp_path / "slurm", options, pause=0.01)
    with closing(engine([job_of(tmp_path, text)])) as outcomes:
        monkeypatch.setattr("submitit.helpers.as_completed", lambda *args: iter(()))
        with pytest.raises(RuntimeError, match="StopIteration"):  # nothing ever ends
            next(outcomes)
    lines = (tmp_path / "text.sh").read_text().splitlines()
    for each in expected:
        assert f"#SBATCH {each}" in lines
    if options or text is EXPERIMENT:
        assert not any("gpus" in line for line in lines)


def test_each_worker_has_its_own_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    engine, auto = engines.Processes(3), job_of(tmp_path, EXPERIMENT)

    def gpu(job: Job, worker: int) -> str | None:
        return engine._environment(job, worker).get("CUDA_VISIBLE_DEVICES")

    assert [gpu(auto, worker) for worker in range(3)] == ["0", "1", "0"]
    assert gpu(auto.on(device="cuda"), 1) == "1"
    assert gpu(auto.on(device="cpu"), 1) is None
    assert gpu(auto.on(device="cuda:1"), 0) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert engines.visible_gpus() == ["5", "7"]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert engines.visible_gpus() == []


def test_processes_get_their_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once never have the same one; the GPU of a finished run is used again."""
    held, seen = set[str](), list[str]()

    class Process:
        def __init__(self, command: list[str], env: dict[str, str], **words: Any) -> None:
            self.gpu = env["CUDA_VISIBLE_DEVICES"]
            assert self.gpu not in held
            held.add(self.gpu)
            seen.append(self.gpu)

        def wait(self) -> int:
            time.sleep(0.02)
            held.remove(self.gpu)
            return 0

    monkeypatch.setattr("subprocess.Popen", Process)
    engine = engines.Processes(2, gpus=["4", "6"])
    job = job_of(tmp_path, EXPERIMENT)
    jobs = [replace(job, folder=tmp_path / f"run{i}") for i in range(6)]
    assert [outcome.error for outcome in engine(jobs)] == [""] * 6
    assert set(seen) == {"4", "6"}


def test_processes_by_name() -> None:
    engine = engines.choose("processes", None, Path("out"))
    assert isinstance(engine, engines.Processes)
    assert engine.workers == engines.cores()
