"""Configs of data sets: the registry, plug-ins, and what identifies a finished run."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pydantic import ValidationError

from ladderspec import plugins
from ladderspec.cli import main
from ladderspec.data import DataConfig, DataError, config_of_run, data_config, dataset, registered
from ladderspec.data.sets.occluded_mnist import OccludedMnist
from ladderspec.errors import UsageError
from ladderspec.experiments.identity import data_identity
from ladderspec.experiments.reader import open_experiment

ROOT = Path(__file__).resolve().parents[2]


def test_configs_are_frozen_and_hashable():
    found = data_config("occluded_mnist")
    with pytest.raises(ValidationError):
        found.canvas = 3
    assert hash(found) == hash(data_config("occluded_mnist"))


def test_importing_the_package_imports_no_arrays():
    program = "import sys, ladderspec.data; print({'numpy', 'torch', 'scipy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "set()"


PLUGIN = '''
from typing import Literal
from ladderspec.data import DataSet, DataConfig, Form, register

class Ones(DataSet):
    def __init__(self, config, seed):
        super().__init__(config, seed)
        self.forms, self.steps = {"frames": Form((1, 4, 4), True)}, 3

    def size(self, split):
        return 8

    def batch(self, split, epoch, indices, fields=None):
        import numpy as np
        return {"frames": np.ones((len(indices), 3, 1, 4, 4), np.float32)}

@register
class OnesConfig(DataConfig):
    """Nothing but ones."""
    set: Literal["ones"] = "ones"

    def open(self, seed=0, folder=None):
        return Ones(self, seed)
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "ones_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dataset, "_SETS", registered())
    plugins.load_installed.cache_clear()
    yield lambda *names: monkeypatch.setattr(
        plugins,
        "entry_points",
        lambda group: [EntryPoint(name, f"{name}_plugin", group) for name in names],
    )
    plugins.load_installed.cache_clear()
    sys.modules.pop("ones_plugin", None)


def test_an_installed_package_brings_its_own_set(plugin):
    plugin("ones")
    assert "ones" not in registered()
    data = data_config("ones").open()
    assert isinstance(data.config, DataConfig)
    data.check_input((1, 4, 4), 3)
    assert sum(map(len, data.batches("train", 0, 3))) == 8
    assert data.mean().tolist() == np.ones((1, 4, 4)).tolist()
    assert len(data.preview(count=2).tiles) == 6


def test_a_file_brings_a_set_to_look_at(plugin, tmp_path):
    options = ["--plugin", str(tmp_path / "ones_plugin.py"), "-o", str(tmp_path / "ones.png")]
    assert main(["data", "preview", "ones", *options]) == 0
    assert (tmp_path / "ones.png").read_bytes().startswith(b"\x89PNG")


def test_a_field_that_is_missing():
    with pytest.raises(DataError, match=r"^`path` is missing: path of an \.npz file or a folder"):
        data_config("arrays")


def test_a_plugin_that_fails_is_named(plugin):
    plugin("broken")
    with pytest.raises(UsageError, match=r"plugin `broken` \(broken_plugin\) fails: ZeroDivision"):
        data_config("ones")


# --- identity of finished runs --------------------------------------------------------------------

EXAMPLES = [
    ("arrays", {"path": "a.npz"}),
    ("digits", {}),
    ("music", {"name": "etudes"}),
    ("occluded_mnist", {}),
]
FIRST = {  # as in the first recorded runs, defaults included
    "arrays": {
        "set": "arrays", "input": "frames", "seed": None, "labelled_per_batch": None,
        "path": "a.npz", "scale": None, "still": [], "valid": 0.1, "test": 0.1,
    },
    "digits": {
        "set": "digits", "input": "image", "seed": None, "labelled_per_batch": None,
        "digits": "embedded", "side": None, "flat": False, "valid": None, "labelled": None,
    },
    "music": {
        "set": "music", "input": "frames", "seed": None, "labelled_per_batch": None,
        "name": "etudes", "file": None, "transpose": 0,
    },
    "occluded_mnist": {
        "set": "occluded_mnist", "input": "frames", "seed": None, "labelled_per_batch": None,
        "digits": "mnist", "canvas": 32, "digit": None, "visible": None, "bar": None,
        "velocity": [1, 2], "frames": 5, "extra": 0, "bounce": "reflect", "flights": "redrawn",
        "valid": None, "labelled": None, "keep": "all",
    },
}  # fmt: skip


@pytest.fixture
def replace(monkeypatch):
    """Replace a registered data set for one test."""

    def replace(name, changed):
        registered()
        monkeypatch.setitem(dataset._SETS, name, changed)

    return replace


def digests():
    return [run.digest for run in open_experiment(ROOT / "specs/experiments/table1.yaml")]


@pytest.mark.parametrize(("name", "fields"), EXAMPLES)
def test_first_runs_keep_their_identity(name, fields):
    assert data_identity(data_config(name, **fields)) == FIRST[name]


@pytest.mark.parametrize(("name", "fields"), EXAMPLES)
def test_a_new_optional_field_counts_only_if_it_is_set(name, fields, replace):
    class Changed(registered()[name]):
        fog: float = 0.0

    replace(name, Changed)
    assert data_identity(data_config(name, **fields)) == FIRST[name]
    assert data_identity(data_config(name, fog=0.0, **fields)) == FIRST[name]
    found = data_config(name, fog=0.5, **fields)
    assert data_identity(found) == {**FIRST[name], "fog": 0.5}
    assert config_of_run(data_identity(found)) == found


def test_a_new_optional_field_changes_no_digest_of_a_run(replace):
    class Changed(OccludedMnist):
        fog: float = 0.0

    before = digests()
    replace("occluded_mnist", Changed)
    assert digests() == before


def test_a_raised_revision_changes_all_digests(monkeypatch):
    before, identity = digests(), data_identity(data_config("occluded_mnist"))
    monkeypatch.setattr(OccludedMnist, "revision", 2)
    assert set(digests()).isdisjoint(before)
    raised = data_config("occluded_mnist")
    assert data_identity(raised) == {**identity, "revision": 2}
    assert config_of_run(data_identity(raised)) == raised
    with pytest.raises(DataError, match=r"trained on revision 1 of occluded_mnist, .* revision 2"):
        config_of_run(identity)


def test_a_new_data_set_is_identified_by_what_differs_from_its_defaults(replace):
    class Fresh(DataConfig):
        set: Literal["fresh"] = "fresh"
        side: int = 8
        path: str

        def open(self, seed=0, folder=None):
            raise NotImplementedError

    replace("fresh", Fresh)
    assert data_identity(data_config("fresh", path="a")) == {"set": "fresh", "path": "a"}
    found = data_identity(data_config("fresh", path="a", side=9, seed=3))
    assert found == {"set": "fresh", "path": "a", "side": 9, "seed": 3}
    assert data_identity(config_of_run(found)) == found


def test_a_changed_default_needs_a_raised_revision(golden):
    """Fields at their defaults are not part of a digest, so a changed default would go unseen."""
    current = {
        name: {
            "revision": kind.revision,
            "defaults": {
                field: repr(about.get_default(call_default_factory=True))
                for field, about in sorted(kind.model_fields.items())
                if not about.is_required()
            },
        }
        for name, kind in sorted(registered().items())
        if kind.__module__.startswith("ladderspec.data.sets.")
    }
    path = ROOT / "tests/golden/data_defaults.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, old in recorded.items():
        new = current[name]
        changed = [f for f, v in old["defaults"].items() if new["defaults"].get(f) != v]
        assert not changed or new["revision"] > old["revision"], (
            f"{name} has other defaults of {changed}: raise its `revision`"
        )
    golden("data_defaults.json", json.dumps(current, indent=1) + "\n")
