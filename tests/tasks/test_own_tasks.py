"""A task of a user, in the file that docs/own_tasks.md shows."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ladderspec import load_plugin
from ladderspec.data import DataError
from ladderspec.tasks import Task, base

DOC = Path("docs/own_tasks.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
SPEC = """
input: {channels: 2, size: 4}
time: {frames: 3}
levels:
  - {name: conv, encoder: {cell: Conv, channels: 3}, decoder: convG1}
tasks: {next: {kind: direction, at: decoder.input, margin: 0.1}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CODE.splitlines()[0][2:]).write_text(CODE)
    (tmp_path / "mine.yaml").write_text(SPEC)
    return tmp_path


@pytest.fixture
def loaded(folder: Path) -> Iterator[Path]:
    before = dict(base._TASKS)
    load_plugin(folder / "my_tasks.py")
    yield folder
    base._TASKS.clear()
    base._TASKS.update(before)


def ladderspec(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ladderspec", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_task_from_a_file(folder: Path) -> None:
    done = ladderspec(folder, "show", "mine.yaml", "--plugin", "my_tasks.py")
    assert done.returncode == 0, done.stderr
    assert "task next: direction at decoder.input" in done.stdout


def test_its_fields_are_checked_like_any_other(folder: Path) -> None:
    (folder / "mine.yaml").write_text(SPEC.replace("margin: 0.1", "margn: 0.1"))
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "my_tasks.py")
    assert "a direction task has no field `margn`" in done.stderr
    assert "did you mean `margin`?" in done.stderr


def test_it_says_what_it_cannot_read(folder: Path) -> None:
    (folder / "mine.yaml").write_text(SPEC.replace("decoder.input", "encoder.conv"))
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "my_tasks.py")
    assert "task `next`: encoder.conv has another shape than the input" in done.stderr
    assert "read `decoder.input`, or name a `target` of that shape" in done.stderr


def test_its_further_fields_may_have_any_values(loaded: Path) -> None:
    """Unlike the true groups of a grouping task, which are whole numbers."""
    import numpy as np

    from ladderspec import graph, load
    from ladderspec.data.sets.arrays import Arrays
    from ladderspec.experiments.fit import check_fit

    weighted = (
        CODE
        + """
    @property
    def further_fields(self):
        return {"weights": "weights"}

    def check_values(self, values):
        return "has a negative weight" if (values < 0).any() else ""
"""
    )
    (loaded / "weighted.py").write_text(weighted.replace('"direction"', '"weighted"'))
    load_plugin(loaded / "weighted.py")
    (loaded / "mine.yaml").write_text(SPEC.replace("direction", "weighted"))
    network = graph(load(loaded / "mine.yaml"))
    frames = np.zeros((8, 3, 2, 4, 4), np.float32)
    for sign in (1, -1):
        np.savez(loaded / "mine.npz", frames=frames, weights=sign * np.full(8, 0.5))
        data = Arrays(path=str(loaded / "mine.npz")).open(0)
        if sign == 1:
            check_fit(network, data, 3)
        else:
            with pytest.raises(DataError, match="task `next`: `weights` has a negative weight"):
                check_fit(network, data, 3)


def test_a_spec_alone_brings_no_code_in(folder: Path) -> None:
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 1
    assert "unknown kind of task `direction`" in done.stderr


def install(folder: Path, entry_points: str) -> None:
    """The metadata of an installed package."""
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_an_installed_package_offers_tasks(folder: Path) -> None:
    """Found through its metadata, imported only when a spec or a saved graph names its task."""
    install(folder, "[ladderspec.tasks]\nmine = my_tasks\n")
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 0, done.stderr
    (folder / "net").mkdir()
    (folder / "net" / "graph.json").write_text(
        ladderspec(folder, "graph", "mine.yaml", "--json").stdout
    )
    done = ladderspec(folder, "show", "net")
    assert "task next: direction at decoder.input" in done.stdout, done.stderr
    schema = json.loads(ladderspec(folder, "schema").stdout)
    assert "Direction" in schema["$defs"]


INSTALLED = """
from ladderspec.cells import Norm, register_norm

@register_norm
class Nothing(Norm):
    name = "nothing"

    def compute(self, x, gain, bias, groups):
        return x
"""


def test_an_installed_package_offers_norms(folder: Path) -> None:
    """Also to a spec whose cells and tasks are all known."""
    (folder / "my_norms.py").write_text(INSTALLED)
    install(folder, "[ladderspec.cells]\nmine = my_norms\n")
    spec = SPEC.replace("channels: 3}", "channels: 3, norm: nothing}")
    (folder / "mine.yaml").write_text(
        spec.replace("direction", "prediction, cost: mse").replace(", margin: 0.1", "")
    )
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 0, done.stderr


def test_its_cost(loaded: Path) -> None:
    import torch

    import ladderspec as ls

    net = ls.build(loaded / "mine.yaml").double()
    frames = torch.rand(4, 3, 2, 4, 4, dtype=torch.float64)
    one, two = net(frames)["next"].flatten(2), frames.flatten(2)
    cosine = (one * two).sum(2) / (one.norm(dim=2) * two.norm(dim=2))
    torch.testing.assert_close(net.cost(frames)["next"], (1 - cosine - 0.1).clamp(min=0).mean())


def test_the_table_names_every_member_that_a_task_may_define() -> None:
    table = re.findall(r"^\| (`.*?) \|", DOC, re.MULTILINE)
    named = {name for row in table for name in re.findall(r"`(\w+)", row)}
    members = {
        name
        for name, value in vars(Task).items()
        if not name.startswith(("_", "model_")) and name != "check" and name != "head_parameters"
        if inspect.isfunction(value) or isinstance(value, property)
    }
    flags = {name for name in Task.__annotations__ if name in Task.__class_vars__}
    assert named == members | flags | {"head"}
