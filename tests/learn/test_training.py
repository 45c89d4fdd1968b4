"""How a network learns: teachers, probes, schedules, statistics, long sequences."""

from __future__ import annotations

import copy
import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from benchmarks.overfit import ROOT, overfit
from ladderspec.api import build, graph, loads
from ladderspec.data import DataError, data_config
from ladderspec.errors import UsageError
from ladderspec.experiments.checks import frozen_prefixes
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.schedules import Halve
from ladderspec.experiments.training import OptimiserConfig, StopConfig, TrainingConfig
from ladderspec.learn import checkpoint
from ladderspec.learn.batches import Collator, Sampler
from ladderspec.learn.evaluation import recalibrated, split_batches, training_batches
from ladderspec.learn.metrics import measure
from ladderspec.learn.pictures import draw_samples
from ladderspec.learn.setup import freeze, initialise, set_dropout, weights_of
from ladderspec.learn.train import batches, train
from ladderspec.learn.train_state import ScheduleState, TrainState, learning_rate, new_train_state
from ladderspec.learn.update import teacher_targets, update, update_teacher
from ladderspec.nn import BatchNorm, Edge
from tests.training import EXPERIMENT, MUSIC, SPEC, experiment, one_run, rows

DATA = data_config("occluded_mnist", digits="embedded", canvas=12, frames=3)
ONE_LSTM = """
name: one
input: {channels: 4}
time: {frames: any}
levels:
  - {name: top, encoder: {cell: LSTM, channels: 8}, decoder: G1}
"""
UNEQUAL = (
    ONE_LSTM
    + """
tasks:
  next: {kind: prediction, at: decoder.input, cost: mse}
  kind: {kind: classification, at: encoder.top, when: last}
"""
)


pytestmark = pytest.mark.usefixtures("one_thread")


def learner(
    variant: str | None = None, spec: str = SPEC, data: Any = DATA, **words: Any
) -> TrainState:
    words = {"updates": 100, "batch": 10, "optimiser": OptimiserConfig(lr=0.01), **words}
    changes = words.pop("changes", {})
    net = build(loads(spec, variant, **changes), seed=1)
    collator = Collator(data.open(0), net.tasks, words.get("steps"))
    training = TrainingConfig(**words)
    sampler = Sampler(collator, "train", training.batch)
    return new_train_state(net, collator, sampler, training, 0, training.updates or 1)


def learn(one: TrainState, updates: int) -> list[dict[str, float]]:
    found = []
    for batch, share in batches(one, 0):
        update(one, batch, share)
        found.append(dict(one.latest))
        if len(found) == updates:
            break
    return found


def weights(one: TrainState) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in one.net.state_dict().items()}


def assert_learnt_alike(one: TrainState, other: TrainState) -> None:
    """Parameters that both have, up to the order in which gradients are added."""
    others = dict(other.net.named_parameters())
    for name, parameter in one.net.named_parameters():
        torch.testing.assert_close(parameter, others[name], atol=1e-6, rtol=1e-4)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a if name in b)


# --- tasks ----------------------------------------------------------------------------------------


def test_a_probe_changes_nothing_else() -> None:
    plain, probed = learner(), learner("probed")
    before = weights(probed)
    learn(plain, 3), learn(probed, 3)
    assert_learnt_alike(plain, probed)
    assert not torch.equal(before["task.probe.weight"], weights(probed)["task.probe.weight"])


def test_every_prediction_is_below_its_truth() -> None:
    one = learner("probed")
    picture = draw_samples(one.net, one.collator, "valid", 2, "samples")
    assert picture is not None
    rows = [text.text for text in picture.texts if "t =" not in text.text and "," not in text.text]
    own = ["frames (truth)", "next_frame", "clean (truth)", "probe"]
    assert rows == ["samples", *own, *own]


def test_pictures_end_where_their_items_end(tmp_path: Path) -> None:
    """Items in their order, the class at the end of each, and nothing beyond it."""
    lengths = np.array([2, 5, 3])
    frames = np.random.default_rng(0).random((3, 5, 4), dtype=np.float32)
    np.savez(tmp_path / "d.npz", frames=frames, lengths=lengths, label=np.arange(3))
    data = data_config("arrays", path=str(tmp_path / "d.npz"), valid=0, test=0)
    one = learner(spec=UNEQUAL, data=data)
    one.net.eval()
    captions = []
    for item in range(3):
        (batch,) = one.collator.pieces(one.collator.take("train", 0, np.array([item])))
        taken = int(one.net(batch.frames)["kind"][0, -1].argmax())
        captions.append(f"{int(batch.targets['label'])}, predicted {taken}")
    picture = draw_samples(one.net, one.collator, "train", 3, "samples")
    assert picture is not None
    assert [text.text for text in picture.texts if "predicted" in text.text] == captions
    assert len(picture.tiles) == 2 * lengths.sum(), "frames and predictions"
    unlabelled = learner(spec=UNEQUAL, data=data, changes={"without": ["task.kind"]})
    picture = draw_samples(unlabelled.net, unlabelled.collator, "train", 3, "samples")
    assert picture is not None
    assert [t.text for t in picture.texts if "item" in t.text] == ["item 0", "item 1", "item 2"]


def test_nor_when_gradients_are_clipped() -> None:
    words = {"optimiser": OptimiserConfig(lr=0.01, clip={"norm": 0.1}, probe=0.5)}
    plain, probed = learner(**words), learner("probed", **words)
    learn(plain, 3), learn(probed, 3)
    assert_learnt_alike(plain, probed)


def test_a_task_of_weight_nothing_changes_nothing_else() -> None:
    """Reported, but as if it were not there."""
    zero = learner(changes={"set": {"task.next_frame.weight": 0}})
    gone = learner(changes={"without": ["task.next_frame"]})
    said, _ = learn(zero, 3), learn(gone, 3)
    assert said[-1]["next_frame.cost"] > 0
    assert_learnt_alike(gone, zero)


def test_missing_labels_cost_nothing_but_count() -> None:
    """The class cost is divided by the whole batch, not by the labelled items."""
    few = data_config("occluded_mnist", digits="embedded", canvas=12, frames=3, labelled=100)
    one = learner(data=few, batch=40)
    batch, _ = next(batches(one, 0))
    known = batch.targets["label"] >= 0
    assert 0 < int(known.sum()) < 40
    whole = one.net.cost(batch.frames, batch.targets)["digit"]
    seen = one.net(batch.frames)["digit"][:, -1]
    each = torch.nn.functional.cross_entropy(
        seen[known], batch.targets["label"][known], reduction="sum"
    )
    assert float(whole.detach()) == pytest.approx(float(each.detach()) / 40, rel=1e-5)


def test_labelled_items_in_every_batch() -> None:
    few = data_config(
        "occluded_mnist", digits="embedded", canvas=12, frames=3, labelled=100, labelled_per_batch=4
    )
    one = learner(data=few, batch=20)
    for (batch, _), _ in zip(batches(one, 0), range(5), strict=False):
        assert int((batch.targets["label"] >= 0).sum()) >= 4


def test_a_teacher_follows_and_is_agreed_with() -> None:
    one = learner("taught")
    assert one.teacher is not None
    before = copy.deepcopy(one.teacher.state_dict())
    said = learn(one, 1)
    name = "encoder.conv2.encoder.weight"
    student, teacher = one.net.state_dict()[name], one.teacher.state_dict()[name]
    torch.testing.assert_close(teacher, before[name] * 0.99 + student * 0.01)
    assert said[0]["agree.cost"] > 0, "the two see different noise"
    one.update = one.total
    update_teacher(one.teacher, one.net, one.update, one.total)  # after the ramp
    later = one.teacher.state_dict()[name]
    torch.testing.assert_close(later, teacher * 0.999 + student * 0.001)
    assert not torch.equal(later, student)


GROUPED = """
input: {channels: 1, size: [12, 12], noise: {gaussian: 0.2}}
time: {iterations: 2}
groups: {count: 3, variance: 0.01}
levels:
  - name: lstm
    encoder: {cell: ConvLSTM, channels: 3, filter: 4, stride: 2}
    decoder: {cell: Readout, filter: 4}
  - {name: pool, encoder: {cell: Pool, mode: average, filter: global}, decoder: Average}
  - {name: class, encoder: {cell: SoftMax, channels: 11}, decoder: G1}
tasks:
  digit: {kind: classification, at: encoder.class, none: last}
  segment: {kind: grouping, truth: groups}
  agree: {kind: consistency, at: encoder.class, none: last, when: all, weight: 2}
"""


def test_groups_agree_with_a_teacher_in_the_class_that_they_give_together() -> None:
    data = data_config(
        "textured_mnist", digits="embedded", textures="builtin", canvas=12, brightness="apart"
    )
    one = learner(spec=GROUPED, data=data)
    assert one.teacher is not None
    learn(one, 2)
    batch, _ = next(batches(one, 0))
    torch.manual_seed(3)
    targets = teacher_targets(one.teacher, batch)
    torch.manual_seed(3)
    logits = one.teacher(batch.frames)["agree"]  # (B, T, K, 11)
    summed = logits.softmax(-1)[..., :10].sum(2)
    expected = summed / summed.sum(-1, keepdim=True)
    torch.testing.assert_close(targets["agree"], expected.detach())
    torch.manual_seed(4)
    costs = one.net.cost(batch.frames, {**batch.targets, **targets})
    torch.manual_seed(4)
    own = one.net(batch.frames)["agree"].softmax(-1)[..., :10].sum(2)
    own = own / own.sum(-1, keepdim=True)
    torch.testing.assert_close(costs["agree"], ((own - expected.detach()) ** 2).mean())


def test_the_start_of_groups_is_a_function_of_seed_and_update() -> None:
    """Also without input noise: a resumed run draws the same."""
    spec = GROUPED.replace(", noise: {gaussian: 0.2}", "")
    data = data_config("textured_mnist", digits="embedded", textures="builtin", canvas=12)
    found = []
    for seed in (1, 2):
        one = learner(spec=spec, data=data)
        torch.manual_seed(seed)
        found.append(learn(one, 2)[-1])
    assert found[0] == found[1]


def test_the_teachers_batch_norms_are_its_own() -> None:
    one = learner("taught")
    learn(one, 3)
    assert one.teacher is not None
    student, teacher = one.net.state_dict(), one.teacher.state_dict()
    norm = next(name for name in student if name.endswith("running_mean"))
    assert not torch.equal(student[norm], teacher[norm])
    assert not torch.equal(teacher[norm], torch.zeros_like(teacher[norm]))


# --- gradients ------------------------------------------------------------------------------------


def test_gradients_of_one_task_are_clipped_alone() -> None:
    """Both tasks at a generous limit are as without; one at a small limit is shortened."""
    free = learner()
    loose = learner(
        optimiser=OptimiserConfig(lr=0.01, clip={"tasks": {"digit": 1e6, "next_frame": 1e6}})
    )
    tight = learner(optimiser=OptimiserConfig(lr=0.01, clip={"tasks": {"next_frame": 1e-3}}))
    lone = learner(changes={"set": {"task.next_frame.weight": 0}})
    lengths = [learn(one, 1)[0]["gradient"] for one in (free, loose, tight, lone)]
    assert lengths[1] == pytest.approx(lengths[0], rel=1e-5)
    assert abs(lengths[2] - lengths[3]) <= 1.01e-3


def test_frozen_parts_do_not_learn(tmp_path: Path) -> None:
    run = one_run(
        tmp_path,
        EXPERIMENT.replace(
            "{name: ladder,", "{name: ladder, freeze: [encoder.conv2, lateral, task.digit],"
        ),
    )
    one = learner()
    freeze(one.net, run)
    one = new_train_state(one.net, one.collator, one.sampler, one.config, 0, 10)
    before = weights(one)
    learn(one, 2)
    after = weights(one)
    changed = {
        name for name, _ in one.net.named_parameters() if not torch.equal(before[name], after[name])
    }
    assert changed
    assert not [n for n in changed if n.startswith("encoder.conv2") or ".lateral." in n]


def test_freezing_levels_by_pattern_and_everything(tmp_path: Path) -> None:
    def frozen(words: str) -> set[str]:
        text = EXPERIMENT.replace("{name: ladder,", f"{{name: ladder, freeze: [{words}],")
        net = build(loads(SPEC), seed=1)
        freeze(net, one_run(tmp_path, text))
        return {name.split(".")[1] for name, p in net.named_parameters() if not p.requires_grad}

    assert frozen("'level.*1'") == {"lstm1"}
    with pytest.raises(UsageError, match="row `ladder` freezes all that could learn"):
        frozen("encoder.*, decoder.*")


SHARED = """
input: {channels: 2, size: [12, 12]}
time: {frames: 3}
levels:
  - {name: a, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
  - {name: b, encoder: {cell: ConvLSTM, channels: 2, share: a}, decoder: convG3}
  - {name: class, encoder: {cell: SoftMax, channels: 10}}
edges: {decoder_to_encoder: none, state: [{levels: [b], share: none}]}
tasks: {digit: {kind: classification, at: encoder.class}}
"""
OF_A = {f"encoder.a.{name}" for name in ("bias", "encoder.weight", "encoder.gain")}
STATE = {"state.weight", "state.gain"}


@pytest.mark.parametrize(
    ("selector", "frozen"),
    [
        ("encoder.b", OF_A | {f"encoder.b.{name}" for name in STATE}),
        ("level.b", OF_A | {f"encoder.b.{name}" for name in STATE}),
        ("encoder.a", OF_A | {f"encoder.a.{name}" for name in STATE}),
        ("encoder@b", {"encoder.a.encoder.weight", "encoder.a.encoder.gain"}),
        ("state@b", {f"encoder.b.{name}" for name in STATE}),
    ],
)
def test_freezing_a_row_that_shares_freezes_what_it_shares(
    selector: str, frozen: set[str], tmp_path: Path
) -> None:
    run = replace(one_run(tmp_path), spec=loads(SHARED), freeze=(selector,))
    net = build(run.spec, seed=1)
    freeze(net, run)
    assert {name for name, p in net.named_parameters() if not p.requires_grad} == frozen


def test_a_row_that_shares_with_one_that_was_removed_is_frozen() -> None:
    wired = graph(loads(SHARED, without=["level.a"]))
    assert "encoder.a.encoder.weight" in frozen_prefixes(wired, "encoder.b")


def test_weights_see_only_a_part_of_what_other_cells_give() -> None:
    net = learner().net
    set_dropout(net, 0.3)
    shares = {name: part.drop for name, part in net.named_modules() if isinstance(part, Edge)}
    whole = {name for name, share in shares.items() if not share}
    assert set(shares.values()) == {0.0, 0.3}
    own = {"encoder.lstm1.state", "encoder.top.state"}
    of_input = {"encoder.lstm1.encoder", "decoder.input.lateral"}
    assert own | of_input <= whole
    for name in whole - own - of_input:
        assert name == "encoder.input.frame" or not net.get_submodule(name).projection.has_weight


def costs_with_dropout(spec: str, count: int) -> list[float]:
    """Of the same numbers again and again."""
    torch.manual_seed(0)
    net = build(loads(spec), seed=1)
    set_dropout(net, 0.3)
    frames, targets = torch.rand(4, 3, *net.shape), torch.arange(4)
    costs = [net.cost(frames, targets).total.item() for _ in range(count)]
    with torch.no_grad():
        net.eval()
        assert len({net.cost(frames, targets).total.item() for _ in range(2)}) == 1
    return costs


LOW = "- {name: low, encoder: {cell: FC, channels: 6}}"
CLASSES = "tasks: {kind: {kind: classification, at: encoder.top, head: 5}}\n"
LONE = f"name: lone\ninput: {{channels: 4}}\ntime: {{frames: any}}\nlevels:\n  {LOW}\n" + (
    "  - {name: top, encoder: {cell: LSTM, channels: 8}}\n" + CLASSES
)


@pytest.mark.parametrize("spec", [SPEC, LONE, LONE.replace("LSTM", "GRU")])
def test_what_is_left_out_is_drawn_anew_for_every_update(spec: str) -> None:
    """And not in evaluation."""
    assert len(set(costs_with_dropout(spec, 20))) == 20


def test_what_is_left_out_is_drawn_anew_at_every_t() -> None:
    """Also where all else is the same at every t."""
    spec = LONE.replace("frames: any", "iterations: 4").replace("LSTM", "FC")
    net = build(loads(spec), seed=1)
    set_dropout(net, 0.5)
    values = net.values(torch.ones(2, 4), "encoder.top")
    assert len({tuple(each.flatten().tolist()) for each in values.unbind(1)}) == 4


def test_what_is_left_out_is_the_same_when_it_is_computed_again() -> None:
    def gradients(checkpoint: int) -> list[torch.Tensor]:
        net = build(loads(SPEC), seed=1)
        set_dropout(net, 0.3)
        torch.manual_seed(5)
        frames = torch.rand(4, 3, 1, 12, 12)
        net.cost(frames, torch.arange(4), checkpoint=checkpoint).total.backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    for one, other in zip(gradients(1), gradients(3), strict=True):
        torch.testing.assert_close(one, other)


def test_dropout_follows_the_seed_alone(tmp_path: Path) -> None:
    run, found = one_run(tmp_path, drop=0.3), []
    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        found.append(train(run, tmp_path / name, quiet=True)["metrics"])
    assert found[0] == found[1]
    assert found[0] != train(one_run(tmp_path), tmp_path / "c", quiet=True)["metrics"]


def test_dropout_needs_weights_between_two_cells() -> None:
    with pytest.raises(UsageError, match="`drop` has no effect"):
        set_dropout(build(loads(ONE_LSTM.replace(", decoder: G1", "") + CLASSES)), 0.3)


def test_a_word_that_came_later_changes_no_earlier_run(tmp_path: Path) -> None:
    assert "drop" not in one_run(tmp_path).identity["training"]
    assert one_run(tmp_path, drop=0.1).identity["training"]["drop"] == 0.1
    train(one_run(tmp_path), tmp_path / "run", quiet=True)
    with pytest.raises(UsageError, match=r"training\.drop is absent, not 0\.1"):
        train(one_run(tmp_path, drop=0.1), tmp_path / "run", quiet=True)


def test_starting_from_another_run(tmp_path: Path) -> None:
    """What both have is taken over; the rest keeps its own initial values."""
    text = EXPERIMENT.replace("variant: open}", "variant: open, start: ladder}")
    text = text.replace("updates: 12", "updates: 2")
    ladder, following = open_experiment(experiment(tmp_path, text)).runs
    net, data = build(following.spec, seed=3), DATA.open(0)
    with pytest.raises(UsageError, match="train that run first"):
        initialise(net, following, data, tmp_path / following.id)
    train(ladder, tmp_path / ladder.id, quiet=True)
    assert initialise(net, following, data, tmp_path / following.id) == ""
    trained = checkpoint.read(tmp_path / ladder.id, "last").under("net.")
    assert set(net.state_dict()) < set(trained)
    assert same(net.state_dict(), trained)


def test_starting_needs_that_very_run_finished(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("variant: open}", "start: ladder, training: {retrain: train+valid}}")
    text = text.replace("updates: 12", "updates: 2")
    ladder, following = open_experiment(experiment(tmp_path, text)).runs
    train(ladder, tmp_path / ladder.id, quiet=True)
    result = train(following, tmp_path / following.id, quiet=True)
    assert result["first"]["updates"] == 2, "both trainings start from there"
    changed = text.replace("{name: ladder,", "{name: ladder, training: {updates: 3},")
    other = open_experiment(experiment(tmp_path, changed)).runs[1]
    with pytest.raises(UsageError, match=r"ladder\.seed0 does not hold ladder\.seed0, finished"):
        train(other, tmp_path / "other", quiet=True)


def test_going_on_needs_no_run_to_start_from(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("variant: open}", "start: ladder}").replace(
        "updates: 12", "updates: 2"
    )
    ladder, following = open_experiment(experiment(tmp_path, text)).runs
    train(ladder, tmp_path / ladder.id, quiet=True)
    result = train(following, tmp_path / following.id, quiet=True)
    (tmp_path / following.id / "result.json").unlink()
    shutil.rmtree(tmp_path / ladder.id)
    assert train(following, tmp_path / following.id, quiet=True, resume=True) == result


def test_starting_says_what_it_could_not_take_over(tmp_path: Path) -> None:
    wide = SPEC.replace("cell: ConvLSTM, channels: 2", "cell: ConvLSTM, channels: 3")
    ladder = one_run(tmp_path, updates=2)
    train(ladder, tmp_path / ladder.id, quiet=True)
    other = replace(one_run(tmp_path, spec=wide), start=str(tmp_path / ladder.id))
    said = initialise(build(other.spec), other, DATA.open(0), tmp_path / "other")
    assert re.fullmatch(r"starts from ladder\.seed0, but for \S+, \S+, \S+ and \d+ more", said)


def test_the_weights_that_were_reported_are_started_from(tmp_path: Path) -> None:
    run = one_run(tmp_path, EXPERIMENT.replace("every: 6", "every: 1, report: best"), updates=9)
    result = train(run, tmp_path / run.id, quiet=True)
    assert result["best_update"] < result["updates"]
    best = checkpoint.read(tmp_path / run.id, "best").under("net.")
    assert same(weights_of(tmp_path / run.id), best)
    place = tmp_path / run.id / "result.json"
    place.write_text(json.dumps({**result, "reported": "last"}))
    assert not same(weights_of(tmp_path / run.id), best)


# --- schedules ------------------------------------------------------------------------------------


def test_halving_down_to_the_floor() -> None:
    words = TrainingConfig(
        updates=100, optimiser=OptimiserConfig(lr=0.001, schedule=Halve(kind="halve", floor=0.0002))
    )
    schedule = ScheduleState()
    rates = []
    for update_, error in enumerate([5.0, 4.0, 4.5, 4.4, 4.6, 4.7, 4.8]):
        schedule.adjust_rate(words, update_, error)
        rates.append(learning_rate(words.optimiser, update_, 100, schedule.factor))
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 2e-4, 2e-4])
    assert schedule.stopped == "the error rose at the smallest learning rate"
    stored = json.loads(json.dumps(vars(schedule)))
    assert TypeAdapter(ScheduleState).validate_python(stored) == schedule
    replay = ScheduleState(changes=schedule.changes)
    replayed = []
    for update_ in range(7):
        replay.replay(update_)
        replayed.append(learning_rate(words.optimiser, update_, 100, replay.factor))
    assert replayed == rates


def test_early_stopping() -> None:
    words = TrainingConfig(updates=100, stop=StopConfig(patience=2))
    schedule = ScheduleState()
    better = [schedule.record(words, i, value) for i, value in enumerate([3.0, 2.0, 2.5, 2.0])]
    assert better == [True, True, False, False]
    assert schedule.stopped == "no better one in 2 evaluations"
    assert (schedule.best, schedule.best_update) == (2.0, 1)


@pytest.mark.parametrize(
    ("stop", "halve", "watched"),
    [
        ("digit.error", "next_frame.error", ("digit.error", "next_frame.error")),
        ("next_frame.error", None, ("next_frame.error", "next_frame.error")),
        (None, "next_frame.error", ("next_frame.error", "next_frame.error")),
        (None, None, ("digit.error", "digit.error")),
    ],
)
def test_stopping_and_the_learning_rate_watch_their_own(
    stop: str | None, halve: str | None, watched: tuple[str, str], tmp_path: Path
) -> None:
    schedule = Halve(kind="halve", floor=1e-6, watch=halve, stop=False)
    run = one_run(
        tmp_path,
        EXPERIMENT.replace("every: 6", "every: 2"),
        stop=StopConfig(patience=50, watch=stop),
        optimiser=OptimiserConfig(lr=0.05, schedule=schedule),
        updates=16,
    )
    result = train(run, tmp_path / "run", quiet=True)
    seen = [row for row in rows(tmp_path / "run") if row["split"] == "valid"]
    best, followed = watched
    rose = [b["update"] for a, b in pairwise(seen) if b[followed] > a[followed]]
    assert [update_ for update_, _ in result["changes"]] == rose
    assert result["best_update"] == min(seen, key=lambda row: (row[best], row["update"]))["update"]


def test_stopping_and_retraining_on_both(tmp_path: Path) -> None:
    """As many updates as the best had, with the same learning rates, on both kinds of data."""
    text = EXPERIMENT.replace("batch: 10", "batch: 10, stop: 1, retrain: train+valid")
    text = text.replace("updates: 12, ", "updates: 40, ").replace("every: 6", "every: 2")
    text = text.replace("{lr: 0.01}", "{lr: 0.02, schedule: {kind: halve, stop: false}}")
    run = one_run(tmp_path, text)
    result = train(run, tmp_path / "run", quiet=True)
    first = result["first"]
    seen = {
        row["update"]: row["digit.error"]
        for row in rows(tmp_path / "run")
        if row["split"] == "valid"
    }
    best = min(seen, key=lambda update: (seen[update], update))
    assert best < first["updates"] < 40
    assert result["updates"] == best
    assert first["changes"] == result["changes"]
    assert first["stopped"].startswith("no better one")
    assert first["reported"] == "best"
    assert list(result["metrics"]) == ["test"]
    splits = {row["split"] for row in rows(tmp_path / "run" / "retrain")}
    assert splits == {"train+valid"}
    assert (
        json.loads((tmp_path / "run" / "result.json").read_text())["metrics"] == result["metrics"]
    )


# --- evaluation -----------------------------------------------------------------------------------


def test_batch_norms_are_measured_anew_and_put_back() -> None:
    """On one batch, evaluation with its statistics is training on it."""
    one = learner()
    learn(one, 3)
    training = list(training_batches(one.collator, "train", 40, 1))
    kept = weights(one)
    with torch.no_grad():
        trained = one.net(training[0].frames)["next_frame"]
    one.net.load_state_dict(kept)
    with recalibrated(one.net, training), torch.no_grad():
        assert not one.net.training
        norm = next(m for m in one.net.modules() if isinstance(m, BatchNorm))
        assert not torch.equal(norm.running_mean, torch.zeros_like(norm.running_mean))
        evaluated = one.net(training[0].frames)["next_frame"]
    assert one.net.training
    assert same(kept, weights(one))
    torch.testing.assert_close(evaluated, trained, atol=2e-2, rtol=2e-2)  # n / (n - 1)
    one.net.eval()
    assert same(kept, weights(one)), "evaluation keeps the statistics of training as they are"
    with recalibrated(one.net, training):
        pass
    one.net.train()
    assert same(kept, weights(one))


def test_measures_are_those_written_by_hand() -> None:
    one = learner()
    net = one.net.eval()
    batch = one.collator.take("test", 0, np.arange(50))
    frames, label = torch.from_numpy(batch["frames"]), torch.from_numpy(batch["label"])
    report = measure(net, one.collator, list(one.collator.pieces(batch)))
    with torch.no_grad():
        outputs = net(frames)
    wrong = (outputs["digit"].argmax(2) != label[:, None]).double().mean(0) * 100
    assert report.by_time["digit.error"] == pytest.approx(wrong.tolist())
    assert report.metrics["digit.error"] == pytest.approx(float(wrong[-1]))
    squares = (outputs["next_frame"][:, :-1] - frames[:, 1:]).double() ** 2
    assert report.metrics["next_frame.error"] == pytest.approx(
        float(squares.mean()) * 1e5, rel=1e-6
    )
    assert np.array(report.confusion["digit"]).sum() == 50
    assert np.trace(report.confusion["digit"]) == pytest.approx(50 * (1 - float(wrong[-1]) / 100))


def test_predictions_begin_at_the_mean_of_the_data(tmp_path: Path) -> None:
    """The cost of the first batch is near that of a constant."""
    run = one_run(tmp_path)
    train(run, tmp_path / "run", quiet=True)
    data = DATA.open(0)
    batch = data.batch("train", 0, np.arange(500), ["frames"])["frames"][:, 1:]
    constant = float(((batch - data.mean()) ** 2).mean())
    first = rows(tmp_path / "run")[0]
    assert first["digit.cost"] < 1.5 * np.log(10)
    assert first["next_frame.cost"] < 2 * constant


# --- long sequences -------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [None, 16])
def test_the_nll_of_music_is_pooled_over_steps(steps: int | None) -> None:
    """The mean over all steps but the first of each sequence, not the mean of their means."""
    words = data_config("music", name="etudes")
    one = learner(spec=MUSIC, data=words, steps=steps)
    net = one.net.eval()
    report = measure(net, one.collator, split_batches(one.collator, "test", 5))
    data, losses = one.collator.data, []
    for i in range(data.size("test")):
        whole = data.batch("test", 0, np.array([i]))
        frames = torch.from_numpy(whole["frames"])
        with torch.no_grad():
            p = net(frames)["next_notes"].sigmoid().double().numpy()[:, :-1, 0, 0]
        notes = whole["frames"][:, 1:, 0, 0]
        losses.append(-np.where(notes > 0, np.log(p), np.log1p(-p)).sum(-1)[0])
    pooled, of_means = np.concatenate(losses).mean(), np.mean([each.mean() for each in losses])
    assert report.metrics["next_notes.nll"] == pytest.approx(pooled, rel=3e-7)
    assert report.metrics["next_notes.nll"] != pytest.approx(of_means, rel=3e-7)


def test_pieces_cover_an_epoch() -> None:
    """As many updates as were counted, each frame once."""
    one = learner(spec=MUSIC, data=data_config("music", name="etudes"), steps=16, batch=4)
    count, seen = 0, 0
    for batch, _ in batches(one, 0):
        count += 1
        seen += sum(batch.lengths or (batch.frames.shape[1],) * len(batch))
        if one.epoch or one.number == len(one.sampler.epoch(0)):
            break
    assert count == one.sampler.updates(0) == one.sampler.total_updates(1)
    lengths = one.collator.data.lengths("train")
    assert lengths is not None
    assert seen == int((lengths - 1).sum())


def test_a_sequence_that_outlasts_its_batch_is_learnt_to_the_end() -> None:
    """One sequence alone, in front of a batch norm: the pieces of a batch shrink to that."""
    top = "  - {name: class, encoder: {cell: SoftMax, channels: 5}, decoder: Identity}\n"
    spec = MUSIC.replace("tasks:", f"{top}tasks:")
    one = learner(spec=spec, data=data_config("music", name="etudes"), steps=4, batch=3)
    alone = 0
    for batch, share in batches(one, 0):
        update(one, batch, share)
        assert one.latest["cost"] > 0
        alone += len(batch) == 1 and not batch.first
        if alone == 2:
            break


def test_a_head_that_makes_a_frame_as_a_vector(tmp_path: Path) -> None:
    spec = MUSIC.replace("at: decoder.input,", "at: encoder.top, head: 88,")
    text = EXPERIMENT.replace(
        "occluded_mnist, digits: embedded, canvas: 12, frames: 3", "music, name: etudes"
    )
    text = text.replace("  - {name: open, variant: open}\n", "").replace(
        ", paper: {digit: 0.74 ± 0.09}", ""
    )
    run = one_run(tmp_path, text, spec, updates=2, steps=20)
    assert 0 < train(run, tmp_path / run.id, quiet=True)["metrics"]["test"]["next_notes.nll"] < 100


@pytest.mark.parametrize("steps", [3, 5, 20])
def test_sequences_of_equal_length_are_cut_too(tmp_path: Path, steps: int) -> None:
    """As those of unequal length are, where they happen to be equally long."""
    notes = (np.random.default_rng(0).random((30, 12, 1, 1, 88)) < 0.1).astype(np.float32)
    np.savez(tmp_path / "even.npz", frames=notes)
    np.savez(tmp_path / "told.npz", frames=notes, lengths=np.full(30, 12))
    kept = {"valid": 0.2, "test": 0.2}  # the other 18 are one batch
    even, told = (
        learner(
            spec=MUSIC,
            data=data_config("arrays", path=str(tmp_path / f"{name}.npz"), **kept),
            steps=steps,
            batch=18,
        )
        for name in ("even", "told")
    )
    pieces = -(-11 // steps) if steps < 12 else 1
    assert even.sampler.updates(0) == told.sampler.updates(0) == pieces
    said = [[row["cost"] for row in learn(one, 3 * pieces)] for one in (even, told)]
    assert said[0] == pytest.approx(said[1], rel=1e-5)
    reports = [
        measure(o.net.eval(), o.collator, split_batches(o.collator, "test", 4))
        for o in (even, told)
    ]
    nll = [report.metrics["next_notes.nll"] for report in reports]
    assert nll[0] == pytest.approx(nll[1], rel=1e-5)


def test_a_task_that_reads_the_end_is_not_cut() -> None:
    one = learner(steps=2)
    with pytest.raises(DataError, match="`digit` reads only some t"):
        one.collator.check(one.net, 3)


FRAMEWISE = (
    ONE_LSTM
    + """  - {name: class, encoder: {cell: SoftMax, channels: 3}}
tasks:
  kind: {kind: classification, at: encoder.class, when: all}
variants:
  ahead: {tasks: {next: {kind: prediction, at: decoder.input, cost: mse}}}
  taught: {tasks: {agree: {kind: consistency, at: encoder.class, when: all}}}
"""
)


def framewise(folder: Path) -> Any:
    """Sequences of 8 frames with a label for each."""
    draw = np.random.default_rng(0)
    frames = draw.random((20, 8, 4), dtype=np.float32)
    np.savez(folder / "d.npz", frames=frames, label=draw.integers(0, 3, (20, 8)))
    return data_config("arrays", path=str(folder / "d.npz"), valid=0.2, test=0.2)


def test_cutting_changes_no_measure(tmp_path: Path) -> None:
    data = framewise(tmp_path)
    whole, cut = (learner(spec=FRAMEWISE, data=data, steps=steps) for steps in (None, 3))
    for one in (whole, cut):
        one.collator.check(one.net.eval(), "any")
        picture = draw_samples(one.net, one.collator, "test", 2, "samples")
        assert picture is not None
        assert any("predicted" in text.text for text in picture.texts)
    reports = [
        measure(o.net, o.collator, split_batches(o.collator, "test", 4)) for o in (whole, cut)
    ]
    assert reports[0].metrics == pytest.approx(reports[1].metrics)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("ahead", "`kind` would not see the last frames"),
        ("taught", "`agree`: a teacher carries no state"),
    ],
)
def test_tasks_that_cannot_be_cut(tmp_path: Path, variant: str, message: str) -> None:
    one = learner(variant, spec=FRAMEWISE, data=framewise(tmp_path), steps=3)
    with pytest.raises(DataError, match=message):
        one.collator.check(one.net, "any")


def test_iterations_over_still_input() -> None:
    """Measured by t, and drawn at every t."""
    spec = SPEC.replace("frames: 3", "iterations: 3").replace("kind: prediction", "kind: denoising")
    data = data_config("occluded_mnist", digits="embedded", canvas=12, frames=3, input="optimal")
    one = learner(spec=spec, data=data)
    report = measure(
        one.net.eval(), one.collator, split_batches(one.collator, "test", 32, items=32)
    )
    assert {name: len(by_t) for name, by_t in report.by_time.items()} == {
        "digit.error": 3, "digit.nll": 3, "next_frame.error": 3,
    }  # fmt: skip
    picture = draw_samples(one.net, one.collator, "test", 2, "samples")
    assert picture is not None
    assert len(picture.tiles) == 2 * 2 * 3, "two items, input and output, three t"


def test_workers_make_the_same_batches() -> None:
    one, other = learner(), learner()
    for (a, _), (b, _), _ in zip(batches(one, 0), batches(other, 2), range(4), strict=False):
        assert torch.equal(a.frames, b.frames)
        assert (one.epoch, one.number) == (other.epoch, other.number)


# --- it must actually learn -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "variant"),
    [
        ("rladder_tiny", ""),
        ("rladder_tiny", "hierarchical_rnn"),
        ("temporal_baseline_tiny", ""),
        ("static_classifier_tiny", ""),
    ],
)
def test_64_sequences_are_learnt_by_heart(spec: str, variant: str) -> None:
    """At default initial values; the sweep over all specs is in benchmarks/overfit.py."""
    result = overfit(ROOT / "specs" / "ommnist" / f"{spec}.yaml", variant, updates=30)
    assert result.error < 5
    for task, cost in result.first.items():
        assert 0.5 * result.constant[task] < cost < 2 * result.constant[task]
