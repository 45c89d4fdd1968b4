"""Experiment file -> runs: one for each row, column and seed, with everything resolved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ladderspec.corridor import graph
from ladderspec.data import DataWords
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.experiments.words import ExperimentWords, Quoted
from ladderspec.language.read import Spec
from ladderspec.learn.inputs import EvaluationNoise, noise_of, tasks_of
from ladderspec.learn.words import Evaluation, Machine, Training
from ladderspec.wiring import graph_json
from ladderspec.wiring.graph import Graph

FORMAT = "ladderspec run 1"  # counts up where the same words come to give other numbers


@dataclass(frozen=True)
class Run:
    """One training: a network, its data, how it learns, and a seed."""

    experiment: str
    row: str
    column: str  # empty where the experiment has none
    seed: int
    title: str
    spec: Spec = field(repr=False)
    data: DataWords
    training: Training
    evaluation: Evaluation = field(default_factory=Evaluation)
    machine: Machine = field(default_factory=Machine)
    start: str | None = None  # a folder with weights to begin with
    origin: Run | None = field(default=None, repr=False)  # or the run whose weights they are
    freeze: tuple[str, ...] = ()
    paper: dict[str, Quoted] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Names its folder: `rladder.all_labels.seed0`."""
        return ".".join(filter(None, [self.row, self.column, f"seed{self.seed}"]))

    def of_seed(self, seed: int) -> Run:
        """The same with another seed; so is the run that it starts from."""
        return replace(self, seed=seed, origin=self.origin and self.origin.of_seed(seed))

    def facts(self) -> dict[str, Any]:
        """Everything that the numbers of the run depend on, as JSON."""
        wired = graph(self.spec)
        return {
            "format": FORMAT,
            "seed": self.seed,
            "graph": _bare(graph_json.as_dict(wired)),
            "data": _data_fields(self.data),
            "training": _said(self.training),
            "evaluation": _evaluated(self.evaluation, wired),
            "start": digest(self.origin.facts()) if self.origin else self.start,
            "freeze": list(self.freeze),
        }

    def dump(self) -> dict[str, Any]:
        """`facts` and how the run is called."""
        names = {"experiment": self.experiment, "row": self.row, "column": self.column}
        return {**names, "title": self.title, **self.facts()}


def _said(training: Training) -> dict[str, Any]:
    """Without a word that came later, where it changes nothing: earlier runs stay what they are."""
    words = training.model_dump(mode="json")
    return words if training.drop else {k: v for k, v in words.items() if k != "drop"}


def _data_fields(data: DataWords) -> dict[str, Any]:
    """The fields of the data; added ones only if they are set, so that old digests still hold."""
    defaults = {name: type(data).model_fields[name].default for name in data.added_fields}
    unchanged = {name for name, default in defaults.items() if getattr(data, name) == default}
    return data.model_dump(mode="json", exclude=unchanged)


def _evaluated(evaluation: Evaluation, graph: Graph) -> dict[str, Any]:
    """Without `noise` if all is measured on clean input, as it was before there was that word."""
    words = evaluation.model_dump(mode="json")
    noise = EvaluationNoise(evaluation.noise, noise_of(graph))
    if noise.any_noisy(tasks_of(graph)):
        return words
    return {k: v for k, v in words.items() if k != "noise"}


def _bare(graph: dict[str, Any]) -> dict[str, Any]:
    """Without titles and places in files, which change nothing."""
    dropped = {"place", "path", "label"}
    return {
        "graph": {
            key: graph["graph"][key]
            for key in ("levels", "frames", "iterations", "delays", "tasks")
        },
        "nodes": [{k: v for k, v in node.items() if k not in dropped} for node in graph["nodes"]],
        "edges": [{k: v for k, v in edge.items() if k not in dropped} for edge in graph["edges"]],
    }


def digest(facts: dict[str, Any]) -> str:
    """
    >>> digest({"a": 1}) == digest(json.loads(json.dumps({"a": 1})))
    True
    """
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Experiment:
    """A file, checked, and its runs: rows by columns by seeds."""

    path: Path
    words: ExperimentWords
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        return self.words.name or self.path.stem

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def select(
        self,
        rows: Iterable[str] = (),
        columns: Iterable[str] = (),
        seeds: Iterable[int] = (),
    ) -> tuple[Run, ...]:
        """The runs of these rows, columns and seeds; where nothing is said, of all."""
        rows, columns, seeds = tuple(rows), tuple(columns), tuple(seeds)
        _known("row", rows, [row.name for row in self.words.rows])
        _known("column", columns, [column.name for column in self.words.columns])
        return tuple(
            run
            for run in with_seeds(self.runs, seeds)
            if (not rows or run.row in rows) and (not columns or run.column in columns)
        )


def with_seeds(runs: Sequence[Run], seeds: Sequence[int]) -> Sequence[Run]:
    """The same runs with other seeds."""
    if not seeds:
        return runs
    first = {(run.row, run.column): run for run in reversed(runs)}
    cells = dict.fromkeys((run.row, run.column) for run in runs)
    return [first[cell].of_seed(seed) for cell in cells for seed in seeds]


def _known(what: str, asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            there = f"there are {one_of(known, 'and')}" if known else f"there are no {what}s"
            raise UsageError(f"no {what} `{name}`; {did_you_mean(name, known) or there}")
