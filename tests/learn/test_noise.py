"""Noise in evaluation: which input each task is measured on, and that it is always the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ladderspec.ablation.results import collect
from ladderspec.cells.fields import Noise
from ladderspec.cli import main
from ladderspec.data import data_config
from ladderspec.errors import SpecError, UsageError
from ladderspec.experiments.identity import digest
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.experiments.training import EvaluationNoise
from ladderspec.learn import evaluation
from ladderspec.learn.batches import Collator, TensorBatch, noisy_items
from ladderspec.learn.evaluation import recalibrated, split_batches, training_batches
from ladderspec.learn.metrics import Report
from ladderspec.learn.train import train
from ladderspec.network.net import Net
from ladderspec.tasks import Classification, Denoising, Prediction
from ladderspec.trained.evaluate import activations, evaluate, samples
from ladderspec.trained.run import open_run
from tests.training import experiment, rows

pytestmark = pytest.mark.usefixtures("one_thread")

GAUSSIAN = Noise(gaussian=0.3)
SPEC = """
name: nano
input: {channels: 64, noise: {gaussian: 0.3}}
time: {iterations: 2}
levels:
  - {name: fc1, encoder: {cell: FC, channels: 8}, decoder: G1}
  - {name: class, encoder: {cell: SoftMax, channels: 10}, decoder: G1}
tasks:
  denoise: {kind: denoising, at: decoder.input, weight: 10}
  digit: {kind: classification, at: encoder.class}
variants:
  quiet: {set: {input.noise: null}}
  supervised: {without: [task.denoise]}
  bits: {set: {task.denoise.cost: bce, input.noise: {flip: 0.2}}}
"""
EXPERIMENT = """
name: nano
data: {set: digits, flat: true}
spec: nano.yaml
rows:
  - {name: ladder}
training: {updates: 12, batch: 20, optimiser: {lr: 0.01}, stop: 9}
evaluation: {every: 6, statistics: 2, batch: 150}
machine: {log: 4, threads: 1, pictures: 0}
"""
ALL = ["denoise.error", "denoise.clean_error", "digit.error", "digit.nll"]
ONE = ["denoise.error", "digit.error", "digit.nll"]


def run_of(folder: Path, words: str = "", variant: str = "", training: str = "") -> Run:
    """The run of an experiment that says more of its evaluation."""
    text = EXPERIMENT.replace("batch: 150", f"batch: 150, {words}" if words else "batch: 150")
    text = text.replace("stop: 9", f"stop: {training}") if training else text
    text = text.replace("name: ladder", f"name: ladder, variant: [{variant}]")
    return open_experiment(experiment(folder, text, SPEC)).runs[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A denoising run that says nothing of noise."""
    place = tmp_path_factory.mktemp("run")
    train(run_of(place), place / "run", quiet=True)
    return place / "run"


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


# --- which input ----------------------------------------------------------------------------------


def test_inputs_of_tasks() -> None:
    denoise = Denoising(kind="denoising", at="decoder.input")
    others = [
        Classification(kind="classification", at="encoder.class"),
        Prediction(kind="prediction", at="decoder.input"),
    ]
    assert EvaluationNoise(None, GAUSSIAN).inputs(denoise) == {"": True, "clean_": False}
    for choice, noise, noisy in [
        (None, GAUSSIAN, False),
        (True, GAUSSIAN, True),
        (False, GAUSSIAN, False),
        (True, Noise(flip=0.1), True),
        (None, None, False),
        (True, Noise(gaussian=0.0), False),
    ]:
        inputs = EvaluationNoise(choice, noise)
        assert [inputs.inputs(task) for task in others] == [{"": noisy}] * 2
        if choice is not None or noise is None:
            assert inputs.inputs(denoise) == {"": noisy}


def test_a_run_reports_both_by_default(folder: Path) -> None:
    """Names come in the order of the tasks; what is watched is the number on noisy input."""
    found = result(folder)
    assert list(found["metrics"]["test"]) == list(found["units"]) == ALL
    assert found["watched"] == "denoise.error"
    evaluated = [row for row in rows(folder) if row["split"] == "valid"]
    assert all(set(ALL) <= row.keys() for row in evaluated)
    best = json.loads((folder / "best.json").read_text())["value"]
    assert best == min(row["denoise.error"] for row in evaluated)
    assert {name: len(by_t) for name, by_t in found["by_time"]["test"].items()} == dict.fromkeys(
        ALL, 2
    )


def _by_hand(net: Net, collator: Collator, noise: Noise | None) -> dict[str, float]:
    """Errors of the test data with batch norms measured on the same kind of input."""
    fed = collator.with_noise(noise)
    batch = collator.take("test", 0, np.arange(collator.data.size("test")))
    clean = torch.from_numpy(batch[collator.input])
    frames = torch.from_numpy(
        fed.take("test", 0, np.arange(len(clean)))["input with noise"] if noise else clean.numpy()
    )
    with torch.no_grad(), recalibrated(net, training_batches(fed, "train", 20, 2)):
        outputs = net(frames)
    error = (outputs["denoise"] - clean[:, None]).square().mean()
    wrong = outputs["digit"].argmax(2) != torch.from_numpy(batch["label"])[:, None]
    return {"denoise": float(error) * 1e5, "digit": float(wrong.double().mean()) * 100}


def test_the_numbers_are_those_computed_by_hand(folder: Path) -> None:
    opened = open_run(folder)
    net = opened.net()
    noisy, clean = (_by_hand(net, opened.collator(net), noise) for noise in (net.noise, None))
    assert noisy["denoise"] > 1.05 * clean["denoise"]
    found = result(folder)["metrics"]["test"]
    assert found["denoise.error"] == pytest.approx(noisy["denoise"], rel=1e-4)
    assert found["denoise.clean_error"] == pytest.approx(clean["denoise"], rel=1e-4)
    assert found["digit.error"] == pytest.approx(clean["digit"])
    all_noisy, all_clean = (evaluate(opened, noise=noise).metrics for noise in (True, False))
    assert list(all_noisy) == list(all_clean) == ONE
    assert all_noisy["denoise.error"] == found["denoise.error"]
    assert all_noisy["digit.error"] == pytest.approx(noisy["digit"])
    assert all_clean["denoise.error"] == found["denoise.clean_error"]
    assert all_clean["digit.nll"] == found["digit.nll"]


def test_the_noise_is_that_of_the_spec(folder: Path) -> None:
    opened = open_run(folder)
    collator = opened.collator(opened.net())
    batch = collator.with_noise(GAUSSIAN).take("test", 0, np.arange(200))
    added = batch["input with noise"] - batch["image"]
    assert abs(added.mean()) < 0.01
    assert added.std() == pytest.approx(0.3, rel=0.03)
    bits = collator.with_noise(Noise(flip=0.2)).take("test", 0, np.arange(200))
    turned = np.isclose(bits["input with noise"], 1 - bits["image"])
    assert turned[bits["image"] != 0.5].mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    ("words", "variant", "names"),
    [
        ("noise: true", "", ONE),
        ("noise: false", "", ONE),
        ("", "quiet", ONE),
        ("", "supervised", ["digit.error", "digit.nll"]),
        ("", "bits", ["denoise.nll", "denoise.clean_nll", "digit.error", "digit.nll"]),
    ],
)
def test_words_and_specs(words: str, variant: str, names: list[str], tmp_path: Path) -> None:
    """`ladderspec evaluate` gives the numbers of the run, whatever was chosen."""
    train(run_of(tmp_path, words, variant), tmp_path / "run", quiet=True)
    found = result(tmp_path / "run")["metrics"]["test"]
    assert list(found) == names
    report = evaluate(open_run(tmp_path / "run"))
    assert report.metrics == found
    assert list(report.units) == names


def test_the_number_on_clean_input_may_be_watched(tmp_path: Path) -> None:
    stop = "{patience: 9, watch: denoise.clean_error}"
    train(run_of(tmp_path, training=stop), tmp_path / "run", quiet=True)
    best = json.loads((tmp_path / "run" / "best.json").read_text())["value"]
    evaluated = [row for row in rows(tmp_path / "run") if row["split"] == "valid"]
    assert best == min(row["denoise.clean_error"] for row in evaluated)
    with pytest.raises(SpecError, match=r"no measure `denoise.clean_error`"):
        run_of(tmp_path, "noise: false", training=stop)


# --- always the same ------------------------------------------------------------------------------


def test_repeated_evaluations_give_equal_numbers(folder: Path) -> None:
    """Whatever the global random state is, which they leave as it was."""
    found = result(folder)["metrics"]["test"]
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        assert evaluate(open_run(folder)).metrics == found
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_resumed_runs_give_equal_numbers(
    count: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off in any pass of an evaluation: on noisy input, or on clean input."""
    run, real, calls = run_of(tmp_path), evaluation.measure, 0

    def deadly(*args: Any) -> Report:
        nonlocal calls
        calls += 1
        if calls == count:
            raise KeyboardInterrupt
        return real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "measure", deadly)
        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "result.json").exists()
    train(run, tmp_path / "run", quiet=True, resume=True)
    assert result(tmp_path / "run")["metrics"] == result(folder)["metrics"]
    assert rows(tmp_path / "run") == rows(folder)


def test_noise_depends_on_seed_split_and_item_alone(folder: Path) -> None:
    opened = open_run(folder)
    collator = opened.collator(opened.net()).with_noise(GAUSSIAN)

    def added(split: str, items: list[int], collator: Collator = collator) -> np.ndarray:
        batch = collator.take(split, 0, np.array(items))
        return np.asarray(batch["input with noise"] - batch["image"])

    several = added("test", [3, 0, 7])
    np.testing.assert_allclose(added("test", [7])[0], several[2], atol=1e-6)
    assert not np.allclose(several[0], several[1], atol=0.1)
    assert not np.allclose(added("valid", [3])[0], several[0], atol=0.1)
    other = replace(collator, data=data_config("digits", flat=True).open(1))
    assert not np.allclose(added("test", [3], other)[0], several[0], atol=0.1)


def test_noise_does_not_depend_on_padding() -> None:
    frames = torch.rand(2, 7, 3)
    long = noisy_items(frames, GAUSSIAN, [5, 6], [7, 4])
    short = noisy_items(frames[1:, :4], GAUSSIAN, [6])
    assert torch.equal(long[1, :4], short[0])
    assert torch.equal(long[1, 4:], frames[1, 4:])


@pytest.mark.parametrize("steps", [None, 16])
def test_noise_on_sequences(steps: int | None) -> None:
    """Of unequal length, whole or in pieces, in batches of any size: the same noise."""
    data = data_config("music", name="etudes").open(0)
    task = Prediction(kind="prediction", at="decoder.input", cost="bce")
    clean = Collator(data, {"next": task}, steps)
    collator = clean.with_noise(Noise(flip=0.1))
    assert clean.truncates == (steps is not None)

    def whole(feeds: list[TensorBatch]) -> float:
        return sum(
            float(batch.frames[i, :end].sum())
            for batch in feeds
            for i, end in enumerate(batch.lengths or (batch.frames.shape[1],) * len(batch))
        )

    ones = [whole(list(split_batches(collator, "test", size, 6))) for size in (6, 2)]
    assert ones[0] == ones[1]
    pairs = zip(
        split_batches(clean, "test", 6, 6), split_batches(collator, "test", 6, 6), strict=True
    )
    for a, b in pairs:
        assert torch.equal(a.target("next", "frames"), b.target("next", "frames"))
        assert a.lengths == b.lengths
        end = min(a.lengths or (a.frames.shape[1],))
        turned = (a.frames != b.frames)[:, :end].float().mean()
        assert 0.05 < float(turned) < 0.15


# --- identity -------------------------------------------------------------------------------------


def test_runs_measured_on_clean_input_are_what_they_were(tmp_path: Path) -> None:
    """The word leaves no trace in them; runs that are measured on noisy input are others."""

    def identity(words: str = "", variant: str = "") -> dict[str, Any]:
        return run_of(tmp_path, words, variant).identity

    for variant in ("quiet", "supervised"):
        assert "noise" not in identity("", variant)["evaluation"]
        assert identity("noise: false", variant) == identity("", variant)
    assert "noise" not in identity("noise: false")["evaluation"]
    kinds = [identity(), identity("noise: true"), identity("noise: false")]
    assert len({digest(kind) for kind in kinds}) == 3
    assert open_noise(tmp_path, kinds) == [None, True, False]


def open_noise(folder: Path, kinds: list[dict[str, Any]]) -> list[bool | None]:
    """What a run's record says of noise to those who open it."""
    train(run_of(folder), folder / "run", quiet=True)
    opened = open_run(folder / "run")
    return [replace(opened, record=kind).noise() for kind in kinds]


# --- command line, pictures, mistakes -------------------------------------------------------------


def test_evaluate_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, names, said in [
        ([], ALL, "test data, best checkpoint, after 12 updates\n"),
        (["--noise"], ONE, "test data, on noisy input, best checkpoint, after"),
        (["--clean"], ONE, "test data, on clean input, best checkpoint, after"),
    ]:
        assert main(["evaluate", str(folder), "--count", "0", *option]) == 0
        assert said in capsys.readouterr().out
        assert main(["evaluate", str(folder), "--count", "0", "--json", *option]) == 0
        assert list(json.loads(capsys.readouterr().out)["metrics"]) == names
    with pytest.raises(SystemExit):
        main(["evaluate", str(folder), "--noise", "--clean"])


def test_no_noise_to_add(tmp_path: Path) -> None:
    train(run_of(tmp_path, variant="quiet"), tmp_path / "run", quiet=True)
    opened = open_run(tmp_path / "run")
    with pytest.raises(UsageError, match=r"no noise to add: the network has no `input.noise`"):
        evaluate(opened, noise=True)
    assert evaluate(opened, noise=False).metrics == evaluate(opened).metrics


def test_activations_and_pictures_see_noisy_input(folder: Path) -> None:
    opened = open_run(folder)
    default, noisy, clean = (
        activations(opened, ["encoder.fc1"], count=4, noise=noise)["image"]
        for noise in (None, True, False)
    )
    assert np.array_equal(default, noisy)
    assert not np.allclose(noisy, clean)
    drawn = [samples(opened, noise=noise) for noise in (None, True, False)]
    tiles = [np.stack([tile.image for tile in picture.tiles]) for picture in drawn if picture]
    assert np.array_equal(tiles[0], tiles[1])
    seen, beside, found = (tiles[1][i::3] for i in range(3))  # the clean image stands beside
    clean_seen, clean_found = (tiles[2][i::2] for i in range(2))
    assert np.array_equal(beside, clean_seen)
    assert not np.allclose(seen, clean_seen)
    assert not np.allclose(found, clean_found)


@pytest.mark.parametrize(
    ("words", "variant", "message", "hint"),
    [
        ("noise: maybe", "", "expected true or false, got `maybe`", "`input.noise`"),
        ("noise: 0.3", "", "expected true or false, got 0.3", "`input.noise`"),
        ("noise: {gaussian: 0.3}", "", "expected true or false", "`input.noise`"),
        ("nois: true", "", "unknown key `nois`", "did you mean `noise`?"),
        (
            "noise: true",
            "quiet",
            "row `ladder` has no noise to evaluate with: its spec has no `input.noise`",
            "or `noise: false`",
        ),
    ],
)
def test_mistakes(words: str, variant: str, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        run_of(tmp_path, words, variant)
    (finding,) = error.value.findings
    assert finding.message == message
    assert hint in finding.hint
    assert finding.place is not None
    assert finding.place.line == 8


def test_the_paper_may_report_both(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("{name: ladder}", "{name: ladder, paper: {denoise.clean_error: 3}}")
    assert open_experiment(experiment(tmp_path, text, SPEC)).runs[0].paper
    with pytest.raises(SpecError, match=r"no measure `denoise.clean_error`"):
        open_experiment(experiment(tmp_path, text.replace("every", "noise: true, every"), SPEC))


def test_tables_show_the_number_on_noisy_input(folder: Path, tmp_path: Path) -> None:
    """Files for programs have both."""
    found = open_experiment(experiment(tmp_path, EXPERIMENT, SPEC))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / found.runs[0].id).symlink_to(folder)
    results = collect(found, found.runs, tmp_path / "out")
    assert [measure.name for measure in results.measures] == ["denoise.error", "digit.error"]
    assert [measure.name for measure in results.all_measures] == ALL
