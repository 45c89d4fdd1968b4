"""The JSON Schema of experiment files, for editors."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from ladderspec.data import registered
from ladderspec.experiments.config import ExperimentConfig
from ladderspec.experiments.training import EvaluationConfig, TrainingConfig, refresh

REFERENCE = "#/$defs/{model}"


def dump_experiment_schema() -> str:
    """The schema as text. No field is required: it may stand in the file that `extends` names."""
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
    """Add a model, and return the reference to it. Any of its fields may stand in another layer."""
    found = model.model_json_schema(ref_template=REFERENCE)
    definitions.update(found.pop("$defs", {}))
    definitions[model.__name__] = {key: value for key, value in found.items() if key != "required"}
    return REFERENCE.format(model=model.__name__)
