"""Costs: what they are, and that only what they read is computed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from torch import Tensor
from torch.func import functional_call, grad
from torch.nn import functional

from ladderspec.api import build, load, loads
from ladderspec.network import executor
from ladderspec.network.net import Net
from ladderspec.nn import TimeStep
from tests.network.test_equality import (
    _float64,  # noqa: F401
    by_node,
    close,
    frames_of,
    gradients,
    largest,
    pair_of,
)
from tests.network.test_time import SOME
from tests.random_specs import specs

OMMNIST = "specs/ommnist/rladder_tiny.yaml"
MUSIC = "specs/music/rladder_tiny.yaml"


def targets_of(net: Net, frames: Tensor) -> dict[str, Tensor]:
    """A label for every sequence; for every position where a task classifies maps."""
    maps = [r.shape[1:] for r in net.readouts.get("digit", {}).values()]
    return {"label": torch.randint(3, (len(frames), *(maps[0] if maps else ())))}


def plain_cost(net: Net, frames: Tensor, targets: dict[str, Tensor]) -> Tensor:
    """The costs from all outputs at all t, written out."""
    total = torch.zeros(())
    for name, seen in by_node(net, net(frames)).items():
        task = net.tasks[name]
        for value in seen.values() if not task.clean else ():
            if task.kind == "classification":
                target = targets["label"][:, None].expand(*value.shape[:2], *value.shape[3:])
            elif task.kind == "activity":
                target = value
            else:
                target = frames[:, None].expand_as(value) if net.plan.iterations else frames
            if task.kind == "prediction":
                value, target = value[:, :-1], target[:, 1:]
            if task.when == "last":
                value, target = value[:, -1:], target[:, -1:]
            total = total + task.weight_at() * mean_cost(task, value, target)
    return total


def mean_cost(task: Any, value: Tensor, target: Tensor) -> Tensor:
    if task.kind == "classification":
        return functional.cross_entropy(value.flatten(0, 1), target.flatten(0, 1))
    if task.kind == "activity":
        return value.abs().mean()
    if task.cost == "mse":
        return functional.mse_loss(value, target)
    if task.cost == "l1":
        return functional.l1_loss(value, target)
    if task.cost == "huber":
        return functional.huber_loss(value, target)
    cost = functional.binary_cross_entropy_with_logits(value, target, reduction="sum")
    return cost / value.shape[:2].numel()


@given(specs())
@SOME
def test_costs_equal_those_of_all_outputs(spec):
    net, _ = pair_of(spec)
    frames = frames_of(net)
    targets = targets_of(net, frames)
    whole = copy.deepcopy(net)
    # tests/network/test_ladder.py compares what has a clean pass.
    chosen = [name for name, task in net.tasks.items() if not task.clean]
    assume(chosen)
    torch.manual_seed(1)
    ours = net.cost(frames, targets, tasks=chosen).total
    torch.manual_seed(1)
    theirs = plain_cost(whole, frames, targets)
    close(ours, theirs, "cost")
    wanted = gradients(theirs, whole.parameters())
    for name, a, b in zip(
        dict(net.named_parameters()), gradients(ours, net.parameters()), wanted, strict=True
    ):
        close(a, b, f"gradient of {name}", scale=1e2 * largest(wanted))


def test_only_what_the_costs_read_is_computed(monkeypatch):
    """The last decoder pass is not needed for targets x_2..x_T, nor the class before the last t."""
    net = build(load(OMMNIST, "no_decoder_to_encoder"))
    seen: dict[str, int] = {}

    compute = executor.compute

    def counted(node, *given):
        seen[node.name] = seen.get(node.name, 0) + 1
        compute(node, *given)

    monkeypatch.setattr(executor, "compute", counted)
    frames = torch.rand(3, 5, *net.shape)
    net.cost(frames, torch.tensor([1, 2, 3]))
    assert seen["decoder.input"] == seen["decoder.lstm1"] == 4
    assert seen["encoder.class"] == seen["encoder.lstm1"] == 5
    seen.clear()
    net.cost(frames, torch.tensor([1, 2, 3]), tasks=["digit"])
    assert seen["encoder.class"] == 1
    assert "decoder.input" not in seen


def test_the_costs_of_the_paper_by_hand():
    net, _ = pair_of(load(OMMNIST))
    frames, label = torch.rand(4, 5, *net.shape), torch.tensor([1, 2, 3, 4])
    costs = net.cost(frames, {"label": label})
    out = net(frames)
    digit = functional.cross_entropy(out["digit"][:, -1], label)
    error = functional.mse_loss(out["next_frame"][:, :-1], frames[:, 1:])
    close(costs["digit"], digit, "digit")
    close(costs["next_frame"], error, "next frame")
    close(costs.total, digit + 100 * error, "total")
    close(net.cost(frames, label).total, costs.total, "one tensor for the only field")


def test_unequal_lengths_weigh_every_step_alike():
    net = pair_of(load(MUSIC))[0].eval()
    frames, lengths = torch.rand(3, 5, *net.shape), [5, 3, 2]
    ours = net.cost(frames, lengths=lengths)["next_notes"]
    alone = [net.cost(frames[b : b + 1, :n])["next_notes"] * (n - 1) for b, n in enumerate(lengths)]
    close(ours, torch.stack(alone).sum() / sum(n - 1 for n in lengths), "nats per predicted step")
    net = pair_of(load(OMMNIST))[0].eval()
    frames, label = torch.rand(3, 5, *net.shape), torch.tensor([1, 2, 3])
    ours = net.cost(frames, label, lengths)["digit"]
    alone = [
        net.cost(frames[b : b + 1, :n], label[b : b + 1])["digit"] for b, n in enumerate(lengths)
    ]
    close(ours, torch.stack(alone).mean(), "each at its own last t")


def test_a_target_under_the_name_of_its_task_is_taken_as_it_stands():
    """So a chunk can be trained on the first frame of the next one."""
    net, _ = pair_of(load(MUSIC))
    frames = torch.rand(2, 7, *net.shape)
    whole = net.cost(frames)["next_notes"]
    first = net.cost(frames[:, :4], {"next_notes": frames[:, 1:5]}, carry=net.initial_carry(2))
    second = net.cost(frames[:, 4:], carry=first.carry)
    close((4 * first["next_notes"] + 2 * second["next_notes"]) / 6, whole, "in two chunks")


WEIGHTED = """
input: {channels: 3}
time: {frames: 4}
levels:
  - {name: a, encoder: {cell: LSTM, channels: 4}, decoder: FC}
tasks:
  digit: {kind: classification, at: encoder.a, when: [0, 1, 0, 3]}
  far: {kind: prediction, at: decoder.input, ahead: 2}
  probe: {kind: probe, at: encoder.a, head: 2, target: place, cost: mse}
"""


def test_weights_over_time_far_predictions_and_probes():
    net, _ = pair_of(loads(WEIGHTED))
    frames, label, place = torch.rand(3, 4, 3), torch.tensor([0, 1, 2]), torch.rand(3, 4, 2)
    costs = net.cost(frames, {"label": label, "place": place})
    out = net(frames)
    each = [functional.cross_entropy(out["digit"][:, t], label) for t in range(4)]
    close(costs["digit"], (each[1] + 3 * each[3]) / 4, "digit")
    close(costs["far"], functional.mse_loss(out["far"][:, :2], frames[:, 2:]), "far")
    close(costs["probe"], functional.mse_loss(out["probe"], place), "probe")
    inside = [p for name, p in net.named_parameters() if name.startswith("encoder")]
    assert all(
        g is None
        for g in torch.autograd.grad(costs["probe"], inside, allow_unused=True, retain_graph=True)
    )
    assert torch.autograd.grad(costs["probe"], [net.get_parameter("task.probe.weight")])[0].any()
    still = net.cost(frames, {"label": label, "place": place[:, 0]}, tasks=["probe"])
    close(still["probe"], functional.mse_loss(out["probe"], place[:, :1].expand(3, 4, 2)), "still")
    with pytest.raises(ValueError, match=r"`probe` compares with `place`: give targets\['place'\]"):
        net.cost(frames, {"label": label})


CONSISTENT = """
input: {channels: 3}
time: {frames: 2}
levels: [{name: class, encoder: {cell: SoftMax, channels: 4}}]
tasks:
  digit: {kind: classification, at: encoder.class}
  agree: {kind: consistency, at: encoder.class, weight: {to: 8.0, updates: 10}}
"""


def test_consistency_and_missing_labels():
    net, _ = pair_of(loads(CONSISTENT))
    frames, teacher = torch.rand(3, 2, 3), torch.rand(3, 4).softmax(1)
    label = torch.tensor([2, -1, 0])
    costs = net.cost(frames, {"label": label, "teacher": teacher})
    logits = net(frames)["digit"][:, -1]
    close(costs["agree"], (logits.softmax(1) - teacher).square().mean(), "agree")
    known = functional.cross_entropy(logits[[0, 2]], label[[0, 2]], reduction="sum")
    close(costs["digit"], known / 3, "divided by the whole batch")
    close(costs.total, costs["digit"] + 8 * costs["agree"], "after the ramp")
    ramped = net.cost(
        frames, {"label": label, "teacher": teacher},
        weights={"agree": net.tasks["agree"].weight_at(update=5)},
    )  # fmt: skip
    close(ramped.total, costs["digit"] + 4 * costs["agree"], "half way")


def test_a_task_of_weight_zero_changes_nothing():
    spec = load(OMMNIST)
    weightless = load(OMMNIST, set={"task.next_frame.weight": 0})
    without = load(OMMNIST, without=["task.next_frame"])
    frames, label = torch.rand(4, 3, *build(spec).shape), torch.tensor([1, 2, 3, 4])
    zero, none = build(weightless), build(without)
    costs = zero.cost(frames, label)
    assert costs["next_frame"] > 0
    close(costs.total, none.cost(frames, label).total, "total")
    costs.total.backward()
    none.cost(frames, label).total.backward()
    for name, parameter in none.named_parameters():
        close(zero.get_parameter(name).grad, parameter.grad, name)


def test_gradients_by_torch_func_of_frames_too_few_for_some_tasks():
    """One frame predicts nothing: the parameters of that task have a gradient of zero."""
    net = build(OMMNIST)
    frames, labels = torch.rand(2, 1, *net.shape), {"label": torch.tensor([1, 2])}

    class Cost(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self) -> Tensor:
            return net.cost(frames, labels).total

    parameters = dict(Cost().named_parameters())
    found = grad(lambda given: functional_call(Cost(), given, ()))(parameters)
    Cost()().backward()
    unread = [name for name, value in parameters.items() if not value.grad.any()]
    assert unread
    for name, value in parameters.items():
        torch.testing.assert_close(found[name], value.grad)


def test_the_offset_starts_the_output_at_the_mean():
    net = build(load(OMMNIST))
    frames = torch.rand(2, 3, *net.shape)
    before = net(frames)["next_frame"]
    net.set_offset(0.1)
    close(net(frames)["next_frame"], before + 0.1, "mean pixel")
    assert "task.next_frame.offset" in net.state_dict()
    assert "task.next_frame.offset" not in dict(net.named_parameters())
    music = build(load(MUSIC))
    notes = torch.rand(2, 3, *music.shape)
    before = music(notes)["next_notes"]
    rates = torch.linspace(0.1, 0.9, 88).view(1, 1, 88)
    music.set_offset(rates)
    close(music(notes)["next_notes"], before + rates.logit(), "rates of the notes")


@pytest.mark.parametrize("path", [OMMNIST, MUSIC, "specs/related/feedback_convrnn.yaml"])
@pytest.mark.parametrize("stretch", [True, 1, 2])
def test_checkpointing_changes_nothing(path, stretch):
    net, _ = pair_of(load(path, set={"params.width": 2}))
    again = copy.deepcopy(net)
    frames = frames_of(net, length=5)
    label = torch.arange(len(frames))
    ours, theirs = again.cost(frames, label, checkpoint=stretch), net.cost(frames, label)
    close(ours.total, theirs.total, "total")
    wanted = gradients(theirs.total, net.parameters())
    for a, b in zip(gradients(ours.total, again.parameters()), wanted, strict=True):
        close(a, b, "gradient", scale=largest(wanted))
    for name, buffer in net.named_buffers():
        close(dict(again.named_buffers())[name], buffer, name)


def test_checkpointing_with_lengths_and_carry():
    net, _ = pair_of(load(MUSIC))
    frames, lengths = torch.rand(3, 5, *net.shape), [5, 2, 4]
    start = net.initial_carry(3)
    again = copy.deepcopy(net)
    ours = again.cost(frames, lengths=lengths, carry=start, checkpoint=2)
    theirs = net.cost(frames, lengths=lengths, carry=start)
    close(ours.total, theirs.total, "total")
    assert ours.carry is not None
    assert theirs.carry is not None
    for name, kept in theirs.carry.values.items():
        close(ours.carry.values[name][0], kept[0], name)


def test_evaluation_knows_statistics_of_t_that_no_cost_reads():
    net = build(load("specs/ommnist/rladder_tiny.yaml", variant="temporal_baseline"))
    norm = net.get_submodule("encoder.class.encoder.norm")
    for _ in range(3):
        net.cost(torch.rand(4, 5, 1, 16, 16), torch.randint(10, (4,)))
    assert (norm.running_var[:-1] == 1).all()
    assert norm.running_var[-1].ne(1).all()
    net.eval()
    x = torch.rand(2, 10)
    last = norm(x, step=TimeStep(4))
    for t in range(4):
        assert torch.equal(norm(x, step=TimeStep(t)), last)
