"""Optimisers of torch.optim by name, weight decay, resuming; learning-rate schedules of users."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import ladderspec as ls
from ladderspec.errors import SpecError, UsageError
from ladderspec.experiments import schedules
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.schedules import Torch
from ladderspec.experiments.training import ClipConfig, OptimiserConfig, TrainingConfig
from ladderspec.learn.optimiser import (
    check_optimiser,
    load_state,
    make_optimiser,
    optimisers,
    state_of,
)
from ladderspec.learn.setup import check_runs
from ladderspec.learn.train import train
from ladderspec.learn.train_state import learning_rate
from ladderspec.learn.update import _clip
from ladderspec.network.net import Net
from tests.learn.test_resume import PowerCut, cut, written
from tests.training import EXPERIMENT, experiment, one_run

SPEC = """
input: {channels: 1, size: [4, 4]}
time: {frames: 2}
levels:
  - {name: conv, encoder: {cell: Conv, channels: 3}, decoder: convG3}
  - {name: top, encoder: {cell: LSTM, channels: 4, initial: learned}, decoder: G1}
tasks:
  next: {kind: prediction, at: decoder.input, head: 1}
  probe: {kind: probe, at: encoder.top, target: clean, head: 4}
"""
CONFIGS = {
    "adam": OptimiserConfig(lr=0.01),
    "adamw": OptimiserConfig(kind="adamw", lr=0.01, weight_decay=0.1),
    "sgd": OptimiserConfig(kind="sgd", arguments={"momentum": 0.9, "nesterov": True}),
    "rmsprop": OptimiserConfig(kind="rmsprop", arguments={"alpha": 0.9, "momentum": 0.5}),
    "schedule": OptimiserConfig(
        schedule=Torch(kind="torch", name="OneCycleLR", arguments={"max_lr": 0.02})
    ),
}
ALL = list(optimisers())


@pytest.fixture
def net(tmp_path: Path) -> Net:
    (tmp_path / "small.yaml").write_text(SPEC)
    return ls.build(tmp_path / "small.yaml")


def learn(net: Net, optimiser: torch.optim.Optimizer, updates: range) -> None:
    for i in updates:
        noise = torch.Generator().manual_seed(i)
        frames = torch.rand(3, 2, 1, 4, 4, generator=noise)
        clean = torch.rand(3, 4, generator=noise)
        optimiser.zero_grad()
        net.cost(frames, {"clean": clean}).total.backward()
        optimiser.step()


@pytest.mark.parametrize("kind", ALL)
def test_the_state_of_every_optimiser_is_saved(net: Net, kind: str) -> None:
    config = CONFIGS.get(kind, OptimiserConfig(kind=kind))
    optimiser = make_optimiser(config, net)
    learn(net, optimiser, range(3))
    tensors = {name: v.clone() for name, v in state_of(optimiser, net.named_parameters()).items()}
    again = copy.deepcopy(net)
    other = make_optimiser(config, again)
    load_state(other, again.named_parameters(), tensors)
    learn(net, optimiser, range(3, 6))
    learn(again, other, range(3, 6))
    assert tensors
    for (name, one), two in zip(net.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two), name


@pytest.mark.parametrize("kind", CONFIGS)
def test_cut_off_and_resumed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = one_run(tmp_path, optimiser=CONFIGS[kind])
    train(run, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patched:
        cut(patched, "ladderspec.learn.train.update", 9)
        with pytest.raises(PowerCut):
            train(run, tmp_path / "run", quiet=True)
    train(run, tmp_path / "run", resume=True, quiet=True)
    assert written(tmp_path / "run") == written(tmp_path / "whole")


def test_weights_of_maps_decay_and_nothing_else(net: Net) -> None:
    config = OptimiserConfig(kind="sgd", lr=0.1, weight_decay=0.5)
    optimiser = make_optimiser(config, net)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    learn(net, optimiser, range(1))
    decayed = set()
    for name, p in net.named_parameters():
        assert p.grad is not None
        plain = before[name] - 0.1 * p.grad
        decays = torch.allclose(p, plain - 0.1 * 0.5 * before[name], atol=1e-7)
        if decays and bool(before[name].any()):
            decayed.add(name)
        else:
            torch.testing.assert_close(p.detach(), plain)
    named = {name for name, _ in net.named_parameters() if name.endswith(".weight")}
    assert named < decayed
    assert {name.rpartition(".")[2] for name in decayed - named} == {"W_s", "D", "E"}


def test_the_gradient_norm_is_that_of_all_groups_but_the_probes(net: Net) -> None:
    config = OptimiserConfig(lr=0.01, weight_decay=0.1, clip=ClipConfig(norm=1e-3))
    optimiser = make_optimiser(config, net)
    assert len(optimiser.param_groups) == 4
    learn(net, optimiser, range(1))
    own = [p.grad for name, p in net.named_parameters() if not name.startswith("task.probe")]
    probe = [p.grad.clone() for name, p in net.named_parameters() if name.startswith("task.probe")]
    norm = torch.cat([gradient.flatten() for gradient in own]).norm().item()
    state: Any = SimpleNamespace(optimiser=optimiser, config=TrainingConfig(optimiser=config))
    assert _clip(state) == pytest.approx(norm, rel=1e-5)
    clipped = torch.cat([gradient.flatten() for gradient in own]).norm().item()
    assert clipped == pytest.approx(1e-3, rel=1e-2)
    for before, p in zip(probe, net.task.probe.parameters(), strict=True):
        assert torch.equal(before, p.grad)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "adamm"}, "no optimiser `adamm`: did you mean `adam`?"),
        ({"kind": "lbfgs"}, "optimiser `lbfgs` needs a closure: choose"),
        ({"kind": "SparseAdam"}, "optimiser `sparseadam` needs sparse gradients"),
        (
            {"kind": "sgd", "arguments": {"momentun": 0.9}},
            "optimiser `sgd` has no argument `momentun`: did you mean `momentum`?",
        ),
        (
            {"kind": "sgd", "arguments": {"momentum": -1}},
            "optimiser `sgd` does not take these arguments: Invalid momentum value: -1",
        ),
        (
            {"kind": "sgd", "arguments": {"lr": 1}},
            "`lr` belongs under `optimiser`, not under `arguments`",
        ),
        ({"kind": "Muon"}, "optimiser `muon` takes matrices only, but networks have biases"),
        (
            {"kind": "sgd", "betas": (0.8, 0.9)},
            "`betas` is for Adam and its relatives, not for optimiser `sgd`: leave it out",
        ),
        (
            {"kind": "rmsprop", "eps": 0.1},
            "`eps` is for Adam and its relatives, not for optimiser `rmsprop`: write"
            " `arguments: {eps: 0.1}`",
        ),
        (
            {"kind": "rprop", "weight_decay": 0.1},
            "optimiser `rprop` has no weight decay: leave out `weight_decay`",
        ),
        (
            {"arguments": {"differentiable": True}},
            "optimiser `adam` cannot train with `arguments: {differentiable: True}`: a leaf",
        ),
        (
            {"kind": "rprop", "arguments": {"capturable": True}},
            "optimiser `rprop` cannot train with `arguments: {capturable: True}`: If cap",
        ),
        (
            {"arguments": {"fused": True, "foreach": True}},
            "optimiser `adam` does not take these arguments: `fused` and `foreach`",
        ),
    ],
)
def test_wrong_optimisers_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_optimiser(OptimiserConfig(**fields))
    assert message in str(refused.value)


def test_before_any_run_is_trained(tmp_path: Path) -> None:
    run = one_run(tmp_path, optimiser=OptimiserConfig(kind="adamm"))
    with pytest.raises(UsageError, match="no optimiser `adamm`"):
        check_runs([run], tmp_path / "out", None)


@pytest.mark.parametrize(
    ("training", "message", "hint"),
    [
        ("optimiser: adam", "expected a mapping, got `adam`", "{kind: adam, lr: 0.001}"),
        ("lr: 0.01", "`lr` is a field of `optimiser`", "like `optimiser: {lr: 0.01}`"),
    ],
)
def test_advice(training: str, message: str, hint: str, tmp_path: Path) -> None:
    text = EXPERIMENT.replace("optimiser: {lr: 0.01}", training)
    with pytest.raises(SpecError) as refused:
        open_experiment(experiment(tmp_path, text))
    (finding,) = refused.value.findings
    assert message in finding.message
    assert hint in finding.hint


# --- schedules ------------------------------------------------------------------------------------

# The file that docs/experiments.md shows.
(STEPS,) = re.findall(
    r"```python\n(# my_schedules.py\n.*?)```", Path("docs/experiments.md").read_text(), re.DOTALL
)


def test_a_schedule_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_SCHEDULES", dict(schedules._SCHEDULES))
    (tmp_path / "steps.py").write_text(STEPS)
    text = EXPERIMENT.replace("{lr: 0.01}", "{lr: 0.01, schedule: {kind: steps, at: 0.25}}")
    with pytest.raises(SpecError, match="no schedule `steps`"):
        open_experiment(experiment(tmp_path, text))
    ls.load_plugin(tmp_path / "steps.py")
    run = open_experiment(experiment(tmp_path, text)).runs[0]
    rates = [learning_rate(run.training.optimiser, update, 8) for update in range(4)]
    assert rates == pytest.approx([0.01, 0.01, 0.001, 0.001])
    found = run.training.model_dump(mode="json")
    assert found["optimiser"]["schedule"] == {"kind": "steps", "at": 0.25}
    assert TrainingConfig.model_validate(found) == run.training


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("StepLR", {"step_size": 3, "gamma": 0.5}),
        ("MultiStepLR", {"milestones": [2, 5]}),
        ("ExponentialLR", {"gamma": 0.9}),
        ("CosineAnnealingWarmRestarts", {"T_0": 4}),
        ("OneCycleLR", {"max_lr": 0.3, "total_steps": 12, "cycle_momentum": False}),
    ],
)
def test_schedules_of_torch(name: str, arguments: dict[str, Any]) -> None:
    config = OptimiserConfig(
        lr=0.1, schedule=Torch(kind="torch", name=name, arguments=arguments), warm_up=0
    )
    check_optimiser(config, 12)
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    theirs = getattr(torch.optim.lr_scheduler, name)(optimiser, **arguments)
    for update in range(12):
        assert learning_rate(config, update, 12) == optimiser.param_groups[0]["lr"]
        optimiser.step()
        if update < 11:
            theirs.step()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("SteLR", {}, "no schedule `SteLR`: did you mean `StepLR`?"),
        ("StepLR", {}, "schedule StepLR does not take these arguments: .*step_size"),
        ("LambdaLR", {}, "schedule LambdaLR needs a function"),
        ("ReduceLROnPlateau", {}, "follows a metric: use `schedule: halve`"),
        ("OneCycleLR", {"max_lr": 1, "cycle_momentum": True}, "the momentum stays as it is"),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 5}, "does not take these arguments: Tried"),
    ],
)
def test_wrong_schedules_of_torch_are_refused(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    schedule = Torch(kind="torch", name=name, arguments=arguments)
    with pytest.raises(UsageError, match=message):
        check_optimiser(OptimiserConfig(schedule=schedule), 12)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (STEPS.replace('Literal["steps"]', "str"), "the class Steps needs a name"),
        (STEPS.replace("def rate", "def rates"), "the schedule steps has no `rate`"),
        (STEPS.replace('"steps"', '"cosine"'), "there is a schedule `cosine` in ladderspec"),
    ],
)
def test_a_wrong_schedule_is_refused(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "steps.py").write_text(code)
    with pytest.raises(UsageError, match=message):
        ls.load_plugin(tmp_path / "steps.py")


def test_parameters_of_frozen_parts_have_no_group(net: Net) -> None:
    frozen = next(iter(net.parameters())).requires_grad_(False)
    groups = make_optimiser(OptimiserConfig(weight_decay=0.1), net).param_groups
    found: list[nn.Parameter] = [p for group in groups for p in group["params"]]
    assert all(p is not frozen for p in found)
    assert len(found) == len({id(p) for p in found}) == len(list(net.parameters())) - 1
