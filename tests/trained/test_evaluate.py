"""Work with a trained network: metrics, lesions, activations, generation, saving."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from ladderspec.api import build, graph, loads
from ladderspec.cli import main
from ladderspec.data import DataError
from ladderspec.data.sets.occluded_mnist import OccludedMnist
from ladderspec.errors import UsageError
from ladderspec.files import checksum
from ladderspec.learn.checkpoint import CheckpointError
from ladderspec.learn.train import train
from ladderspec.trained.evaluate import activation_sheet, activations, evaluate, samples
from ladderspec.trained.generate import generate, to_midi
from ladderspec.trained.lesion import lesion
from ladderspec.trained.run import open_run, take_weights
from ladderspec.trained.store import open_net, save
from ladderspec.wiring.graph import parameters
from tests.training import EXPERIMENT, MUSIC, SPEC, one_run

MUSICAL = EXPERIMENT.replace("paper: {digit:", "paper: {next_notes:").replace(
    "{set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}", "{set: music, name: etudes}"
).replace("  - {name: open, variant: open}\n", "").replace("items: 40", "items: 4")  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


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
    with pytest.raises(UsageError, match="checkpoint `last` would be ignored"):
        open_run(folder / "best.json", "last")
    assert opened.which == "best"
    assert best > 0


def test_data_of_another_revision_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_run(folder).data.size("test")
    monkeypatch.setattr(OccludedMnist, "revision", 2)
    with pytest.raises(DataError, match=r"trained on revision 1 of occluded_mnist, .* revision 2"):
        evaluate(open_run(folder))


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
        ("digit", "did you mean `task.digit`"),
        ("level.conv2", "cannot be removed"),
        ("task.digti", "did you mean `digit`"),
    ]:
        with pytest.raises(UsageError, match=message):
            lesion(whole, [selector])
    assert len(graph(loads(SPEC))) == len(whole), "the graph that was given is left as it was"


def test_lesions_of_nodes_that_are_needed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for selector, message in [
        ("encoder.class", "task `digit` reads encoder.class; remove `task.digit` too"),
        ("encoder.lstm1", "Conv at encoder.conv2 cannot be without its encoder arrow"),
    ]:
        assert main(["evaluate", str(folder), "--without", selector]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"ladderspec: --without {selector}: {message}")
        assert said.count("\n") == 1


def test_vectors_are_drawn_channel_by_channel(folder: Path, tmp_path: Path) -> None:
    """Also where the picture has nothing but vectors: a heat map, channels by t."""
    words = ["--activations", "encoder.top", "-o", str(tmp_path)]
    assert main(["evaluate", str(folder), *words]) == 0
    with np.load(tmp_path / "activations.npz") as found:
        arrays = dict(found)
    picture = activation_sheet(arrays, "top", items=1)
    frames, top = picture.tiles[:3], picture.tiles[3:]
    assert [tile.image.shape for tile in top] == [(8, 1, 3)] * 3
    assert [tile.x for tile in top] == [tile.x for tile in frames]
    values = arrays["encoder.top"][0]
    t, channel = np.unravel_index(values.argmax(), values.shape)
    inks = np.stack([tile.image[:, 0].sum(-1) for tile in top])
    assert inks[t, channel] == inks.min(), "the largest value has the most ink"


def test_data_without_test_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = np.random.default_rng(0).random((20, 3, 1, 12, 12), dtype=np.float32)
    np.savez(tmp_path / "d.npz", frames=frames, label=np.arange(20) % 10)
    data = f"{{set: arrays, path: {tmp_path / 'd.npz'}, test: 0}}"
    text = EXPERIMENT.replace(
        "{set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}", data
    )
    train(one_run(tmp_path, text, updates=1), tmp_path / "run", quiet=True)
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    said = capsys.readouterr()
    sizes = "train has 18, valid has 2, test has 0"
    assert said.err == f"ladderspec: there are no test items to evaluate: {sizes}\n"
    assert not said.out
    assert main(["evaluate", str(tmp_path / "run"), "--split", "valid"]) == 0


def test_statistics_rule_pictures_and_activations_too(folder: Path) -> None:
    opened = open_run(folder)
    measured, kept = (
        activations(opened, ["encoder.conv2"], statistics=count)["encoder.conv2"]
        for count in (2, 0)
    )
    assert not np.allclose(measured, kept)
    drawn = [samples(opened, statistics=count) for count in (2, 0)]
    tiles = [[tile.image for tile in picture.tiles] for picture in drawn if picture is not None]
    assert not all(map(np.array_equal, *tiles))


def test_activations_end_where_their_items_end() -> None:
    arrays = {
        "frames": np.ones((3, 5, 4)),
        "encoder.top": np.ones((3, 5, 2)),
        "lengths": np.array([2, 5, 3]),
        "items": np.array([7, 8, 9]),
    }
    arrays["encoder.top"][0, 2:] = 1000
    picture = activation_sheet(arrays, "top")
    assert len(picture.tiles) == 2 * (2 + 5)
    assert [t.text for t in picture.texts if "item" in t.text] == ["item 7", "item 8"]


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = ["--activations", "encoder.lstm1", "--activations", "encoder.top"]
    assert main(["evaluate", str(folder), "-o", str(tmp_path), *nodes]) == 0
    out = capsys.readouterr().out
    assert "digit.error" in out
    assert "by t:" in out
    assert "rows are true classes, columns predicted ones" in out
    assert (tmp_path / "test.png").stat().st_size > 500
    with np.load(tmp_path / "activations.npz") as arrays:
        assert arrays["encoder.lstm1"].shape == (16, 3, 2, 12, 12)
        assert arrays["encoder.top"].shape == (16, 3, 8)
        assert arrays["frames"].shape == (16, 3, 1, 12, 12)
        assert arrays["items"].tolist() == list(range(16))
    assert (tmp_path / "activations.png").stat().st_size > 500
    words = ["--without", "lateral", "--json", "--split", "valid"]
    assert main(["evaluate", str(folder), "-o", str(tmp_path), *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["next_frame.error"] > 0
    assert main(["evaluate", str(folder), "--activations", "encoder.nothing"]) == 2
    assert "no node encoder.nothing" in capsys.readouterr().err
    (tmp_path / "file").touch()
    for command in ("evaluate", "generate"):
        assert main([command, str(folder), "-o", str(tmp_path / "file" / "x" / "y.png")]) == 2
        said = capsys.readouterr()
        assert "cannot write" in said.err
        assert ("digit.error" in said.out) is (command == "evaluate"), "measures are printed"
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "there is no run.json" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["evaluate", str(folder.parent)]) == 2
    assert f"its folders do, like {folder}" in capsys.readouterr().err


def test_going_on_by_itself(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = generate(open_run(folder), 4, given=2, count=3)
    given, later = found.given, found.later
    assert (given.shape, later.shape) == ((3, 2, 1, 12, 12), (3, 4, 1, 12, 12))
    assert main(["generate", str(folder), "--frames", "4", "-o", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").stat().st_size > 500
    assert main(["generate", str(folder), "--sample"]) == 2
    assert "no distribution to sample" in capsys.readouterr().err


def test_what_cannot_be_generated(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in [
        (["-o", str(tmp_path / "g.mid")], "only music becomes MIDI"),
        (["--frames", "0"], "between 1 and 100,000 frames can be generated, not 0"),
        (
            ["--frames", "1000000000"],
            "1 and 100,000 frames can be generated, not 1000000000",
        ),
        (["--given", "9"], "between 1 and 3 frames can be given here, not 9"),
        (["--given", "0"], "between 1 and 3 frames can be given here, not 0"),
    ]:
        assert main(["generate", str(folder), *words]) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_music_goes_on_as_midi(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = one_run(tmp_path, MUSICAL, MUSIC, updates=2, steps=20)
    train(run, tmp_path / "run", quiet=True)
    words = ["--frames", "8", "--given", "8", "--count", "1", "--sample", "-o"]
    place, command = tmp_path / "tune.mid", ["generate", str(tmp_path / "run"), *words]
    assert main([*command, str(place)]) == 0
    assert capsys.readouterr().out == f"wrote {place}\n"
    assert place.read_bytes()[:4] == b"MThd"
    place.write_bytes(b"mine")
    assert main([*command, str(tmp_path / "tune.png")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'tune.png'}\n"
    assert place.read_bytes() == b"mine", "a picture that is asked for is all that is written"
    assert main([*command, str(place), "--count", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {tmp_path / f'tune-{i}.mid'}" for i in range(2)
    ]
    assert main(command[:-1]) == 0
    names = {file.name for file in (tmp_path / "run" / "evaluation").iterdir()}
    assert names == {"generated.png", "generated.mid"}


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
    net = build(loads(SPEC), seed=3).double()
    place = save(net, tmp_path / "net")
    again = open_net(place)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in net.state_dict().items())
    frames = torch.rand(2, 3, 1, 12, 12, dtype=torch.float64)
    assert torch.equal(net.eval()(frames)["digit"], again.eval()(frames)["digit"])
    names = {file.name for file in place.iterdir()}
    assert names == {"net.json", "graph.json", "weights.safetensors"}
    save(again, tmp_path / "again")
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (place / name).read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder.conv2.activation": "none"},
        {"encoder.top.forget_bias": 3.0},
        {"task.next_frame.weight": 7},
    ],
)
def test_a_network_is_stored_with_its_own_words(changes: dict[str, object], tmp_path: Path) -> None:
    """Also with those that leave no trace in the shapes."""
    net = build(loads(SPEC, set=changes))
    again = open_net(save(net, tmp_path / "net"))
    frames, label = torch.rand(4, 3, 1, 12, 12), torch.arange(4)
    assert torch.equal(again.cost(frames, label).total, net.cost(frames, label).total)


def test_what_torch_puts_around_a_network(tmp_path: Path) -> None:
    net = build(loads(SPEC))
    place = save(torch.compile(net, backend="eager"), tmp_path / "net")
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in open_net(place).state_dict().items())
    net.get_submodule("encoder.top").double()
    with pytest.raises(UsageError, match="partly float32 and partly float64"):
        save(net, tmp_path / "mixed")
    with pytest.raises(UsageError, match="network of ladderspec is needed, not Linear"):
        save(torch.nn.Linear(2, 2), tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_a_network_without_parameters_is_stored(tmp_path: Path) -> None:
    words = "input: {channels: 2}\nlevels: [{name: a, encoder: {cell: SoftMax, weights: none}}]\n"
    net = build(loads(words))
    assert not list(net.parameters())
    x = torch.rand(3, 2)
    assert torch.equal(
        open_net(save(net, tmp_path)).values(x, "encoder.a"), net.values(x, "encoder.a")
    )
    assert net.values(x.double(), "encoder.a").dtype == torch.float64
    assert net.values((x * 9).int(), "encoder.a").dtype == torch.float32


def _spoilt(place: Path, name: str, old: str, new: str) -> None:
    """Change a file, and the record so that it agrees: what follows must find out by itself."""
    text = (place / name).read_text()
    assert old in text
    (place / name).write_text(text.replace(old, new, 1))
    record = json.loads((place / "net.json").read_text())
    record["checksums"][name] = checksum((place / name).read_bytes())
    (place / "net.json").write_text(json.dumps(record))


def test_a_stored_network_that_is_damaged(tmp_path: Path) -> None:
    place = save(build(loads(SPEC)), tmp_path / "net")
    for name in ("weights.safetensors", "graph.json"):
        whole = (place / name).read_bytes()
        data = bytearray(whole)
        data[-2] ^= 1
        (place / name).write_bytes(data)
        with pytest.raises(CheckpointError, match=f"{name} is damaged, or was changed after"):
            open_net(place)
        (place / name).unlink()
        with pytest.raises(CheckpointError, match=f"cannot read .*{name}: no such file"):
            open_net(place)
        (place / name).write_bytes(whole)
    for old, new, message in [
        ('"forget_bias": 1.0', '"forget_bias": "x"', "forget_bias: expected a number"),
        ('"ConvLSTM"', '"ConvLTSM"', "no cell `ConvLTSM` is known here; load its plug-in first"),
        ('"side"', '"sied"', "it has no 'side'"),
        ('"graph"', '"grahp"', "it has no 'graph'"),
    ]:
        place = save(build(loads(SPEC)), tmp_path / "net")
        _spoilt(place, "graph.json", old, new)
        with pytest.raises(UsageError, match=rf"graph.json: this is no graph .*{message}"):
            open_net(place)
    for text in ("[]", "{", '{"format": "ladderspec net 1"}'):
        (place / "net.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"net.json(: expected| is damaged)"):
            open_net(place)
    with pytest.raises(CheckpointError, match="holds no network"):
        open_net(tmp_path)


def test_weights_of_another_network_in_the_folder(tmp_path: Path) -> None:
    place = save(build(loads(SPEC)), tmp_path / "net")
    other = save(build(loads(SPEC, "open")), tmp_path / "open")
    name = "weights.safetensors"
    (place / name).write_bytes((other / name).read_bytes())
    with pytest.raises(CheckpointError, match=r"does not fit: it lacks .*decoder_to_encoder"):
        open_net(place)


def test_commands_take_the_folder_of_a_network(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, place = tmp_path / "nano.yaml", save(build(loads(SPEC)), tmp_path / "net")
    spec.write_text(SPEC)
    for words in (["plan"], ["show", "--format", "latex"], ["graph"], ["show", "--ladder"]):
        assert main([*words, str(spec)]) == 0
        expected = capsys.readouterr().out
        assert main([*words, str(place)]) == 0
        assert capsys.readouterr().out == expected
    for each in (place, folder):
        assert main(["draw", str(each), "-o", str(tmp_path / "net.svg")]) == 0
        assert main(["export", str(each), "-o", str(tmp_path / "model.py")]) == 0
        compile((tmp_path / "model.py").read_text(), "model.py", "exec")
    capsys.readouterr()
    assert main(["show", str(place), "--without", "lateral"]) == 2
    assert "holds a network, which cannot be changed" in capsys.readouterr().err
    for words in (["show"], ["diff", str(spec)]):
        assert main([*words, str(tmp_path)]) == 2
        assert "it has no graph.json" in capsys.readouterr().err


def test_folders_are_compared(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, place = tmp_path / "nano.yaml", save(build(loads(SPEC)), tmp_path / "net")
    spec.write_text(SPEC)
    assert main(["diff", str(spec), str(place)]) == 0
    assert main(["diff", str(place), str(spec), "--without", "decoder_to_encoder"]) == 1
    assert "- arrow decoder.top(t-1) -> encoder.top" in capsys.readouterr().out
    assert main(["diff", str(place), str(folder)]) == 1
    assert "+ task  probe" in capsys.readouterr().out
    assert main(["diff", str(place), "--without", "lateral"]) == 2
    assert "holds a network, which cannot be changed" in capsys.readouterr().err


def test_every_training_item_is_measured_once(tmp_path: Path) -> None:
    """Also where batches of training repeat those that have labels."""
    text = EXPERIMENT.replace("frames: 3}", "frames: 3, labelled: 20, labelled_per_batch: 5}")
    train(one_run(tmp_path, text, updates=1), tmp_path / "run", quiet=True)
    report = evaluate(open_run(tmp_path / "run"), "train")
    assert np.array(report.confusion["digit"]).sum() == 20


def test_checkpoints_of_the_last_training(tmp_path: Path) -> None:
    run = one_run(tmp_path, updates=2, retrain="train+valid")
    train(run, tmp_path / "run", quiet=True)
    reported, named = open_run(tmp_path / "run"), open_run(tmp_path / "run", "last")
    assert named.folder == reported.folder == tmp_path / "run" / "retrain"
    assert open_run(tmp_path / "run" / "last.json").folder == tmp_path / "run"


def test_a_probe_is_no_part_of_the_network(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    assert result["parameters"] == parameters(graph(loads(SPEC)))


@pytest.mark.parametrize("step", ["-0.5", "0", "nan", "1000"])
def test_steps_of_music_that_cannot_be(
    folder: Path, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(folder), "--step", step]) == 2
    assert "above 0 and at most 64 quarters" in capsys.readouterr().err
