"""Display: specs, graphs and plans in notebooks, the ladder in a terminal."""

from __future__ import annotations

import copy
import io
import pickle
import sys

import networkx as nx
import pytest

from drawing.pictures import SPECS
from ladderspec.api import build, graph, load
from ladderspec.cli import main
from ladderspec.drawing import draw, ladder, svg
from ladderspec.schedule.plan import schedule
from ladderspec.wiring.graph import Graph

TINY = SPECS / "ommnist/rladder_tiny.yaml"


def test_a_spec_draws_itself() -> None:
    spec = load(TINY)
    assert spec._repr_svg_() == svg(spec)


def test_a_plan_draws_itself() -> None:
    built = graph(load(TINY))
    plan = schedule(built)
    assert plan._repr_svg_() == svg(built, plan=True)
    assert plan == schedule(graph(load(TINY)))
    assert "graph=" not in repr(plan)


def test_a_graph_draws_itself_and_stays_a_graph() -> None:
    built = graph(load(TINY))
    assert isinstance(built, nx.MultiDiGraph)
    assert built._repr_svg_() == svg(load(TINY))
    for same in (built.copy(), copy.deepcopy(built), pickle.loads(pickle.dumps(built))):
        assert type(same) is Graph
        assert nx.utils.graphs_equal(same, built)
        assert same._repr_svg_() == built._repr_svg_()
    assert Graph()._repr_svg_() is None
    assert nx.is_directed_acyclic_graph(nx.condensation(nx.DiGraph(built)))


def test_the_ladder_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(TINY), "--ladder"]) == 0
    assert capsys.readouterr().out == ladder(load(TINY)).rstrip("\n") + "\n"
    assert main(["show", str(TINY), "--ladder", "--ascii", "--variant", "no_prediction"]) == 0
    assert capsys.readouterr().out.isascii()
    for words in (["--ascii"], ["--ladder", "--json"], ["--ladder", "--format", "latex"]):
        assert main(["show", str(TINY), *words]) == 2
        assert "--ladder" in capsys.readouterr().err


def test_a_terminal_with_ascii_only(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["show", str(TINY), "--ladder"]) == 0
    out.flush()
    assert out.buffer.getvalue().decode() == ladder(load(TINY), ascii_only=True).rstrip("\n") + "\n"


def test_draw_without_a_path_is_shown_inline() -> None:
    spec = load(TINY)
    drawn = draw(spec, view="rolled", legend=False)
    assert drawn._repr_svg_() == svg(spec, view="rolled", legend=False)
    assert build(spec)._repr_svg_() == svg(spec)
