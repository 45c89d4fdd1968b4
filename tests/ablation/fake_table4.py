"""Made-up results of all runs of table4_small, as finished runs leave them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from ladderspec.experiments.identity import data_identity, digest
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run

EXPERIMENT = Path(__file__).resolve().parents[2] / "specs/experiments/table4_small.yaml"
AMI = {"rtagger": [0.41, 0.57, 0.60], "tagger": [0.20, 0.30, 0.33]}
ERROR = {"rtagger": [39.5, 5.9, 4.7], "tagger": [50.0, 14.0, 12.0], "convnet": [11.0]}
KMEANS = {"2-means of brightness": 0.91, "3-means of brightness": 0.59}
MORE_ERROR = 20.0  # with 1,000 labels
FIRST_SEED, SEEDS = 2, 3  # of the experiment, which may have more


def by_time(run: Run) -> dict[str, list[float]]:
    """The part that seeds share is larger than their own."""
    name, _, few = run.row.partition("_")
    seed = run.seed - FIRST_SEED
    common, own = random.Random(seed).gauss(0, 0.02), random.Random(f"{run.row}.seed{seed}")
    found = {
        "digit.error": [
            value + (MORE_ERROR if few else 0) + 10 * common + own.gauss(0, 0.1)
            for value in ERROR[name]
        ]
    }
    if name in AMI:
        found["segment.ami"] = [value + common + own.gauss(0, 0.002) for value in AMI[name]]
    return found


def finish(run: Run, folder: Path, times: dict[str, list[float]]) -> None:
    """Leave `result.json` and `metrics.jsonl`. The AMI is recorded as its mean over t."""
    metrics = {name: values[-1] for name, values in times.items()}
    if ami := times.get("segment.ami"):
        metrics["segment.ami"] = sum(ami) / len(ami)
    folder.mkdir(parents=True)
    result = {
        "digest": run.digest,
        "metrics": {"test": metrics},
        "by_time": {"test": times},
        "units": {"digit.error": "%", "segment.ami": ""},
        "higher_is_better": ["segment.ami"],
        "parameters": 248418,
        "updates": 4000,
    }
    (folder / "result.json").write_text(json.dumps(result))
    rows = [{"update": u, "split": "valid", **metrics} for u in (2000, 4000)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "times.jsonl").write_text('{"update": 4000, "updates per second": 4.0}\n')


def finish_all(folder: Path) -> list[Run]:
    """Finish the runs of the first seeds of the experiment, and store scores of k-means."""
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    runs = [run for run in open_experiment(EXPERIMENT) if run.seed in seeds]
    for run in runs:
        finish(run, folder / run.id, by_time(run))
    store_baselines(folder, runs, KMEANS)
    return runs


def store_baselines(folder: Path, runs: Sequence[Run], values: Mapping[str, float]) -> None:
    """Scores of k-means for each seed."""
    seeds = sorted({run.seed for run in runs})
    scores = [
        {
            "baseline": "kmeans",
            "title": title,
            "column": "",
            "metric": "ami",
            "split": "test",
            "items": 1000,
            "data": digest(data_identity(runs[0].data)),
            "values": {seed: value + i / 1000 for i, seed in enumerate(seeds)},
        }
        for title, value in values.items()
    ]
    (folder / "baselines.json").write_text(json.dumps(scores))
