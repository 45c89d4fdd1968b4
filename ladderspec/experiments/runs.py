"""The runs of an experiment: one for each row, column and seed, with everything resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ladderspec.api import graph, probable_mistakes
from ladderspec.data import DataConfig
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.experiments.config import MAX_SEEDS, SEED_BOUND, ExperimentConfig, Quoted
from ladderspec.experiments.identity import digest, identity
from ladderspec.experiments.training import EvaluationConfig, MachineConfig, TrainingConfig
from ladderspec.language.read import Spec
from ladderspec.wiring.graph import Graph


@dataclass(frozen=True)
class Run:
    """One training run: a network, its data, how it is trained, and a seed."""

    experiment: str
    row: str
    column: str  # empty if the experiment has no columns
    seed: int
    title: str
    spec: Spec = field(repr=False)
    data: DataConfig  # with an absolute `path`, if it has one
    training: TrainingConfig
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)
    start: str | None = None  # a folder with initial weights
    origin: Run | None = field(default=None, repr=False)  # or the run that they are taken from
    freeze: tuple[str, ...] = ()
    paper: dict[str, Quoted] = field(default_factory=dict)
    data_path: str | None = None  # `path` of the data as the file has it

    @property
    def id(self) -> str:
        """The name of its folder: `rladder.all_labels.seed0`."""
        return ".".join(filter(None, [self.row, self.column, f"seed{self.seed}"]))

    def of_seed(self, seed: int) -> Run:
        """The same run with another seed, and so the run that it starts from."""
        return replace(self, seed=seed, origin=self.origin and self.origin.of_seed(seed))

    @cached_property
    def graph(self) -> Graph:
        """The compiled graph of its network."""
        return graph(self.spec)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that the numbers of the run depend on, as JSON."""
        return identity(self)

    @cached_property
    def identities(self) -> tuple[dict[str, Any], ...]:
        """`identity`, and the forms in which the same run may have been recorded before.

        A run that was also tested can be shown by its validation data alone.
        """
        forms = [self]
        if self.evaluation.split == "valid":
            tested = self.evaluation.model_copy(update={"split": "test"})
            forms.append(replace(self, evaluation=tested))
        if self.data_path is not None:  # early runs were recorded with the absolute path
            forms += [replace(run, data_path=None) for run in forms]
        return tuple(
            identity(run, all_fields, plugins)
            for run in forms
            for all_fields, plugins in ((False, True), (False, False), (True, False))
        )

    @property
    def digest(self) -> str:
        """Identifies the run in its `result.json`."""
        return digest(self.identity)

    def is_recorded_as(self, recorded: str | None) -> bool:
        """Whether a recorded digest is that of this run."""
        return recorded in [digest(identity) for identity in self.identities]

    def dump(self) -> dict[str, Any]:
        """The content of `run.json`: names, identity, and all settings with their defaults.

        The settings are what opens the run again, also after a default has changed.
        """
        settings = {
            "data": self.data.model_dump(mode="json"),
            "training": self.training.model_dump(mode="json"),
            "evaluation": self.evaluation.model_dump(mode="json"),
        }
        names = {"experiment": self.experiment, "row": self.row, "column": self.column}
        return {**names, "title": self.title, **self.identity, "settings": settings}


@dataclass(frozen=True)
class Experiment:
    """A checked experiment file and its runs: rows by columns by seeds."""

    path: Path
    config: ExperimentConfig
    runs: tuple[Run, ...]
    changes: tuple[str, ...] = ()  # PATH=VALUE, from the command line

    @property
    def name(self) -> str:
        return self.config.name or self.path.stem

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def select(
        self,
        rows: Iterable[str] = (),
        columns: Iterable[str] = (),
        seeds: Iterable[int] = (),
    ) -> tuple[Run, ...]:
        """The runs of these rows, columns and seeds. An empty choice means all."""
        rows, columns, seeds = tuple(rows), tuple(columns), tuple(seeds)
        _check_known("row", rows, [row.name for row in self.config.rows])
        _check_known("column", columns, [column.name for column in self.config.columns])
        _check_seeds(seeds)
        return tuple(
            run
            for run in _with_seeds(self.runs, seeds)
            if (not rows or run.row in rows) and (not columns or run.column in columns)
        )


def notes_on(runs: Iterable[Run]) -> list[str]:
    """Notes on the networks of runs, each with its rows; not those on what was pruned.

    A field without effect on one network is not noted if it changes another.
    """
    runs, rows = list(runs), dict[str, list[str]]()
    fields = [item for run in runs for item in run.graph.graph["ineffective"].items()]
    used = {place for place, note in fields if not note}
    elsewhere = {note for place, note in fields if place in used}
    for run in runs:
        for note in probable_mistakes(run.graph):
            if note not in elsewhere:
                rows.setdefault(note, []).append(run.row)
    found = []
    for note, names in rows.items():
        several = list(dict.fromkeys(names))
        found.append(f"row{'s' * (len(several) > 1)} {one_of(several, 'and')}: {note}")
    return found


def on_machine(runs: Iterable[Run], changes: Mapping[str, Any]) -> tuple[Run, ...]:
    """The same runs with other fields of `machine`."""
    return tuple(replace(run, machine=run.machine.changed(changes)) for run in runs)


def _with_seeds(runs: Sequence[Run], seeds: Sequence[int]) -> Sequence[Run]:
    """The same runs with other seeds."""
    if not seeds:
        return runs
    first = {(run.row, run.column): run for run in reversed(runs)}
    cells = dict.fromkeys((run.row, run.column) for run in runs)
    return [first[cell].of_seed(seed) for cell in cells for seed in seeds]


def _check_seeds(seeds: Sequence[int]) -> None:
    if len(seeds) > MAX_SEEDS:
        raise UsageError(f"there are {len(seeds):,} seeds: at most {MAX_SEEDS:,}")
    for seed in seeds:
        if type(seed) is not int or not 0 <= seed < SEED_BOUND:
            raise UsageError(f"a seed is a whole number from 0 to {SEED_BOUND - 1}, not {seed!r}")


def _check_known(what: str, asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            there = f"there are {one_of(known, 'and')}" if known else f"there are no {what}s"
            raise UsageError(f"no {what} `{name}`; {did_you_mean(name, known) or there}")


# --- what runs have from each other ---------------------------------------------------------------


def with_unique_titles(config: ExperimentConfig, runs: Sequence[Run]) -> list[Run]:
    """Rows with the same title are called by their names, unless the file sets the title."""
    titles = Counter({run.row: run.title for run in runs}.values())
    titled = {row.name for row in config.rows if row.title}
    return [
        replace(run, title=run.row) if titles[run.title] > 1 and run.row not in titled else run
        for run in runs
    ]


def with_origins(runs: Sequence[Run]) -> list[Run]:
    """The runs, each with the run that it starts from, if `start` names a row."""
    cells = {(run.row, run.column): run for run in runs}

    def with_origin(run: Run) -> Run:
        origin = cells.get((run.start or "", run.column))
        if origin is None:
            return run
        return replace(run, start=None, origin=with_origin(origin))

    return [with_origin(run) for run in runs]
