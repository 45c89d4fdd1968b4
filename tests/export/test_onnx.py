"""One iteration as ONNX: onnxruntime gives the numbers of the network, the carry fed back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ladderspec.api import build, load, loads
from ladderspec.cli import main
from ladderspec.language.read import Spec
from ladderspec.network.net import Net
from ladderspec.trained.store import save
from tests.export.test_python import GROUPED, frames_of

SMALL = """
input: {channels: 2, initial: learned}
time: {frames: 3}
levels:
  - {name: fc, encoder: {cell: FC, channels: 3}}
  - {name: class, encoder: {cell: LSTM, channels: 3, initial: learned}}
edges: {state: {delay: 2}, add: [encoder.input(t-1) -> encoder.fc]}
tasks: {kind: {kind: classification, at: "encoder.*", head: 3, when: all}}
"""
WEIGHTLESS = """
input: {channels: 3, size: 4}
time: {frames: 3}
levels:
  - {name: mean, encoder: {cell: Pool, filter: global}}
  - {name: class, encoder: {cell: SoftMax, weights: none}}
tasks: {kind: {kind: classification, at: encoder.class}}
"""
INPUTS = """
input: {channels: 2, size: 4, until: 3}
inputs:
  action: {channels: 3, until: 2, initial: learned}
  goal: {channels: 1, size: 4, per: sequence}
time: {frames: any}
levels:
  - {name: lstm, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
edges: {add: [input.action(t-1) -> encoder.lstm, input.goal -> encoder.lstm]}
tasks: {next: {kind: prediction, at: decoder.input}}
"""
SHARED = """
input: {channels: 2, size: 4}
time: {frames: 3}
levels:
  - {name: half, encoder: {cell: ConvGRU, channels: 2}}
  - {name: next, encoder: {cell: ConvGRU, channels: 2, stride: 2, share: half}}
  - {name: class, encoder: {cell: SoftMax, channels: 3}}
tasks: {kind: {kind: classification, at: encoder.class}}
"""
# Rows that only repeat others are left out: tracing takes its time.
OMMNIST = [f"level.{name}" for name in ("conv_2", "conv_3", "wide_2", "wide_3", "conv12", "conv13")]
MUSIC = ["level.lstm3", "level.lstm4"]


pytestmark = pytest.mark.usefixtures("one_thread")


def settled(spec: Spec) -> Net:
    """A network away from its start, whose batch norms have seen something."""
    net = build(spec)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for _ in range(2):
            net(frames_of(net, 4))
    return net.eval()


class Streamed:
    """A session that feeds `next.NAME` back as `carry.NAME`."""

    def __init__(self, path: Path, batch: int) -> None:
        runtime = pytest.importorskip("onnxruntime", reason="ONNX is not run: ladderspec[export]")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = runtime.InferenceSession(path.read_bytes(), options)
        initial = json.loads(self.session.get_modelmeta().custom_metadata_map["initial"])
        self.carry = {}
        for given in self.session.get_inputs():
            if not given.name.startswith("carry."):
                continue
            shape = [batch if size == "batch" else size for size in given.shape]
            kind = torch.int64 if given.name == "carry.t" else torch.float32
            value = torch.zeros(shape, dtype=kind)
            for name, first in initial.items():
                if given.name in (name, f"{name}.2"):
                    value = torch.tensor(first).expand(shape)
            self.carry[given.name] = value.numpy()

    def __call__(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        names = [output.name for output in self.session.get_outputs()]
        now = {
            "frame" if name == "input" else f"input.{name}": value.numpy()
            for name, value in inputs.items()
        }
        given = {**now, **self.carry}
        found = dict(zip(names, self.session.run(None, given), strict=True))
        self.carry = {f"carry.{k[5:]}": found.pop(k) for k in names if k.startswith("next.")}
        assert self.carry.keys() == given.keys() - now.keys()
        return {name: torch.from_numpy(value) for name, value in found.items()}


def check_stream(net: Net, path: Path, batch: int, count: int) -> None:
    streamed, carry = Streamed(path, batch), net.initial_carry(batch)
    for _ in range(count):
        frame = {form.name: torch.rand(batch, *form.shape) for form in net.inputs.forms}
        with torch.no_grad():
            seen, carry = net.iterate(frame, carry)
        wanted = {
            f"{task}.{node}" if node else task: value
            for task, values in seen.items()
            for node, value in (values if isinstance(values, dict) else {"": values}).items()
        }
        found = streamed(frame)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("path", "without"),
    [
        ("specs/ommnist/rladder_tiny.yaml", OMMNIST),
        ("specs/music/rladder_tiny.yaml", MUSIC),
        ("specs/related/ladder_tiny.yaml", []),
    ],
)
def test_onnxruntime_gives_the_same_numbers(path, without, tmp_path, capsys):
    """Over more iterations than there are statistics for; for one sequence and for several."""
    pytest.importorskip("onnxscript", reason="ONNX is not written: ladderspec[export]")
    spec = load(path, without=without)
    net = settled(spec)
    folder, place = save(net, tmp_path / "net"), tmp_path / "model.onnx"
    words = [word for selector in without for word in ("--without", selector)]
    assert main(["export", path, *words, "--weights", str(folder), "-o", str(place)]) == 0
    assert capsys.readouterr().out == f"wrote {place}\n"
    for batch in (1, 3):
        check_stream(net, place, batch, count=7)


@pytest.mark.filterwarnings("ignore:the network has groups")  # streamed beyond its iterations
@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        WEIGHTLESS,
        INPUTS,
        SHARED,
        GROUPED["gaussian"],
        GROUPED["bernoulli"],
        GROUPED["vectors"],
    ],
    ids=[
        "delays and starts",
        "no weights",
        "inputs",
        "shared",
        "groups",
        "groups of bits",
        "groups of vectors",
    ],
)
def test_small_networks_of_many_kinds(text, tmp_path):
    pytest.importorskip("onnxscript", reason="ONNX is not written: ladderspec[export]")
    from ladderspec.export.onnx import to_onnx

    net = settled(loads(text)).train()
    (tmp_path / "model.onnx").write_bytes(to_onnx(net))
    assert net.training
    for batch in (1, 2):
        check_stream(net.eval(), tmp_path / "model.onnx", batch, count=5)


def test_weights_that_do_not_fit_are_named(tmp_path, capsys):
    path, place = "specs/related/ladder_tiny.yaml", tmp_path / "model.onnx"
    spec = load(path, "no_lateral")
    save(build(spec), tmp_path / "net")
    words = ["export", path, "-o", str(place), "--weights"]
    assert main([*words, str(tmp_path / "net")]) == 2
    assert "does not fit: it lacks decoder." in capsys.readouterr().err
    assert main([*words, str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert not place.exists()


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['onnx'] = sys.modules['onnxscript'] = None\n"
        "from ladderspec.cli import main\n"
        f"sys.exit(main(['export', 'specs/related/ladder_tiny.yaml', '-o', '{tmp_path}/m.onnx']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "ladderspec: ONNX needs onnx and onnxscript;"
        " `pip install 'ladderspec[export]'` brings them\n"
    )
    assert list(tmp_path.iterdir()) == []
