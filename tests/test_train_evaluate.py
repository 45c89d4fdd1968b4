"""What can be done with a trained network: measured, lesioned, looked into, continued, stored."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import ladderspec as ls
from ladderspec.cli import main
from ladderspec.corridor import build, graph, loads
from ladderspec.errors import UsageError
from ladderspec.learn.checkpoint import CheckpointError
from ladderspec.learn.train import train
from ladderspec.trained.evaluate import evaluate, generate
from ladderspec.trained.lesion import lesion
from ladderspec.trained.midi import to_midi
from ladderspec.trained.opened import open_run, take_weights
from ladderspec.trained.store import open_net, save
from tests.training import EXPERIMENT, MUSIC, SPEC, one_run

MUSICAL = EXPERIMENT.replace(
    "{set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}", "{set: music, name: etudes}"
).replace("  - {name: open, variant: open}\n", "").replace("items: 40", "items: 4")  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a teacher and a probe."""
    place = tmp_path_factory.mktemp("run")
    text = EXPERIMENT.replace("name: ladder,", "name: ladder, variant: [taught, probed],")
    train(one_run(place, text.replace("pictures: 0", "pictures: 2")), place / "run", quiet=True)
    return place / "run"


def test_evaluation_gives_the_numbers_of_the_run(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    report = evaluate(open_run(folder))
    assert report.metrics == result["metrics"]["test"]
    assert "teacher.digit.error" in report.metrics
    assert "probe.error" in report.metrics
    assert len(report.by_time["digit.error"]) == 3
    assert len(report.by_time["next_frame.error"]) == 2
    best = json.loads((folder / "best.json").read_text())["value"]
    opened = open_run(folder / "best.json")
    assert opened.which == "best"
    assert best > 0


def test_pictures_were_drawn_on_the_way(folder: Path) -> None:
    found = sorted(place.name for place in (folder / "pictures").iterdir())
    assert found == ["valid-000006.png", "valid-000012.png"]


def test_lesions(folder: Path) -> None:
    """The arrows are gone, what remains has the trained weights, and the numbers change."""
    opened = open_run(folder)
    whole, without = opened.net(), opened.net(["decoder_to_encoder"])
    kept = dict(whole.named_parameters())
    assert set(dict(without.named_parameters())) < set(kept)
    for name, parameter in without.named_parameters():
        assert torch.equal(parameter, kept[name])
    report = evaluate(opened, without=["decoder_to_encoder"])
    assert report.metrics["digit.nll"] != evaluate(opened).metrics["digit.nll"]
    first = evaluate(opened).by_time["digit.nll"][0]
    assert report.by_time["digit.nll"][0] == pytest.approx(first, rel=1e-6)


def test_lesions_that_cannot_be() -> None:
    whole = graph(loads(SPEC))
    assert len(lesion(whole, ["task.next_frame"])) < len(whole)
    for selector, message in [
        ("lateral@conv9", "matches nothing"),
        ("laterl", "did you mean `lateral`"),
        ("level.conv2", "cannot be taken out"),
        ("task.digti", "did you mean `digit`"),
    ]:
        with pytest.raises(UsageError, match=message):
            lesion(whole, [selector])
    assert len(graph(loads(SPEC))) == len(whole), "the graph that was given is left as it was"


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = ["--activations", "encoder.lstm1", "--activations", "encoder.top"]
    assert main(["evaluate", str(folder), "-o", str(tmp_path), *nodes]) == 0
    out = capsys.readouterr().out
    assert "digit.error" in out
    assert "by t:" in out
    assert "rows are the class" in out
    assert (tmp_path / "test.png").stat().st_size > 500
    with np.load(tmp_path / "activations.npz") as arrays:
        assert arrays["encoder.lstm1"].shape == (16, 3, 2, 12, 12)
        assert arrays["encoder.top"].shape == (16, 3, 8)
        assert arrays["frames"].shape == (16, 3, 1, 12, 12)
    assert (tmp_path / "activations.png").stat().st_size > 500
    words = ["--without", "lateral", "--json", "--split", "valid"]
    assert main(["evaluate", str(folder), "-o", str(tmp_path), *words]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metrics"]["next_frame.error"] > 0
    assert main(["evaluate", str(folder), "--activations", "encoder.nothing"]) == 2
    assert "no node encoder.nothing" in capsys.readouterr().err
    (tmp_path / "file").touch()
    for command in ("evaluate", "generate"):
        assert main([command, str(folder), "-o", str(tmp_path / "file" / "x" / "y.png")]) == 2
        assert "cannot write" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "there is no run.json" in capsys.readouterr().err


def test_going_on_by_itself(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, later = generate(open_run(folder), 4, given=2, count=3)
    assert (given.shape, later.shape) == ((3, 2, 1, 12, 12), (3, 4, 1, 12, 12))
    assert main(["generate", str(folder), "--frames", "4", "-o", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").stat().st_size > 500
    assert main(["generate", str(folder), "--sample"]) == 2
    assert "no distribution to sample" in capsys.readouterr().err


def test_music_goes_on_as_midi(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = one_run(tmp_path, MUSICAL, MUSIC, updates=2, steps=20)
    train(run, tmp_path / "run", quiet=True)
    words = ["--frames", "8", "--given", "8", "--count", "1", "--sample", "-o"]
    assert main(["generate", str(tmp_path / "run"), *words, str(tmp_path / "tune.png")]) == 0
    assert "tune.mid" in capsys.readouterr().out
    assert (tmp_path / "tune.mid").read_bytes()[:4] == b"MThd"


def notes_of(data: bytes) -> set[tuple[int, int, int]]:
    """(pitch, start, end) in ticks: a small reader, to check the writer."""
    assert struct.unpack(">4sIHHH", data[:14])[1:4] == (6, 0, 1)
    assert int.from_bytes(data[18:22], "big") == len(data) - 22
    at, now, found, open_notes = 22, 0, set(), {}
    while at < len(data):
        delta = 0
        while True:
            delta, at = delta << 7 | data[at] & 0x7F, at + 1
            if data[at - 1] < 0x80:
                break
        now += delta
        if data[at] == 0xFF:
            at += 3 + data[at + 2]
            continue
        kind, pitch = data[at], data[at + 1]
        if kind == 0x90:
            open_notes[pitch] = now
        else:
            found.add((pitch, open_notes.pop(pitch), now))
        at += 3
    assert not open_notes
    return found


def test_midi() -> None:
    roll = np.zeros((5, 88))
    roll[0:2, 39] = 1
    roll[3, 39] = 1
    roll[1:5, 43] = 1
    assert notes_of(to_midi(roll)) == {(60, 0, 480), (60, 720, 960), (64, 240, 1200)}


def test_the_weights_of_a_run_for_a_network(folder: Path) -> None:
    net = build(loads(SPEC, ["taught", "probed"]), seed=9)
    take_weights(net, folder)
    trained = open_run(folder).net().state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in net.state_dict().items())
    take_weights(net, folder / "best.json")
    with pytest.raises(UsageError, match=r"does not fit: .*decoder_to_encoder"):
        take_weights(build(loads(SPEC, "open")), folder)


# --- stored networks ------------------------------------------------------------------------------


def test_a_network_is_stored_and_opened(tmp_path: Path) -> None:
    spec = loads(SPEC)
    net = build(spec, seed=3).double()
    place = save(net, spec, tmp_path / "net")
    again = open_net(place)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in net.state_dict().items())
    frames = torch.rand(2, 3, 1, 12, 12, dtype=torch.float64)
    assert torch.equal(net.eval()(frames)["digit"], again.eval()(frames)["digit"])
    assert {file.suffix for file in place.iterdir()} == {".json", ".safetensors"}
    assert ls.loads(SPEC).name == "nano"


def test_a_network_is_stored_with_its_own_spec(tmp_path: Path) -> None:
    whole, part = loads(SPEC), loads(SPEC, "open")
    with pytest.raises(UsageError, match="is not that of the spec: they differ at `encoder"):
        save(build(whole), part, tmp_path / "net")
    assert not (tmp_path / "net").exists()
    again = open_net(save(build(whole), whole, tmp_path / "net"))
    save(again, whole, tmp_path / "again")
    names = [file.name for file in (tmp_path / "net").iterdir()]
    assert len(names) == 3
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "net" / name).read_bytes()


def test_a_stored_network_that_is_damaged(tmp_path: Path) -> None:
    spec = loads(SPEC)
    place = save(build(spec), spec, tmp_path / "net")
    weights = place / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(CheckpointError, match="its checksum is not that of"):
        open_net(place)
    save(build(loads(SPEC, "open")), loads(SPEC, "open"), tmp_path / "open")
    (place / "net.json").write_text((tmp_path / "open" / "net.json").read_text())
    weights.write_bytes((tmp_path / "open" / "weights.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match=r"does not fit: it lacks .*decoder_to_encoder"):
        open_net(place)
    with pytest.raises(CheckpointError, match="holds no network"):
        open_net(tmp_path)
