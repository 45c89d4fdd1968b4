"""Failures during training: it stops with the last good state, and says why."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ladderspec.learn.train as training
from ladderspec.cli import main
from ladderspec.data import DataError
from ladderspec.data.sets.occluded_mnist import OccludedMnistData
from ladderspec.errors import LadderspecError, UsageError
from ladderspec.experiments.runs import Run
from ladderspec.files import sealed, sweep
from ladderspec.learn import checkpoint, processes
from ladderspec.learn.log import read_rows
from ladderspec.learn.run_folder import locked
from ladderspec.learn.setup import weights_of
from ladderspec.learn.train import train
from ladderspec.learn.update import Diverged
from ladderspec.trained.run import open_run
from tests.learn.test_resume import PowerCut, cut, written
from tests.training import EXPERIMENT, SPEC, experiment, one_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return one_run(tmp_path)


@pytest.fixture
def part(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was cut off after update 11; its last checkpoint is of update 10."""
    with monkeypatch.context() as patched:
        cut(patched, "ladderspec.learn.train.update", 12)
        with pytest.raises(PowerCut):
            train(run, tmp_path / "part", quiet=True)
    assert json.loads((tmp_path / "part" / "last.json").read_text())["update"] == 10
    return tmp_path / "part"


def tensors_of(folder: Path, record: str = "last") -> Path:
    return folder / json.loads((folder / f"{record}.json").read_text())["file"]


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_corrupted_checkpoint(
    run: Run, part: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one before it is used; the numbers are those of an uninterrupted run."""
    train(run, tmp_path / "whole", quiet=True)
    data = bytearray(tensors_of(part).read_bytes())
    data[len(data) // 2] ^= 1
    tensors_of(part).write_bytes(data)
    train(run, part, resume=True)
    said = capsys.readouterr().err
    assert "is damaged: its checksum" in said
    assert "continues after update 5" in said
    assert written(part) == written(tmp_path / "whole")


@pytest.mark.parametrize("harm", ["cut", "missing", "json", "format"])
def test_no_checkpoint_is_whole(run: Run, part: Path, harm: str) -> None:
    for record in ("last", "last.before"):
        place = tensors_of(part, record)
        attributes = json.loads((part / f"{record}.json").read_text())
        if harm == "cut":
            place.write_bytes(place.read_bytes()[:100])
        elif harm == "missing":
            place.unlink(missing_ok=True)
        elif harm == "json":
            (part / f"{record}.json").write_text("{")
        else:
            (part / f"{record}.json").write_text(json.dumps(attributes | {"format": "pickle"}))
    with pytest.raises(checkpoint.CheckpointError, match=r"damaged|no checkpoint|expected"):
        train(run, part, resume=True, quiet=True)


def _flip(place: Path, at: int, bit: int = 0) -> None:
    data = bytearray(place.read_bytes())
    data[at] ^= 1 << bit
    place.write_bytes(data)


@pytest.mark.parametrize("digit", [0.2, 0.5, 0.9])
def test_a_flipped_bit_in_the_manifest(
    run: Run, part: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], digit: float
) -> None:
    """Another digit in `last.json`: the one before is used, and the numbers stay the same."""
    train(run, tmp_path / "whole", quiet=True)
    content = (part / "last.json").read_bytes()
    digits = [i for i, code in enumerate(content) if chr(code).isdigit()]
    _flip(part / "last.json", digits[int(digit * len(digits))])
    train(run, part, resume=True)
    assert "last.json is damaged: its checksum is another" in capsys.readouterr().err
    assert written(part) == written(tmp_path / "whole")


def test_every_flipped_bit_of_a_manifest_is_found(part: Path) -> None:
    """Either the same attributes are read, or the checkpoint is refused."""
    whole = checkpoint.read(part, "last")
    place, good = part / "last.json", (part / "last.json").read_bytes()
    refused = 0
    for at in range(0, len(good), 3):
        _flip(place, at, bit=at % 8)
        try:
            assert checkpoint.read(part, "last").attributes == whole.attributes
        except checkpoint.CheckpointError:
            refused += 1
        place.write_bytes(good)
    assert refused > 0.7 * len(good) / 3


def test_a_missing_manifest(
    run: Run, part: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run, tmp_path / "whole", quiet=True)
    (part / "last.json").unlink()
    with pytest.raises(UsageError, match="--resume"):
        train(run, part, quiet=True)
    train(run, part, resume=True)
    said = capsys.readouterr().err
    assert "continuing with the one before it" in said
    assert "continues after update 5" in said
    assert written(part) == written(tmp_path / "whole")


def test_no_manifest_is_left(
    run: Run, part: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run starts again, says so, and repeats no rows of metrics."""
    train(run, tmp_path / "whole", quiet=True)
    (part / "last.json").unlink()
    (part / "last.before.json").unlink()
    train(run, part, resume=True)
    assert "starts again at update 0" in capsys.readouterr().err
    assert written(part) == written(tmp_path / "whole")


def bring(name: str, source: Path, to: Path) -> None:
    """Copy a checkpoint with its tensors into another folder."""
    shutil.copy(source / f"{name}.json", to)
    shutil.copy(tensors_of(source, name), to)


@pytest.mark.parametrize("other", ["seed", "retrain"])
def test_a_checkpoint_of_another_run(
    run: Run, part: Path, tmp_path: Path, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not taken, whole as it is: the one before goes on, or the run is refused."""
    train(run, tmp_path / "whole", quiet=True)
    if other == "seed":
        source = tmp_path / "other"
        train(run.of_seed(1), source, quiet=True)
    else:
        retrained = replace(
            run, training=run.training.model_copy(update={"retrain": "train+valid"})
        )
        train(retrained, tmp_path / "other", quiet=True)
        source = tmp_path / "other" / "retrain"
    bring("last", source, part)
    with pytest.raises(checkpoint.CheckpointError, match=r"last\.json is a checkpoint of another"):
        open_run(part)
    train(run, part, resume=True)
    assert (
        "is a checkpoint of another run; continuing with the one before" in capsys.readouterr().err
    )
    assert written(part) == written(tmp_path / "whole")


def test_the_best_checkpoint_of_another_run(run: Run, tmp_path: Path) -> None:
    run = replace(run, evaluation=run.evaluation.model_copy(update={"report": "best"}))
    for seed in (0, 1):
        train(run.of_seed(seed), tmp_path / str(seed), quiet=True)
    open_run(tmp_path / "0")
    bring("best", tmp_path / "1", tmp_path / "0")
    for use in (open_run, weights_of):
        with pytest.raises(checkpoint.CheckpointError, match="of another run"):
            use(tmp_path / "0")
    (tmp_path / "0" / "result.json").unlink()
    with pytest.raises(checkpoint.CheckpointError, match="of another run"):
        train(run, tmp_path / "0", resume=True, quiet=True)


def test_checkpoints_stay_those_of_their_run_when_it_is_resumed_in_another_form(
    run: Run, part: Path
) -> None:
    """A run that was to be tested can go on with validation data alone."""
    evaluation = run.evaluation.model_copy(update={"split": "valid"})
    valid = replace(run, evaluation=evaluation)
    assert valid.digest != run.digest
    train(valid, part, resume=True, quiet=True)
    assert checkpoint.read(part, "last").attributes["run"] == run.digest
    open_run(part)


def test_checkpoints_of_earlier_versions_name_no_run(run: Run, part: Path) -> None:
    for name in ("last", "last.before"):
        place = part / f"{name}.json"
        record = json.loads(place.read_text())
        del record["run"]
        place.write_text(json.dumps(sealed(record, "manifest")))
    open_run(part)
    train(run, part, resume=True, quiet=True)
    assert checkpoint.read(part, "last").attributes["run"] == run.digest


def test_the_one_before_survives_a_second_fault(run: Run, part: Path, tmp_path: Path) -> None:
    """After a fallback the damaged checkpoint is not copied over the whole one."""
    _flip(tensors_of(part), 400)
    found, message = checkpoint.read_latest(part, "last")
    assert "continuing with the one before" in message
    checkpoint.write(part, "last", found.tensors, found.attributes)
    for name in ("last", "last.before"):
        assert checkpoint.read(part, name).attributes["update"] == 5


def test_metrics_are_on_the_disk_before_the_checkpoint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = list[str]()
    real_sync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{handle}').resolve().name}")
        real_sync(handle)

    def replaced(source: str, target: Path) -> None:
        events.append(f"rename {Path(target).name}")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replaced)
    train(run, tmp_path / "run", quiet=True)
    saves = [i for i, event in enumerate(events) if event == "rename last.json"]
    assert len(saves) == 4
    for before, save in pairwise(saves):
        assert "sync metrics.jsonl" in events[before:save]
        assert events[save + 1] == "sync run", "the rename itself"


@pytest.mark.parametrize("harm", ["nul", "hole", "short", "gone", "torn"])
def test_metrics_after_a_power_failure(
    run: Run, part: Path, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    """What was lost is reported, nothing is padded, and later rows are whole."""
    place = part / "metrics.jsonl"
    good = place.read_bytes()
    first = good.index(b"\n") + 1
    place.write_bytes(
        {
            "nul": good[:first] + b"\0" * (len(good) - first),
            "hole": good[:first] + b"\0" * 9 + good[first + 9 :],
            "short": good[:first],
            "gone": b"",
            "torn": good[: first + 9],
        }[harm]
    )
    if harm in ("nul", "hole"):
        assert len(read_rows(part)) == 1
    train(run, part, resume=True)
    assert "metrics.jsonl lacks" in capsys.readouterr().err
    found = read_rows(part)
    assert found[-1]["update"] == 12
    assert place.read_bytes().count(b"\n") == len(found)
    assert len({(row["update"], row["split"]) for row in found}) == len(found)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_metrics_that_are_no_file(run: Run, part: Path, kind: str) -> None:
    (part / "metrics.jsonl").unlink()
    if kind == "pipe":
        os.mkfifo(part / "metrics.jsonl")
    else:
        (part / "metrics.jsonl").symlink_to("/dev/null")
    with pytest.raises(UsageError, match=r"cannot write .*metrics\.jsonl"):
        train(run, part, resume=True, quiet=True)


def test_pipes_that_nobody_reads(run: Run, tmp_path: Path) -> None:
    """Opening one would wait without end."""
    for name in ("progress.json", "times.jsonl"):
        (tmp_path / name).mkdir()
        os.mkfifo(tmp_path / name / name)
    assert train(run, tmp_path / "progress.json", quiet=True)["updates"] == 12
    with pytest.raises(UsageError, match=r"cannot write .*times\.jsonl: no such device"):
        train(run, tmp_path / "times.jsonl", quiet=True)


def test_a_flipped_bit_in_the_metrics_of_an_interrupted_run(
    run: Run, part: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _flip(part / "metrics.jsonl", (part / "metrics.jsonl").read_bytes().index(b"0."))
    train(run, part, resume=True)
    assert "metrics.jsonl is damaged or was changed" in capsys.readouterr().err


def test_every_flipped_bit_in_the_metrics_of_a_finished_run(run: Run, tmp_path: Path) -> None:
    result = train(run, tmp_path / "run", quiet=True)
    assert train(run, tmp_path / "run", quiet=True) == result
    place = tmp_path / "run" / "metrics.jsonl"
    good = place.read_bytes()
    assert len(read_rows(tmp_path / "run", result)) == good.count(b"\n")
    for at in range(0, len(good), 7):
        _flip(place, at, bit=at % 8)
        with pytest.raises(UsageError, match=r"metrics\.jsonl is damaged or was changed"):
            read_rows(tmp_path / "run", result)
        place.write_bytes(good)
    place.unlink()
    with pytest.raises(UsageError, match=r"metrics\.jsonl is damaged or was changed"):
        read_rows(tmp_path / "run", result)
    del result["metrics_checksum"]  # of an earlier version
    assert read_rows(tmp_path / "run", result) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"update": -1}, {"epoch": 10**30}, {"summed": "x"}, {"first_cost": {}},
        {"sums": {"cost": []}}, {"schedule": {"factor": "x"}}, {"schedule": []},
        {"carry": {"t": 1, "depths": "x"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_that_says_nonsense(run: Run, part: Path, wrong: dict[str, Any]) -> None:
    """With a right checksum, as others may write it."""
    found = checkpoint.read(part, "last")
    checkpoint.write(part, "last", found.tensors, {**found.attributes, **wrong})
    with pytest.raises(
        checkpoint.CheckpointError, match=rf"does not fit this version: {next(iter(wrong))}"
    ):
        train(run, part, resume=True, quiet=True)


def test_a_checkpoint_of_another_network(run: Run, tmp_path: Path) -> None:
    own = {"encoder.conv.weight": torch.zeros(2, 3), "encoder.conv.gain": torch.zeros(2)}
    given = {"encoder.conv.weight": torch.zeros(2, 4), "encoder.lstm.bias": torch.zeros(1)}
    assert checkpoint.difference(own, given) == (
        "it lacks encoder.conv.gain; the network has no encoder.lstm.bias;"
        " encoder.conv.weight is (2, 4), not (2, 3)"
    )


def test_a_folder_of_another_run(run: Run, part: Path) -> None:
    other = replace(run, training=run.training.model_copy(update={"batch": 12}))
    with pytest.raises(UsageError, match=r"another run: training\.batch is 10, not 12"):
        train(other, part, resume=True, quiet=True)
    with pytest.raises(UsageError, match="--resume continues"):
        train(run, part, quiet=True)


def test_a_manifest_that_is_overwritten_during_training(run: Run, tmp_path: Path) -> None:
    """The next checkpoint replaces it."""

    def harm(event: Any) -> None:
        if event.update == 5:
            (tmp_path / "run" / "last.json").write_text("[]")

    train(run, tmp_path / "run", quiet=True, on_update=harm)
    assert checkpoint.read(tmp_path / "run", "last").attributes["update"] == 12


def test_disk_full(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint before stays whole, nothing half-written is left, and it can be resumed."""
    train(run, tmp_path / "whole", quiet=True)
    real, calls = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match="no space left on device"):
            train(run, tmp_path / "part", quiet=True)
    assert not list((tmp_path / "part").glob(".*"))
    train(run, tmp_path / "part", resume=True, quiet=True)
    assert written(tmp_path / "part") == written(tmp_path / "whole")


def test_temporary_files_of_killed_runs_are_swept(run: Run, part: Path) -> None:
    """Only ours: other hidden files, links and folders stay."""
    (part / "retrain").mkdir()
    ours = [
        part / ".last-0123456789ab.safetensors.x8a_k2pq.ladderspec",
        part / ".last.json.abcd1234.ladderspec",
        part / "retrain" / ".best.json.abcd1234.ladderspec",
    ]
    others = [part / ".hidden", part / "notes.ladderspec", part / ".git.ladderspec.txt"]
    for place in (*ours, *others):
        place.write_text("x")
    (part / ".folder.ladderspec").mkdir()
    (part / ".link.ladderspec").symlink_to(part / "last.json")
    train(run, part, resume=True, quiet=True)
    assert not any(place.exists() for place in ours)
    assert all(place.exists() for place in (*others, part / ".folder.ladderspec"))
    assert (part / ".link.ladderspec").is_symlink()


def test_temporary_files_that_may_be_in_use_stay(tmp_path: Path) -> None:
    """In a folder that several processes write into, age decides."""
    fresh, stale = tmp_path / ".a.ladderspec", tmp_path / ".b.ladderspec"
    for place in (fresh, stale):
        place.write_text("x")
    os.utime(stale, (0, 0))
    assert sweep(tmp_path, 3600) == [stale]
    assert fresh.exists()
    os.utime(fresh, (2**32, 2**32))  # the clock has jumped back
    assert sweep(tmp_path, 0) == [fresh]


def test_a_killed_write_leaves_a_file_that_is_swept(
    run: Run, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        cut(patched, "os.replace", 3)
        with pytest.raises(PowerCut):
            train(run, part, resume=True, quiet=True)
    assert list(part.glob(".*.ladderspec"))
    train(run, part, resume=True, quiet=True)
    assert not list(part.glob(".*"))


def test_a_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        train(run, tmp_path / "file" / "run", quiet=True)


# --- costs ----------------------------------------------------------------------------------------


def spoil(monkeypatch: pytest.MonkeyPatch, at: int, name: str, value: float) -> None:
    """Before an update, put a number into a parameter."""
    real = training.update

    def spoilt(learner: Any, *args: Any) -> Any:
        if learner.update == at - 1:
            with torch.no_grad():
                parameter = dict(learner.net.named_parameters())[name]
                parameter[(0,) * parameter.dim()] = value
        return real(learner, *args)

    monkeypatch.setattr(training, "update", spoilt)


def test_not_a_number(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first node with something that is not finite, and the last good state is kept."""
    spoil(monkeypatch, 8, "encoder.conv2.encoder.weight", float("nan"))
    with pytest.raises(Diverged) as error:
        train(run, tmp_path / "run", quiet=True)
    assert str(error.value) == (
        "update 8: the cost is nan; first at encoder.conv2, t = 1"
        " (its encoder.conv2.encoder.weight is not finite)"
    )
    saved = checkpoint.read(tmp_path / "run", "last")
    assert saved.attributes["update"] == 5
    assert all(value.isfinite().all() for value in saved.tensors.values())


def test_costs_that_are_checked_later(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an accelerator: the same numbers, and no checkpoint of weights that are not finite."""
    train(run, tmp_path / "whole", quiet=True)
    later = replace(run, machine=run.machine.model_copy(update={"check": 100}))
    with monkeypatch.context() as patched:
        spoil(patched, 7, "encoder.conv2.encoder.weight", float("nan"))
        with pytest.raises(Diverged) as error:
            train(later, tmp_path / "part", quiet=True)
    assert str(error.value) == (
        "update 7: the cost is nan; to find the cause, resume with `machine: {check: 1}`"
    )
    saved = checkpoint.read(tmp_path / "part", "last")
    assert saved.attributes["update"] == 5
    train(later, tmp_path / "part", resume=True, quiet=True)
    assert written(tmp_path / "part") == written(tmp_path / "whole")


def test_an_exploding_cost(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, 8, "decoder.input.D", 1e6)
    with pytest.raises(Diverged, match=r"update 8: the cost is .* times that of the first update;"):
        train(run, tmp_path / "run", quiet=True)


# --- the user's data ------------------------------------------------------------------------------


def own_data(folder: Path, **arrays: np.ndarray) -> Run:
    """A run on arrays of the user's own: 100 items, the first 80 for training."""
    draw = np.random.default_rng(0)
    frames = draw.random((100, 3, 1, 12, 12), dtype=np.float32)
    np.savez(folder / "own.npz", **{"frames": frames, "label": np.arange(100) % 10, **arrays})
    text = EXPERIMENT.replace(
        "data: {set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}",
        f"data: {{set: arrays, path: {folder / 'own.npz'}}}",
    )
    spec = SPEC.replace("at: decoder.input,", "at: decoder.input, target: later,")
    return one_run(folder, text, spec if "later" in arrays else SPEC)


def test_more_classes_than_the_network_knows(tmp_path: Path) -> None:
    run = own_data(tmp_path, label=5 + np.arange(100) % 10)
    with pytest.raises(DataError) as error:
        train(run, tmp_path / "run", quiet=True)
    assert (
        str(error.value) == "task `digit`: `label` goes up to 14, but encoder.class has 10 classes"
    )


@pytest.mark.parametrize("field", ["frames", "later"])
@pytest.mark.parametrize("items", [100, 2000])
def test_data_that_are_not_finite(field: str, items: int, tmp_path: Path) -> None:
    """They are said to be; not the network. Beyond the first thousand it is seen in training."""
    values = np.random.default_rng(1).random((items, 3, 1, 12, 12), dtype=np.float32)
    fields = {"frames": values.copy(), "later": values, "label": np.arange(items) % 10}
    run = own_data(tmp_path, **fields)
    opened = run.data.open(run.seed, None)
    train_rows = opened.batch("train", 0, np.arange(opened.size("train")), [field])[field]
    wrong = len(train_rows) - 3
    fields[field][(values == train_rows[wrong]).all((1, 2, 3, 4)), 1, 0, 4, 4] = np.nan
    run = own_data(tmp_path, **fields)
    run = replace(run, training=run.training.model_copy(update={"updates": 200}))
    with pytest.raises(LadderspecError) as error:
        train(run, tmp_path / "run", quiet=True)
    said = f"the data are not finite: `{field}` of training item {wrong} (the first is 0)"
    assert str(error.value).endswith(said)
    assert ("the cost is nan" in str(error.value)) == (items > 1000 or field == "frames")


# --- interruptions --------------------------------------------------------------------------------


def test_control_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The update is finished and saved, the exit code is 130; resumed, the numbers are the same."""
    place, run = experiment(tmp_path), one_run(tmp_path)
    train(run, tmp_path / "whole", quiet=True)
    real = training.update

    def interrupted(learner: Any, *args: Any) -> Any:
        if learner.update == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return real(learner, *args)

    words = ["train", str(place), "--row", "ladder", "-o", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        patched.setattr(training, "update", interrupted)
        assert main(words) == 130
    assert "interrupted after update 7; --resume continues" in capsys.readouterr().err
    folder = tmp_path / "out" / run.id
    assert json.loads((folder / "last.json").read_text())["update"] == 7
    assert main([*words, "--resume"]) == 0
    assert written(folder) == written(tmp_path / "whole")


def test_a_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    run = one_run(tmp_path, EXPERIMENT.replace("machine: {", "machine: {track: true, "))
    with pytest.raises(UsageError, match="needs TensorBoard"):
        train(run, tmp_path / "run", quiet=True)


def test_metrics_for_tensorboard(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = one_run(tmp_path, EXPERIMENT.replace("machine: {", "machine: {track: true, "))
    train(run, tmp_path / "run", quiet=True)
    board = events.EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    for row in read_rows(tmp_path / "run"):
        for name, value in row.items():
            if isinstance(value, float) and name != "lr":
                found = {
                    event.step: event.value for event in board.Scalars(f"{row['split']}/{name}")
                }
                assert found[row["update"]] == pytest.approx(value, rel=1e-6)


def test_one_process_at_a_time(run: Run, tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(UsageError, match="another process is training"):
        train(run, tmp_path / "run", quiet=True)
    train(run, tmp_path / "run", quiet=True)


# --- before the first update ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "canvas: 16",
            "open.seed0: `frames` of occluded_mnist is 1x16x16, but the network's input",
        ),
        ("labelled: 100000", "open.seed0: only "),
    ],
)
@pytest.mark.parametrize("command", ["train", "ablate"])
def test_a_later_row_is_checked_first(
    command: str, change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXPERIMENT.replace("variant: open}", f"variant: open, data: {{{change}}}}}")
    place = experiment(tmp_path, text)
    assert main([command, str(place), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"ladderspec: {message}")
    assert not (tmp_path / "out").exists()


def test_all_rows_that_cannot_be_trained_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "training: {optimiser: {arguments: {momentun: 1}}}"
    text = EXPERIMENT.replace("variant: open}", "variant: open, data: {canvas: 16}}")
    text = text.replace("rows:\n", f"rows:\n  - {{name: slow, {wrong}}}\n", 1)
    place = experiment(tmp_path, text)
    assert main(["train", str(place), "-o", str(tmp_path / "out")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("ladderspec: slow.seed0: optimiser `adam` has no argument `momentun`")
    assert second.startswith("  open.seed0: `frames` of occluded_mnist is 1x16x16")


# --- the machine ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "no CUDA here; there is `cpu`"),
        ("cuda:3", "no device `cuda:3` here; there is `cpu`"),
        ("foo", "no device `foo` here; there is `cpu`"),
    ],
)
def test_a_device_that_is_not_there(
    device: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    words = ["train", str(experiment(tmp_path)), "-o", str(tmp_path / "out"), "--device", device]
    assert main(words) == 2
    assert capsys.readouterr().err == f"ladderspec: {message}\n"
    assert not (tmp_path / "out").exists()


def test_a_gpu_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses to choose `cuda`; torchrun says which is whose."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    for name in ("cuda", "auto"):
        with processes.joined(name) as device:
            assert device == torch.device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with processes.joined("auto") as device:
        assert device == torch.device("cuda:1")
    assert [device.index for device in chosen] == [0, 0, 1]
    with (
        pytest.raises(UsageError, match="there are `cpu`, `cuda:0` and `cuda:1`"),
        processes.joined("x"),
    ):
        pass


def test_nothing_to_test_it_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        OccludedMnistData, "size", lambda self, split: 100 if "train" in split else 0
    )
    place = experiment(tmp_path)
    assert main(["train", str(place), "--row", "ladder", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "trained for 12 updates; there are no data to validate or test it  " in said


def test_too_few_labelled_items_for_a_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXPERIMENT.replace("frames: 3}", "frames: 3, labelled: 10, labelled_per_batch: 20}")
    place = experiment(tmp_path, text.replace("batch: 10", "batch: 20"))
    assert main(["train", str(place), "-o", str(tmp_path / "out")]) == 2
    assert "too few items in train for a batch of 20" in capsys.readouterr().err
