"""The language as JSON Schema, made from the pydantic words."""

from __future__ import annotations

import json
from typing import Any

from ladderspec.language.spec import SpecWords, fresh
from ladderspec.names import LEVEL_NAME

REFERENCE = {"type": "string", "pattern": r"^\$([a-z][a-z0-9_]*|\(.*\))$"}
_NUMBERS = ("integer", "number")


def words() -> dict[str, Any]:
    """All words with what they take; every number may also be written as `$param`."""
    fresh()
    schema: dict[str, Any] = _with_references(SpecWords.model_json_schema())
    return schema


def build() -> dict[str, Any]:
    """Draft 2020-12, of one file: other files and other places in it may say what is needed."""
    schema = words()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "ladderspec"
    schema.pop("required", None)  # a file that extends another may leave anything to it
    schema["anyOf"] = [{"required": ["input", "levels"]}, {"required": ["extends"]}]
    for name, model in schema["$defs"].items():
        if name != "Input" and "cell" in model.get("properties", {}):
            model["required"] = ["cell"]  # `defaults` may say the rest
    for table in ("tasks", "variants", "laterals"):  # null removes what `extends` brings
        entry = schema["properties"][table]["additionalProperties"]
        schema["properties"][table]["additionalProperties"] = {"anyOf": [entry, {"type": "null"}]}
    name = schema["$defs"]["Row"]["properties"]["name"]
    name["pattern"] = f"^{LEVEL_NAME.pattern}$"
    return schema


def _with_references(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _with_references(value) for key, value in node.items()}
    if plain.get("type") in _NUMBERS:
        kept = {key: plain.pop(key) for key in ("title", "description", "default") if key in plain}
        return {**kept, "anyOf": [plain, REFERENCE]}
    return plain


def dumps() -> str:
    return json.dumps(build(), indent=1, ensure_ascii=False, sort_keys=False) + "\n"
