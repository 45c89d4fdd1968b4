"""Configuration of an experiment file: a table of runs, rows by columns, over seeds.

    name: ommnist
    data: {set: occluded_mnist, canvas: 16, digits: embedded}
    spec: ../ommnist/rladder_tiny.yaml
    rows:
      - {name: rladder, paper: {all_labels: {digit: 0.74 ± 0.09}}}
      - {name: no_feedback, variant: no_decoder_to_encoder}
    columns:
      - {name: all_labels}
      - {name: labels_1k, data: {labelled: 1000}}
    training: {updates: 1000, optimiser: {lr: 0.001}}
    seeds: 3

Rows and columns change the spec in the spec language (variant, set, tasks, edges, without) and
merge into `data`, `training` and `evaluation`: columns over the file, rows over columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from ladderspec.cells import Config
from ladderspec.cells.fields import AS_TUPLE, OneLine, by_form, refusal
from ladderspec.data import registered
from ladderspec.errors import tick
from ladderspec.experiments.training import (
    EvaluationConfig,
    MachineConfig,
    TrainingConfig,
    refresh,
)
from ladderspec.language.edges import Edges, Names, Selectors
from ladderspec.language.spec import Name

# --- the paper's numbers --------------------------------------------------------------------------


class Quoted(Config):
    """A published number and its standard deviation."""

    value: float
    spread: float | None = None
    text: str  # as published, with all its digits
    by_time: tuple[Quoted, ...] = ()  # at t = 1, 2, ...; the number itself is the last of them

    def __str__(self) -> str:
        return self.text


_QUOTED = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(?:(?:±|\+-|\+/-)\s*(\d+(?:\.\d+)?))?\s*")


def _quoted(value: Any) -> Any:
    """
    >>> _quoted("0.74 ± 0.09"), _quoted(2)
    ({'value': 0.74, 'spread': 0.09, 'text': '0.74 ± 0.09'}, {'value': 2.0, 'text': '2'})
    """
    if isinstance(value, list) and value and not any(isinstance(item, list) for item in value):
        each = [_quoted(item) for item in value]
        return {**each[-1], "by_time": tuple(each)} if isinstance(each[-1], dict) else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": float(value), "text": f"{value:g}"}
    if isinstance(value, str):
        found = _QUOTED.fullmatch(value)
        if found is None:
            raise refusal("S104", f"{tick(value)} is not a number", "like 0.74 or 0.74 ± 0.09")
        value, spread = found.groups()
        if spread is None:
            return {"value": float(value), "text": value}
        return {"value": float(value), "spread": float(spread), "text": f"{value} ± {spread}"}
    if isinstance(value, Quoted):
        return value
    raise refusal("S104", "a number of the paper is needed", "like 0.74 or 0.74 ± 0.09")


_NUMBER_SCHEMA = [{"type": "number"}, {"type": "string"}]
_QUOTED_SCHEMA = {"anyOf": [*_NUMBER_SCHEMA, {"type": "array", "items": {"anyOf": _NUMBER_SCHEMA}}]}
Number = Annotated[Quoted, BeforeValidator(_quoted), WithJsonSchema(_QUOTED_SCHEMA)]
Measures = dict[str, Number]  # by metric: `digit`, or `digit.error`
if TYPE_CHECKING:
    Reported = Quoted | Measures
else:
    Reported = by_form(word=Number, list=Number, mapping=Measures)
Paper = dict[str, Reported]


# --- rows and columns -----------------------------------------------------------------------------


class SpecChanges(Config):
    """Changes to the spec: its parameters, and the fields of a variant."""

    params: Mapping[str, int | float] = Field(
        default_factory=dict, description="Values of the spec's parameters: {width: 8}."
    )
    set: Mapping[str, Any] = Field(
        default_factory=dict, description="Fields of nodes or tasks: {task.digit.weight: 0}."
    )
    tasks: Mapping[str, Any] = Field(
        default_factory=dict, description="Tasks that are added or changed. null removes a task."
    )
    edges: Edges = Field(Edges.model_construct(), description="Changes to the arrows of the spec.")
    without: Selectors = Field((), description="Roles, arrows, nodes, levels or tasks to remove.")


class RunChanges(SpecChanges):
    """The changes of a row or a column."""

    name: Name = Field(description="Name, used in the names of folders.")
    title: OneLine | None = Field(None, description="Title in tables and figures.")
    variant: Names = Field((), description="Variants of the spec to apply.")
    data: Mapping[str, Any] = Field(default_factory=dict, description="Changes to the data.")
    training: Mapping[str, Any] = Field(
        default_factory=dict, description="Changes to the training."
    )
    evaluation: Mapping[str, Any] = Field(
        default_factory=dict, description="Changes to the evaluation."
    )
    paper: Paper = Field(
        default_factory=dict,
        description="Numbers of the paper: {digit: 0.74}, by iteration: {digit: [18, 8, 6]}, by"
        " column: {all: {digit: 1}}.",
    )


class ExperimentRow(RunChanges):
    """A row of the table: a network."""

    of: str | None = Field(
        None, description="Another row to build on: its changes are applied first."
    )
    spec: str | None = Field(None, description="Spec file. Default: that of the experiment.")
    start: str | None = Field(
        None, description="Initial weights: the name of another row, or the folder of a run."
    )
    freeze: Selectors = Field(
        (),
        description="Selectors of nodes or arrows whose weights are not trained: [encoder.*]."
        " Weights that they share are frozen for all.",
    )


class ExperimentColumn(RunChanges):
    """A column of the table: data and tasks."""


MAX_SEEDS = 1000
SEED_BOUND = 2**31


def _seeds(value: Any) -> Any:
    """
    >>> _seeds(3), _seeds([4, 7])
    ((0, 1, 2), (4, 7))
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise refusal("S106", f"`seeds` is {value}: at least one is needed", "like `seeds: 3`")
        if value > MAX_SEEDS:
            hint = "like `seeds: 3`; `seeds: [1234]` is the one seed 1234"
            raise refusal("S106", f"`seeds` is {value}: at most {MAX_SEEDS:,} runs", hint)
        return tuple(range(value))
    if isinstance(value, list):
        twice = [seed for i, seed in enumerate(value) if seed in value[:i]]
        if twice:
            raise refusal("S106", f"seed {twice[0]} is listed twice", "like `seeds: [0, 1, 2]`")
        if all(type(seed) is int for seed in value):
            return tuple(value)
    hint = "like `seeds: 3` or `seeds: [0, 1, 2]`"
    raise refusal("S104", "`seeds` is a whole number or a list of whole numbers", hint)


Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=SEED_BOUND)], ...],
    Field(min_length=1),
    BeforeValidator(_seeds),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "array"}]}),
]


class ExperimentConfig(SpecChanges):
    """An experiment: rows by columns, over seeds."""

    name: Name | None = Field(
        None, description="Name of the experiment. Default: that of the file."
    )
    extends: str | None = Field(None, description="Another experiment file to build on.")
    title: OneLine | None = Field(None, description="Title in tables and figures.")
    description: str | None = Field(None, description="Description in one line.")
    spec: str | None = Field(None, description="Spec file of the rows that name none.")
    data: Any = Field(description="Data set: {set: occluded_mnist, canvas: 16}.")
    rows: Annotated[tuple[ExperimentRow, ...], AS_TUPLE, Field(min_length=1)] = Field(
        description="Rows of the table: the networks."
    )
    columns: Annotated[tuple[ExperimentColumn, ...], AS_TUPLE] = Field(
        (), description="Columns of the table: data and tasks. Default: one, without changes."
    )
    base: Name | None = Field(
        None, description="Row that the others are compared with in tables. Default: the first."
    )
    baselines: Names = Field(
        (),
        description="Reference methods without training, shown as lines of the tables: [kmeans]."
        " Each data set offers its own.",
    )
    training: Any = Field(description="Training: {updates: 1000, batch: 50}.")
    evaluation: Any = Field(
        default_factory=dict, description="Evaluation: {every: 100, items: 1000}."
    )
    machine: MachineConfig = Field(
        MachineConfig(), description="Device, threads, checkpoints, logging."
    )
    seeds: Seeds = Field((0,), description="Number of seeds, or a list of them: 3, or [1, 2].")


def base_row(config: ExperimentConfig) -> str:
    """The row that the others are compared with."""
    return config.base or config.rows[0].name


def paper_of(row: ExperimentRow, column: ExperimentColumn | None) -> dict[str, Quoted]:
    """The paper's numbers for a row and column: `{digit: ...}`, or `{column: {digit: ...}}`."""
    found: dict[str, Quoted] = {}
    changes: list[tuple[RunChanges, str]] = [(row, column.name if column else "")]
    if column is not None:
        changes.append((column, row.name))
    for change, other in changes:
        plain = {k: v for k, v in change.paper.items() if isinstance(v, Quoted)}
        beside = change.paper.get(other, {})
        found |= plain | (beside if isinstance(beside, dict) else {})
    return found


# --- JSON Schema, for editors ---------------------------------------------------------------------

REFERENCE = "#/$defs/{model}"


def dump_experiment_schema() -> str:
    """The schema as text. No field is required: it may be in the file that `extends` names."""
    refresh()
    schema = ExperimentConfig.model_json_schema(ref_template=REFERENCE)
    definitions: dict[str, Any] = schema["$defs"]
    sets = registered(installed=True)
    sections: dict[str, dict[str, Any]] = {
        "training": {"$ref": _add(definitions, TrainingConfig)},
        "evaluation": {"$ref": _add(definitions, EvaluationConfig)},
        "data": {
            "anyOf": [
                {"type": "string", "enum": sorted(sets)},
                *({"$ref": _add(definitions, each)} for _, each in sorted(sets.items())),
            ]
        },
    }
    short = {"clip": {"type": "number"}, "schedule": {"type": "string"}}  # {norm: 1}, {kind: halve}
    optimiser = definitions["OptimiserConfig"]["properties"]
    for key, form in short.items():
        about = optimiser[key].pop("description")
        optimiser[key] = {"anyOf": [form, optimiser[key]], "description": about}
    owners: list[dict[str, Any]] = [schema]
    owners += [definitions["ExperimentRow"], definitions["ExperimentColumn"]]
    for owner in owners:
        for key, section in sections.items():
            about = owner["properties"][key].get("description", "")
            owner["properties"][key] = {**section, "description": about}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "experiment"}
    schema.update(head, required=[])
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _add(definitions: dict[str, Any], model: type[BaseModel]) -> str:
    """Add a model, and return the reference to it. Any of its fields may be in another layer."""
    found = model.model_json_schema(ref_template=REFERENCE)
    definitions.update(found.pop("$defs", {}))
    definitions[model.__name__] = {key: value for key, value in found.items() if key != "required"}
    return REFERENCE.format(model=model.__name__)
