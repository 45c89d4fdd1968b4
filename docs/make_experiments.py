"""Write docs/experiments.md: the fields of an experiment file, from the fields that define them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from make_language import fields
from pydantic import BaseModel

from ladderspec.data import registered
from ladderspec.experiments import schedules, training
from ladderspec.experiments.config import ExperimentConfig, ExperimentRow, SpecChanges

PAGE = Path(__file__).parent / "experiments.md"
PROSE = Path(__file__).parent / "experiments_intro.md"
PARTS: list[tuple[str, type[BaseModel]]] = [
    ("The file", ExperimentConfig),
    ("A row", ExperimentRow),
    ("Training", training.TrainingConfig),
    ("Optimiser", training.OptimiserConfig),
    ("Clip", training.ClipConfig),
    ("Stop", training.StopConfig),
    ("Evaluation", training.EvaluationConfig),
    ("Machine", training.MachineConfig),
    ("Saving", training.SavingConfig),
    ("Cluster", training.ClusterConfig),
]
SCHEDULES = (schedules.Halve, schedules.Cosine, schedules.Linear, schedules.Torch)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    parts = [PROSE.read_text(encoding="utf-8").rstrip()]
    parts += [f"## {title}\n\n{table(model)}" for title, model in PARTS]
    parts.insert(3, "## A column\n\nAs a row, but for `of`, `spec`, `start` and `freeze`.")
    parts.append("## Schedules\n\n`constant` has no fields of its own.")
    parts += [f"### {m.__name__.lower()}\n\n{m.__doc__}\n\n{table(m)}" for m in SCHEDULES]
    parts.append("## Data sets")
    parts += [
        f"### {name}\n\n{m.__doc__}\n\n{table(m)}" for name, m in sorted(registered().items())
    ]
    return "\n\n".join(parts) + "\n"


def table(model: type[BaseModel]) -> str:
    schema: dict[str, Any] = model.model_json_schema()
    named = {"kind"} if issubclass(model, schedules.Schedule) else set()  # by their headings
    patches = issubclass(model, SpecChanges)  # where `set` is no data set
    return fields(schema, schema, skip=named | (set() if patches else {"set"}))


if __name__ == "__main__":
    sys.exit(main())
