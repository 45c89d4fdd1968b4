"""Every command compiles each distinct network once; a loaded spec carries its graph."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
from training import EXPERIMENT, experiment

import ladderspec as ls
from ladderspec import api
from ladderspec.cli import COMMANDS, main
from ladderspec.errors import Findings
from ladderspec.language.read import Spec
from ladderspec.wiring import graph_json
from ladderspec.wiring.graph import Graph

SPEC = "specs/ommnist/rladder_tiny.yaml"
VARIANTS = 5  # of SPEC
SHORT = EXPERIMENT.replace("updates: 12", "updates: 1").replace("every: 6, ", "")
COLUMNS = """columns:
  - {name: all}
  - {name: few, data: {labelled: 100}}
  - {name: noisy, set: {input.noise.gaussian: 0.2}}
"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each network is compiled, by its graph as JSON."""
    counts = Counter[str]()
    compile_graph = api.compile_graph

    def counted(spec: Spec, findings: Findings) -> Graph:
        result = compile_graph(spec, findings)
        counts[json.dumps(graph_json.as_dict(result), sort_keys=True)] += 1
        return result

    monkeypatch.setattr(api, "compile_graph", counted)
    return counts


def run(*words: object, code: int = 0) -> None:
    assert main([str(word) for word in words]) == code


@pytest.mark.parametrize(
    ("words", "networks"),
    [
        ("validate SPEC", 1 + VARIANTS),
        ("validate SPEC --variant no_prediction", 1),
        ("validate specs/experiments/quickstart.yaml", 5),
        ("show SPEC", 1 + VARIANTS),
        ("show SPEC --ladder", 1),
        ("graph SPEC --json", 1),
        ("plan SPEC", 1),
        ("draw SPEC -o OUT/a.svg -o OUT/a.html", 1 + VARIANTS),
        ("draw SPEC -o OUT/a.svg --plan --width 8cm", 1),
        ("draw SPEC -o OUT/a.svg --variant no_prediction --changes", 2),
        ("diff SPEC --variant no_prediction", 2),
        ("export SPEC -o OUT/net.py", 1),
        ("schema", 0),
        ("new OUT/mine.yaml", 0),
        ("specs music", 3),
        ("data list", 0),
        ("train specs/experiments/quickstart.yaml --list", 5),
    ],
)
def test_once(words: str, networks: int, compiled: Counter[str], tmp_path: Path) -> None:
    filled = words.replace("SPEC", SPEC).replace("OUT", str(tmp_path)).split()
    run(*filled, code=int(filled[0] == "diff"))
    assert list(compiled.values()) == [1] * networks


def test_training_and_measuring(compiled: Counter[str], tmp_path: Path) -> None:
    place, out = experiment(tmp_path, SHORT), tmp_path / "out"
    run("train", place, "--row", "ladder", "-o", out)
    assert list(compiled.values()) == [1, 1]
    compiled.clear()
    run("ablate", place, "-o", out)  # the first run is finished already
    assert list(compiled.values()) == [1, 1]
    compiled.clear()
    folder = out / "ladder.seed0"
    run("evaluate", folder, "--without", "decoder_to_encoder")
    run("generate", folder, "--frames", "1", "--count", "1")
    run("export", folder, "-o", tmp_path / "net.py")
    assert not compiled  # the folder holds the graph


def test_a_study_of_roles(compiled: Counter[str], tmp_path: Path) -> None:
    """The networks of the experiment, and one for each role that can be left out."""
    place = experiment(tmp_path, SHORT)
    run("ablate", place, "-o", tmp_path / "out", "--each-role", "--table-only")
    study = (tmp_path / "out/each_role.yaml").read_text()
    assert study.count("name: no_") == 2  # lateral, decoder_to_encoder
    assert list(compiled.values()) == [1] * 4


def test_columns_share_networks(compiled: Counter[str], tmp_path: Path) -> None:
    """Two rows; two of three columns change nothing in the network."""
    text = SHORT.replace(", paper: {digit: 0.74 ± 0.09}", "") + COLUMNS
    run("train", experiment(tmp_path, text), "--list")
    assert list(compiled.values()) == [1] * 4


def test_every_command_is_counted() -> None:
    (cases,) = [mark.args[1] for mark in getattr(test_once, "pytestmark")]  # noqa: B009
    counted = {words.split()[0] for words, _ in cases} | {"ablate", "evaluate", "generate"}
    assert counted | {"completion"} == set(COMMANDS)


# --- the graph that a spec carries ----------------------------------------------------------------


def test_all_stages_share_it(compiled: Counter[str], tmp_path: Path) -> None:
    spec = ls.load(SPEC)
    ls.graph(spec)
    ls.draw(spec, tmp_path / "a.svg")
    assert ls.build(spec).graph is spec.compiled
    assert ls.plan(spec).graph is spec.compiled
    assert list(compiled.values()) == [1]


def test_a_graph_is_the_users_own() -> None:
    """Whatever is done to a graph that was handed out, the spec compiles to what it says."""
    spec = ls.load(SPEC)
    before = ls.to_text(ls.graph(spec))
    given = ls.graph(spec)
    given.remove_node("decoder.input")
    given.nodes["encoder.input"]["shape"] = (7, 7, 7)
    given.graph["levels"].clear()
    given.graph["notes"].append("changed")
    given.graph["tasks"]["digit"]["at"].clear()
    for *_, edge in given.edges(data=True):
        edge["parameters"] = 0
    for _, node in given.nodes(data=True):
        node["cell_parameters"].clear()
    assert ls.to_text(ls.graph(spec)) == before
    assert ls.graph(spec).nodes["encoder.lstm1"]["cell_parameters"]
    assert ls.graph(spec).nodes["encoder.input"]["shape"] == (1, 16, 16)


def test_the_shared_graph_is_frozen() -> None:
    spec = ls.load(SPEC)
    for graph in (spec.compiled, ls.plan(spec).graph, ls.build(spec).graph):
        assert nx.is_frozen(graph)
        with pytest.raises(nx.NetworkXError, match=r"[Ff]rozen"):
            graph.remove_node("decoder.input")
    assert not nx.is_frozen(ls.graph(spec))


def test_a_changed_spec_is_compiled_again(compiled: Counter[str]) -> None:
    spec = ls.load(SPEC)
    renamed = replace(spec, title="another")
    assert renamed.compiled is None
    assert ls.graph(renamed).graph["title"] == "another"
    assert ls.graph(spec).graph["title"] != "another"
    assert list(compiled.values()) == [1, 1]
