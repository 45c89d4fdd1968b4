"""Architectures of the field, from the file to an exported network, without a plug-in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import ladderspec as ls
from ladderspec.api import validate
from ladderspec.language.read import Request
from ladderspec.network.net import Net
from tests.export.test_python import between, exported, frames_of

pytestmark = pytest.mark.usefixtures("one_thread")
SMALLER = {"width": 2, "frames": 3}
FIELD = {  # the architectures of the field that the language must reach
    "ommnist/rladder", "ommnist/temporal_baseline", "music/rladder", "related/ladder",
    "related/video_ladder", "related/prednet", "related/blt", "related/unet",
    "related/densenet_block", "related/residual_convgru", "related/siamese",
}  # fmt: skip
SPECS = sorted(  # those that only change sizes are left out
    path
    for path in Path("specs").rglob("*.yaml")
    if "experiments" not in path.parts and not path.stem.endswith(("_small", "_compact"))
)


def test_the_architectures_of_the_field_are_there() -> None:
    assert {str(path.relative_to("specs").with_suffix("")) for path in SPECS} >= FIELD


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_from_the_file_to_an_exported_network(path: Path, tmp_path: Path) -> None:
    checked = validate(path, Request())
    assert not checked.findings
    known = ls.load(path).config.params
    spec = ls.load(path, set={f"params.{n}": v for n, v in SMALLER.items() if n in known})
    (drawing,) = ls.draw(spec, tmp_path / "net.svg")
    assert drawing.read_text(encoding="utf-8").rstrip().endswith("</svg>")
    torch.manual_seed(0)
    net = ls.build(spec).double()
    inputs = {name: value.double() for name, value in frames_of(net, 2).items()}
    train(net, inputs)
    model = exported(spec).double()
    model.load_state_dict(net.state_dict())
    with torch.no_grad():
        assert between(model, net, inputs) < 1e-9


def train(net: Net, inputs: dict[str, Tensor]) -> None:
    """Two updates, of which the second changes most of the network."""
    targets = {"label": torch.arange(2), "same": torch.arange(2)}
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(2):
        before = [parameter.detach().clone() for parameter in net.parameters()]
        cost = net.cost(inputs, targets).total
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        assert cost.isfinite()
    changed = [not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True)]
    assert sum(changed) > len(changed) / 2
