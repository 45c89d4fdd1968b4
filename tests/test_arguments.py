"""Wrong types in calls of public functions are refused at once, by the name of the argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ladderspec as ls
from ladderspec.arguments import ArgumentError
from ladderspec.data import data_config
from ladderspec.errors import UsageError

TINY = Path(__file__).parents[1] / "specs" / "ommnist" / "rladder_tiny.yaml"
QUICK = TINY.parents[1] / "experiments" / "quickstart.yaml"
SEVERAL = "a text or a list of texts"
SEEDS = "a whole number or a list of whole numbers"

# A function, its arguments, and the message.
WRONG: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (ls.load, {"path": 3}, "path: 3 is not a path"),
    (ls.load, {"path": None}, "path: None is not a path"),
    (ls.load, {"path": b"a"}, "path: b'a' is not a path"),
    (ls.load, {"path": TINY, "variant": 3}, f"variant: 3 is not {SEVERAL}"),
    (ls.load, {"path": TINY, "variant": [3]}, f"variant: [3] is not {SEVERAL}"),
    (ls.load, {"path": TINY, "without": [3]}, f"without: [3] is not {SEVERAL}"),
    (ls.load, {"path": TINY, "add": [None]}, f"add: [None] is not {SEVERAL}"),
    (ls.load, {"path": TINY, "set": 3}, f"set: 3 is not a mapping, {SEVERAL}"),
    (ls.load, {"path": TINY, "root": 3}, "root: 3 is not a path"),
    (ls.loads, {"text": None}, "text: None is not a text"),
    (ls.loads, {"text": "a: 1", "without": 3}, f"without: 3 is not {SEVERAL}"),
    (ls.build, {"spec": TINY, "seed": True}, "seed: True is not a whole number"),
    (ls.build, {"spec": TINY, "seed": 1.5}, "seed: 1.5 is not a whole number"),
    (ls.build, {"spec": TINY, "seed": None}, "seed: None is not a whole number"),
    (ls.build, {"spec": 3}, "spec: 3 is not a Spec, a path or a Graph"),
    (ls.train, {"experiment": 3}, "experiment: 3 is not a path or an Experiment"),
    (ls.train, {"experiment": QUICK, "rows": 3}, f"rows: 3 is not {SEVERAL}"),
    (ls.train, {"experiment": QUICK, "columns": [3]}, f"columns: [3] is not {SEVERAL}"),
    (ls.train, {"experiment": QUICK, "seeds": True}, f"seeds: True is not {SEEDS}"),
    (ls.train, {"experiment": QUICK, "seeds": [0.5]}, f"seeds: [0.5] is not {SEEDS}"),
    (ls.train, {"experiment": QUICK, "output": 3}, "output: 3 is not a path"),
    (ls.train, {"experiment": QUICK, "data": 3}, "data: 3 is not a path"),
    (ls.train, {"experiment": QUICK, "resume": "no"}, "resume: 'no' is not True or False"),
    (ls.train, {"experiment": QUICK, "on_update": 3}, "on_update: 3 is not a function"),
    (ls.ablate, {"experiment": QUICK, "processes": "2"}, "processes: '2' is not a whole number"),
    (ls.ablate, {"experiment": QUICK, "rows": 3}, f"rows: 3 is not {SEVERAL}"),
    (ls.evaluate, {"run": None}, "run: None is not a path"),
    (ls.evaluate, {"run": "r", "split": "tst"}, "split: 'tst' is not `test`, `train` or `valid`"),
    (ls.evaluate, {"run": "r", "checkpoint": 3}, "checkpoint: 3 is not `best` or `last`"),
    (ls.evaluate, {"run": "r", "statistics": "2"}, "statistics: '2' is not a whole number"),
    (ls.draw, {"what": TINY, "fold": 3}, "fold: 3 is not True or False"),
    (ls.draw, {"what": TINY, "dpi": 99.5}, "dpi: 99.5 is not a whole number"),
    (ls.draw, {"what": TINY, "width": [3]}, "width: [3] is not a text or a number"),
    (ls.dot, {"what": TINY, "view": 3}, "view: 3 is not a text"),
    (ls.to_text, {"graph": "a"}, "graph: 'a' is not a Graph"),
    (ls.to_python, {"spec": 3}, "spec: 3 is not a Spec, a path or a Graph"),
    (ls.to_python, {"spec": TINY, "name": 3}, "name: 3 is not a text"),
    (ls.Unrolled, {"net": 3}, "net: 3 is not a Net"),
    (ls.Iteration, {"net": torch.nn.Identity()}, "net: Identity() is not a Net"),
    (ls.open_net, {"folder": 3}, "folder: 3 is not a path"),
    (ls.load_plugin, {"path": None}, "path: None is not a path"),
    (ls.register, {"cell": "a"}, "cell: 'a' is not a class"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "arguments", "message"), WRONG, ids=[message for *_, message in WRONG]
)
def test_wrong_types(function: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$") as caught:
        function(**arguments)
    assert isinstance(caught.value, TypeError)  # what other libraries raise
    assert isinstance(caught.value, ls.LadderspecError)


@pytest.mark.parametrize("name", ["rows", "columns", "seeds"])
@pytest.mark.parametrize("function", [ls.train, ls.ablate])
def test_an_empty_choice_is_not_all(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"`{name}` is empty; leave it out to choose all"):
        function(QUICK, **{name: []})


def test_values_that_no_spec_can_have() -> None:
    with pytest.raises(UsageError, match="has values that no spec can have"):
        ls.load(TINY, set={"params.width": object()})


def test_numbers_of_numpy_and_texts_are_taken() -> None:
    one, other = ls.build(TINY, seed=np.int64(3)), ls.build(str(TINY), 3)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    text, texts = (
        ls.graph(ls.load(TINY, set=each)) for each in ("time.frames=3", ["time.frames=3"])
    )
    assert ls.to_text(text) == ls.to_text(texts)


def test_too_many_frames_to_generate() -> None:
    net = ls.build(TINY)
    with pytest.raises(ValueError, match="at most 100,000, not 1000000000"):
        net.generate(torch.rand(1, 2, *net.shape), 10**9)


def test_seeds_are_not_negative() -> None:
    with pytest.raises(UsageError, match="seed: -1 is not a whole number from 0 on"):
        ls.build(TINY, seed=-1)


PATHS: dict[str, Callable[[str], Any]] = {
    "load": ls.load,
    "graph": ls.graph,
    "build": ls.build,
    "draw": ls.draw,
    "to_python": ls.to_python,
    "train": ls.train,
    "ablate": ls.ablate,
    "evaluate": ls.evaluate,
    "evaluate a checkpoint": lambda path: ls.evaluate(path, checkpoint="best"),
    "save": lambda path: ls.save(ls.build(TINY), path),
    "open_net": ls.open_net,
    "load_plugin": ls.load_plugin,
    "output": lambda path: ls.train(QUICK, rows="both", seeds=0, output=path, quiet=True),
    "data folder": lambda path: data_config("occluded_mnist").open(0, Path(path)),
    "arrays": lambda path: data_config("arrays", path=path).open(),
    "piano rolls": lambda path: data_config("music", file=path).open(),
    "textures": lambda path: data_config("textured_mnist", textures=path).open(),
}


@pytest.mark.parametrize("name", ["a" * 300 + ".npz", "/".join(["a" * 50] * 100), "a\0b.json"])
@pytest.mark.parametrize("function", PATHS.values(), ids=PATHS)
def test_paths_that_no_file_can_have(
    function: Callable[[str], Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ls.LadderspecError):
        function(name)
