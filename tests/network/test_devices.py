"""On an accelerator: devices are never mixed, and nothing is read back inside the loop over t.

No GPU is needed: tensors are fake. torch for CPUs alone needs a stand-in for the guard of CUDA
devices, which a C++ compiler makes; its backward passes are of fake tensors of the device `meta`.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import ladderspec as ls
import ladderspec.learn.train as training
from ladderspec.cli import main
from ladderspec.data import Split
from ladderspec.errors import UsageError
from ladderspec.experiments.runs import Run, on_machine
from ladderspec.learn import processes
from ladderspec.learn.evaluation import Evaluator
from ladderspec.learn.log import MetricsLog
from ladderspec.learn.progress import Progress
from ladderspec.learn.setup import check_runs
from ladderspec.learn.train import train
from ladderspec.learn.train_state import TrainState
from ladderspec.learn.update import update
from ladderspec.names import INPUT
from ladderspec.network.net import Net
from tests.training import EXPERIMENT, one_run

SPECS = Path(__file__).parents[2] / "specs"
BATCH, FRAMES = 2, 3
SMALL = [
    pytest.param(
        path,
        marks=[] if path.stem.endswith("_tiny") else pytest.mark.long,
        id=f"{path.parent.name}-{path.stem}",
    )
    for path in sorted(SPECS.rglob("*.yaml"))
    if "experiments" not in path.parts
    and (path.parent.name == "related" or path.stem.endswith(("_tiny", "_small", "_quick")))
]
COPIES = ("_to_copy", "copy_", "_local_scalar_dense")


class OneDevice(TorchDispatchMode):
    """Refuses every operation on tensors of two devices; numbers of no axis may be elsewhere."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.dim()]
        devices = {x.device.type for x in given}
        if len(devices) > 1 and func.overloadpacket.__name__ not in COPIES:
            raise AssertionError(f"{func} mixes {sorted(devices)}")
        return func(*args, **(kwargs or {}))


@contextmanager
def fake() -> Iterator[None]:
    with FakeTensorMode(), OneDevice():
        yield


def onto(net: nn.Module, device: str) -> None:
    """Replace all parameters and buffers by fake ones of a device."""
    for module in net.modules():
        for name, value in module._parameters.items():
            if value is not None:
                empty = torch.empty(value.shape, dtype=value.dtype, device=device)
                module._parameters[name] = nn.Parameter(empty, value.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=device)


def frames_for(net: Net, device: str) -> dict[str, Tensor]:
    """All inputs by name."""
    lead = (BATCH,) if net.plan.iterations else (BATCH, FRAMES)
    frames = {INPUT: torch.rand(*lead, *net.shape, device=device)}
    for form in net.inputs.forms[1:]:
        lead = (BATCH, FRAMES) if form.timed else (BATCH,)
        frames[form.name] = torch.rand(*lead, *form.shape, device=device)
    return frames


def targets_for(net: Net, frames: dict[str, Tensor]) -> dict[str, Tensor]:
    """A target for every field that a task compares with."""
    found, device = {}, frames[INPUT].device
    with torch.no_grad():
        outputs = net(frames)
    for name, task in net.tasks.items():
        if task.field is not None:
            seen = outputs[name]
            shape = tuple(
                (seen if isinstance(seen, Tensor) else next(iter(seen.values()))).shape[2:]
            )
            shape = shape if net.groups is None else shape[1:]
            kind = torch.int64 if task.classes(shape) else torch.float32
            found[task.field] = torch.zeros(
                BATCH, *task.target_shape(shape), dtype=kind, device=device
            )
    return found


GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace c10::impl { C10_REGISTER_GUARD_IMPL(CUDA, NoOpDeviceGuardImpl<DeviceType::CUDA>) }
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fake tensors may be of a `cuda` device."""
    if not torch.backends.cuda.is_built():
        compiler = shutil.which("g++")
        if compiler is None:
            pytest.skip("no g++: fake tensors of CUDA devices are not checked")
        folder, home = tmp_path_factory.mktemp("guard"), Path(torch.__file__).parent
        (folder / "guard.cpp").write_text(GUARD)
        words = ["-std=c++20", "-shared", "-fPIC", f"-I{home / 'include'}", f"-L{home / 'lib'}"]
        made = [str(folder / "guard.cpp"), "-lc10", "-o", str(folder / "guard.so")]
        subprocess.run([compiler, *words, *made], check=True)
        ctypes.CDLL(str(folder / "guard.so"))
    return "cuda"


def frame_of(net: Net, frames: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inputs at the first t."""
    timed = {form.name for form in net.inputs.forms if form.timed}
    return {name: value[:, 0] if name in timed else value for name, value in frames.items()}


@pytest.mark.parametrize("path", SMALL)
def test_evaluation_costs_and_iterations(path: Path, cuda: str) -> None:
    net = ls.build(path)
    with fake(), torch.no_grad():
        onto(net, cuda)
        frames = frames_for(net, cuda)
        targets = targets_for(net, frames)
        for mode in (True, False):
            costs = net.train(mode).cost(frames, targets)
            assert costs.total.device.type == cuda
        carry = net.initial_carry(BATCH)
        for _ in range(2):
            outputs, carry = net.iterate(frame_of(net, frames), carry)
        assert {x.device.type for x in tree_leaves((outputs, carry.values))} == {cuda}
        if not net.plan.iterations:
            net(frames, [FRAMES, FRAMES - 1])  # sequences of two lengths


@pytest.mark.parametrize("path", SMALL)
def test_backward(path: Path) -> None:
    net = ls.build(path)
    with fake():
        onto(net, "meta")
        frames = frames_for(net, "meta")
        net.cost(frames, targets_for(net, frames)).total.backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        assert gradients
        assert {gradient.device.type for gradient in gradients} == {"meta"}


# --- training -------------------------------------------------------------------------------------

READS = ("item", "tolist", "__bool__", "__float__", "__int__", "cpu", "numpy", "nonzero")


def prepared(run: Run, folder: Path) -> TrainState:
    cpu = torch.device("cpu")
    return training._prepare(run, folder, run.data.open(0), cpu, Split.TRAIN, False)[0]


@pytest.mark.parametrize("check", [1, 3])
def test_an_update_reads_nothing_between_two_checks(
    check: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read for `check` updates, of all costs and gradient norms at once."""
    run = one_run(tmp_path, updates=6)
    run = replace(run, machine=run.machine.model_copy(update={"check": check, "log": 6}))
    state = prepared(run, tmp_path)
    state.check, reads = check, list[int]()

    def counting(name: str) -> Any:
        real = getattr(Tensor, name)

        def read(self: Tensor, *args: Any, **words: Any) -> Any:
            reads[-1] += 1
            return real(self, *args, **words)

        return read

    for name in READS:
        monkeypatch.setattr(Tensor, name, counting(name))
    monkeypatch.setattr(state.optimiser, "step", lambda: None)  # of torch: counts on the CPU
    for batch, share in training.batches(state, 0):
        reads.append(0)
        update(state, batch, share)
        if len(reads) == 6:
            break
    assert reads == [int(number % check == 0) for number in range(1, 7)]


class NoDoubles(TorchDispatchMode):
    """Like MPS: no float64."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        kinds = [x.dtype for x in tree_leaves(found) if isinstance(x, Tensor)]
        assert torch.float64 not in kinds, func
        return found


def test_no_float64_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates with a teacher and noise, batch statistics, every metric."""
    assert processes.sum_dtype(torch.device("mps")) is torch.float32
    assert processes.sum_dtype(torch.device("cuda")) is torch.float64
    monkeypatch.setattr(processes, "sum_dtype", lambda device: torch.float32)
    text = EXPERIMENT.replace("name: ladder,", "name: ladder, variant: taught,")
    run = one_run(tmp_path, text, updates=2)
    state = prepared(run, tmp_path)
    log, progress = MetricsLog(tmp_path), Progress("")
    with NoDoubles():
        for batch, share in training.batches(state, 0):
            update(state, batch, share)
            if state.update == 2:
                break
        report = Evaluator(run, state, log, tmp_path, progress).report("valid", 20)
    assert report.metrics["digit.error"] > 0


def test_mps_refuses_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    run = one_run(tmp_path, precision="float64")
    with pytest.raises(UsageError, match="MPS has no float64"):
        check_runs(on_machine([run], {"device": "mps"}), tmp_path / "out", None)


def test_commands_take_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(one_run(tmp_path, updates=1), tmp_path / "run", quiet=True)
    for command in ("evaluate", "generate"):
        assert main([command, str(tmp_path / "run"), "--device", "cpu"]) == 0
        assert main([command, str(tmp_path / "run"), "--device", "cuda:9"]) == 2
        assert "no device `cuda:9` here" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "run"), "--device", "cpu"]) == 2
    assert "runs on every device" in capsys.readouterr().err
    onnx = str(tmp_path / "net.onnx")
    assert main(["export", str(tmp_path / "run"), "--device", "tpu", "-o", onnx]) == 2
    assert "no device `tpu` here" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "run"), "--device", "cpu", "-o", onnx]) == 0
