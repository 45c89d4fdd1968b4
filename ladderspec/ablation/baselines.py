"""Reference methods of an experiment: measured once on the test data, stored beside the runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ladderspec.cells import Config
from ladderspec.data import DataSet, Split
from ladderspec.errors import UsageError
from ladderspec.experiments.config import base_row
from ladderspec.experiments.identity import data_identity, digest
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.files import intact, make_folder, read_text, sealed, write_atomic
from ladderspec.learn.run_folder import content_changed, read_result
from ladderspec.plugins import files_of

FILE = "baselines.json"


class Scores(Config):
    """The scores of a reference method in a column of the table, by seed."""

    baseline: str
    title: str
    column: str
    metric: str
    unit: str = ""
    split: str
    items: int  # the first of the split
    data: str  # digest of their config and its plug-in
    content: str | None = None  # digest of the user's own files
    values: dict[int, float]

    def belong_to(self, metric: str, unit: str) -> bool:
        """Whether they are scores of a metric of some task: of `error` in `next_frame.error`."""
        return metric.endswith(f".{self.metric}") and unit == self.unit


class Stored(Config):
    """The content of the file."""

    scores: list[Scores]
    checksum: str | None = None


_STORED = TypeAdapter(Stored | list[Scores])  # a list in earlier versions


def read_baselines(
    experiment: Experiment, runs: Sequence[Run], folder: Path, data: Path | None = None
) -> list[Scores]:
    """The stored scores that belong to the experiment and its data; empty if there are none."""
    base = {run.column: run for run in _base_runs(experiment, runs)}
    return [
        x
        for x in _stored(folder / FILE)
        if x.baseline in experiment.config.baselines
        and x.column in base
        and x.data == _digest(base[x.column])
        and not content_changed(x.content, base[x.column].data, data)
    ]


def _stored(path: Path) -> list[Scores]:
    """The scores in a file; none if it is damaged, since they can be measured again."""
    try:
        text = read_text(path)
        found = _STORED.validate_json(text)
    except (FileNotFoundError, UsageError, ValidationError):
        return []
    if isinstance(found, list):
        return found
    return found.scores if intact(json.loads(text)) else []


def measure_baselines(
    experiment: Experiment, runs: Sequence[Run], folder: Path, data: Path | None = None
) -> list[Path]:
    """Measure the reference methods on the data of all seeds with a finished run.

    Args:
        experiment: the experiment; its base row says on which data.
        runs: its runs.
        folder: the folder of the runs, where the scores are stored. Stored ones are kept.
        data: the data folder.

    Returns:
        The file, if there is one.

    Raises:
        DataError: if the data are missing.
    """
    found = read_baselines(experiment, runs, folder, data)
    stored = {(x.baseline, x.title, x.column): x for x in found}
    finished = {(r.column, r.seed) for r in runs if read_result(folder / r.id, r) is not None}
    before, known = dict(stored), dict[tuple[str, str, int], list[Scores]]()
    for run in _base_runs(experiment, runs):
        column = [x for x in stored.values() if x.column == run.column]
        done = {x.baseline for x in column if run.seed in x.values}
        names = [name for name in experiment.config.baselines if name not in done]
        if not names or (run.column, run.seed) not in finished:
            continue
        opened = run.data.open(run.seed, data)
        for name in names:
            key = name, run.column, opened.seed  # the data may have a seed of their own
            if key not in known:
                known[key] = list(_scores(run, name, opened, run.data.content(data)))
            for new in known[key]:
                old = stored.get((name, new.title, new.column), new)
                (value,) = set(new.values.values())
                values = {**old.values, run.seed: value}
                stored[name, new.title, new.column] = new.model_copy(update={"values": values})
    if stored != before:
        lines = [x.model_dump(mode="json") for x in stored.values()]
        text = json.dumps(sealed({"scores": lines}), indent=1) + "\n"
        write_atomic(make_folder(folder) / FILE, text)
    return [folder / FILE] if stored else []


def _scores(run: Run, name: str, data: DataSet, content: str | None) -> Iterator[Scores]:
    baseline = run.data.baselines()[name]
    split = Split(run.evaluation.split) if data.size(Split.TEST) else Split.VALID
    items = min(baseline.items, data.size(split))
    for title, value in baseline.scores(data, split, items).items():
        yield Scores(
            baseline=name,
            title=title,
            column=run.column,
            metric=baseline.metric,
            unit=baseline.unit,
            split=split,
            items=items,
            data=_digest(run),
            content=content,
            values={run.seed: value},
        )


def _base_runs(experiment: Experiment, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.row == base_row(experiment.config)]


def _digest(run: Run) -> str:
    split = {} if run.evaluation.split == "test" else {"split": run.evaluation.split}
    plugins = {"plugins": used} if (used := files_of([type(run.data)])) else {}
    return digest({**data_identity(run.data), **split, **plugins})
