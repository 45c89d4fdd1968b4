"""Inputs of a run that change after it began are reported: its own data, and plug-ins."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import ladderspec as ls
from ladderspec.cells import activations, base, norms
from ladderspec.cli import main
from ladderspec.data import DataError, data_config, dataset, sources
from ladderspec.errors import UsageError
from ladderspec.experiments import schedules
from ladderspec.experiments.identity import digest
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.files import sealed
from ladderspec.learn.run_folder import check, content_changed, read_result
from ladderspec.learn.train import train
from ladderspec.plugins import load_plugin
from ladderspec.tasks import base as tasks
from tests.learn.test_resume import PowerCut, cut
from tests.training import EXPERIMENT, SPEC, experiment, one_run

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


# Something registered of each kind: the code of a plug-in with a FACTOR, and what a spec or an
# experiment that uses it says instead.
KINDS = {
    "cell": (PLUGIN, ("cell: LSTM, channels: 8", "cell: Doubled")),
    "norm": (
        """
from ladderspec.cells import Norm, register_norm

@register_norm
class Scaled(Norm):
    name, symbol = "scaled", "S"

    @staticmethod
    def compute(x, gain, bias, groups):
        return FACTOR * x
""",
        ("cell: Conv, channels: 4", "cell: Conv, norm: {kind: scaled, terms: joint}, channels: 4"),
    ),
    "activation": (
        """
from ladderspec.cells import register_activation

@register_activation("scaled_relu")
def scaled_relu(x):
    return FACTOR * x.relu()
""",
        ("cell: Conv, channels: 4", "cell: Conv, activation: scaled_relu, channels: 4"),
    ),
    "task": (
        """
from typing import Literal
from ladderspec.tasks import Prediction, register

@register
class Scaled(Prediction):
    kind: Literal["scaled_prediction"]
    factor: float = FACTOR
""",
        ("kind: prediction", "kind: scaled_prediction"),
    ),
    "data set": (
        """
from typing import Literal
from ladderspec.data import register
from ladderspec.data.sets.occluded_mnist import OccludedMnist

@register
class Own(OccludedMnist):
    set: Literal["own_mnist"] = "own_mnist"
    factor: float = FACTOR
""",
        ("set: occluded_mnist", "set: own_mnist"),
    ),
    "schedule": (
        """
from typing import Literal
from ladderspec.experiments.schedules import Schedule, register_schedule

@register_schedule
class Scaled(Schedule):
    kind: Literal["scaled_rate"]

    def rate(self, lr, done, factor):
        return FACTOR * lr
""",
        ("{lr: 0.01}", "{lr: 0.01, schedule: scaled_rate}"),
    ),
}


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


def own_experiment(run: Run, tmp_path: Path, *words: str) -> list[str]:
    """A command on the experiment of `run`."""
    return [*words, str(tmp_path / "experiment.yaml"), "-o", str(tmp_path / "out")]


def test_tables_say_that_data_have_changed(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results stay in the table; other runs do not go into the same one."""
    assert main([*own_experiment(run, tmp_path, "ablate"), "--row", "ladder"]) == 0
    said = "ladderspec: trained with other data than those that are there now: ladder.seed0\n"
    assert said not in capsys.readouterr().err
    write_data(tmp_path / "own.npz", 1)
    for words in (["--table-only"], ["--row", "ladder"], ["--row", "ladder", "--resume"]):
        assert main([*own_experiment(run, tmp_path, "ablate"), *words]) == 0
        out, err = capsys.readouterr()
        assert said in err
        assert "ladder" in out
    assert main([*own_experiment(run, tmp_path, "ablate"), "--resume"]) == 2
    err = capsys.readouterr().err
    assert "ladder.seed0 was trained with other data than those that are there now" in err
    assert not (tmp_path / "out" / "open.seed0").exists()
    (tmp_path / "own.npz").unlink()
    assert main([*own_experiment(run, tmp_path, "ablate"), "--table-only"]) == 0
    assert said not in capsys.readouterr().err


def test_ablate_refuses_changed_data_before_it_trains(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(run, tmp_path / "out" / run.id, monkeypatch)
    write_data(tmp_path / "own.npz", 1)
    assert main([*own_experiment(run, tmp_path, "ablate"), "--resume"]) == 2
    assert "have changed since it was begun" in capsys.readouterr().err
    assert not (tmp_path / "out" / "open.seed0").exists()
    assert main([*own_experiment(run, tmp_path, "ablate"), "--table-only"]) == 0
    assert "have changed since it was begun" in capsys.readouterr().err


def test_trained_networks_say_that_their_data_have_changed(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    train(run, folder, quiet=True)
    note = "the run was trained with other data than those that are there now"
    assert main(["evaluate", folder]) == 0
    assert note not in capsys.readouterr().out
    write_data(tmp_path / "own.npz", 1)
    assert main(["evaluate", folder]) == 0
    assert f"note: {note}\n" in capsys.readouterr().out
    assert main(["evaluate", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [note]
    assert main(["generate", folder]) == 0
    assert capsys.readouterr().err == f"note: {note}\n"
    with pytest.warns(UserWarning, match=note):
        ls.evaluate(folder)


@pytest.mark.parametrize("start", ["row", "folder"])
def test_changed_weights_to_start_from(
    tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a given folder, or of another row that was trained again."""
    out = tmp_path / "out"
    text = EXPERIMENT.replace("variant: open}", "variant: open, start: ladder}")
    first, run = open_experiment(experiment(tmp_path, text)).runs
    if start == "folder":
        run = replace(run, origin=None, start=str(out / first.id))
    train(first, out / first.id, quiet=True)
    interrupt(run, out / run.id, monkeypatch)
    before = tmp_path / "before"
    (out / first.id).rename(before)
    other = replace(first, training=first.training.model_copy(update={"updates": 2}))
    train(other, out / first.id, quiet=True)
    if start == "row":  # as if it were the same run, on data that have changed
        place = out / first.id / "result.json"
        result = json.loads(place.read_text()) | {"digest": first.digest}
        place.write_text(json.dumps(sealed(result)))
    with pytest.raises(UsageError, match=r"the initial weights of .* have changed since it was"):
        train(run, out / run.id, resume=True, quiet=True)
    (out / first.id).rename(tmp_path / "other")
    train(run, out / run.id, resume=True, quiet=True)  # the checkpoint is all it needs
    (tmp_path / "other").rename(out / first.id)
    train(run, out / run.id)
    said = "finished with other initial weights than those that are there now"
    assert said in capsys.readouterr().err
    shutil.rmtree(out / first.id)
    before.rename(out / first.id)
    train(run, out / run.id)
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


def write_rolls(path: Path, seed: int) -> None:
    path.parent.mkdir(exist_ok=True)
    draw, arrays = np.random.default_rng(seed), dict[str, Any]()
    for split in ("train", "valid", "test"):
        arrays[split] = draw.integers(0, 2, (20, 88))
        arrays[f"{split}_lengths"] = [12, 8]
    np.savez(path, **arrays)


def write_pictures(folder: Path, seed: int) -> None:
    folder.mkdir(exist_ok=True)
    draw = np.random.default_rng(seed)
    for name in ("a.png", "b.png"):
        Image.fromarray(draw.integers(0, 256, (40, 40), np.uint8)).save(folder / name)


@pytest.mark.parametrize(
    ("fields", "place", "write"),
    [
        ({"set": "arrays", "path": "own.npz"}, "own.npz", write_data),
        ({"set": "music", "file": "own.npz"}, "own.npz", write_rolls),
        ({"set": "music", "name": "Nottingham"}, "music/Nottingham.npz", write_rolls),
        ({"set": "textured_mnist", "textures": "own"}, "own", write_pictures),
    ],
)
def test_content_of_everything_that_users_bring(
    fields: dict[str, Any],
    place: str,
    write: Callable[[Path, int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = data_config(**fields)
    found = []
    for seed in (0, 1, 0):
        write(tmp_path / place, seed)
        found.append(config.content(tmp_path))
    assert found[0] != found[1]
    assert found[0] == found[2] is not None


@pytest.mark.parametrize(
    "fields",
    [{"set": "arrays", "path": "own.npz"}, {"set": "music", "file": "own.npz"},
     {"set": "textured_mnist", "textures": "own"}],
)  # fmt: skip
def test_data_that_are_gone(fields: dict[str, Any], tmp_path: Path) -> None:
    config = data_config(**fields)
    with pytest.raises(DataError):
        config.content(tmp_path)
    assert not content_changed("some digest", config, tmp_path)


# --- plug-ins -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What a test registers is gone after it."""
    dataset.registered()  # imports the data sets
    tables: list[dict[str, Any]] = [
        norms.NORMS, activations.ACTIVATIONS, tasks._TASKS, dataset._SETS, schedules._SCHEDULES,
        *base._CELLS.values(),
    ]  # fmt: skip
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)


@pytest.fixture
def with_plugin(tmp_path: Path) -> Path:
    place = tmp_path / "doubled.py"
    place.write_text(PLUGIN.replace("FACTOR", "2"))
    return place


def plugin_run(tmp_path: Path, place: Path) -> Run:
    load_plugin(place)
    spec = SPEC.replace("cell: LSTM, channels: 8", "cell: Doubled")
    return one_run(tmp_path, spec=spec)


def run_with(folder: Path, *kinds: str, factor: str = "2") -> Run:
    """A run that uses something of each kind, from KIND/doubled.py."""
    spec, text = SPEC, EXPERIMENT
    for kind in kinds:
        code, (before, after) = KINDS[kind]
        place = folder / kind / "doubled.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(code.replace("FACTOR", factor))
        os.utime(place, (1, 1))  # as if it were changed within a second
        load_plugin(place)
        assert before in spec + text
        spec, text = spec.replace(before, after), text.replace(before, after)
    return one_run(folder, text, spec)


def test_every_registry_is_in_the_table() -> None:
    code = "".join(file.read_text() for file in Path(ls.__file__).parent.rglob("*.py"))
    assert set(re.findall(r'\badmit\(\s*"([a-z ]+)"', code)) == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_plugin_is_another_run(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(tmp_path, kind)
    assert list(run.identity["plugins"]) == ["doubled"]
    interrupt(run, tmp_path / "run", monkeypatch)
    check(tmp_path / "run", run, resume=True)
    changed = run_with(tmp_path, kind, factor="3")
    assert changed.digest != run.digest
    with pytest.raises(UsageError, match=r"holds another run: plugins\.doubled is"):
        train(changed, tmp_path / "run", resume=True, quiet=True)


def test_a_finished_run_of_a_changed_plugin(tmp_path: Path) -> None:
    """The digest is that of the classes that a run has, whatever was loaded since."""
    run = run_with(tmp_path, "cell")
    changed = run_with(tmp_path, "cell", factor="3")
    train(run, tmp_path / "run", quiet=True)
    assert read_result(tmp_path / "run", run) is not None
    assert read_result(tmp_path / "run", changed) is None


def test_trained_networks_say_that_a_plugin_has_changed(
    tmp_path: Path, with_plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(plugin_run(tmp_path, with_plugin), tmp_path / "run", quiet=True)
    words = [str(tmp_path / "run"), "--plugin", str(with_plugin)]
    assert main(["evaluate", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    with_plugin.write_text(PLUGIN.replace("FACTOR", "3"))
    note = "plug-in `doubled` has changed since the run was trained: it computes something else"
    assert main(["evaluate", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [note]
    assert main(["export", *words, "-o", str(tmp_path / "net.onnx")]) == 0
    assert f"note: {note}\n" in capsys.readouterr().err


def test_the_code_that_runs_is_the_code_that_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's cache of bytecode takes a file of the same size and second for unchanged."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for factor in ("2", "3"):
        run_with(tmp_path, "activation", factor=factor)
        assert activations.ACTIVATIONS["scaled_relu"].compute(torch.ones(())) == float(factor)
    assert not list(tmp_path.rglob("__pycache__"))


def test_two_plugins_of_one_file_name(tmp_path: Path) -> None:
    """Each of them counts, in whatever order they were loaded."""
    both = run_with(tmp_path, "cell", "activation").identity["plugins"]
    assert run_with(tmp_path, "activation", "cell").identity["plugins"] == both
    for kind in ("cell", "activation"):
        (alone,) = run_with(tmp_path, kind).identity["plugins"].values()
        assert alone in both["doubled"]
        assert alone != both["doubled"]


def test_runs_recorded_without_plugins_are_recognised(tmp_path: Path, with_plugin: Path) -> None:
    run = plugin_run(tmp_path, with_plugin)
    earlier = {key: value for key, value in run.identity.items() if key != "plugins"}
    assert run.is_recorded_as(digest(earlier))
    folder = tmp_path / "old"
    folder.mkdir()
    record = {key: value for key, value in run.dump().items() if key != "plugins"}
    (folder / "run.json").write_text(json.dumps(record))
    check(folder, run, resume=True)


def test_a_plugin_that_is_not_used_does_not_count(tmp_path: Path, with_plugin: Path) -> None:
    before = one_run(tmp_path).digest
    load_plugin(with_plugin)
    run = one_run(tmp_path)
    assert run.digest == before
    assert "plugins" not in run.identity


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_notebook_registers_has_no_digest_and_a_run_says_so(
    tmp_path: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, (before, after) = KINDS[kind]
    notebook = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)  # pydantic looks names up there
    exec(code.replace("FACTOR", "2"), vars(notebook))
    run = one_run(tmp_path, EXPERIMENT.replace(before, after), SPEC.replace(before, after))
    assert "plugins" not in run.identity
    folder = tmp_path / "out" / run.id
    interrupt(run, folder, monkeypatch)
    said = re.compile(r"changes are not noticed: (Doubled|Scaled|scaled_relu|Own)\n")
    assert not said.search(capsys.readouterr().err)
    train(run, folder, resume=True)
    assert said.search(capsys.readouterr().err)
    train(run, folder)
    assert said.search(capsys.readouterr().err)
    assert main([*own_experiment(run, tmp_path, "ablate"), "--row", "ladder"]) == 0
    assert said.search(capsys.readouterr().err)


def test_a_plugin_file_has_a_digest_and_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_with(tmp_path, *(KINDS.keys() - {"norm"}))  # the norm is of the same row
    train(run, tmp_path / "run", quiet=True)
    train(run, tmp_path / "run")
    assert capsys.readouterr().err == ""
