"""Before the first update of the first run: whether every run can be trained on its data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ladderspec.corridor import build
from ladderspec.data import DataError, DataSet, Split
from ladderspec.experiments.runs import Run
from ladderspec.learn.feed import Diet
from ladderspec.learn.journal import read_result
from ladderspec.learn.processes import device_of
from ladderspec.learn.sampler import Order


def check_runs(
    runs: Iterable[Run], output: Path, data: Path | None, device: str | None = None
) -> None:
    """Refuse what would fail later; seeds differ in nothing, and finished runs are not repeated."""
    opened: dict[str, DataSet] = {}
    seen = set[tuple[str, str]]()
    for run in runs:
        cell = run.row, run.column
        if cell in seen or read_result(output / run.id, run.facts()) is not None:
            continue
        seen.add(cell)
        device_of(device or run.machine.device)
        key = run.data.model_dump_json()
        try:
            if key not in opened:
                opened[key] = run.data.open(run.seed, data)
            _check(run, opened[key])
        except DataError as error:
            raise DataError(f"{run.id}: {error}") from None


def _check(run: Run, data: DataSet) -> None:
    net, words = build(run.spec, run.seed), run.training
    diet = Diet(data, net.tasks, words.steps)
    diet.check(net, run.spec.words.time.frames)
    Order(diet, Split.TRAIN, words.batch).epoch(0)
