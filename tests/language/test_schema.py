"""The JSON Schema that editors use agrees with what we accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings

from ladderspec.language.read import Spec
from ladderspec.language.spec import file_schema
from tests.random_specs import specs

SCHEMA = file_schema()
SPECS = sorted(p for p in Path("specs").rglob("*.yaml") if "experiments" not in p.parts)
TEMPLATES = sorted(Path("ladderspec/templates").glob("*.yaml"))


def errors(words: Any) -> list[str]:
    return [e.message for e in jsonschema.Draft202012Validator(SCHEMA).iter_errors(words)]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", [*SPECS, *TEMPLATES], ids=str)
def test_shipped_specs_fit(path: Path) -> None:
    assert errors(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    "change",
    [
        {"levles": []},
        {"levels": [{"encoder": {"cell": "Convv", "channels": 3}}]},
        {"levels": [{"encoder": {"cell": "Conv", "chanels": 3}}]},
        {"levels": [{"encoder": {"cell": "Conv", "channels": "many"}}]},
        {"levels": [{"encoder": {"cell": "convG3"}}]},
        {"levels": [{"name": "Conv", "encoder": {"cell": "Conv", "channels": 3}}]},
        {"tasks": {"a": {"kind": "clasification", "at": "encoder.class"}}},
        {"edges": {"latral": "all"}},
        {"edges": {"lateral": "some"}},
        {"variants": {"a": {"wihtout": []}}},
        {"levels": [{"name": "a", "encoder": None}]},
    ],
)
def test_mistakes_are_underlined(change: dict[str, Any]) -> None:
    good = {
        "input": {"channels": 1, "size": 8},
        "levels": [{"encoder": {"cell": "LSTM", "channels": 3}}],
    }
    assert errors(good) == []
    assert errors({**good, **change}) != []


def test_params_may_stand_for_numbers() -> None:
    words = {
        "input": {"channels": 1, "size": [8, "$side"]},
        "levels": [{"encoder": {"cell": "Conv", "channels": "$(width * 2)"}}],
    }
    assert errors(words) == []


@pytest.mark.parametrize(
    "weight", [3, "$w", {"to": 2, "updates": 3}, {"start": 1, "to": 2, "updates": 3},
               {"decoder.*": 3, "else": "$w"}],
)  # fmt: skip
def test_weights_are_numbers_ramps_or_numbers_by_node(weight: Any) -> None:
    task = {"kind": "prediction", "at": "decoder.*", "weight": weight}
    assert errors({"extends": "base.yaml", "tasks": {"a": task}}) == []


@given(specs() | specs(grouped=True) | specs(inputs=True))
@settings(deadline=None, max_examples=30)
def test_random_specs_fit(spec: Spec) -> None:
    assert errors(yaml.safe_load(spec.tree.source.text)) == []


def test_what_other_places_say_may_be_left_out() -> None:
    words = {
        "extends": "base.yaml",
        "levels": [{"encoder": {"cell": "Conv", "filter": 3}}],
        "defaults": {"Conv": {"channels": 8}},
        "tasks": {"x": None},
        "variants": {"v": None},
    }
    assert errors(words) == []


def test_every_word_is_described_for_hover() -> None:
    bare = [
        f"{table}.{word}"
        for table, words in {"spec": SCHEMA, **SCHEMA["$defs"]}.items()
        for word, facts in words.get("properties", {}).items()
        if "description" not in facts and "$ref" not in facts and word not in ("cell", "kind")
    ]
    assert bare == []


def test_the_shipped_schema_is_up_to_date() -> None:
    shipped = Path("specs/ladderspec.schema.json").read_text()
    assert json.loads(shipped) == SCHEMA, "run `make docs`"


def test_the_schema_of_experiments() -> None:
    """It is up to date, and every shipped experiment is valid."""
    import yaml

    from ladderspec.experiments.config import dump_experiment_schema

    text = dump_experiment_schema()
    assert Path("specs/experiment.schema.json").read_text(encoding="utf-8") == text
    validator = jsonschema.Draft202012Validator(json.loads(text))
    for path in Path("specs/experiments").glob("*.yaml"):
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert not [error.message for error in validator.iter_errors(tree)], path
    wrong = {"rows": [{"name": "a"}], "data": "music", "training": {"updats": 3}}
    assert not validator.is_valid(wrong)
