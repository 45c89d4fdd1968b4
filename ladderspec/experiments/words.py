"""The words of an experiment: a table of runs, rows by columns, over seeds.

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

Rows and columns change the spec in the language's own words (variant, set, tasks, edges, without),
and merge into `data`, `training` and `evaluation`: columns over the file, rows over columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from ladderspec.cells import Words
from ladderspec.cells._fields import by_form, refusal
from ladderspec.errors import tick
from ladderspec.language.edges import Edges, Names, Selectors
from ladderspec.language.spec import Name
from ladderspec.learn.words import Machine

# --- the paper's numbers --------------------------------------------------------------------------


class Quoted(Words):
    """A number that somebody has reported, and how far it varied."""

    value: float
    spread: float | None = None
    text: str  # with the digits that it was reported with

    def __str__(self) -> str:
        return self.text


_QUOTED = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(?:(?:±|\+-|\+/-)\s*(\d+(?:\.\d+)?))?\s*")


def _quoted(value: Any) -> Any:
    """
    >>> _quoted("0.74 ± 0.09"), _quoted(2)
    ({'value': 0.74, 'spread': 0.09, 'text': '0.74 ± 0.09'}, {'value': 2.0, 'text': '2'})
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": float(value), "text": f"{value:g}"}
    if isinstance(value, str):
        found = _QUOTED.fullmatch(value)
        if found is None:
            raise refusal("S104", f"{tick(value)} is no number", "like 0.74 or 0.74 ± 0.09")
        value, spread = found.groups()
        if spread is None:
            return {"value": float(value), "text": value}
        return {"value": float(value), "spread": float(spread), "text": f"{value} ± {spread}"}
    return value


_QUOTED_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string"}]}
Number = Annotated[Quoted, BeforeValidator(_quoted), WithJsonSchema(_QUOTED_SCHEMA)]
Measures = dict[str, Number]  # by measure: `digit`, or `digit.error`
if TYPE_CHECKING:
    Reported = Quoted | Measures
else:
    Reported = by_form(word=Number, mapping=Measures)
Paper = dict[str, Reported]


# --- rows and columns -----------------------------------------------------------------------------


class Patch(Words):
    """Changes of the spec: its parameters, and the rest as a variant says it."""

    params: Mapping[str, int | float] = Field(
        default_factory=dict, description="Other values of the spec's parameters: {width: 8}."
    )
    set: Mapping[str, Any] = Field(
        default_factory=dict, description="Fields by node or task: {task.digit.weight: 0}."
    )
    tasks: Mapping[str, Any] = Field(
        default_factory=dict, description="Tasks added or changed; null removes one."
    )
    edges: Edges = Field(Edges.model_construct(), description="Changes to the arrows.")
    without: Selectors = Field((), description="What is removed: roles, arrows, nodes, tasks.")


class Change(Patch):
    """What a row or a column changes."""

    name: Name = Field(description="In the names of folders.")
    title: str | None = Field(None, description="What tables call it.")
    variant: Names = Field((), description="Variants of the spec.")
    data: Mapping[str, Any] = Field(default_factory=dict, description="Changes of the data.")
    training: Mapping[str, Any] = Field(default_factory=dict, description="Changes of training.")
    evaluation: Mapping[str, Any] = Field(
        default_factory=dict, description="Changes of the evaluation."
    )
    paper: Paper = Field(
        default_factory=dict,
        description="What the paper reports: {digit: 0.74}; of several columns {all: {digit: 1}}.",
    )


class Row(Change):
    """A row of the results: which network."""

    of: str | None = Field(
        None, description="Another row: what it says of the network, data and training holds too."
    )
    spec: str | None = Field(None, description="Its file; default: that of the experiment.")
    start: str | None = Field(
        None, description="Begin with the weights of another row, or of a checkpoint's folder."
    )
    freeze: Selectors = Field((), description="Nodes that do not learn: [encoder.*].")


class Column(Change):
    """A column of the results: which data, which tasks."""


def _seeds(value: Any) -> Any:
    """
    >>> _seeds(3), _seeds([4, 7])
    ((0, 1, 2), (4, 7))
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise refusal("S106", f"`seeds` is {value}: at least one is needed", "like `seeds: 3`")
        return tuple(range(value))
    if isinstance(value, list):
        twice = [seed for i, seed in enumerate(value) if seed in value[:i]]
        if twice:
            raise refusal("S106", f"seed {twice[0]} stands there twice", "like `seeds: [0, 1, 2]`")
        return tuple(value)
    return value


def _rows(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=2**31)], ...],
    Field(min_length=1),
    BeforeValidator(_seeds),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "array"}]}),
]


class ExperimentWords(Patch):
    """Rows by columns, over seeds."""

    name: Name | None = Field(None, description="Default: the name of the file.")
    extends: str | None = Field(None, description="Another experiment whose words hold here too.")
    title: str | None = Field(None, description="What tables call it.")
    description: str | None = Field(None, description="What it is, in a line.")
    spec: str | None = Field(None, description="The file of every row that names none.")
    data: Any = Field(description="The data set: {set: occluded_mnist, canvas: 16}.")
    rows: Annotated[tuple[Row, ...], BeforeValidator(_rows), Field(min_length=1)] = Field(
        description="The networks, one row each."
    )
    columns: Annotated[tuple[Column, ...], BeforeValidator(_rows)] = Field(
        (), description="Data and tasks, one column each; default: one, without changes."
    )
    base: Name | None = Field(
        None, description="The row that differences in tables are to; default: the first."
    )
    training: Any = Field(description="How long and how: {updates: 1000, batch: 50}.")
    evaluation: Any = Field(default_factory=dict, description="When and how it is evaluated.")
    machine: Machine = Field(Machine(), description="Where and how it runs.")
    seeds: Seeds = Field((0,), description="How many, or which: 3, or [1, 2].")
