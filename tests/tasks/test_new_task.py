"""Adding a task is adding one file: to the package, or as a plug-in. All commands know it then."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ladderspec
from ladderspec import load_plugin
from ladderspec.errors import UsageError
from ladderspec.learn import checkpoint

TASK = '''
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.tasks.base import Metric, Reading, Task, register

if TYPE_CHECKING:
    from torch import Tensor


def root(mean: Tensor) -> Tensor:
    return mean.sqrt()


@register
class Charbonnier(Task):
    """sqrt(d^2 + eps^2) of the difference d to the next frame, a mean over its values."""

    kind: Literal["charbonnier"]
    eps: float = Field(0.01, gt=0, description="Width of the round bottom.")
    trust: str = Field("trust", description="Field of the data: how far a frame counts.")

    starts_at_mean: ClassVar = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if reading.shape != reading.input:
            return f"{reading.node} is no frame", "read `decoder.input`"
        return None

    @property
    def horizon(self) -> int:
        return 1

    @property
    def further_fields(self) -> dict[str, str]:
        return {"trust": self.trust}

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        return ((seen - target) ** 2 + self.eps**2).sqrt().flatten(1).mean(1)

    @property
    def metrics(self) -> dict[str, Metric]:
        return {"quality": Metric("dB", better="higher"), "rms": Metric(finish=root)}

    def measure(self, seen, target, *, trust):
        square = ((seen - target) ** 2).flatten(1).mean(1)
        return {"quality": -10 * (square + 1e-6).log10(), "rms": (square, trust)}

    @property
    def feeds_back(self) -> bool:
        return True

    @property
    def cost_label(self) -> str:
        return "CHARB"
'''

SPEC = """
input: {channels: 1, size: [4, 4]}
time: {frames: 3}
levels:
  - {name: conv, encoder: {cell: Conv, channels: 4}, decoder: convG3}
  - {name: top, encoder: {cell: ConvLSTM, channels: 4}, decoder: convG1}
tasks: {soon: {kind: charbonnier, at: decoder.input, eps: 0.1}}
"""
EXPERIMENT = """
data: {set: arrays, path: moving, valid: 0.2, test: 0.2}
spec: new.yaml
rows: [{name: one}]
training: {updates: 12, batch: 5, stop: 20}
evaluation: {every: 3, statistics: 0}
machine: {threads: 1, device: cpu}
"""


class Place:
    """A folder with a spec, data, and a ladderspec that knows the task."""

    def __init__(self, folder: Path, package: Path, plugin: list[str]) -> None:
        self.folder, self.package, self.plugin = folder, package, plugin

    def python(self, *words: str) -> str:
        here = {**os.environ, "PYTHONPATH": str(self.package)}
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=here, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ladderspec(self, *words: str) -> str:
        return self.python("-m", "ladderspec", *words, *self.plugin)


@pytest.fixture(scope="module", params=["in the package", "as a plug-in"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("new_task")
    (folder / "new.yaml").write_text(SPEC)
    (folder / "study.yaml").write_text(EXPERIMENT)
    (folder / "moving").mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 30), ("valid", 10), ("test", 10)):
        frames = rng.random((count, 3, 1, 4, 4), dtype=np.float32)
        trust = rng.integers(0, 3, (count,)).astype(np.float32)
        np.savez(folder / "moving" / f"{split}.npz", frames=frames, trust=trust)
    source = Path(ladderspec.__file__).parent
    if request.param == "as a plug-in":
        (folder / "charbonnier.py").write_text(TASK)
        return Place(folder, source.parent, ["--plugin", "charbonnier.py"])
    package = folder / "copy"
    shutil.copytree(source, package / "ladderspec", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "ladderspec" / "tasks" / "charbonnier.py").write_text(TASK)
    return Place(folder, package, [])


def test_validate_and_show(place: Place) -> None:
    assert "new.yaml" in place.ladderspec("validate", "new.yaml")
    assert "task soon: charbonnier at decoder.input" in place.ladderspec("show", "new.yaml")


def test_draw(place: Place) -> None:
    place.ladderspec("draw", "new.yaml", "-o", "new.svg")
    assert "soon: CHARB" in (place.folder / "new.svg").read_text()


def test_schema(place: Place) -> None:
    schema = json.loads(place.ladderspec("schema"))
    assert "Width of the round bottom." in json.dumps(schema["$defs"]["Charbonnier"])


COST = """
import sys
import torch
import ladderspec as ls

for plugin in sys.argv[1:]:
    ls.load_plugin(plugin)
net = ls.build("new.yaml").double()
frames = torch.rand(4, 3, 1, 4, 4).double()
net.set_offset(0.5)
seen = net(frames)["soon"]
each = torch.sqrt((seen[:, :2] - frames[:, 1:]) ** 2 + 0.1**2)  # the target is the next frame
torch.testing.assert_close(net.cost(frames)["soon"], each.mean())
torch.testing.assert_close(net.generate(frames, 1)[:, 0], seen[:, -1])
print(float(net.task.soon.offset.mean()))
ls.save(net, "saved")
again = ls.open_net("saved").double()(frames)["soon"]
torch.testing.assert_close(again, seen, atol=1e-6, rtol=1e-5)
"""


def test_the_cost_in_python(place: Place) -> None:
    assert place.python("-c", COST, *place.plugin[1:]) == "0.5\n"


MEASURE = """
import sys
import numpy as np
import torch
import ladderspec as ls

for plugin in sys.argv[1:]:
    ls.load_plugin(plugin)
from ladderspec.trained.run import open_run
net = open_run("out/RUN").net()
net.eval()
data = np.load("moving/test.npz")
frames, trust = torch.from_numpy(data["frames"]), torch.from_numpy(data["trust"])
with torch.no_grad():
    seen = net(frames)["soon"]
square = ((seen[:, :2] - frames[:, 1:]) ** 2).flatten(2).mean(2).double()
print(float((-10 * torch.log10(square + 1e-6)).mean()))
print(float(torch.sqrt((square * trust[:, None]).sum() / (2 * trust.sum()))))
"""


def test_train_and_evaluate(place: Place) -> None:
    place.ladderspec("train", "study.yaml", "-o", "out")
    (run,) = [path.parent for path in (place.folder / "out").rglob("result.json")]
    result = json.loads((run / "result.json").read_text())
    assert result["units"] == {"soon.quality": "dB", "soon.rms": ""}
    assert result["higher_is_better"] == ["soon.quality"]
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    seen = {row["update"]: row["soon.quality"] for row in rows if row.get("split") == "valid"}
    assert len(seen) == 4
    best = checkpoint.read(run, "best").attributes
    assert best["update"] == max(seen, key=seen.__getitem__)
    assert best["value"] == max(seen.values())
    assert min(seen, key=seen.__getitem__) != max(seen, key=seen.__getitem__)
    report = json.loads(place.ladderspec("evaluate", str(run), "--json"))
    assert report["metrics"] == pytest.approx(result["metrics"]["test"])
    code = MEASURE.replace("out/RUN", str(run))
    quality, rms = map(float, place.python("-c", code, *place.plugin[1:]).split())
    assert math.isclose(result["metrics"]["test"]["soon.quality"], quality, rel_tol=1e-5)
    assert math.isclose(result["metrics"]["test"]["soon.rms"], rms, rel_tol=1e-5)


EXPORTED = """
import sys
import torch
import ladderspec as ls

for plugin in sys.argv[1:]:
    ls.load_plugin(plugin)
namespace = {}
source = open("model.py").read()
assert "ladderspec" not in "".join(line for line in source.splitlines() if "import" in line)
exec(source, namespace)
net, model = ls.build("new.yaml").double(), namespace["Exported"]().double()
net.set_offset(0.25)
model.load_state_dict(net.state_dict())
frames = torch.rand(4, 3, 1, 4, 4).double()
torch.testing.assert_close(model(frames)["soon"], net(frames)["soon"])
print("equal")
"""


def test_export(place: Place) -> None:
    place.ladderspec("export", "new.yaml", "-o", "model.py", "--class", "Exported")
    assert place.python("-c", EXPORTED, *place.plugin[1:]) == "equal\n"


def test_a_graph_in_json_names_the_plugin_that_it_needs(place: Place) -> None:
    if not place.plugin:
        pytest.skip("the package knows the task")
    text = place.ladderspec("graph", "new.yaml", "--json")
    (place.folder / "graph.json").write_text(text)
    code = "from ladderspec.wiring.graph_json import loads\nloads(open('graph.json').read())"
    with pytest.raises(AssertionError, match="load its plug-in first"):
        place.python("-c", code)


# --- mistakes -------------------------------------------------------------------------------------

WRONG = """
from typing import Literal
from ladderspec.tasks import Task, register

@register
class Wrong(Task):
    {kind}

    def compare(self, seen, target):
        return seen
    {check}
"""
CHECK = "def check_shape(self, reading):\n        return None"


@pytest.mark.parametrize(
    ("kind", "check", "message"),
    [
        ("pass", CHECK, 'the class Wrong needs a name: `kind: Literal["wrong"]`'),
        ('kind: Literal["wrong"]', "", "the task wrong has no `check_shape`, see docs/own_tasks"),
        (
            'kind: Literal["prediction"]',
            CHECK,
            "there is a task `prediction` in ladderspec: give yours another name",
        ),
    ],
)
def test_a_wrong_class_is_refused(tmp_path: Path, kind: str, check: str, message: str) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG.format(kind=kind, check=check))
    with pytest.raises(UsageError, match=re.escape(message)):
        load_plugin(path)
