"""Adding a cell is adding one file: to the package, or as a plug-in. All commands know it then."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ladderspec
from ladderspec import load_plugin
from ladderspec.errors import UsageError

CELL = '''
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.base import STATEFUL_TAKES, EncoderCell, Site, register
from ladderspec.cells.fields import ActivationName, Count, NormChoice, PairField
from ladderspec.cells.functions import per_channel
from ladderspec.cells.parameters import Parameters, blocks, weight, zeros
from ladderspec.cells.projections import Inlet, Projection, need_map, pre_activation
from ladderspec.names import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

START = 1.0  # of the logits of r


def keep(r: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return r * old + (1 - r) * new


@register
class Trace(EncoderCell):
    """Exponential trace of the pre-activation: m = r . m(t-1) + (1 - r) . a, e = W * act(m)."""

    cell: Literal["Trace"] = "Trace"
    channels: Count = Field(description="Width of the trace.")
    filter: PairField = Field((3, 3), description="Filter size.")
    activation: ActivationName = Field("relu", description="What the trace passes through.")

    takes: ClassVar = STATEFUL_TAKES
    stateful: ClassVar = True
    offset: ClassVar = "bias"
    returns: ClassVar = ("m",)

    def out_shape(self, site: Site) -> Shape:
        need_map(site.main().shape, "Trace", "LSTM")
        return (self.channels, *site.main().shape[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return pre_activation(inlet, out, self.filter, NormChoice(), "layer")

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return {
            "bias": zeros(out[0]),
            "rate": blocks(out[0], values=(START,)),
            "W": weight(out[0], out[0], 1, 1),
        }

    def state_shapes(self, out: Shape) -> dict[str, Shape]:
        return {"m": out}

    @staticmethod
    def compute(
        a: Tensor,
        m: Tensor | None = None,
        *,
        rate: Tensor,
        W: Tensor,
        activation: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor]:
        import torch
        from torch.nn import functional

        r = torch.sigmoid(per_channel(rate, a))
        new = keep(r, a, torch.zeros_like(a) if m is None else m)
        return functional.conv2d(activation(new), W), new
'''

SPEC = """
input: {channels: 1, size: [8, 6]}
time: {frames: 3}
levels:
  - {name: trace, encoder: {cell: Trace, channels: 4}, decoder: convG3}
  - {name: class, encoder: {cell: SoftMax, channels: 3}, decoder: G1}
edges: {decoder_to_encoder: [trace]}
tasks: {label: {kind: classification, at: encoder.class}}
"""

LEARN = """
import sys
import torch
import ladderspec as ls

for plugin in sys.argv[1:]:
    ls.load_plugin(plugin)
print(ls.__file__)
net = ls.build("new.yaml")
frames, labels = torch.rand(4, 3, 1, 8, 6), torch.arange(4) % 3
names = [name for name, _ in net.named_parameters() if name.startswith("encoder.trace")]
before = {name: net.get_parameter(name).detach().clone() for name in names}
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
net.cost(frames, {"label": labels}).total.backward()
optimiser.step()
print(*sorted(name for name in names if not torch.equal(net.get_parameter(name), before[name])))
net.eval()
with torch.no_grad():
    whole, carry = net(frames)["label"], net.initial_carry(4)
    for t, frame in enumerate(frames.unbind(1)):
        outputs, carry = net.iterate(frame, carry)
        torch.testing.assert_close(outputs["label"], whole[:, t])
    ls.save(net, "saved")
    torch.testing.assert_close(ls.open_net("saved").eval()(frames)["label"], whole)
print(tuple(net.values(frames, "encoder.trace.m").shape))
"""
LEARNED = ["W", "bias", "decoder_to_encoder.gain", "decoder_to_encoder.weight", "encoder.gain"]
LEARNED += ["encoder.weight", "rate", "state.gain", "state.weight"]


class Place:
    """A folder with a spec, and a ladderspec that knows the cell."""

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
    folder = tmp_path_factory.mktemp("new_cell")
    (folder / "new.yaml").write_text(SPEC)
    source = Path(ladderspec.__file__).parent
    if request.param == "as a plug-in":
        (folder / "trace.py").write_text(CELL)
        return Place(folder, source.parent, ["--plugin", "trace.py"])
    package = folder / "copy"
    shutil.copytree(source, package / "ladderspec", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "ladderspec" / "cells" / "trace.py").write_text(CELL)
    return Place(folder, package, [])


def test_validate_and_show(place: Place) -> None:
    assert "new.yaml" in place.ladderspec("validate", "new.yaml")
    # W and two vectors on the node; three edges of 3x3 filters with gains.
    count = 4 * 4 + 2 * 4 + 9 * 4 * (1 + 4 + 4) + 3 * 4
    shown = place.ladderspec("show", "new.yaml")
    assert re.search(rf"trace +Trace .* 4x8x6 +{count}\b", shown), shown


def test_draw(place: Place) -> None:
    place.ladderspec("draw", "new.yaml", "-o", "new.svg")
    assert "Trace" in (place.folder / "new.svg").read_text()


def test_schema(place: Place) -> None:
    schema = place.ladderspec("schema")
    assert "Width of the trace." in schema
    json.loads(schema)


def test_build_and_learn(place: Place) -> None:
    where, learned, shape = place.python("-c", LEARN, *place.plugin[1:]).splitlines()
    assert where.startswith(str(place.package))
    assert learned.split() == [f"encoder.trace.{name}" for name in LEARNED]
    assert shape == "(4, 3, 4, 8, 6)"


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
model.load_state_dict(net.state_dict())
frames = torch.rand(4, 3, 1, 8, 6).double()
for training in (True, False):
    ours, theirs = model.train(training)(frames), net.train(training)(frames)
    torch.testing.assert_close(ours["label"], theirs["label"])
print("equal")
"""


def test_export(place: Place) -> None:
    place.ladderspec("export", "new.yaml", "-o", "model.py", "--class", "Exported")
    assert "class Trace(Cell):" in (place.folder / "model.py").read_text()
    assert place.python("-c", EXPORTED, *place.plugin[1:]) == "equal\n"


# --- cells of the old API -------------------------------------------------------------------------

OLD = """
from typing import Literal
from ladderspec.cells import EncoderCell, register

@register
class Old(EncoderCell):
    cell: Literal["Old"] = "Old"

    def out_shape(self, site):
        return site.main().shape

    {member}
"""
MEMBERS = {
    "build": "def build(self, site, out):\n        return None",
    "join": "def join(self, site, out):\n        return {}",
}


@pytest.mark.parametrize(("old", "new"), [("build", "compute"), ("join", "parameters")])
def test_a_cell_of_the_old_api_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "old.py"
    path.write_text(OLD.replace("{member}", MEMBERS[old]))
    with pytest.raises(UsageError) as refused:
        load_plugin(path)
    assert str(refused.value) == (
        f"plugin {path} fails: the cell Old has a method `{old}`, from the old API of cells:"
        f" write `{new}` instead (docs/own_cells.md, section 'Cells of the old API')"
    )
    assert "\n## Cells of the old API\n" in Path("docs/own_cells.md").read_text()


def test_a_cell_without_a_computation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text(OLD.replace("{member}", "pass"))
    with pytest.raises(UsageError, match=r"the cell Old has no `compute`, see docs/own_cells.md"):
        load_plugin(path)
