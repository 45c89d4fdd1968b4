"""Files of others: any value of any JSON file may be wrong. It is refused, never a traceback."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import ladderspec as ls
from ladderspec.cli import main
from ladderspec.data import DataError, data_config
from ladderspec.data.formats import read_arrays
from ladderspec.errors import LadderspecError, UsageError
from ladderspec.files import checksum, sealed
from ladderspec.learn.checkpoint import CheckpointError
from ladderspec.learn.progress import Display
from ladderspec.learn.run_folder import read_result
from ladderspec.learn.train import train
from ladderspec.trained.run import open_run
from ladderspec.wiring import graph_json
from tests.training import SPEC, one_run

DEEP: Any = 0
for _ in range(200):
    DEEP = [DEEP]
WRONG = [
    None, True, -1, 1.5, 10**9, 10**30, float("nan"), float("inf"), "", "x", "\x1b[31m", "a\nb",
    [], {}, [[]], [None], {"x": {}}, DEEP, "encoder.none", [10**6, 10**6],
]  # fmt: skip


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths to all values."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def mutants(value: dict[str, Any], count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Copies of JSON with one value replaced or removed."""
    draw = random.Random(1)
    found = list(places(value))
    for number in range(count):
        path = found[number % len(found)] if number < 2 * len(found) else draw.choice(found)
        copy = json.loads(json.dumps(value))
        inner = copy
        for key in path[:-1]:
            inner = inner[key]
        if draw.random() < 0.1:
            del inner[path[-1]]
            yield f"{path} removed", copy
        else:
            wrong = draw.choice(WRONG)
            inner[path[-1]] = wrong
            yield f"{path} = {str(wrong)[:30]}", copy


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without checksums of its records, which would refuse every mutation at once."""
    folder = tmp_path_factory.mktemp("foreign")
    train(one_run(folder, updates=1), folder / "run", quiet=True)
    for place in (folder / "run" / "run.json", folder / "run" / "result.json"):
        record = json.loads(place.read_text())
        plain = {key: value for key, value in record.items() if not key.endswith("checksum")}
        assert len(plain) < len(record)
        place.write_text(json.dumps(plain))
    return folder / "run"


def test_mutated_graphs() -> None:
    """An accepted file is a graph that can be shown."""
    graph = graph_json.as_dict(ls.graph(ls.loads(SPEC)))
    refused = 0
    for what, mutant in mutants(graph, 1500):
        try:
            built = graph_json.loads(json.dumps(mutant))
            text = ls.to_text(built) + str(ls.plan(built))
            assert "\x1b" not in text, what
        except LadderspecError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
    assert refused > 800


@pytest.mark.parametrize("delay", [-1, 1.5, 10**9, "1", None, True])
def test_delays_of_a_graph(delay: object) -> None:
    graph = graph_json.as_dict(ls.graph(ls.loads(SPEC)))
    graph["edges"][0]["delay"] = delay
    with pytest.raises(
        UsageError, match=r"edges\.0\.delay: (expected a whole number|it must be at)"
    ):
        graph_json.loads(json.dumps(graph))


@pytest.mark.parametrize("key", [0, "x", None])
def test_names_of_arrows_follow_from_their_ends(key: object) -> None:
    right = ls.graph(ls.loads(SPEC))
    graph = graph_json.as_dict(right)
    graph["edges"][0]["key"] = key
    read = graph_json.loads(json.dumps(graph))
    assert set(read.edges(keys=True)) == set(right.edges(keys=True))


def test_a_filter_that_asks_for_all_memory(tmp_path: Path) -> None:
    net = ls.build(ls.loads(SPEC))
    folder = ls.save(net, tmp_path / "net")
    graph = json.loads((folder / "graph.json").read_text())
    edge = next(edge for edge in graph["edges"] if edge["target"] == "encoder.lstm1")
    edge["filter"] = [200_000, 200_000]
    with pytest.raises(UsageError, match=r"filter\.0: it must be at most 4096"):
        graph_json.loads(json.dumps(graph))
    cell = next(node for node in graph["nodes"] if node["id"] == "encoder.lstm1")["cell"]
    del edge["filter"]
    cell["filter"] = [4095, 4095]
    cell["channels"] = 2000
    changed = json.dumps(graph)
    (folder / "graph.json").write_text(changed)
    record = json.loads((folder / "net.json").read_text())
    record["checksums"]["graph.json"] = checksum(changed.encode())
    (folder / "net.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=r"has [\d,]+ parameters, but only"):
        ls.open_net(folder)


@pytest.mark.parametrize("name", ["run.json", "result.json", "last.json", "graph.json"])
def test_mutated_runs(finished: Path, name: str) -> None:
    good = (finished / name).read_text()
    refused = 0
    try:
        for what, mutant in mutants(json.loads(good), 120):
            (finished / name).write_text(json.dumps(mutant))
            try:
                opened = open_run(finished)
                assert opened.training.batch > 0, what
                assert opened.evaluation is not None, what
                assert opened.data.size("train") > 0, what
                opened.net()
            except LadderspecError:
                refused += 1
            except Exception as error:
                raise AssertionError(f"{name}: {what}: {error!r}") from error
    finally:
        (finished / name).write_text(good)
    assert refused >= {"run.json": 5, "last.json": 50, "graph.json": 50, "result.json": 0}[name]


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", "{", '{"digest": 3}', "\x00" * 50])
@pytest.mark.parametrize("name", ["run.json", "result.json", "graph.json", "last.json"])
def test_files_that_are_no_records(finished: Path, name: str, text: str) -> None:
    good = (finished / name).read_text()
    try:
        (finished / name).write_text(text)
        if name == "result.json":
            assert read_result(finished) is None
        else:
            assert main(["evaluate", str(finished)]) == 2
            assert name != "graph.json" or main(["show", str(finished)]) == 2
    finally:
        (finished / name).write_text(good)


def test_control_characters_do_not_reach_the_terminal(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = (finished / "last.json").read_text()
    record = json.loads(good) | {"update": "\x1b[31m"}
    (finished / "last.json").write_text(json.dumps(sealed(record, "manifest")))
    assert main(["evaluate", str(finished)]) == 0
    assert main(["data", "list", "--data", "no\x1b[31m"]) == 0
    Display().say("\x1b[31m")
    (finished / "last.json").write_text(good)
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err


def _edit(place: Path, before: str, after: str) -> None:
    text = place.read_text()
    assert before in text
    place.write_text(text.replace(before, after))


def test_changed_records_are_not_trusted(tmp_path: Path) -> None:
    """Another digit in a record would give other numbers without a word."""
    run = one_run(tmp_path, updates=1)
    folder = tmp_path / "run"
    result = train(run, folder, quiet=True)
    error = result["metrics"]["test"]["digit.error"]
    _edit(folder / "result.json", f'"digit.error": {error}', '"digit.error": 0.01')
    assert read_result(folder, run) is None
    with pytest.raises(UsageError, match=r"result\.json is damaged: it does not say which weights"):
        open_run(folder)
    assert open_run(folder / "last.json").which == "last"
    assert train(run, folder, quiet=True, resume=True) == result

    graph = (folder / "graph.json").read_text()
    _edit(folder / "graph.json", '"delay": 1', '"delay": 2')
    with pytest.raises(UsageError, match=r"graph\.json is damaged or was changed"):
        open_run(folder)
    (folder / "graph.json").write_text(graph)

    _edit(folder / "run.json", '"statistics": 2', '"statistics": 3')
    with pytest.raises(UsageError, match=r"run\.json is damaged or was changed: .* remove `checks"):
        open_run(folder)
    record = json.loads((folder / "run.json").read_text())
    del record["checksum"]
    (folder / "run.json").write_text(json.dumps(record))
    assert open_run(folder).evaluation.statistics == 3


def test_a_damaged_result_of_a_second_training(tmp_path: Path) -> None:
    """One of the two results is enough to know which weights the run reports."""
    run = one_run(tmp_path, updates=1, retrain="train+valid")
    folder = tmp_path / "run"
    train(run, folder, quiet=True)
    good = (folder / "result.json").read_text()
    for damaged in (folder / "retrain" / "result.json", folder / "result.json"):
        before = damaged.read_text()
        damaged.write_text("{")
        assert (open_run(folder).folder, open_run(folder).which) == (folder / "retrain", "last")
        damaged.write_text(before)
    (folder / "retrain" / "result.json").unlink()
    (folder / "result.json").write_text(good[:50])
    with pytest.raises(UsageError, match=r"result\.json is damaged: it does not say which weights"):
        open_run(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"format": {}}', '{"dtype": []}'])
def test_records_of_networks(tmp_path: Path, text: str) -> None:
    folder = ls.save(ls.build(ls.loads(SPEC)), tmp_path / "net")
    (folder / "net.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"net\.json"):
        ls.open_net(folder)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    folder = ls.save(ls.build(ls.loads(SPEC)), tmp_path / "net")
    tensors = load_file(folder / "weights.safetensors")
    tensors["encoder.lstm1.bias"][0] = torch.nan
    save_file(tensors, folder / "weights.safetensors")
    with pytest.raises(CheckpointError, match=r"not finite: encoder\.lstm1\.bias"):
        ls.open_net(folder)


def test_weights_of_a_type_that_torch_lacks(tmp_path: Path) -> None:
    folder = ls.save(ls.build(ls.loads(SPEC)), tmp_path / "net")
    header = json.dumps({"x": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}).encode()
    (folder / "weights.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(CheckpointError, match=r"weights\.safetensors is damaged: .*F4"):
        ls.open_net(folder)


# --- arrays ---------------------------------------------------------------------------------------


def test_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed arrays that would not fit into memory are refused before they are read."""
    place = tmp_path / "bomb.npz"
    np.savez_compressed(place, frames=np.zeros((100, 1000, 100), np.float32))
    assert place.stat().st_size < 100_000
    monkeypatch.setattr("ladderspec.data.formats.memory", lambda: 10**7)
    with pytest.raises(DataError, match=r"40,000,128 bytes .* uncompressed"):
        read_arrays(place)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("claimed", ["(160000000000,)", "(400,)"])
def test_a_header_that_claims_more(tmp_path: Path, compression: int, claimed: str) -> None:
    place = tmp_path / "liar.npz"
    np.save(tmp_path / "a.npy", np.zeros(100, np.float32))
    data = (tmp_path / "a.npy").read_bytes()
    end = data.index(b"\n")
    header = data[:end].replace(b"(100,)", claimed.encode()).rstrip()
    data = header + b" " * (end - len(header)) + data[end:]
    with zipfile.ZipFile(place, "w", compression) as archive:
        archive.writestr("frames.npy", data)
        archive.writestr("other.npy", bytes(5000))
    with pytest.raises(DataError, match=r"liar\.npz: .*frames"):
        read_arrays(place)


def test_a_file_that_is_truncated_while_training(tmp_path: Path) -> None:
    """A mapped file that shrinks would end the process with SIGBUS."""
    rows = np.random.default_rng(0).random((400, 3, 1, 12, 12), np.float32)
    np.savez(tmp_path / "own.npz", frames=rows, label=np.zeros(400, np.int64))
    data = data_config("arrays", path=str(tmp_path / "own.npz")).open()
    assert data.batch("train", 0, np.arange(4))["frames"].shape[0] == 4
    with (tmp_path / "own.npz").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(DataError, match=r"own\.npz was changed while it was in use"):
        data.batch("train", 0, np.arange(200, 300))
