"""Cells, activations and norms of a user, in the files that docs/own_cells.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOC = Path("docs/own_cells.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
SPEC = """
input: {channels: 2, size: 8}
time: {frames: any}
levels:
  - name: slow
    encoder: {cell: Leaky, rate: 0.25}
  - encoder: {cell: Conv, channels: 3}
"""
GATED = """
input: {channels: 2, size: 8}
time: {frames: 4}
levels:
  - {name: gated, encoder: {cell: MGU, channels: 5}}
  - {name: class, encoder: {cell: SoftMax, channels: 3}}
tasks: {label: {kind: classification, at: encoder.class}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All files of the page, by the names in their first lines, and specs that use them."""
    for block in BLOCKS:
        if block.startswith("# "):
            (tmp_path / block.splitlines()[0][2:]).write_text(block)
    (tmp_path / "mine.yaml").write_text(SPEC)
    (tmp_path / "gated.yaml").write_text(GATED)
    return tmp_path


def test_the_first_cell_of_the_page_is_short() -> None:
    assert BLOCKS[0].startswith("# my_cells.py\n")
    assert len(BLOCKS[0].splitlines()) < 40


def ladderspec(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ladderspec", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_cell_from_a_file(folder: Path) -> None:
    done = ladderspec(folder, "show", "mine.yaml", "--plugin", "leaky.py")
    assert done.returncode == 0, done.stderr
    assert re.search(r"slow +Leaky .* 2x8x8 +0", done.stdout)
    done = ladderspec(folder, "graph", "mine.yaml", "--plugin", "leaky.py")
    assert re.search(r"encoder.slow\(t-1\) -> encoder.slow +state", done.stdout)


def test_its_fields_are_checked_like_any_other(folder: Path) -> None:
    (folder / "mine.yaml").write_text(SPEC.replace("rate: 0.25", "rat: 2"))
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "leaky.py")
    assert "did you mean `rate`?" in done.stderr
    schema = ladderspec(folder, "schema", "--plugin", "leaky.py")
    assert "How fast it follows." in schema.stdout


def test_a_spec_alone_brings_no_code_in(folder: Path) -> None:
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 1
    assert "unknown cell `Leaky`" in done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [("1 / 0", "ZeroDivisionError"), ("def", "SyntaxError"), ("import nowhere", "nowhere")],
)
def test_a_broken_plugin_is_said_plainly(folder: Path, code: str, message: str) -> None:
    (folder / "my_cells.py").write_text(code)
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "my_cells.py")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"plugin my_cells.py fails: {message}" in done.stderr or message in done.stderr


def test_a_missing_plugin_is_usage(folder: Path) -> None:
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "nowhere.py")
    assert (done.returncode, done.stderr) == (2, "ladderspec: no plugin file nowhere.py\n")


def test_an_installed_package_offers_cells(folder: Path) -> None:
    """Found through its metadata, imported only when a spec names an unknown cell."""
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ladderspec.cells]\nmine = leaky\n")
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 0, done.stderr


def test_a_cell_from_python(folder: Path) -> None:
    code = (
        "import ladderspec as ls, torch\n"
        "ls.load_plugin('leaky.py')\n"
        "net = ls.build('mine.yaml')\n"
        "x = torch.ones(1, 3, 2, 8, 8)\n"
        "print(net.values(x, 'encoder.slow')[0, :, 0, 0, 0].tolist())\n"
        "ls.save(net, 'net')\n"
        "print(len(ls.open_net('net').plan.equations))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[0.25, 0.4375, 0.578125]\n3\n", done.stderr


# --- in this process ------------------------------------------------------------------------------


@pytest.fixture
def loaded(folder: Path, cells_of_the_module: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    import ladderspec as ls
    from ladderspec.cells import activations, norms

    # Forgotten again afterwards.
    monkeypatch.setitem(activations.ACTIVATIONS, "mish", None)
    monkeypatch.setitem(norms.NORMS, "rms", None)
    for name in ("my_cells.py", "leaky.py", "my_functions.py"):
        ls.load_plugin(folder / name)
    return folder


def test_the_gated_cell_follows_its_formulas(loaded: Path) -> None:
    import torch
    from torch.nn import functional

    import ladderspec as ls

    net = ls.build(loaded / "gated.yaml").double()
    cell = net.get_submodule("encoder.gated")
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.normal_()
    frames = torch.rand(3, 4, 2, 8, 8, dtype=torch.float64)
    found = net.values(frames, "encoder.gated")

    def term(edge: Any, x: Any) -> Any:
        return functional.layer_norm(x.flatten(1) @ edge.weight.T, (10,)) * edge.gain

    h = torch.zeros(3, 5, dtype=torch.float64)
    for t, frame in enumerate(frames.unbind(1)):
        f, n = (term(cell.encoder, frame) + cell.bias).chunk(2, dim=1)
        s_f, s_n = term(cell.state, h).chunk(2, dim=1)
        f = torch.sigmoid(f + s_f)
        h = (1 - f) * h + f * torch.tanh(n + f * s_n)
        torch.testing.assert_close(found[:, t], h)


def test_the_gated_cell_learns(loaded: Path) -> None:
    import torch

    import ladderspec as ls

    net = ls.build(loaded / "gated.yaml")
    assert {name: tuple(p.shape) for name, p in net.encoder.gated.named_parameters()} == {
        "bias": (10,),
        "encoder.weight": (10, 128),
        "encoder.gain": (10,),
        "state.weight": (10, 5),
        "state.gain": (10,),
    }
    frames, labels = torch.rand(6, 4, 2, 8, 8), torch.arange(6) % 3
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    costs = []
    for _ in range(30):
        optimiser.zero_grad()
        cost = net.cost(frames, {"label": labels}).total
        cost.backward()
        optimiser.step()
        costs.append(cost.item())
    assert costs[-1] < 0.5 * costs[0]


def test_an_activation_and_a_norm_from_a_file(loaded: Path) -> None:
    import torch
    from torch.nn import functional

    import ladderspec as ls

    text = SPEC.replace("cell: Leaky, rate: 0.25", "cell: Conv, channels: 3, norm: rms")
    net = ls.build(ls.loads(text.replace("norm: rms", "norm: rms, activation: mish")))
    frames = torch.randn(2, 1, 2, 8, 8)
    edge = net.get_submodule("encoder.slow.encoder")
    with torch.no_grad():
        edge.gain.normal_()
    a = functional.conv2d(frames[:, 0], edge.weight, padding=1)
    a = a / a.square().mean((1, 2, 3), keepdim=True).add(1e-5).sqrt() * edge.gain[:, None, None]
    torch.testing.assert_close(net.values(frames, "encoder.slow")[:, 0], functional.mish(a))
    with pytest.raises(ls.SpecError, match=r"(?s)there is no norm `rsm`.*did you mean `rms`"):
        ls.loads(text.replace("norm: rms", "norm: rsm"))


def test_a_norm_has_a_compute() -> None:
    from ladderspec.cells import Norm, register_norm
    from ladderspec.errors import UsageError

    class Bare(Norm):
        name = "bare"

    with pytest.raises(UsageError, match="the norm bare has no `compute`"):
        register_norm(Bare)


def test_a_cell_of_your_own_without_yaml(loaded: Path) -> None:
    import torch

    from ladderspec import nn

    cell = nn.MGU.of((3,), channels=8)
    h, further = cell({"encoder": torch.rand(2, 3)})
    h, further = cell({"encoder": torch.rand(2, 3), "state": h}, further)
    assert (h.shape, further) == ((2, 8), {})


def test_the_cells_without_yaml_run_as_documented() -> None:
    import torch

    frames = {"frame": torch.rand(2, 1, 16, 16), "next_frame": torch.rand(2, 1, 16, 16)}
    seen: dict[str, Any] = dict(frames)
    exec(BLOCKS[-1], seen)
    assert seen["y"].shape == (2, 1, 16, 16)
    assert seen["h"].shape == (2, 8, 8, 8)
    assert seen["encoder"].state.weight.shape == (32, 8, 5, 5)


def test_what_the_page_names_exists() -> None:
    """Members of cells in its tables, and what it says is imported from where."""
    from ladderspec import cells, nn
    from ladderspec.cells import Cell, Inlet, Site

    section = DOC.split("## What each method answers")[1].split("##")[0]
    members = re.findall(r"^\| `(\w+)", section, re.MULTILINE)
    assert len(members) > 10
    for member in members:
        assert hasattr(Cell, member) or member in Cell.__annotations__, member
    for name in re.findall(r"`site\.(\w+)", DOC):
        assert hasattr(Site, name) or name in Site.__dataclass_fields__, name
    for name in ("key", "role", "shape", "delay", "filter", "norm", "gain"):
        assert name in Inlet.__dataclass_fields__
    for name in ("pre_activation", "between", "Projection", "ShapeProblem", "blocks", "weight"):
        assert f"`{name}(" in DOC or f"`{name}`" in DOC
        assert name in cells.__all__
    assert {"TimeStep", "FIRST", "Edge"} <= set(nn.__all__)


MEMBERS_OF_CONFIG = {"model_config", "cell", "label", "initial", "noise", "share"}  # and fields


def test_the_page_lists_all_members_of_a_cell() -> None:
    from ladderspec.cells import Cell

    section = DOC.split("## What each method answers")[1].split("##")[0]
    listed = {*re.findall(r"^\| `(\w+)", section, re.MULTILINE)}
    members = {name for name in {*vars(Cell), *Cell.__annotations__} if name[0] != "_"}
    pydantic = {name for name in members if name.startswith("model_")}
    assert members - pydantic - MEMBERS_OF_CONFIG - {"signature"} == listed


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [
        ('"mish"', '"relu"', "there is an activation `relu` in ladderspec: give yours another"),
        ('"rms"', '"layer"', "there is a norm `layer` in ladderspec: give yours another name"),
        ('"rms"', '"joint"', "`norm: joint` has a meaning of its own: give yours another name"),
        ('"rms"', '"none"', "`norm: none` has a meaning of its own: give yours another name"),
    ],
)
def test_what_ladderspec_has_cannot_be_replaced(folder, name, other, message) -> None:
    from ladderspec.cells import ACTIVATIONS, NORMS
    from ladderspec.errors import UsageError
    from ladderspec.plugins import load_plugin

    before = dict(ACTIVATIONS), dict(NORMS)
    path = folder / "my_functions.py"
    path.write_text(path.read_text().replace(name, other))
    try:
        with pytest.raises(UsageError, match=re.escape(message)):
            load_plugin(path)
        assert ACTIVATIONS["relu"] is before[0]["relu"]
        assert NORMS["layer"] is before[1]["layer"]
    finally:
        for table, kept in zip((ACTIVATIONS, NORMS), before, strict=True):
            table.clear()
            table.update(kept)
