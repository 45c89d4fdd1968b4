"""The costs of docs/tasks.md, written from that page with torch.nn.functional alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import ladderspec as ls
from ladderspec.learn.train import train
from ladderspec.network.net import Net
from ladderspec.tasks import registered
from ladderspec.trained.run import open_run
from tests.training import EXPERIMENT, one_run
from tests.training import SPEC as TRAINED

PAGE = Path("docs/tasks.md").read_text()
SPEC = """
input: {{channels: 1, size: [4, 4]}}
time: {{frames: 4}}
levels:
  - {{name: conv, encoder: {{cell: Conv, channels: 3}}, decoder: convG1}}
  - {{name: class, encoder: {{cell: SoftMax, channels: 5}}, decoder: G1}}
tasks: {{it: {{{task}}}}}
"""
B, T = 3, 4


def network(tmp_path: Path, task: str) -> Net:
    (tmp_path / "it.yaml").write_text(SPEC.format(task=task))
    return ls.build(tmp_path / "it.yaml").double().eval()


def frames() -> Tensor:
    return torch.rand(B, T, 1, 4, 4, generator=torch.Generator().manual_seed(0)).double()


def each_sample(cost: str, x: Tensor, y: Tensor) -> Tensor:
    """The cost of each sample and t, (B, n), by the table of the page."""
    x, y = x.flatten(2), y.flatten(2)
    if cost == "mse":
        return functional.mse_loss(x, y, reduction="none").mean(2)
    if cost == "l1":
        return functional.l1_loss(x, y, reduction="none").mean(2)
    if cost == "huber":
        return functional.huber_loss(x, y, reduction="none", delta=0.2).mean(2)
    return functional.binary_cross_entropy_with_logits(x, y, reduction="none").sum(2)


@pytest.mark.parametrize("cost", ["mse", "l1", "huber", "bce"])
@pytest.mark.parametrize("ahead", [1, 2])
def test_prediction(tmp_path: Path, cost: str, ahead: int) -> None:
    task = f"kind: prediction, at: decoder.input, ahead: {ahead}, cost: {cost}, delta: 0.2"
    net, x = network(tmp_path, task), frames()
    net.set_offset(0.3)
    offset = torch.tensor(0.3).double().logit() if cost == "bce" else torch.tensor(0.3).double()
    values = net.values(x, "decoder.input")
    seen = values[:, : T - ahead] + offset
    expected = each_sample(cost, seen, x[:, ahead:]).mean()
    torch.testing.assert_close(net.cost(x)["it"], expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("when", "weights"), [("all", [1, 1, 1, 1]), ("last", [0, 0, 0, 1]), ("[0, 1, 3, 2]", None)]
)
@pytest.mark.parametrize("cost", ["mse", "huber", "bce"])
def test_denoising_and_when(tmp_path: Path, cost: str, when: str, weights: Any) -> None:
    task = f"kind: denoising, at: decoder.input, when: {when}, cost: {cost}, delta: 0.2"
    net, x = network(tmp_path, task), frames()
    w = torch.tensor(weights or [0, 1, 3, 2]).double()
    each = each_sample(cost, net.values(x, "decoder.input"), x)
    expected = (each * w).sum() / (B * w.sum())
    torch.testing.assert_close(net.cost(x)["it"], expected)


def test_lengths(tmp_path: Path) -> None:
    """Long sequences have more samples than short ones."""
    net, x = network(tmp_path, "kind: denoising, at: decoder.input, when: all"), frames()
    each = each_sample("mse", net(x, [4, 3, 1])["it"], x)
    counted = torch.cat([each[0], each[1, :3], each[2, :1]])
    torch.testing.assert_close(net.cost(x, lengths=[4, 3, 1])["it"], counted.mean())


def test_classification(tmp_path: Path) -> None:
    net, x = network(tmp_path, "kind: classification, at: encoder.class"), frames()
    label, seen = torch.tensor([2, -1, 4]), net(x)["it"][:, -1]
    known = functional.cross_entropy(seen[[0, 2]], label[[0, 2]], reduction="sum")
    torch.testing.assert_close(net.cost(x, {"label": label})["it"], known / B)


def test_classification_of_maps(tmp_path: Path) -> None:
    net = network(tmp_path, "kind: classification, at: decoder.input, head: 3, target: part")
    x, part = frames(), torch.arange(B * 16).view(B, 4, 4) % 3
    torch.testing.assert_close(
        net.cost(x, {"part": part})["it"], functional.cross_entropy(net(x)["it"][:, -1], part)
    )


def test_consistency(tmp_path: Path) -> None:
    net, x = network(tmp_path, "kind: consistency, at: encoder.class"), frames()
    teacher = torch.rand(B, T, 5).double().softmax(2)
    expected = functional.mse_loss(net(x)["it"][:, -1].softmax(1), teacher[:, -1])
    torch.testing.assert_close(net.cost(x, {"teacher": teacher})["it"], expected)


@pytest.mark.parametrize("cost", ["mse", "l1"])
def test_probe(tmp_path: Path, cost: str) -> None:
    net = network(tmp_path, f"kind: probe, at: encoder.conv, target: y, head: 2, cost: {cost}")
    x, y = frames(), torch.rand(B, T, 2, 4, 4).double()
    head = net.task.it
    values = net.values(x, "encoder.conv").flatten(0, 1)
    seen = functional.conv2d(values, head.weight, head.bias).view(B, T, 2, 4, 4)
    costs = net.cost(x, {"y": y})
    torch.testing.assert_close(costs["it"], each_sample(cost, seen, y).mean())
    costs.total.backward()
    taught = {name for name, p in net.named_parameters() if p.grad is not None and p.grad.any()}
    assert taught == {"task.it.weight", "task.it.bias"}


def test_activity(tmp_path: Path) -> None:
    net, x = network(tmp_path, "kind: activity, at: encoder.conv, weight: 0.1"), frames()
    values = net.values(x, "encoder.conv")
    costs = net.cost(x)
    torch.testing.assert_close(costs["it"], functional.l1_loss(values, torch.zeros_like(values)))
    torch.testing.assert_close(costs.total, 0.1 * costs["it"])


def test_activity_of_several_nodes_is_a_mean(tmp_path: Path) -> None:
    net, x = network(tmp_path, "kind: activity, at: encoder.conv*"), frames()
    both = network(tmp_path, "kind: activity, at: '*coder.conv'")
    found = both.values(x, "encoder.conv", "decoder.conv")
    expected = torch.stack([value.abs().mean() for value in found.values()]).mean()
    torch.testing.assert_close(both.cost(x)["it"], expected)
    assert net.cost(x)["it"] != both.cost(x)["it"]


def test_the_page_names_every_cost() -> None:
    costs = re.findall(r"^\| `(?:cost: )?(\w+)`", PAGE, re.MULTILINE)
    kinds = {name for name, task in registered().items() if "cost" not in task.model_fields}
    words = set(registered()["prediction"].model_json_schema()["properties"]["cost"]["enum"])
    assert set(costs) == kinds | words


@pytest.mark.parametrize("field", ["target: label", "head: 2"])
def test_activity_has_no_target_and_no_head(tmp_path: Path, field: str) -> None:
    with pytest.raises(ls.SpecError, match="has no meaning in an activity penalty"):
        network(tmp_path, f"kind: activity, at: encoder.conv, {field}")


def test_activity_and_robust_errors_are_trained_and_measured(tmp_path: Path) -> None:
    spec = TRAINED.replace("weight: 10}", "cost: huber, delta: 0.1}").replace(
        "tasks:\n  digit", "tasks:\n  quiet: {kind: activity, at: encoder.top}\n  digit"
    )
    run = one_run(tmp_path, EXPERIMENT.replace("statistics: 2", "statistics: 0"), spec)
    result = train(run, tmp_path / "run", quiet=True)
    metrics, by_time = result["metrics"]["test"], result["by_time"]["test"]
    assert {"quiet.activity", "next_frame.error"} < metrics.keys()
    net, data = open_run(tmp_path / "run").net().eval(), run.data.open(run.seed)
    x = torch.from_numpy(data.batch("test", 0, range(data.size("test")), ["frames"])["frames"])
    with torch.no_grad():
        values, seen = net.values(x[:, :3], "encoder.top"), net(x[:, :3])["next_frame"]
    assert metrics["quiet.activity"] == pytest.approx(float(values.abs().mean()), rel=1e-4)
    assert metrics["quiet.activity"] == pytest.approx(sum(by_time["quiet.activity"]) / 3)
    later = x[:, 1:4]
    error = functional.huber_loss(seen[:, : later.shape[1]], later, delta=0.1)
    assert metrics["next_frame.error"] == pytest.approx(1e5 * float(error), rel=1e-4)
